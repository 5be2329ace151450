//! Evictions that a planner requests.

use crate::change::{Change, EvictionOutcome};
use crate::command::Command;
use crate::engine::testing::*;
use crate::engine::{EvictionRequest, EvictionState};

fn request(pod: &str) -> EvictionRequest {
    EvictionRequest {
        uid: pod.into(),
        reason: "Moved",
        note: "its node is crowded".to_owned(),
        grace_period: Some(30),
        dry_run: false,
    }
}

/// The commands of a request, as short texts.
fn evict(harness: &mut Harness, pod: &str) -> Vec<Command> {
    let mut commands = Vec::new();
    let accepted = harness.engine.evict(request(pod), &mut commands);
    assert_eq!(accepted, !commands.is_empty());
    commands
}

fn answered(pod: &str, outcome: &EvictionOutcome) -> Change {
    Change::Evicted { uid: pod.into(), outcome: outcome.clone() }
}

#[test]
fn a_bound_pod_is_evicted_at_the_version_that_was_shown_last() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.show(crate::object::Pod { resource_version: 7, ..running("p", "n1", 600) });
    let commands = evict(&mut harness, "p");
    let [Command::Evict { pod, reason, note, grace_period, dry_run }] = &*commands else {
        panic!("{commands:?}")
    };
    assert_eq!((&*pod.name, pod.resource_version), ("p", 7));
    assert_eq!((*reason, &**note), ("Moved", "its node is crowded"));
    assert_eq!((*grace_period, *dry_run), (Some(30), false));
}

#[test]
fn a_pod_has_one_eviction_at_a_time_and_the_last_outcome_is_known() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.show(running("p", "n1", 600));
    assert_eq!(harness.engine.eviction(&"p".into()), None);
    let refused =
        EvictionOutcome::Refused { message: "budget".into(), retry_after: Some(10 * SECOND) };
    for outcome in [refused, EvictionOutcome::Failed("500".into()), EvictionOutcome::Evicted] {
        assert_eq!(evict(&mut harness, "p").len(), 1);
        assert_eq!(harness.engine.eviction(&"p".into()), Some(&EvictionState::InFlight));
        assert_eq!(evict(&mut harness, "p"), [], "one is in flight");
        assert_eq!(harness.tell(answered("p", &outcome)), [""; 0]);
        assert_eq!(harness.engine.eviction(&"p".into()), Some(&EvictionState::Answered(outcome)));
    }
    harness.tell(gone("p"));
    assert_eq!(harness.engine.eviction(&"p".into()), None);
    harness.tell(answered("p", &EvictionOutcome::Gone));
    assert_eq!(harness.engine.eviction(&"p".into()), None, "the pod is gone");
}

#[test]
fn pods_that_are_not_bound_or_terminate_are_not_evicted() {
    let mut harness = Harness::new(&[("n1", 1000)]);
    harness.show(pending("waiting", 2000));
    harness.place(pending("assumed", 100));
    harness.show(terminating(running("terminating", "n1", 100)));
    for pod in ["unknown", "waiting", "assumed", "terminating"] {
        assert_eq!(evict(&mut harness, pod), [], "{pod}");
        assert_eq!(harness.engine.eviction(&pod.into()), None, "{pod}");
    }
}
