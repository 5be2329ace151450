//! Tests of the stopwatch.

use std::cell::Cell;
use std::sync::Arc;

use super::*;
use crate::cycle::diagnosis::Diagnosis;
use crate::index::NodeIdx;

std::thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

fn clock() -> u64 {
    NOW.get()
}

#[test]
fn nothing_is_measured_without_a_clock() {
    let mut stopwatch = Stopwatch::default();
    assert_eq!(stopwatch.now(), None);
    stopwatch.filtered(Some(1));
    stopwatch.scored(None);
    stopwatch.decided(0, &Decision::NoNodes);
    assert_eq!(stopwatch.times(), AttemptTimes::default());
}

#[test]
fn times_of_one_attempt_add_up_and_a_new_one_begins_with_none() {
    let mut stopwatch = Stopwatch::default();
    stopwatch.set(Some(clock));
    NOW.set(100);
    let begun = stopwatch.now();
    NOW.set(130);
    stopwatch.filtered(begun);
    stopwatch.filtered(Some(125));
    assert_eq!(stopwatch.times().filter, Some(35));
    assert_eq!(stopwatch.times().score, None);
    stopwatch.scored(None);
    assert_eq!(stopwatch.times().score, None, "the beginning was not measured");
    // A clock that goes back measures zero.
    stopwatch.scored(Some(1000));
    assert_eq!(stopwatch.times().score, Some(0));
    stopwatch.set(Some(clock));
    assert_eq!(stopwatch.times(), AttemptTimes::default());
}

#[test]
fn decisions_have_the_status_of_upstream() {
    for (decision, status) in [
        (Decision::Node { node: NodeIdx(0), feasible: 1 }, "Success"),
        (Decision::NoNodes, "Unschedulable"),
        (Decision::Unschedulable(Arc::new(Diagnosis::default())), "Unschedulable"),
        (Decision::Error("broken".to_owned()), "Error"),
    ] {
        let mut stopwatch = Stopwatch::default();
        stopwatch.set(Some(clock));
        stopwatch.decided(3, &decision);
        assert_eq!(stopwatch.times().attempt, Some((3, status)));
    }
}
