//! Tests of deletions and evictions against a scripted server, in virtual time.

use std::time::Duration;

use engine::command::Command;
use http::Method;
use tokio::time::sleep;

use super::super::tests::{ExecutorFixture, healthy, pod};
use super::*;
use crate::lease::Fence;
use crate::testing::{ReceivedRequest, Reply};

fn preemptor() -> PodRef {
    PodRef { resource_version: 20, generation: 5, ..pod("preemptor") }
}

impl ExecutorFixture {
    /// Has a victim deleted. Returns the failure.
    async fn delete(&mut self) -> Option<Text> {
        let (victim, preemptor, node) = (pod("victim"), preemptor(), "n1".into());
        self.command(Command::DeleteVictim { victim, preemptor, node }).await;
        let Change::VictimHandled { preemptor, victim, failure } = self.reply().await else {
            panic!("unexpected")
        };
        assert_eq!((preemptor, victim), ("uid-preemptor".into(), "uid-victim".into()));
        sleep(Duration::from_secs(1)).await;
        failure
    }

    /// Has a pod evicted. Returns the outcome.
    async fn evict(&mut self, grace_period: Option<i64>, dry_run: bool) -> EvictionOutcome {
        let (pod, reason, note) = (pod("p"), "Moved", "its node is crowded".to_owned());
        self.command(Command::Evict { pod, reason, note, grace_period, dry_run }).await;
        let Change::Evicted { uid, outcome } = self.reply().await else { panic!("unexpected") };
        assert_eq!(uid, "uid-p".into());
        sleep(Duration::from_secs(1)).await;
        outcome
    }
}

#[tokio::test(start_paused = true)]
async fn a_victim_gets_a_condition_and_an_event_and_is_deleted() {
    let mut fixture = ExecutorFixture::start(Fence::always(), healthy);
    assert_eq!(fixture.delete().await, None);
    let requests = fixture.fake.requests();
    assert_eq!(requests[0].path, "/api/v1/namespaces/ns/pods/victim/status");
    let condition = &requests[0].body["status"]["conditions"][0];
    assert_eq!(condition["type"], "DisruptionTarget");
    assert_eq!(condition["observedGeneration"], 2);
    assert_eq!(requests[1].method, Method::DELETE);
    assert_eq!(requests[1].body["preconditions"]["uid"], "uid-victim");
    assert_eq!(requests[1].parameter("timeout").as_deref(), Some("2500ms"));
    let event = &requests[2].body;
    assert_eq!(event["reason"], "Preempted");
    assert_eq!(event["note"], "Preempted by pod uid-preemptor on node n1");
    for (part, name, version) in [("regarding", "victim", "10"), ("related", "preemptor", "20")] {
        assert_eq!((&event[part]["kind"], &event[part]["name"]), (&json!("Pod"), &json!(name)));
        assert_eq!(event[part]["resourceVersion"], version);
    }
}

#[tokio::test(start_paused = true)]
async fn an_assumed_victim_gets_an_event_and_is_not_deleted() {
    let fixture = ExecutorFixture::start(Fence::always(), healthy);
    let (victim, preemptor, node) = (pod("victim"), preemptor(), "n1".into());
    fixture.command(Command::ReportPreempted { victim, preemptor, node }).await;
    sleep(Duration::from_secs(1)).await;
    let requests = fixture.fake.requests();
    assert_eq!((requests.len(), &requests[0].method), (1, &Method::POST));
    let event = &requests[0].body;
    assert_eq!(
        (&event["reason"], &event["regarding"]["name"]),
        (&"Preempted".into(), &"victim".into())
    );
    assert_eq!(
        event["note"],
        "Preempted by pod uid-preemptor on node n1 (in kube-scheduler memory)."
    );
}

#[tokio::test(start_paused = true)]
async fn a_victim_that_is_gone_is_no_failure_and_gets_no_event() {
    for status in [404, 409] {
        let mut fixture =
            ExecutorFixture::start(Fence::always(), move |_| Reply::failure(status, "gone"));
        assert_eq!(fixture.delete().await, None, "{status}");
        assert_eq!(fixture.fake.requests_by(&Method::POST).len(), 0, "no event");
    }
}

