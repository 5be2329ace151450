//! Tests of the status writer against a slow or refusing server, in virtual time.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::*;
use crate::lease::Fence;
use crate::testing::{FakeApiServer, ReceivedRequest, Reply, lock};

const SECOND: Duration = Duration::from_secs(1);

fn pod(name: &str) -> PodRef {
    PodRef {
        namespace: "ns".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        resource_version: 7,
        generation: 3,
        ..PodRef::default()
    }
}

fn failed(name: &str, message: &str) -> StatusUpdate {
    let failure = Some(("Unschedulable", message.to_owned()));
    StatusUpdate::Write { pod: pod(name), failure, nominate: None }
}

fn nominated(name: &str, node: &str) -> StatusUpdate {
    with_nomination(StatusUpdate::Write { pod: pod(name), failure: None, nominate: None }, node)
}

fn with_nomination(update: StatusUpdate, node: &str) -> StatusUpdate {
    match update {
        StatusUpdate::Write { pod, failure, .. } => {
            StatusUpdate::Write { pod, failure, nominate: Some(node.into()) }
        }
        other => other,
    }
}

fn start(
    answer: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (FakeApiServer, StatusWriter) {
    let fake = FakeApiServer::new(answer);
    let status_writer = StatusWriter::start(fake.client(), Fence::always());
    (fake, status_writer)
}

fn healthy(_: &ReceivedRequest) -> Reply {
    Reply::json(200, &json!({}))
}

fn condition(request: &ReceivedRequest) -> Value {
    request.body["status"]["conditions"][0].clone()
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_written_once() {
    let (fake, status_writer) = start(healthy);
    status_writer.enqueue(failed("a", "no room")).await;
    sleep(SECOND).await;
    status_writer.enqueue(failed("a", "no room")).await;
    sleep(SECOND).await;
    let requests = fake.requests();
    assert_eq!(requests.len(), 1, "the second has no effect");
    assert_eq!(requests[0].path, "/api/v1/namespaces/ns/pods/a/status");
    assert_eq!(requests[0].content_type, "application/strategic-merge-patch+json");
    assert_eq!(requests[0].body["metadata"]["uid"], "uid-a");
    let written = condition(&requests[0]);
    assert_eq!((&written["type"], &written["status"]), (&json!("PodScheduled"), &json!("False")));
    assert_eq!(
        (&written["reason"], &written["message"]),
        (&json!("Unschedulable"), &json!("no room"))
    );
    assert_eq!(written["observedGeneration"], 3);
    assert!(written["lastTransitionTime"].is_string());

    status_writer.enqueue(failed("a", "still none")).await;
    sleep(SECOND).await;
    let written = condition(&fake.requests()[1]);
    assert_eq!(written["message"], "still none");
    assert!(written.get("lastTransitionTime").is_none(), "the condition's status did not change");
}

#[tokio::test(start_paused = true)]
async fn a_nomination_is_written_and_removed() {
    let (fake, status_writer) = start(healthy);
    for node in ["n1", "n1", "n2", "", ""] {
        status_writer.enqueue(nominated("a", node)).await;
        sleep(SECOND).await;
    }
    let written: Vec<Value> = fake
        .requests()
        .iter()
        .map(|request| request.body["status"]["nominatedNodeName"].clone())
        .collect();
    assert_eq!(written, [json!("n1"), json!("n2"), Value::Null]);
    assert!(
        fake.requests().iter().all(|request| request.body["status"].get("conditions").is_none())
    );
}

#[tokio::test(start_paused = true)]
async fn an_unknown_nomination_is_removed_too() {
    let (fake, status_writer) = start(healthy);
    status_writer.enqueue(with_nomination(failed("a", "no room"), "")).await;
    sleep(SECOND).await;
    let status = fake.requests()[0].body["status"].clone();
    assert_eq!(status.get("nominatedNodeName"), Some(&Value::Null));
    assert!(status["conditions"].is_array());
}

#[tokio::test(start_paused = true)]
async fn updates_are_coalesced_and_a_pod_has_one_patch_in_flight() {
    let writing = Arc::new(Mutex::new(0_i32));
    let most = Arc::new(Mutex::new(0_i32));
    let (count, high) = (Arc::clone(&writing), Arc::clone(&most));
    let (fake, status_writer) = start(move |_| {
        *lock(&count) += 1;
        let now = *lock(&count);
        let most_now = (*lock(&high)).max(now);
        *lock(&high) = most_now;
        let count = Arc::clone(&count);
        tokio::spawn(async move {
            sleep(SECOND).await;
            *lock(&count) -= 1;
        });
        Reply::json(200, &json!({})).after(SECOND)
    });
    for message in ["1", "2", "3", "4"] {
        status_writer.enqueue(failed("a", message)).await;
        tokio::task::yield_now().await;
        sleep(Duration::from_millis(10)).await;
    }
    status_writer.enqueue(nominated("a", "n1")).await;
    sleep(5 * SECOND).await;
    let messages: Vec<Value> =
        fake.requests().iter().map(|request| condition(request)["message"].clone()).collect();
    assert_eq!(messages, ["1", "4"]);
    assert_eq!(fake.requests()[1].body["status"]["nominatedNodeName"], "n1");
    assert_eq!(*lock(&most), 1);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_patches_in_flight_is_limited_and_callers_never_wait() {
    let (fake, status_writer) = start(|_| Reply::json(200, &json!({})).after(SECOND));
    let begun = Instant::now();
    for number in 0..10_000 {
        status_writer.enqueue(failed(&format!("pod-{number}"), "no room")).await;
    }
    assert_eq!(begun.elapsed(), Duration::ZERO, "enqueueing never waits for the API server");
    sleep(Duration::from_millis(500)).await;
    assert_eq!(fake.requests().len(), WRITES_IN_FLIGHT_MAX);
    sleep(SECOND).await;
    assert_eq!(fake.requests().len(), 2 * WRITES_IN_FLIGHT_MAX);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_pod_is_patched_no_more() {
    let (fake, status_writer) = start(|_| Reply::json(200, &json!({})).after(SECOND));
    status_writer.enqueue(failed("a", "1")).await;
    sleep(Duration::from_millis(10)).await;
    status_writer.enqueue(failed("a", "2")).await;
    status_writer.enqueue(StatusUpdate::Forget("uid-a".into())).await;
    sleep(5 * SECOND).await;
    assert_eq!(fake.requests().len(), 1, "the pending update was dropped");
    // If its status were remembered, this would have no effect.
    status_writer.enqueue(failed("a", "1")).await;
    sleep(5 * SECOND).await;
    assert_eq!(fake.requests().len(), 2);
    assert!(condition(&fake.requests()[1])["lastTransitionTime"].is_string());
}

#[tokio::test(start_paused = true)]
async fn temporary_failures_are_retried_and_others_are_not() {
    for (status, tries) in [(500, 4), (503, 4), (429, 4), (404, 1), (403, 1), (422, 1)] {
        let (fake, status_writer) = start(move |_| Reply::failure(status, "no"));
        status_writer.enqueue(failed("a", "1")).await;
        sleep(Duration::from_mins(5)).await;
        assert_eq!(fake.requests().len(), tries, "{status}");
        // It was not written, so the same update is sent again.
        status_writer.enqueue(failed("a", "1")).await;
        sleep(Duration::from_mins(5)).await;
        assert_eq!(fake.requests().len(), 2 * tries, "{status}");
    }
    let (fake, status_writer) = start(|_| Reply::failure(429, "no").header("retry-after", 20));
    status_writer.enqueue(failed("a", "1")).await;
    sleep(Duration::from_mins(5)).await;
    let times: Vec<Instant> = fake.requests().iter().map(|request| request.at).collect();
    assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 20 * SECOND));
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_written() {
    let fake = FakeApiServer::new(healthy);
    let status_writer = StatusWriter::start(fake.client(), Fence::never());
    status_writer.enqueue(failed("a", "1")).await;
    sleep(SECOND).await;
    assert_eq!(fake.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_order_of_dropped_updates_does_not_grow_without_limit() {
    let fake = FakeApiServer::new(healthy);
    let mut queue = PatchQueue::new(fake.client(), Fence::always().into());
    for number in 0..10_000 {
        queue.handle(failed(&format!("pod-{number}"), "1"));
        queue.handle(StatusUpdate::Forget(format!("uid-pod-{number}").into()));
    }
    assert!(queue.order.len() <= 2 * WRITES_IN_FLIGHT_MAX, "{}", queue.order.len());
    assert_eq!((queue.pending.len(), queue.known.len()), (0, 0));
}

/// An API server with one pod, which answers a patch of another version with a conflict.
struct SinglePodServer {
    version: Mutex<u64>,
    node: Mutex<&'static str>,
}

impl SinglePodServer {
    fn new(version: u64) -> Arc<Self> {
        Arc::new(Self { version: Mutex::new(version), node: Mutex::default() })
    }

    fn bind(&self) {
        *lock(&self.version) += 1;
        *lock(&self.node) = "n1";
    }

    fn answer(&self, request: &ReceivedRequest) -> Reply {
        let mut version = lock(&self.version);
        if request.method == http::Method::PATCH {
            if request.body["metadata"]["resourceVersion"] != version.to_string() {
                return Reply::failure(409, "the object has been modified");
            }
            *version += 1;
        }
        let metadata = json!({"uid": "uid-a", "resourceVersion": version.to_string()});
        Reply::json(200, &json!({"metadata": metadata, "spec": {"nodeName": *lock(&self.node)}}))
    }
}

#[tokio::test(start_paused = true)]
async fn a_retried_patch_does_not_change_a_pod_that_was_bound_meanwhile() {
    let pod = SinglePodServer::new(7);
    let server = Arc::clone(&pod);
    let (fake, status_writer) = start(move |request| match request.method {
        http::Method::PATCH if *lock(&server.version) == 7 => {
            server.bind();
            Reply::never()
        }
        _ => server.answer(request),
    });
    status_writer.enqueue(with_nomination(failed("a", "no room"), "n1")).await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(*lock(&pod.version), 8, "the binding is the last change");
    let methods: Vec<_> = fake.requests().iter().map(|request| request.method.clone()).collect();
    assert_eq!(methods, [http::Method::PATCH, http::Method::PATCH, http::Method::GET]);
}

#[tokio::test(start_paused = true)]
async fn the_patch_of_a_forgotten_pod_is_not_retried() {
    let (fake, status_writer) = start(|_| Reply::failure(500, "no"));
    status_writer.enqueue(failed("a", "no room")).await;
    sleep(Duration::from_millis(100)).await;
    status_writer.enqueue(StatusUpdate::Forget("uid-a".into())).await;
    sleep(Duration::from_mins(1)).await;
    assert_eq!(fake.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_others_changed_is_patched_at_its_new_version() {
    let pod = SinglePodServer::new(9);
    let server = Arc::clone(&pod);
    let (fake, status_writer) = start(move |request| server.answer(request));
    status_writer.enqueue(failed("a", "no room")).await;
    sleep(SECOND).await;
    let versions: Vec<Value> = fake
        .requests_by(&http::Method::PATCH)
        .iter()
        .map(|request| request.body["metadata"]["resourceVersion"].clone())
        .collect();
    assert_eq!(versions, ["7", "9"]);
    // The version is known before the watch shows it.
    status_writer.enqueue(failed("a", "still none")).await;
    sleep(SECOND).await;
    assert_eq!(fake.requests().last().unwrap().body["metadata"]["resourceVersion"], "10");
    assert_eq!(*lock(&pod.version), 11);
}

#[tokio::test(start_paused = true)]
async fn a_replaced_pod_is_not_patched() {
    let pod = json!({"metadata": {"uid": "another", "resourceVersion": "9"}, "spec": {}});
    let (fake, status_writer) = start(move |request| match request.method {
        http::Method::PATCH => Reply::failure(409, "uid"),
        _ => Reply::json(200, &pod),
    });
    status_writer.enqueue(failed("a", "no room")).await;
    sleep(Duration::from_mins(5)).await;
    assert_eq!(fake.requests().len(), 2, "one write and one read");
}

fn waiting_pod(version: u64, message: &str, node: &str) -> Value {
    json!({
        "metadata": {"uid": "uid-a", "resourceVersion": version.to_string()},
        "spec": {},
        "status": {"nominatedNodeName": node, "conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message},
        ]},
    })
}

#[tokio::test(start_paused = true)]
async fn a_status_that_the_watch_shows_is_not_written_again() {
    let (fake, status_writer) = start(healthy);
    status_writer.enqueue(StatusUpdate::observed(&waiting_pod(5, "no room", "n1")).unwrap()).await;
    status_writer.enqueue(with_nomination(failed("a", "no room"), "n1")).await;
    sleep(SECOND).await;
    assert_eq!(fake.requests().len(), 0);
    status_writer.enqueue(with_nomination(failed("a", "still none"), "n1")).await;
    sleep(SECOND).await;
    let status = fake.requests()[0].body["status"].clone();
    assert_eq!(status["conditions"][0]["message"], "still none");
    assert!(
        status["conditions"][0].get("lastTransitionTime").is_none(),
        "the condition's status did not change"
    );
    assert!(status.get("nominatedNodeName").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_stale_watch_does_not_replace_a_status_that_was_written() {
    let (fake, status_writer) =
        start(|_| Reply::json(200, &json!({"metadata": {"resourceVersion": "9"}})));
    status_writer.enqueue(failed("a", "second")).await;
    sleep(SECOND).await;
    status_writer.enqueue(StatusUpdate::observed(&waiting_pod(8, "first", "")).unwrap()).await;
    status_writer.enqueue(failed("a", "first")).await;
    sleep(SECOND).await;
    assert_eq!(fake.requests().len(), 2, "the pod has the message `second`");
    status_writer
        .enqueue(StatusUpdate::observed(&waiting_pod(10, "of another client", "")).unwrap())
        .await;
    status_writer.enqueue(failed("a", "first")).await;
    sleep(SECOND).await;
    assert_eq!(fake.requests().len(), 3);
}

#[test]
fn only_unscheduled_pods_have_a_status_to_observe() {
    assert!(
        StatusUpdate::observed(&json!({"metadata": {"uid": "a", "resourceVersion": "1"}}))
            .is_none()
    );
    let mut pod = waiting_pod(1, "x", "");
    pod["status"]["conditions"][0]["status"] = "True".into();
    assert!(StatusUpdate::observed(&pod).is_none());
}
