//! Binding against an API server that does all it may do, in virtual time.

mod properties;

use std::collections::VecDeque;
use std::sync::Mutex;

use http::Method;

use serde_json::json;

use super::*;
use crate::gate::Throttle;
use crate::lease::Fence;
use crate::testing::{BodyPart, FakeApiServer, ReceivedRequest, Reply, lock, seconds_since};

const OURS: &str = "node-1";
const OTHER: &str = "node-2";

/// How a request to bind goes wrong, or not.
#[derive(Clone, Debug)]
enum RequestFault {
    Healthy,
    /// It never arrives.
    DropRequest,
    /// It is done and the connection breaks.
    DropResponse,
    /// It is done; the answer comes after this time.
    Slow(Duration),
    /// It is done after this time, and nobody says so.
    Late(Duration),
    /// This status, having done it or not, with `Retry-After`.
    Status(u16, bool, Option<u64>),
    /// The status comes, the rest of the answer never does.
    Headless(u16),
}

/// What else happens to the pod, right after a request to bind was handled.
#[derive(Clone, Debug)]
enum Interference {
    Touch,
    Delete,
    Terminate,
    Gate,
    Replace,
    Steal,
}

#[derive(Default)]
struct PodWorld {
    pod: Option<Value>,
    version: u64,
    /// Nodes to which the pod was ever bound by requests of ours.
    bound: Vec<String>,
    binds: VecDeque<(RequestFault, Option<Interference>)>,
    reads: VecDeque<Reply>,
}

impl PodWorld {
    fn touch(&mut self, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        if let Some(pod) = &mut self.pod {
            change(pod);
            pod["metadata"]["resourceVersion"] = json!(self.version.to_string());
        }
    }

    /// As the API server handles a Binding.
    fn bind(&mut self, binding: &Value) -> Reply {
        let Some(pod) = self.pod.clone() else { return Reply::failure(404, "not found") };
        let meta = |object: &Value, field: &str| object["metadata"][field].clone();
        if meta(&pod, "uid") != meta(binding, "uid") {
            return conflict("Precondition failed: UID in precondition: 1, UID in object meta: 2");
        }
        if meta(&pod, "resourceVersion") != meta(binding, "resourceVersion") {
            return conflict("Precondition failed: ResourceVersion in precondition: 1");
        }
        if !pod["spec"]["nodeName"].is_null() {
            return conflict("pod pod is already assigned to node \"a\"");
        }
        if !meta(&pod, "deletionTimestamp").is_null() {
            return conflict("pod pod is being deleted, cannot be assigned to a host");
        }
        if !pod["spec"]["schedulingGates"].is_null() {
            return conflict("pod pod has non-empty .spec.schedulingGates");
        }
        let node = binding["target"]["name"].as_str().unwrap().to_owned();
        self.touch(|pod| pod["spec"]["nodeName"] = json!(node));
        self.bound.push(node);
        Reply::json(201, &json!({"kind": "Status", "status": "Success"}))
    }

    fn interfere(&mut self, interference: &Interference) {
        match interference {
            Interference::Touch => self.touch(|_| {}),
            Interference::Delete => self.pod = None,
            Interference::Terminate => {
                self.touch(|pod| pod["metadata"]["deletionTimestamp"] = json!("2024-01-01"));
            }
            Interference::Gate => self.touch(|pod| pod["spec"]["schedulingGates"] = json!([{}])),
            Interference::Replace => {
                self.version += 1;
                self.pod = Some(pod("uid-2", self.version));
            }
            Interference::Steal => self.touch(|pod| {
                if pod["spec"]["nodeName"].is_null() {
                    pod["spec"]["nodeName"] = json!(OTHER);
                }
            }),
        }
    }

    fn is_on(&self, node: &str) -> bool {
        self.pod
            .as_ref()
            .is_some_and(|pod| pod["metadata"]["uid"] == "uid-1" && pod["spec"]["nodeName"] == node)
    }
}

