//! Tests of the spans that a collector on loopback receives.

use std::net::SocketAddr;
use std::sync::Mutex;

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span as Received;
use prost::Message as _;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use super::*;

/// A collector that accepts or refuses spans.
struct Collector {
    address: SocketAddr,
    got: Arc<Mutex<Vec<ExportTraceServiceRequest>>>,
    task: JoinHandle<()>,
}

impl Collector {
    async fn start(status: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, got) = (listener.local_addr().unwrap(), Arc::default());
        let taken: Arc<Mutex<Vec<_>>> = Arc::clone(&got);
        let task = tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let taken = Arc::clone(&taken);
                let service = service_fn(move |request: Request<hyper::body::Incoming>| {
                    let taken = Arc::clone(&taken);
                    async move {
                        assert_eq!(request.uri().path(), "/v1/traces");
                        assert_eq!(request.headers()["content-type"], "application/x-protobuf");
                        let body = request.into_body().collect().await?.to_bytes();
                        taken
                            .lock()
                            .unwrap()
                            .push(ExportTraceServiceRequest::decode(body).unwrap());
                        let response = Response::builder().status(status);
                        Ok::<_, hyper::Error>(response.body(Full::new(Bytes::new())).unwrap())
                    }
                });
                let http = hyper::server::conn::http1::Builder::new();
                tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
            }
        });
        Self { address, got, task }
    }

    fn traces(&self, per_million: u32) -> Traces {
        let endpoint = format!("http://{}", self.address);
        Traces::start(&endpoint, per_million, "host", Handle::current()).unwrap()
    }

    /// Returns all spans, sorted by their start.
    fn spans(self) -> Vec<Received> {
        self.task.abort();
        let got = self.got.lock().unwrap();
        let resources = got.iter().flat_map(|request| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        let mut spans: Vec<_> = scopes.flat_map(|scope| scope.spans.clone()).collect();
        spans.sort_by_key(|span| span.start_time_unix_nano);
        spans
    }
}

fn attribute(span: &Received, key: &str) -> String {
    let found = span.attributes.iter().find(|attribute| attribute.key == key);
    match found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        other => format!("{other:?}"),
    }
}

fn pod(name: &str) -> PodRef {
    PodRef {
        namespace: "ns".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        ..PodRef::default()
    }
}

#[tokio::test]
async fn an_attempt_and_its_bind_are_one_trace() {
    let collector = Collector::start(200).await;
    let traces = collector.traces(MILLION);
    let begun = Instant::now();
    let attempt = traces.begin_attempt(&pod("a"), "default-scheduler", begun).unwrap();
    let bind = traces.begin_bind(Some(&attempt.context()), &pod("a"), "n1").unwrap();
    bind.placed("bound", "n1");
    attempt.placed("scheduled", "n1");
    let other = traces.begin_attempt(&pod("b"), "default-scheduler", begun).unwrap();
    other.failed("unschedulable", &"0/1 nodes are available. ".repeat(100));
    drop(traces.begin_attempt(&pod("c"), "default-scheduler", begun));
    traces.shut_down().await;
    let spans = collector.spans();
    let find = |name: &str, pod: &str| {
        let found = spans.iter().find(|s| s.name == name && attribute(s, "k8s.pod.name") == pod);
        found.unwrap_or_else(|| panic!("no {name} of {pod} in {spans:?}"))
    };
    assert_eq!(spans.len(), 4);
    let (attempt, bind, other) = (find("schedule", "a"), find("bind", "a"), find("schedule", "b"));
    assert_eq!((&bind.trace_id, &bind.parent_span_id), (&attempt.trace_id, &attempt.span_id));
    assert!(attempt.parent_span_id.is_empty() && other.trace_id != attempt.trace_id);
    for (key, value) in [
        ("k8s.namespace.name", "ns"),
        ("k8s.pod.uid", "uid-a"),
        ("k8s.node.name", "n1"),
        ("scheduler.profile", "default-scheduler"),
        ("scheduler.result", "scheduled"),
    ] {
        assert_eq!(attribute(attempt, key), value, "{key}");
    }
    let status = other.status.as_ref().unwrap();
    assert_eq!((status.code, status.message.len()), (2, MESSAGE_BYTES_MAX));
    assert_eq!(attribute(other, "scheduler.result"), "unschedulable");
}

#[tokio::test]
async fn only_the_configured_share_of_attempts_is_traced() {
    let collector = Collector::start(200).await;
    let none = collector.traces(0);
    assert!(none.begin_attempt(&pod("a"), "x", Instant::now()).is_none());
    let tenth = collector.traces(MILLION / 10);
    let begun = Instant::now();
    let traced = (0..2000).filter_map(|_| tenth.begin_attempt(&pod("a"), "x", begun)).count();
    assert!((100..=300).contains(&traced), "{traced}");
    let off = Traces::off();
    assert!(off.begin_attempt(&pod("a"), "x", begun).is_none());
    for traces in [none, tenth, off] {
        traces.shut_down().await;
    }
    assert_eq!(collector.spans().len(), traced);
}

#[tokio::test]
async fn a_refusing_or_absent_collector_delays_nothing() {
    let refusing = Collector::start(400).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let absent = Traces::start(&format!("http://{closed}"), MILLION, "host", Handle::current());
    for traces in [refusing.traces(MILLION), absent.unwrap()] {
        for _ in 0..2 * SPANS_QUEUED_MAX {
            traces.begin_attempt(&pod("a"), "x", Instant::now()).unwrap().placed("scheduled", "n1");
        }
        timeout(Duration::from_secs(30), traces.shut_down()).await.expect("the end is bounded");
    }
}

#[tokio::test]
async fn errors_name_the_endpoint() {
    for (endpoint, want) in [
        ("localhost:4318", "not a URL such as"),
        ("https://collector", "TLS is not spoken"),
        ("/v1/traces", "not a URL such as"),
        ("http://", "not a URL"),
        ("grpc://a:4317", "not a URL such as"),
        ("", "not a URL such as"),
    ] {
        let error = Traces::start(endpoint, 1, "host", Handle::current()).err().unwrap();
        assert!(format!("{error:#}").contains(want), "{endpoint}: {error:#}");
    }
    assert_eq!(endpoint_uri("http://a:1").unwrap().to_string(), "http://a:1/v1/traces");
    assert_eq!(endpoint_uri("http://a:1/").unwrap().to_string(), "http://a:1/v1/traces");
    assert_eq!(endpoint_uri("http://a:1/x").unwrap().to_string(), "http://a:1/x");
}
