//! A proxy between a scheduler and the API server, which injects faults.
//!
//! ```text
//! scheduler ──▶ link (cut, stalled) ──▶ TLS, HTTP/2 ──▶ rules (delay, answer, lose) ──▶ API server
//! ```
//!
//! Every connection of the scheduler has its own connection to the API server. Faults are chosen by
//! counting requests, not at random. All writes are recorded.

mod record;
mod wire;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::Body;
use runtime::connect::{self, ConfigSource};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;

use crate::test_env::TestEnv;
pub(crate) use record::{
    RunId, WriteLog, WritePurpose, WriteRecord, bind_answers, check_double_binds, double_binds,
};

/// Buffer of a link, in bytes.
const LINK_BUFFER_BYTES: usize = 16 << 10;

/// Maximum of delayed frames of a response.
const FRAMES_IN_FLIGHT_MAX: usize = 4096;

/// A kind of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestKind {
    /// Binds a pod.
    Bind,
    /// Watches from a resource version.
    Watch,
    /// Watches with the list as initial events.
    List,
    /// Reads a pod.
    Read,
    /// Patches the status of a pod.
    Status,
    /// Every request.
    Any,
}

/// A fault of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    /// Answered with a status, and not forwarded.
    Answer(u16),
    /// Forwarded, and answered with a status as if it had failed.
    Deny(u16),
    /// Forwarded, and the stream is reset instead of a response.
    Lose,
    /// Forwarded, and never answered.
    Swallow,
    /// Forwarded later.
    Delay(Duration),
    /// Forwarded, and every frame of the response is delayed.
    Lag(Duration),
}

/// A fault for every n-th request of a kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule(pub(crate) RequestKind, pub(crate) usize, pub(crate) Fault);

/// A rule, the number of requests of its kind, and the number of its faults.
struct CountedRule {
    rule: Rule,
    seen: AtomicUsize,
    done: AtomicUsize,
}

/// The state of the link.
#[derive(Clone, Copy, Default)]
struct LinkState {
    /// Connections of an earlier epoch are cut.
    epoch: u64,
    /// No byte passes.
    stalled: bool,
    /// No segment arrives, and none is sent.
    partitioned: bool,
}

impl LinkState {
    /// Returns `true` if bytes reach the scheduler.
    fn reaches(&self) -> bool {
        !self.stalled && !self.partitioned
    }
}

/// A proxy that runs until it is dropped.
pub(crate) struct Proxy {
    /// Kubeconfig of the way through the proxy.
    pub(crate) kubeconfig: PathBuf,
    link: watch::Sender<LinkState>,
    rules: Rules,
    /// All writes.
    pub(crate) record: Arc<WriteLog>,
    /// Run of a scheduler that new connections belong to.
    run: Arc<AtomicU32>,
    /// Ends all connections when it is dropped.
    _runtime: tokio::runtime::Runtime,
}

/// Body of a response.
type ResponseBody = UnsyncBoxBody<Bytes, anyhow::Error>;

type Rules = Arc<Mutex<Arc<[CountedRule]>>>;

impl Proxy {
    /// Starts a proxy without rules.
    pub(crate) fn start(env: &TestEnv) -> Result<Self> {
        Self::start_as(env, "proxy", Arc::default())
    }