/// A refusal of which the API server gives the reason.
fn conflict(reason: &str) -> Reply {
    let message = format!("Operation cannot be fulfilled on pods/binding \"pod\": {reason}");
    Reply::failure(409, &message)
}

fn pod(uid: &str, version: u64) -> Value {
    let meta = json!({"namespace": "ns", "name": "pod", "uid": uid, "resourceVersion": version.to_string()});
    json!({"kind": "Pod", "metadata": meta, "spec": {}})
}

struct BinderFixture {
    world: Arc<Mutex<PodWorld>>,
    fake: FakeApiServer,
    fence: Fence,
    window: Arc<BindWindow>,
    metrics: Metrics,
}

impl BinderFixture {
    fn new(binds: &[(RequestFault, Option<Interference>)]) -> Self {
        let world = PodWorld {
            pod: Some(pod("uid-1", 7)),
            version: 7,
            binds: binds.iter().cloned().collect(),
            ..PodWorld::default()
        };
        let world = Arc::new(Mutex::new(world));
        let server = Arc::clone(&world);
        let fake = FakeApiServer::new(move |asked| answer(&server, asked));
        let (fence, window) = (Fence::always(), Arc::default());
        Self { world, fake, fence, window, metrics: Metrics::new("lease") }
    }

    fn of(steps: &[RequestFault]) -> Self {
        Self::new(&steps.iter().map(|step| (step.clone(), None)).collect::<Vec<_>>())
    }

    async fn bind(&self) -> Result<(), String> {
        self.bind_since(None).await
    }

    async fn bind_since(&self, since: Option<Instant>) -> Result<(), String> {
        self.bind_named("pod", since).await
    }

    async fn bind_named(&self, name: &str, since: Option<Instant>) -> Result<(), String> {
        let window = Arc::clone(&self.window);
        let binder =
            Binder::new(self.fake.client(), self.fence.clone(), window, self.metrics.clone());
        let pod = PodName { namespace: "ns".into(), name: name.into(), uid: "uid-1".into() };
        binder.bind(&pod, 7, &OURS.into(), since).await
    }

    fn sends(&self) -> Vec<ReceivedRequest> {
        self.fake.requests_by(&Method::POST)
    }

    fn reads(&self) -> Vec<ReceivedRequest> {
        self.fake.requests_by(&Method::GET)
    }

    fn counted(&self, result: &str) -> bool {
        self.metrics.text().lines().any(|line| line.contains(result) && line.ends_with(" 1"))
    }
}

