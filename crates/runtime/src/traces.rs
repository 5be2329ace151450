//! OpenTelemetry traces: a span per scheduling attempt, with a child span for the bind.
//!
//! Spans are queued and dropped if the queue is full, so a slow collector delays nothing. The SDK exports
//! from a thread of its own; its requests are sent by the I/O thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use engine::command::PodRef;
use http::{Request, Response, Uri};
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::trace::{
    Span as _, SpanContext, SpanKind, Status, TraceContextExt as _, Tracer as _,
    TracerProvider as _,
};
use opentelemetry::{Context, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    ExporterBuildError, Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, Span,
};
use tokio::runtime::Handle;
use tokio::time::{Instant, timeout};

#[cfg(test)]
mod tests;

/// Capacity of the queue, in spans.
const SPANS_QUEUED_MAX: usize = 4096;

/// Maximum number of spans per request.
const BATCH_SPANS_MAX: usize = 512;

/// Longest time before a batch that is not full is sent.
const BATCH_DELAY: Duration = Duration::from_secs(5);

/// Time limit of a request.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time limit of the last requests at shutdown.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum length of a response, in bytes.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// Maximum length of a failure's message in a span, in bytes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// Sampling rate of all attempts, in attempts per million.
pub const MILLION: u32 = 1_000_000;

/// Why traces cannot be sent to an endpoint.
#[derive(Debug, thiserror::Error)]
pub enum TracesError {
    /// The endpoint is not a URL.
    #[error("{endpoint:?} is not a URL such as http://localhost:4318")]
    NotAUrl {
        /// The endpoint.
        endpoint: String,
        /// Why it cannot be parsed, if that is the reason.
        #[source]
        error: Option<http::uri::InvalidUri>,
    },
    /// The endpoint is an `https://` URL.
    #[error("{0:?}: TLS is not spoken here; send to an agent on this machine by http://")]
    Tls(String),
    /// The endpoint has no host.
    #[error("{0:?} names no host")]
    NoHost(String),
    /// The exporter cannot be created.
    #[error("cannot send traces to {endpoint}")]
    Exporter {
        /// The endpoint.
        endpoint: Uri,
        /// Why not.
        #[source]
        error: ExporterBuildError,
    },
}

/// Creates spans, or none if tracing is off. Clones share the queue.
#[derive(Clone, Default)]
pub struct Traces(Option<Arc<TraceExport>>);

struct TraceExport {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
}

/// The span of an attempt or bind that has not ended.
pub(crate) struct AttemptSpan(Span);

impl Traces {
    /// Returns traces without spans, which cost nothing.
    pub fn off() -> Self {
        Self(None)
    }

    /// Starts to send the spans of `per_million` of a million attempts to a collector, as OTLP over HTTP.
    /// `io` is the runtime that sends the requests.
    pub fn start(
        endpoint: &str,
        per_million: u32,
        instance: &str,
        io: Handle,
    ) -> Result<Self, TracesError> {
        let endpoint = endpoint_uri(endpoint)?;
        let client = Client::builder(TokioExecutor::new()).build_http();
        let exporter = SpanExporter::builder()
            .with_http()
            .with_protocol(Protocol::HttpBinary)
            .with_endpoint(endpoint.to_string())
            .with_timeout(EXPORT_TIMEOUT)
            .with_http_client(OtlpHttpClient { client, io, failed: AtomicBool::new(false) })
            .build()
            .map_err(|error| TracesError::Exporter { endpoint, error })?;
        let batches = BatchConfigBuilder::default()
            .with_max_queue_size(SPANS_QUEUED_MAX)
            .with_max_export_batch_size(BATCH_SPANS_MAX)
            .with_scheduled_delay(BATCH_DELAY)
            .build();
        let processor = BatchSpanProcessor::builder(exporter).with_batch_config(batches).build();
        let resource = Resource::builder_empty().with_attributes([
            KeyValue::new("service.name", "jindou-scheduler"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("service.instance.id", instance.to_owned()),
        ]);
        let share = f64::from(per_million.min(MILLION)) / f64::from(MILLION);
        let provider = SdkTracerProvider::builder()
            .with_span_processor(processor)
            .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(share))))
            .with_resource(resource.build())
            .build();
        let tracer = provider.tracer("jindou");
        Ok(Self(Some(Arc::new(TraceExport { provider, tracer }))))
    }

    /// Starts the span of an attempt that began at `begun`, if the attempt is sampled.
    pub(crate) fn begin_attempt(
        &self,
        pod: &PodRef,
        profile: &str,
        begun: Instant,
    ) -> Option<AttemptSpan> {
        let tracer = &self.0.as_ref()?.tracer;
        let builder = tracer
            .span_builder("schedule")
            .with_kind(SpanKind::Internal)
            .with_start_time(SystemTime::now() - begun.elapsed());
        let mut span = tracer.build_with_context(builder, &Context::new());
        if !span.is_recording() {
            return None;
        }
        span.set_attributes(pod_attributes(pod));
        span.set_attribute(KeyValue::new("scheduler.profile", profile.to_owned()));
        Some(AttemptSpan(span))
    }

    /// Starts the span of a bind, if its attempt is sampled.
    pub(crate) fn begin_bind(
        &self,
        attempt: Option<&SpanContext>,
        pod: &PodRef,
        node: &str,
    ) -> Option<AttemptSpan> {
        let (inner, attempt) = (self.0.as_ref()?, attempt?);
        let parent = Context::new().with_remote_span_context(attempt.clone());
        let builder = inner.tracer.span_builder("bind").with_kind(SpanKind::Client);
        let mut span = inner.tracer.build_with_context(builder, &parent);
        span.set_attributes(pod_attributes(pod));
        span.set_attribute(KeyValue::new("k8s.node.name", node.to_owned()));
        Some(AttemptSpan(span))
    }

    /// Sends the queued spans, for at most 3 s.
    pub async fn shut_down(self) {
        let Some(inner) = self.0 else { return };
        let ended = tokio::task::spawn_blocking(move || {
            inner.provider.shutdown_with_timeout(SHUTDOWN_TIMEOUT)
        });
        if let Ok(Err(error)) = ended.await {
            tracing::warn!("the last traces may be lost: {error}");
        }
    }
}