    /// Starts a proxy with a name for its files, and a record that several proxies may share.
    pub(crate) fn start_as(env: &TestEnv, name: &str, record: Arc<WriteLog>) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("cannot start the proxy")?;
        let (acceptor, certificate) = acceptor()?;
        let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
        let server = format!("https://127.0.0.1:{}", listener.local_addr()?.port());
        let ca = env.write(&format!("{name}.crt"), &certificate)?;
        let kubeconfig = env.write(&format!("{name}.kubeconfig"), &kubeconfig(&server, &ca))?;
        let link = watch::Sender::new(LinkState::default());
        let rules = Rules::new(Mutex::new(Arc::new([])));
        let target = ConfigSource {
            kubeconfig: Some(env.plane.scheduler_kubeconfig.clone()),
            ..ConfigSource::default()
        };
        let config = runtime.block_on(connect::load_config(&target))?;
        let run = Arc::new(AtomicU32::new(0));
        let server = ProxyServer {
            acceptor,
            config,
            link: link.subscribe(),
            rules: Arc::clone(&rules),
            record: Arc::clone(&record),
            run: Arc::clone(&run),
        };
        runtime.spawn(server.accept_connections(listener));
        Ok(Self { kubeconfig, link, rules, record, run, _runtime: runtime })
    }

    /// Replaces the rules.
    pub(crate) fn rule(&self, rules: &[Rule]) {
        let count = |rule: &Rule| CountedRule {
            rule: *rule,
            seen: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
        };
        let mut now = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        *now = rules.iter().map(count).collect();
    }

    /// Fails if a rule was never applied, because then its fault was not tested.
    pub(crate) fn check_rules(&self) -> Result<()> {
        let rules = Arc::clone(&*self.rules.lock().unwrap_or_else(PoisonError::into_inner));
        for CountedRule { rule, seen, done } in &*rules {
            let (seen, done) = (seen.load(Ordering::Relaxed), done.load(Ordering::Relaxed));
            ensure!(done > 0, "of {seen} requests {rule:?} met none");
        }
        Ok(())
    }

    /// Closes all connections.
    pub(crate) fn cut(&self) {
        self.link.send_modify(|link| link.epoch += 1);
    }

    /// Stops the forwarding of bytes, or resumes it.
    pub(crate) fn stall(&self, stalled: bool) {
        self.link.send_modify(|link| link.stalled = stalled);
    }

    /// Drops all TCP segments, or passes them again. Segments that the scheduler's kernel sends meanwhile
    /// are not acknowledged, and arrive later if they are retransmitted.
    pub(crate) fn partition(&self, partitioned: bool) {
        self.link.send_modify(|link| link.partitioned = partitioned);
    }

    /// Attributes connections from now on to a run of a scheduler.
    pub(crate) fn serve(&self, run: RunId) {
        self.run.store(run, Ordering::Relaxed);
    }
}

/// Returns a TLS acceptor and its self-signed certificate for loopback.
fn acceptor() -> Result<(TlsAcceptor, String)> {
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(|e| anyhow!(e))?;
    let chain = vec![made.cert.der().clone()];
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((TlsAcceptor::from(Arc::new(config)), made.cert.pem()))
}

fn kubeconfig(server: &str, ca: &Path) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "proxy",
        "clusters": [{"name": "proxy", "cluster": {"server": server, "certificate-authority": ca}}],
        "users": [{"name": "proxy", "user": {}}],
        "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
    });
    config.to_string()
}

/// The accepting side of a proxy.
#[derive(Clone)]
struct ProxyServer {
    acceptor: TlsAcceptor,
    config: kube::Config,
    link: watch::Receiver<LinkState>,
    rules: Rules,
    record: Arc<WriteLog>,
    run: Arc<AtomicU32>,
}

impl ProxyServer {
    async fn accept_connections(self, listener: TcpListener) -> Result<()> {
        tokio::spawn(wire::partition(wire::share(&listener)?, self.link.clone()));
        loop {
            let (mut tcp, _) = listener.accept().await?;
            let server = self.clone();
            tokio::spawn(async move {
                let mut link = server.link.clone();
                let epoch = link.borrow_and_update().epoch;
                let run = server.run.load(Ordering::Relaxed);
                let Ok(shared) = wire::share(&tcp) else { return };
                tokio::select! {
                    // The scheduler must handle any end of its connection.
                    _ = server.connect(&mut tcp, run) => {}
                    _ = wire::partition(shared, link.clone()) => {}
                    _ = link.wait_for(|link| link.epoch > epoch) => {}
                }
                // A FIN does not pass a partition either.
                let _ = link.wait_for(|link| !link.partitioned).await;
            });
        }
    }

