//! Tests of elections against an API server that holds one lease, in virtual time.

use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;

/// How the API server behaves.
#[derive(Clone, Copy, PartialEq)]
enum ServerMode {
    Healthy,
    /// Answers 500.
    Broken,
    /// Never answers and handles no request.
    Silent,
    /// Handles requests but never answers.
    Mute,
}

struct LeaseServer {
    lease: Option<Value>,
    version: u64,
    mode: ServerMode,
    requests: Vec<Method>,
}

impl LeaseServer {
    /// Writes the lease as another client.
    fn put(&mut self, holder: &str, duration: i64, renewed: &str) {
        self.version += 1;
        self.lease = Some(json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"namespace": "kube-system", "name": "kube-scheduler", "resourceVersion": self.version.to_string()},
            "spec": {
                "holderIdentity": holder, "leaseDurationSeconds": duration, "leaseTransitions": 4,
                "acquireTime": "2020-01-01T00:00:00.000000Z", "renewTime": renewed, "strategy": "kept",
            },
        }));
    }

    fn spec(&self, field: &str) -> Value {
        self.lease.as_ref().unwrap()["spec"][field].clone()
    }

    fn answer(&mut self, method: &Method, body: &[u8]) -> (StatusCode, Value) {
        match *method {
            Method::GET => match &self.lease {
                Some(lease) => (StatusCode::OK, lease.clone()),
                None => failure(StatusCode::NOT_FOUND, "NotFound"),
            },
            Method::POST if self.lease.is_some() => failure(StatusCode::CONFLICT, "AlreadyExists"),
            Method::PUT if self.lease.is_none() => failure(StatusCode::NOT_FOUND, "NotFound"),
            Method::POST | Method::PUT => {
                let mut lease: Value = serde_json::from_slice(body).unwrap();
                let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
                if let Some(old) = &self.lease
                    && version(old) != version(&lease)
                {
                    return failure(StatusCode::CONFLICT, "Conflict");
                }
                self.version += 1;
                lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
                self.lease = Some(lease.clone());
                (StatusCode::OK, lease)
            }
            _ => failure(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
        }
    }
}

fn failure(code: StatusCode, reason: &str) -> (StatusCode, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": reason, "reason": reason, "code": code.as_u16()});
    (code, status)
}

#[derive(Clone)]
struct LeaseWorld(Arc<Mutex<LeaseServer>>);

impl LeaseWorld {
    fn new() -> Self {
        let (mode, requests) = (ServerMode::Healthy, Vec::new());
        Self(Arc::new(Mutex::new(LeaseServer { lease: None, version: 0, mode, requests })))
    }

    fn server(&self) -> MutexGuard<'_, LeaseServer> {
        self.0.lock().unwrap()
    }

    fn client(&self) -> kube::Client {
        let world = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let world = world.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect().await?.to_bytes();
                let (mode, (code, answer)) = {
                    let mut server = world.server();
                    server.requests.push(parts.method.clone());
                    match server.mode {
                        ServerMode::Healthy | ServerMode::Mute => {
                            (server.mode, server.answer(&parts.method, &body))
                        }
                        mode => (mode, failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError")),
                    }
                };
                if matches!(mode, ServerMode::Silent | ServerMode::Mute) {
                    std::future::pending::<()>().await;
                }
                let response = Response::builder().status(code);
                response
                    .body(Full::new(Bytes::from(answer.to_string())))
                    .map_err(tower::BoxError::from)
            }
        });
        kube::Client::new(service, "default")
    }

    fn start(&self, identity: &str) -> Candidate {
        let settings = LeaseSettings {
            identity: identity.to_owned(),
            ..LeaseSettings::new("kube-system", "kube-scheduler")
        };
        let elector = Elector::new(self.client(), settings).unwrap();
        let (sender, role) = watch::channel(Role::Waiting);
        let (fence, stop) = (elector.fence(), CancellationToken::new());
        let task = tokio::spawn(elector.run(sender, stop.clone()));
        Candidate { role, fence, stop, task }
    }
}