#[tokio::test(start_paused = true)]
async fn a_victim_that_cannot_be_deleted_is_a_failure() {
    let mut fixture = ExecutorFixture::start(Fence::always(), |request| match request.method {
        Method::DELETE => Reply::failure(403, "no"),
        _ => Reply::json(200, &json!({})),
    });
    assert_eq!(fixture.delete().await.as_deref(), Some("403 Forbidden: no"));
    let mut silent = ExecutorFixture::start(Fence::always(), |_| Reply::never());
    assert_eq!(silent.delete().await.as_deref(), Some("the API server did not answer"));
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_deleted() {
    let mut fixture = ExecutorFixture::start(Fence::never(), healthy);
    assert_eq!(fixture.delete().await.as_deref(), Some("the lease is not held any more"));
    assert_eq!(fixture.fake.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_evicted_pod_gets_an_event() {
    let mut fixture = ExecutorFixture::start(Fence::always(), |request| match request.method {
        Method::POST => Reply::json(201, &json!({})),
        _ => Reply::failure(500, "unexpected"),
    });
    assert_eq!(fixture.evict(None, false).await, EvictionOutcome::Evicted);
    let requests = fixture.fake.requests();
    assert_eq!(requests[0].path, "/api/v1/namespaces/ns/pods/p/eviction");
    assert_eq!(requests[0].parameter("timeout").as_deref(), Some("2500ms"));
    let expected = json!({
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"namespace": "ns", "name": "p"},
        "deleteOptions": {"preconditions": {"uid": "uid-p"}},
    });
    assert_eq!(requests[0].body, expected);
    let event = &requests[1].body;
    assert_eq!((&event["reason"], &event["type"]), (&json!("Moved"), &json!("Normal")));
    assert_eq!(event["note"], "its node is crowded");
    assert_eq!(event["regarding"]["resourceVersion"], "10");
}

#[tokio::test(start_paused = true)]
async fn an_eviction_has_its_grace_period_and_a_dry_run_leaves_no_event() {
    let mut fixture = ExecutorFixture::start(Fence::always(), healthy);
    assert_eq!(fixture.evict(Some(30), true).await, EvictionOutcome::Evicted);
    let requests = fixture.fake.requests();
    assert_eq!(requests.len(), 1);
    let options = &requests[0].body["deleteOptions"];
    assert_eq!((&options["gracePeriodSeconds"], &options["dryRun"]), (&json!(30), &json!(["All"])));
}

/// The API server's answer to an eviction that a budget forbids.
fn refusal() -> Value {
    json!({
        "kind": "Status",
        "status": "Failure",
        "message": "Cannot evict pod as it would violate the pod's disruption budget.",
        "reason": "TooManyRequests",
        "details": {"retryAfterSeconds": 10, "causes": [{
            "reason": "DisruptionBudget",
            "message": "The disruption budget b needs 2 healthy pods and has 2 currently",
        }]},
        "code": 429,
    })
}

#[tokio::test(start_paused = true)]
async fn outcomes_of_evictions_are_told_apart() {
    let refused = |retry_after| EvictionOutcome::Refused {
        message:
            "Cannot evict pod as it would violate the pod's disruption budget. The disruption \
                  budget b needs 2 healthy pods and has 2 currently"
                .into(),
        retry_after,
    };
    let failed = |message: &str| EvictionOutcome::Failed(message.into());
    let other_pod = "Precondition failed: UID in precondition: uid-p, UID in object meta: other";
    let cases = [
        (Reply::json(429, &refusal()).header("retry-after", 10), refused(Some(10_000_000_000))),
        (Reply::json(429, &refusal()), refused(None)),
        (Reply::failure(404, "not found"), EvictionOutcome::Gone),
        (Reply::failure(409, other_pod), EvictionOutcome::Gone),
        (Reply::failure(409, "try again"), failed("409 Conflict: try again")),
        // Flow control, not a budget.
        (
            Reply::failure(429, "too many requests").header("retry-after", 1),
            failed("429 Too Many Requests: too many requests"),
        ),
        (Reply::failure(403, "no"), failed("403 Forbidden: no")),
        (
            Reply::failure(500, "more than one budget"),
            failed("500 Internal Server Error: more than one budget"),
        ),
        (Reply::never(), failed("the API server did not answer")),
    ];
    for (reply, expected) in cases {
        let answer = move |_: &ReceivedRequest| reply.clone();
        let mut fixture = ExecutorFixture::start(Fence::always(), answer);
        assert_eq!(fixture.evict(None, false).await, expected);
        assert_eq!(fixture.fake.requests().len(), 1, "no event");
    }
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_evicted() {
    let mut fixture = ExecutorFixture::start(Fence::never(), healthy);
    let outcome = fixture.evict(None, false).await;
    assert_eq!(outcome, EvictionOutcome::Failed("the lease is not held any more".into()));
    assert_eq!(fixture.fake.requests().len(), 0);
}