    async fn connect(&self, tcp: &mut TcpStream, run: RunId) -> Result<()> {
        let client = connect::client(&self.config)?;
        let (near, far) = tokio::io::duplex(LINK_BUFFER_BYTES);
        let (tcp_in, tcp_out) = tcp.split();
        let (near_in, near_out) = tokio::io::split(near);
        let serve = async {
            let tls = self.acceptor.accept(far).await?;
            let serve = |request| {
                let passage = ProxiedConnection {
                    client: client.clone(),
                    rules: Arc::clone(&self.rules),
                    record: Arc::clone(&self.record),
                    run,
                };
                passage.forward(request)
            };
            hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(tls), service_fn(serve))
                .await?;
            Ok::<_, anyhow::Error>(())
        };
        tokio::select! {
            ended = serve => ended,
            // Bytes that arrived before a partition are still forwarded.
            ended = copy_while(tcp_in, near_out, self.link.clone(), |link| !link.stalled) => ended,
            ended = copy_while(near_in, tcp_out, self.link.clone(), LinkState::reaches) => ended,
        }
    }
}

/// Copies bytes while the link passes them.
async fn copy_while(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut link: watch::Receiver<LinkState>,
    passes: impl Fn(&LinkState) -> bool,
) -> Result<()> {
    let mut bytes = vec![0; LINK_BUFFER_BYTES];
    loop {
        let count = from.read(&mut bytes).await?;
        if count == 0 {
            return Ok(());
        }
        link.wait_for(&passes).await?;
        to.write_all(&bytes[..count]).await?;
    }
}

/// Forwards the requests of one connection.
struct ProxiedConnection {
    client: kube::Client,
    rules: Rules,
    record: Arc<WriteLog>,
    run: RunId,
}

impl ProxiedConnection {
    /// Forwards a request, or applies the fault of a rule.
    async fn forward(self, request: Request<Incoming>) -> Result<Response<ResponseBody>> {
        let rules = Arc::clone(&*self.rules.lock().unwrap_or_else(PoisonError::into_inner));
        let next_fault = next_fault(&rules, request.method(), request.uri());
        match next_fault {
            Some(Fault::Answer(status)) => return failure_response(status),
            Some(Fault::Delay(time)) => tokio::time::sleep(time).await,
            _ => {}
        }
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().context("a request without a path")?;
        parts.uri = path.as_str().parse()?;
        // Headers and extensions of the connection; the client sets its own.
        parts.headers.remove("host");
        parts.version = http::Version::default();
        parts.extensions = http::Extensions::new();
        let body = body.collect().await?.to_bytes();
        let waiting = self.record.send(self.run, &parts.method, &parts.uri, &body);
        let request = Request::from_parts(parts, Body::from(body.to_vec()));
        let response = self.client.send(request).await?;
        if let Some(waiting) = waiting {
            waiting.answer(response.status().as_u16());
        }
        match next_fault {
            Some(Fault::Deny(status)) => failure_response(status),
            Some(Fault::Lose) => Err(anyhow!("the response is lost")),
            Some(Fault::Swallow) => std::future::pending().await,
            _ => {
                let (mut parts, body) = response.into_parts();
                parts.version = http::Version::default();
                let body = match next_fault {
                    Some(Fault::Lag(time)) => delayed(body, time),
                    _ => body.map_err(anyhow::Error::from).boxed_unsync(),
                };
                Ok(Response::from_parts(parts, body))
            }
        }
    }
}

/// Returns a body whose frames are delayed, in their order.
fn delayed(mut body: Body, time: Duration) -> ResponseBody {
    let (sender, receiver) = mpsc::channel(FRAMES_IN_FLIGHT_MAX);
    tokio::spawn(async move {
        while let Some(frame) = body.frame().await {
            if sender.send((Instant::now() + time, frame)).await.is_err() {
                return;
            }
        }
    });
    let frames = futures::stream::unfold(receiver, |mut receiver| async move {
        let (due, frame) = receiver.recv().await?;
        sleep_until(due).await;
        Some((frame.map_err(anyhow::Error::from), receiver))
    });
    StreamBody::new(frames).boxed_unsync()
}