struct Candidate {
    role: watch::Receiver<Role>,
    fence: Fence,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Candidate {
    async fn becomes(&mut self, role: Role) -> Instant {
        let limit = Duration::from_hours(1);
        timeout(limit, self.role.wait_for(|now| *now == role)).await.unwrap().unwrap();
        Instant::now()
    }

    fn role(&self) -> Role {
        *self.role.borrow()
    }

    fn may_send(&self) -> bool {
        self.fence.may_send(Instant::now())
    }
}

async fn seconds(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_does_not_exist_is_created() {
    let world = LeaseWorld::new();
    let mut a = world.start("a");
    assert!(!a.may_send());
    a.becomes(Role::Leading).await;
    assert!(a.may_send());
    let server = world.server();
    assert_eq!(server.spec("holderIdentity"), "a");
    assert_eq!(server.spec("leaseDurationSeconds"), 15);
    assert_eq!(server.spec("leaseTransitions"), 0);
    assert_eq!(server.spec("acquireTime"), server.spec("renewTime"));
}

#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once_and_unknown_fields_stay() {
    let world = LeaseWorld::new();
    world.server().put("", 1, "2020-01-01T00:00:00.000000Z");
    let start = Instant::now();
    let mut a = world.start("a");
    assert_eq!(a.becomes(Role::Leading).await, start);
    let server = world.server();
    assert_eq!(server.spec("leaseTransitions"), 5);
    assert_eq!(server.spec("strategy"), "kept");
    assert_ne!(server.spec("acquireTime"), "2020-01-01T00:00:00.000000Z");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_did_not_change_for_its_duration_is_taken() {
    // The holder's clock does not matter, whether far in the past or in the future.
    for renewed in ["1990-01-01T00:00:00.000000Z", "2190-01-01T00:00:00.000000Z"] {
        let world = LeaseWorld::new();
        world.server().put("other", 30, renewed);
        let start = Instant::now();
        let mut a = world.start("a");
        let waited = a.becomes(Role::Leading).await - start;
        assert!(waited >= Duration::from_secs(30), "{waited:?}");
        assert!(waited <= Duration::from_secs(35), "{waited:?}");
        assert_eq!(world.server().spec("leaseTransitions"), 5);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_changes_is_not_taken_whatever_its_renew_time() {
    let world = LeaseWorld::new();
    let a = world.start("a");
    for round in 0..20 {
        // The holder writes two times in turn.
        let times = ["2001-01-01T00:00:00.000000Z", "2000-01-01T00:00:00.000000Z"];
        world.server().put("other", 15, times[round % 2]);
        seconds(10).await;
    }
    assert_eq!(a.role(), Role::Waiting);
    assert!(!a.may_send());
    assert_eq!(world.server().spec("holderIdentity"), "other");
}

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_jumps_affects_neither_the_leader_nor_candidates() {
    let world = LeaseWorld::new();
    let mut a = world.start("a");
    a.becomes(Role::Leading).await;
    let mut b = world.start("b");
    for round in 0..60 {
        // Written as if the leader's clock jumped by an hour, back and forth.
        let times = ["2000-01-01T01:00:00.000000Z", "2000-01-01T00:00:00.000000Z"];
        world.server().lease.as_mut().unwrap()["spec"]["renewTime"] = json!(times[round % 2]);
        seconds(2).await;
        assert_eq!((a.role(), a.may_send()), (Role::Leading, true), "{round}");
        assert_eq!((b.role(), b.may_send()), (Role::Waiting, false), "{round}");
    }
    a.task.abort();
    let begun = Instant::now();
    let waited = b.becomes(Role::Leading).await - begun;
    assert!((13..=20).contains(&waited.as_secs()), "{waited:?}: a lease lasts as long as it says");
}

#[tokio::test(start_paused = true)]
async fn a_leader_renews_with_one_request_each_period_and_the_fence_stays_open() {
    let world = LeaseWorld::new();
    let mut a = world.start("a");
    a.becomes(Role::Leading).await;
    let acquired = world.server().spec("acquireTime");
    world.server().requests.clear();
    for _ in 0..60 {
        seconds(1).await;
        assert!(a.may_send());
    }
    assert_eq!(a.role(), Role::Leading);
    let server = world.server();
    assert!(server.requests.iter().all(|method| method == Method::PUT), "{:?}", server.requests);
    assert!((29..=30).contains(&server.requests.len()), "{}", server.requests.len());
    assert_eq!(server.spec("acquireTime"), acquired);
    assert_eq!(server.spec("leaseTransitions"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_sending_first_and_is_lost_at_the_deadline() {
    for mode in [ServerMode::Broken, ServerMode::Silent] {
        let world = LeaseWorld::new();
        let mut a = world.start("a");
        let start = a.becomes(Role::Leading).await;
        world.server().mode = mode;
        sleep(Duration::from_millis(9499)).await;
        assert!(a.may_send());
        sleep(Duration::from_millis(1)).await;
        assert!(!a.may_send());
        assert_eq!(a.role(), Role::Leading);
        assert_eq!(a.becomes(Role::Lost).await - start, Duration::from_secs(10));
        a.task.await.unwrap();
        world.server().mode = ServerMode::Healthy;
        seconds(60).await;
        assert!(!a.fence.may_send(Instant::now()), "closed for good");
        assert_eq!(world.server().spec("holderIdentity"), "a", "a lost lease is left to expire");
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_is_survived() {
    let world = LeaseWorld::new();
    let mut a = world.start("a");
    a.becomes(Role::Leading).await;
    for mode in [ServerMode::Broken, ServerMode::Silent, ServerMode::Mute] {
        world.server().mode = mode;
        seconds(6).await;
        world.server().mode = ServerMode::Healthy;
        seconds(30).await;
        assert_eq!(a.role(), Role::Leading);
        assert!(a.may_send());
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_without_a_response_do_not_extend_the_fence() {
    let world = LeaseWorld::new();
    let mut a = world.start("a");
    let start = a.becomes(Role::Leading).await;
    world.server().mode = ServerMode::Mute;
    sleep(Duration::from_millis(9500)).await;
    assert!(!a.may_send());
    assert_eq!(a.becomes(Role::Lost).await - start, Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_is_lost_at_once() {
    for holder in ["other", ""] {
        let world = LeaseWorld::new();
        let mut a = world.start("a");
        let start = a.becomes(Role::Leading).await;
        world.server().put(holder, 15, "2020-01-01T00:00:00.000000Z");
        assert_eq!(a.becomes(Role::Lost).await - start, Duration::from_secs(2));
        assert!(!a.may_send());
        assert_eq!(world.server().spec("holderIdentity"), holder);
    }
}

#[tokio::test(start_paused = true)]
async fn a_conflict_with_a_write_that_keeps_the_holder_is_no_loss() {
    let world = LeaseWorld::new();
    let mut a = world.start("a");
    a.becomes(Role::Leading).await;
    {
        let mut server = world.server();
        server.version += 1;
        let version = server.version.to_string();
        let lease = server.lease.as_mut().unwrap();
        lease["metadata"]["resourceVersion"] = json!(version);
        lease["metadata"]["labels"] = json!({"touched": "yes"});
    }
    seconds(30).await;
    assert_eq!(a.role(), Role::Leading);
    assert_eq!(world.server().lease.as_ref().unwrap()["metadata"]["labels"]["touched"], "yes");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_created_again() {
    let world = LeaseWorld::new();
    let mut a = world.start("a");
    a.becomes(Role::Leading).await;
    world.server().lease = None;
    seconds(3).await;
    assert_eq!(a.role(), Role::Leading);
    assert_eq!(world.server().spec("holderIdentity"), "a");
}

#[tokio::test(start_paused = true)]
async fn of_many_candidates_one_leads_and_another_follows_within_seconds_of_its_release() {
    let world = LeaseWorld::new();
    let mut candidates: Vec<_> =
        (0..5).map(|number| world.start(&format!("candidate-{number}"))).collect();
    seconds(60).await;
    let leaders = |all: &[Candidate]| all.iter().filter(|one| one.role() == Role::Leading).count();
    assert_eq!(leaders(&candidates), 1);
    let leader = candidates.iter().position(|one| one.role() == Role::Leading).unwrap();
    let mut old = candidates.remove(leader);
    old.stop.cancel();
    old.becomes(Role::Released).await;
    old.task.await.unwrap();
    assert!(!old.fence.may_send(Instant::now()));
    {
        let server = world.server();
        assert_eq!(server.spec("holderIdentity"), "");
        assert_eq!(server.spec("leaseDurationSeconds"), 1);
        assert_eq!(server.spec("leaseTransitions"), 0);
    }
    seconds(5).await;
    assert_eq!(leaders(&candidates), 1);
    assert_eq!(world.server().spec("leaseTransitions"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_stops_does_not_release_the_lease_of_another() {
    let world = LeaseWorld::new();
    world.server().put("other", 15, "2020-01-01T00:00:00.000000Z");
    let before = world.server().lease.clone();
    let mut a = world.start("a");
    seconds(1).await;
    a.stop.cancel();
    a.becomes(Role::Released).await;
    assert_eq!(world.server().lease, before);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_does_not_delay_a_stop() {
    let world = LeaseWorld::new();
    let mut a = world.start("a");
    a.becomes(Role::Leading).await;
    world.server().mode = ServerMode::Silent;
    seconds(3).await;
    let start = Instant::now();
    a.stop.cancel();
    assert_eq!(a.becomes(Role::Released).await - start, RELEASE_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn a_candidate_that_stops_during_a_write_releases_the_lease() {
    let world = LeaseWorld::new();
    world.server().put("", 1, "2020-01-01T00:00:00.000000Z");
    world.server().mode = ServerMode::Mute;
    let a = world.start("a");
    // The first read gets no response, so the write follows the second read.
    seconds(1).await;
    world.server().mode = ServerMode::Healthy;
    world.server().put("a", 15, "2020-01-01T00:00:00.000000Z");
    a.stop.cancel();
    a.task.await.unwrap();
    assert_eq!(world.server().spec("holderIdentity"), "");
}

#[test]
fn identities_have_the_host_and_differ() {
    let (a, b) = (new_identity(), new_identity());
    assert_ne!(a, b);
    let (host, random) = a.rsplit_once('_').unwrap();
    assert!(!host.is_empty());
    assert!(uuid::Uuid::parse_str(random).is_ok(), "{random}");
}

#[test]
fn jitter_is_between_1_and_2_2_times_the_period() {
    let period = Duration::from_secs(2);
    let waits: Vec<_> = (0..1000).map(|_| jittered(period)).collect();
    assert!(waits.iter().all(|wait| (period..=period.mul_f64(2.2)).contains(wait)));
    assert!(waits.iter().max() > waits.iter().min());
}

#[tokio::test]
async fn contradictory_settings_are_errors() {
    let with = |lease: u64, renew: u64, retry: u64| {
        let settings = LeaseSettings {
            lease_duration: Duration::from_secs(lease),
            renew_deadline: Duration::from_secs(renew),
            retry_period: Duration::from_secs(retry),
            ..LeaseSettings::new("kube-system", "kube-scheduler")
        };
        Elector::new(LeaseWorld::new().client(), settings)
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(with(15, 10, 2), Ok(()));
    let errors = [
        (with(15, 10, 0), "retryPeriod: must be greater than 0"),
        (with(15, 2, 2), "renewDeadline: 2s must be greater than retryPeriod * 1.2 = 2.4s"),
        (with(10, 10, 2), "leaseDuration: 10s must be greater than renewDeadline 10s"),
        (with(6, 5, 1), "leaseDuration: 6s must be greater than 6.5s"),
    ];
    for (result, want) in errors {
        let error = result.unwrap_err();
        assert!(error.contains(want), "{error}");
    }
}