fn answer(world: &Arc<Mutex<PodWorld>>, asked: &ReceivedRequest) -> Reply {
    let mut server = lock(world);
    if asked.method == Method::GET {
        assert_eq!(asked.path, "/api/v1/namespaces/ns/pods/pod");
        assert_eq!(asked.query, "", "the read must be consistent");
        let scripted = server.reads.pop_front();
        return scripted.unwrap_or_else(|| match &server.pod {
            Some(pod) => Reply::json(200, pod),
            None => Reply::failure(404, "pods \"pod\" not found"),
        });
    }
    assert_eq!(asked.path, "/api/v1/namespaces/ns/pods/pod/binding");
    assert_eq!(asked.parameter("timeout").as_deref(), Some("2500ms"));
    assert_eq!(asked.body["metadata"]["uid"], "uid-1");
    let (step, interference) = server.binds.pop_front().unwrap_or((RequestFault::Healthy, None));
    let reply = match step {
        RequestFault::Healthy => server.bind(&asked.body),
        RequestFault::DropRequest => Reply::broken(),
        RequestFault::DropResponse => {
            server.bind(&asked.body);
            Reply::broken()
        }
        RequestFault::Slow(delay) => server.bind(&asked.body).after(delay),
        RequestFault::Late(delay) => {
            let (world, body) = (Arc::clone(world), asked.body.clone());
            tokio::spawn(async move {
                sleep(delay).await;
                lock(&world).bind(&body);
            });
            Reply::never()
        }
        RequestFault::Status(status, done, wait) => {
            if done {
                server.bind(&asked.body);
            }
            let reply = Reply::failure(status, "as the test wants");
            match wait {
                Some(wait) => reply.header("retry-after", wait),
                None => reply,
            }
        }
        RequestFault::Headless(status) => Reply::stream(status, vec![BodyPart::Hang]),
    };
    if let Some(interference) = interference {
        server.interfere(&interference);
    }
    reply
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_believed() {
    let stage = BinderFixture::of(&[]);
    assert_eq!(stage.bind().await, Ok(()));
    assert_eq!((stage.sends().len(), stage.reads().len()), (1, 0));
    let body = stage.sends()[0].body.clone();
    assert_eq!(body["target"]["name"], OURS);
    assert_eq!(body["metadata"]["resourceVersion"], "7");
    assert!(stage.counted("result=\"bound\""), "{}", stage.metrics.text());
    assert_eq!(stage.window.size(), BindWindow::SIZE_INITIAL + 1);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_explained_by_the_pod() {
    let ours = BinderFixture::of(&[]);
    lock(&ours.world).touch(|pod| pod["spec"]["nodeName"] = json!(OURS));
    assert_eq!(ours.bind().await, Ok(()), "somebody repeats what we sent");

    for (interference, expected, reads) in [
        (Interference::Steal, "pod pod is already assigned to node \"node-2\"", 1),
        (Interference::Delete, "404 Not Found: not found", 0),
        (Interference::Replace, "pods \"pod\" not found", 1),
        (Interference::Terminate, "the pod is being deleted", 1),
        (Interference::Gate, "the pod has scheduling gates", 1),
    ] {
        let stage = BinderFixture::of(&[]);
        lock(&stage.world).interfere(&interference);
        let begun = Instant::now();
        assert_eq!(stage.bind().await, Err(expected.to_owned()), "{interference:?}");
        assert_eq!((stage.sends().len(), stage.reads().len()), (1, reads), "{interference:?}");
        assert!(seconds_since(begun) < 0.1, "nothing was sent that could still arrive");
        assert!(stage.counted("result=\"rejected\""), "{}", stage.metrics.text());
    }

    let changed = BinderFixture::of(&[]);
    lock(&changed.world).interfere(&Interference::Touch);
    assert_eq!(changed.bind().await, Ok(()));
    let versions: Vec<Value> = changed
        .sends()
        .iter()
        .map(|sent| sent.body["metadata"]["resourceVersion"].clone())
        .collect();
    assert_eq!(versions, ["7", "8"], "sent again with the version that was read");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_all_the_time_goes_back_into_the_queue() {
    let stage = BinderFixture::of(&[]);
    lock(&stage.world).interfere(&Interference::Touch);
    // Whatever is read has changed when the bind arrives.
    lock(&stage.world).reads.extend((0..20).map(|_| Reply::json(200, &pod("uid-1", 7))));
    assert!(stage.bind().await.unwrap_err().contains("Precondition failed"));
    assert_eq!(stage.sends().len(), ATTEMPTS_MAX as usize);
}

#[tokio::test(start_paused = true)]
async fn a_server_is_not_asked_earlier_than_it_allows() {
    for status in [429, 503, 500] {
        let stage = BinderFixture::of(&[
            RequestFault::Status(status, false, Some(7)),
            RequestFault::Status(status, false, Some(0)),
            RequestFault::Status(status, false, None),
        ]);
        assert_eq!(stage.bind().await, Ok(()), "{status}");
        let times: Vec<Instant> = stage.sends().iter().map(|sent| sent.at).collect();
        assert!(times[1] - times[0] >= Duration::from_secs(7), "{status}");
        assert!(times[2] - times[1] >= RETRY_DELAY_MIN, "{status}");
        assert!(times[3] - times[2] >= RETRY_DELAY, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_always_says_later_does_not_hold_a_place_for_ever() {
    for wait in [0, 1, 20, 3600, u64::MAX / 2] {
        let stage = BinderFixture::of(&vec![RequestFault::Status(429, false, Some(wait)); 1000]);
        let begun = Instant::now();
        let error = stage.bind().await.unwrap_err();
        assert_eq!(error, "the API server asked to come back later");
        assert!(begun.elapsed() <= ATTEMPTS_TIME_MAX + RETRY_DELAY, "{wait}");
        let times: Vec<Instant> = stage.sends().iter().map(|sent| sent.at).collect();
        let wait = Duration::from_secs(wait);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= wait), "{wait:?}");
        assert_eq!(stage.reads().len(), 0, "it is certain that nothing was done");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_is_read() {
    for step in [
        RequestFault::DropResponse,
        RequestFault::Slow(REQUEST_TIMEOUT * 2),
        RequestFault::Status(500, true, None),
        RequestFault::Status(502, true, None),
        RequestFault::Status(503, true, Some(1)),
        RequestFault::Status(504, true, None),
        RequestFault::Status(408, true, None),
    ] {
        let stage = BinderFixture::of(std::slice::from_ref(&step));
        assert_eq!(stage.bind().await, Ok(()), "{step:?}");
        assert_eq!((stage.sends().len(), stage.reads().len()), (1, 1), "{step:?}");
        assert!(stage.counted("result=\"ambiguous\""), "{}", stage.metrics.text());
    }
    for step in [
        RequestFault::DropRequest,
        RequestFault::Status(500, false, None),
        RequestFault::Headless(504),
    ] {
        let stage = BinderFixture::of(std::slice::from_ref(&step));
        assert_eq!(stage.bind().await, Ok(()), "{step:?}");
        assert_eq!((stage.sends().len(), stage.reads().len()), (2, 1), "{step:?}");
        let node = &stage.sends()[1].body["target"]["name"];
        assert_eq!(node, OURS, "sent again to the same node");
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_cannot_be_read_is_read_again_before_anything_is_sent() {
    let stage = BinderFixture::of(&[RequestFault::DropResponse]);
    let odd = [
        Reply::broken(),
        Reply::never(),
        Reply::failure(500, "etcd is gone"),
        Reply::json(200, &json!({"kind": "Status"})),
        Reply::stream(200, vec![BodyPart::Data(b"{".to_vec()), BodyPart::Break]),
        Reply::stream(200, vec![BodyPart::Data(b"<html>".to_vec())]),
    ];
    lock(&stage.world).reads.extend(odd);
    assert_eq!(stage.bind().await, Ok(()));
    assert_eq!((stage.sends().len(), stage.reads().len()), (1, 7));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_to_tell_is_not_asked_for_ever() {
    let stage = BinderFixture::of(&[RequestFault::DropResponse]);
    lock(&stage.world).reads = vec![Reply::failure(403, "no"); 100].into();
    let begun = Instant::now();
    assert!(stage.bind().await.is_err());
    assert_eq!(stage.sends().len(), 1, "what came of the first is not known");
    assert!(begun.elapsed() > 2 * REQUEST_TIMEOUT + SLACK, "a request may still arrive");
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_their_turn_without_losing_time_to_try() {
    let stage = BinderFixture::of(&[RequestFault::Status(503, false, None)]);
    let throttle = Throttle::new(0.01, 1);
    throttle.wait().await;
    let gate = Gate::new(Fence::always(), throttle);
    let (window, metrics) = (Arc::clone(&stage.window), stage.metrics.clone());
    let binder = Binder::new(stage.fake.client(), gate, window, metrics);
    let pod = PodName { namespace: "ns".into(), name: "pod".into(), uid: "uid-1".into() };
    let begun = Instant::now();
    // The time to try is over before the second turn.
    assert!(binder.bind(&pod, 7, &OURS.into(), None).await.is_err());
    assert_eq!(stage.sends().len(), 1);
    assert_eq!(stage.sends()[0].at - begun, Duration::from_secs(100));
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_told_how_long_it_took_only_if_that_is_wanted() {
    let stage = BinderFixture::of(&[RequestFault::Status(503, false, Some(2))]);
    let since = Instant::now();
    tokio::time::advance(Duration::from_millis(1234)).await;
    assert_eq!(stage.bind_since(Some(since)).await, Ok(()));
    let told = |asked: &ReceivedRequest| asked.body["metadata"]["annotations"].clone();
    let said: Vec<Value> = stage.sends().iter().map(told).collect();
    let latency = |text: &str| json!({"scheduling.novasphere.dev/schedulerLatency": text});
    assert_eq!(said, [latency("1.234s"), latency("3.234s")], "the wait for the second try counts");
    assert_eq!(stage.fake.requests_by(&Method::PATCH).len(), 0, "no request more");

    let quick = BinderFixture::of(&[RequestFault::Healthy]);
    let since = Instant::now();
    tokio::time::advance(Duration::from_micros(412)).await;
    assert_eq!(quick.bind_since(Some(since)).await, Ok(()));
    assert_eq!(told(&quick.sends()[0]), latency("0.000412s"));

    let silent = BinderFixture::of(&[RequestFault::Healthy]);
    assert_eq!(silent.bind().await, Ok(()));
    assert_eq!(told(&silent.sends()[0]), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_no_conflict_ends_the_attempt_after_one_request() {
    for status in [400, 401, 403, 404, 422] {
        let stage = BinderFixture::of(&vec![RequestFault::Status(status, false, None); 6]);
        let begun = Instant::now();
        assert!(stage.bind().await.unwrap_err().contains(&status.to_string()));
        assert_eq!((stage.sends().len(), stage.reads().len()), (1, 0), "{status}");
        assert_eq!(seconds_since(begun), 0.0, "nothing was sent that could still arrive");
    }
    // An earlier request may have been carried out, so its time is waited for.
    let stage = BinderFixture::of(&[
        RequestFault::Late(2 * REQUEST_TIMEOUT),
        RequestFault::Status(403, false, None),
    ]);
    assert_eq!(stage.bind().await, Ok(()));
    assert_eq!(stage.sends().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_that_may_be_an_error_of_the_store_proves_nothing() {
    // Done, and the read that follows fails as well.
    let done = BinderFixture::of(&[RequestFault::Status(409, true, None)]);
    lock(&done.world).reads.extend([Reply::failure(500, "etcdserver: no leader")]);
    assert_eq!(done.bind().await, Ok(()));
    assert_eq!((done.sends().len(), done.reads().len()), (1, 2));

    // Never done: the place is kept until no request can be carried out any more.
    let lost = BinderFixture::of(&vec![RequestFault::Status(409, false, None); 100]);
    assert!(lost.bind().await.unwrap_err().contains("409"));
    assert_eq!(lost.sends().len(), ATTEMPTS_MAX as usize);
    let last = lost.sends().last().unwrap().at;
    assert!(last.elapsed() >= 2 * REQUEST_TIMEOUT + SLACK, "{:?}", last.elapsed());
    assert!(lost.sends().windows(2).all(|pair| pair[1].at - pair[0].at >= RETRY_DELAY));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_cannot_be_asked_for_is_refused_at_once() {
    let stage = BinderFixture::of(&[]);
    let begun = Instant::now();
    assert!(stage.bind_named("odd name", None).await.unwrap_err().contains("is no path"));
    assert_eq!(stage.fake.requests().len(), 0);
    assert_eq!(seconds_since(begun), 0.0);
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_sent() {
    let stage = BinderFixture::of(&[]);
    stage.fence.close();
    let begun = Instant::now();
    assert_eq!(stage.bind().await, Err("the lease is not held any more".to_owned()));
    assert_eq!(stage.fake.requests().len(), 0);
    assert_eq!(seconds_since(begun), 0.0);

    let put_off = BinderFixture::of(&[RequestFault::Status(429, false, Some(5))]);
    let fence = put_off.fence.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(2)).await;
        fence.close();
    });
    assert!(put_off.bind().await.is_err());
    assert_eq!((put_off.sends().len(), put_off.reads().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_place_is_given_up_only_when_no_request_can_arrive_any_more() {
    // The request is handled so late that the first read does not show it.
    let late = 2 * REQUEST_TIMEOUT;
    let stage = BinderFixture::of(&[RequestFault::Late(late)]);
    let fence = stage.fence.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(1)).await;
        fence.close();
    });
    let begun = Instant::now();
    assert_eq!(stage.bind().await, Ok(()), "the last read shows it");
    assert_eq!(begun.elapsed(), 2 * REQUEST_TIMEOUT + SLACK);
    assert_eq!((stage.sends().len(), stage.reads().len()), (1, 2));

    let lost = BinderFixture::of(&vec![RequestFault::DropRequest; 100]);
    assert!(lost.bind().await.is_err());
    let last = lost.sends().last().unwrap().at;
    assert_eq!(lost.sends().len(), ATTEMPTS_MAX as usize);
    assert!(last.elapsed() >= 2 * REQUEST_TIMEOUT + SLACK);
}

#[test]
fn the_window_stays_within_its_limits() {
    let window = BindWindow::default();
    for _ in 0..1000 {
        window.grow();
    }
    assert_eq!(window.size(), BindWindow::SIZE_MAX);
    window.shrink();
    assert_eq!(window.size(), BindWindow::SIZE_MAX / 2);
    for _ in 0..100 {
        window.shrink();
    }
    assert_eq!(window.size(), BindWindow::SIZE_MIN);
    window.grow();
    assert_eq!(window.size(), BindWindow::SIZE_MIN + 1);
}

#[test]
fn binds_that_wait_for_each_other_do_not_become_more() {
    let window = BindWindow::default();
    (0..10).for_each(|_| window.record_success(BindWindow::LATENCY_CONGESTED / 2));
    assert_eq!(window.size(), BindWindow::SIZE_INITIAL + 10);
    (0..100).for_each(|_| window.record_success(BindWindow::LATENCY_CONGESTED * 2));
    let widest = window.size();
    assert!(widest < BindWindow::SIZE_INITIAL + 20, "{widest}");
    let took = window.mean_latency();
    assert!(
        took <= BindWindow::LATENCY_CONGESTED * 2 && took > BindWindow::LATENCY_CONGESTED * 19 / 10,
        "{took:?}"
    );
    (0..100).for_each(|_| window.record_success(BindWindow::LATENCY_CONGESTED / 2));
    assert!(window.size() > widest + 80);
}

#[test]
fn after_a_flood_binds_are_soon_seen_to_be_fast() {
    let window = BindWindow::default();
    (0..100).for_each(|_| window.record_success(Duration::from_secs(1)));
    (0..6).for_each(|_| window.record_success(Duration::from_millis(5)));
    assert!(window.mean_latency() < Duration::from_millis(40), "{:?}", window.mean_latency());
}

#[test]
fn where_binds_always_take_long_there_are_soon_as_many_as_at_first() {
    let window = BindWindow::default();
    (0..10).for_each(|_| window.shrink());
    (0..1000).for_each(|_| window.record_success(BindWindow::LATENCY_CONGESTED * 2));
    assert!(
        (BindWindow::SIZE_INITIAL..BindWindow::SIZE_INITIAL + 20).contains(&window.size()),
        "{}",
        window.size()
    );
}

#[tokio::test(start_paused = true)]
async fn trouble_shrinks_the_window() {
    let stage = BinderFixture::of(&[
        RequestFault::Status(429, false, None),
        RequestFault::Status(500, true, None),
    ]);
    assert_eq!(stage.bind().await, Ok(()));
    assert_eq!(stage.window.size(), BindWindow::SIZE_INITIAL / 4);
}