/// Returns the fault of the first rule whose count is due.
fn next_fault(rules: &[CountedRule], method: &Method, uri: &Uri) -> Option<Fault> {
    let request_kind = request_kind(method, uri);
    for CountedRule { rule: Rule(on, every, next_fault), seen, done } in rules {
        if *on != RequestKind::Any && Some(*on) != request_kind {
            continue;
        }
        if seen.fetch_add(1, Ordering::Relaxed) % every == every - 1 {
            done.fetch_add(1, Ordering::Relaxed);
            return Some(*next_fault);
        }
    }
    None
}

fn request_kind(method: &Method, uri: &Uri) -> Option<RequestKind> {
    let query = uri.query().unwrap_or("");
    let parts: Vec<_> = uri.path().trim_matches('/').split('/').collect();
    match (method, &parts[..]) {
        (&Method::POST, ["api", "v1", "namespaces", _, "pods", _, "binding"]) => {
            Some(RequestKind::Bind)
        }
        (&Method::PATCH, ["api", "v1", "namespaces", _, "pods", _, "status"]) => {
            Some(RequestKind::Status)
        }
        (&Method::GET, ["api", "v1", "namespaces", _, "pods", _]) => Some(RequestKind::Read),
        (&Method::GET, _) if query.contains("watch=true") => {
            let lists = query.contains("sendInitialEvents");
            Some(if lists { RequestKind::List } else { RequestKind::Watch })
        }
        _ => None,
    }
}

/// Returns an error response in the form of the API server.
fn failure_response(status: u16) -> Result<Response<ResponseBody>> {
    let status = StatusCode::from_u16(status)?;
    let reason = match status {
        StatusCode::GONE => "Expired",
        StatusCode::CONFLICT => "Conflict",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        _ => "InternalError",
    };
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": reason, "message": "fault of the proxy", "code": status.as_u16(),
    });
    let mut response =
        Response::builder().status(status).header("content-type", "application/json");
    if matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE) {
        response = response.header("retry-after", "1");
    }
    let body = Full::from(body.to_string()).map_err(|never| match never {});
    Ok(response.body(body.boxed_unsync())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_a_request_follows_from_method_and_path() {
        let table = [
            ("POST", "/api/v1/namespaces/a/pods/b/binding?timeout=2500ms", Some(RequestKind::Bind)),
            ("PATCH", "/api/v1/namespaces/a/pods/b/status", Some(RequestKind::Status)),
            ("GET", "/api/v1/namespaces/a/pods/b", Some(RequestKind::Read)),
            ("GET", "/api/v1/pods?watch=true&resourceVersion=7", Some(RequestKind::Watch)),
            ("GET", "/api/v1/pods?watch=true&sendInitialEvents=true", Some(RequestKind::List)),
            ("POST", "/apis/events.k8s.io/v1/namespaces/a/events", None),
        ];
        for (method, uri, want) in table {
            let method = Method::from_bytes(method.as_bytes()).unwrap();
            assert_eq!(request_kind(&method, &Uri::from_static(uri)), want, "{method} {uri}");
        }
    }

    #[test]
    fn the_first_rule_whose_count_is_due_applies() {
        let count =
            |rule| CountedRule { rule, seen: AtomicUsize::new(0), done: AtomicUsize::new(0) };
        let rules = [
            count(Rule(RequestKind::Bind, 3, Fault::Answer(409))),
            count(Rule(RequestKind::Any, 2, Fault::Answer(500))),
        ];
        let uri = Uri::from_static("/api/v1/namespaces/a/pods/b/binding");
        let met: Vec<_> = (0..6)
            .map(|_| match next_fault(&rules, &Method::POST, &uri) {
                Some(Fault::Answer(status)) => status,
                _ => 0,
            })
            .collect();
        assert_eq!(met, [0, 500, 409, 0, 500, 409]);
    }
}