impl AttemptSpan {
    /// Returns the context for child spans.
    pub(crate) fn context(&self) -> SpanContext {
        self.0.span_context().clone()
    }

    /// Ends the span with a node.
    pub(crate) fn placed(mut self, result: &'static str, node: &str) {
        self.0.set_attribute(KeyValue::new("k8s.node.name", node.to_owned()));
        self.finish(result, Status::Ok);
    }

    /// Ends the span with a failure.
    pub(crate) fn failed(self, result: &'static str, message: &str) {
        let end = message.floor_char_boundary(MESSAGE_BYTES_MAX);
        self.finish(result, Status::error(message[..end].to_owned()));
    }

    fn finish(mut self, result: &'static str, status: Status) {
        self.0.set_attribute(KeyValue::new("scheduler.result", result));
        self.0.set_status(status);
        self.0.end();
    }
}

fn pod_attributes(pod: &PodRef) -> [KeyValue; 3] {
    [
        KeyValue::new("k8s.namespace.name", pod.namespace.to_string()),
        KeyValue::new("k8s.pod.name", pod.name.to_string()),
        KeyValue::new("k8s.pod.uid", pod.uid.to_string()),
    ]
}

/// Parses an endpoint. Without a path, that of OTLP is added.
fn endpoint_uri(endpoint: &str) -> Result<Uri, TracesError> {
    let not_a_url = |error| TracesError::NotAUrl { endpoint: endpoint.to_owned(), error };
    let uri: Uri = endpoint.parse().map_err(|error| not_a_url(Some(error)))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err(TracesError::Tls(endpoint.to_owned())),
        _ => return Err(not_a_url(None)),
    }
    if uri.host().is_none_or(str::is_empty) {
        return Err(TracesError::NoHost(endpoint.to_owned()));
    }
    if matches!(uri.path(), "" | "/") {
        let complete = format!("{}/v1/traces", endpoint.trim_end_matches('/'));
        return complete.parse().map_err(|error| not_a_url(Some(error)));
    }
    Ok(uri)
}

/// Sends the exporter's requests on the I/O thread, and logs the first failure of a row.
#[derive(Debug)]
struct OtlpHttpClient {
    client: Client<HttpConnector, Full<Bytes>>,
    io: Handle,
    /// The last request failed, which was logged.
    failed: AtomicBool,
}

#[async_trait::async_trait]
impl HttpClient for OtlpHttpClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        // The timeout needs the timer of that runtime, so it is part of the task.
        let sent = self.io.spawn(async move {
            timeout(EXPORT_TIMEOUT, async move {
                let response = client.request(request.map(Full::new)).await?;
                let (head, body) = response.into_parts();
                let body = Limited::new(body, RESPONSE_BYTES_MAX).collect().await?.to_bytes();
                Ok::<_, HttpError>(Response::from_parts(head, body))
            })
            .await
        });
        let response = match sent.await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => Err("no answer".into()),
            Err(_) => Err("the process ends".into()),
        };
        let failure = match &response {
            Ok(response) if response.status().is_success() => None,
            Ok(response) => Some(response.status().to_string()),
            Err(error) => Some(error.to_string()),
        };
        let logged = self.failed.swap(failure.is_some(), Ordering::Relaxed);
        if let Some(failure) = failure.filter(|_| !logged) {
            tracing::warn!("traces cannot be sent and may be lost: {failure}");
        }
        response
    }
}
