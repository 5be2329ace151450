//! The limit on open extender calls, and the pods that wait for one of them to end.

use crate::engine::testing::*;
use crate::framework::Extender;
use crate::limits::EXTENDER_CALLS_MAX;
use crate::queue::QueueStage;

fn filtering() -> Extender {
    Extender { filters: true, ..Extender::default() }
}

fn pod(number: usize) -> String {
    format!("p{number:03}")
}

/// As many pods as there are calls at a time, and some more. All were tried.
fn crowded(more: usize) -> Harness {
    let mut harness = Harness::with_extenders(vec![filtering()], &[("n1", 4000)]);
    for number in 0..EXTENDER_CALLS_MAX + more {
        harness.show(pending(&pod(number), 1));
    }
    assert_eq!(harness.schedule().len(), EXTENDER_CALLS_MAX);
    harness
}

#[test]
fn calls_are_bounded_and_each_answer_starts_the_next_pod_in_line() {
    let mut harness = crowded(2);
    let waiting = pod(EXTENDER_CALLS_MAX);
    assert_eq!(harness.stage(&waiting), Some(QueueStage::InFlight));
    let commands = harness.answer(&pod(0), Err("no answer"));
    assert_eq!(
        commands,
        [
            "SchedulerError p000, nominate for none".to_owned(),
            format!("ask [0] about {waiting}: n1"),
        ]
    );
    let commands = harness.answer(&pod(1), Ok(passed(&[("n1", 0)])));
    assert_eq!(commands[0], "bind p001 to n1");
    assert_eq!(commands[1], format!("ask [0] about {}: n1", pod(EXTENDER_CALLS_MAX + 1)));
    assert_eq!(harness.answer(&pod(2), Ok(passed(&[("n1", 0)]))), ["bind p002 to n1"]);
}

#[test]
fn pods_in_line_are_tried_when_the_pods_before_them_are_deleted() {
    let mut harness = crowded(2);
    for number in 0..=EXTENDER_CALLS_MAX {
        // The last of these is in line itself.
        assert_eq!(harness.tell(gone(&pod(number))), [""; 0]);
    }
    // Another pod, which may get the index of a deleted one.
    harness.show(pending("other", 1));
    assert_eq!(harness.stage("other"), Some(QueueStage::Active));
    let commands = harness.answer(&pod(0), Ok(passed(&[("n1", 0)])));
    assert_eq!(commands, [format!("ask [0] about {}: n1", pod(EXTENDER_CALLS_MAX + 1))]);
    assert_eq!(harness.answer(&pod(1), Ok(passed(&[("n1", 0)]))), [""; 0]);
}

#[test]
fn a_pod_in_line_that_is_bound_by_another_scheduler_is_not_asked_about() {
    let mut harness = crowded(1);
    let waiting = pod(EXTENDER_CALLS_MAX);
    harness.show(running(&waiting, "n1", 1));
    assert_eq!(harness.answer(&pod(0), Ok(passed(&[("n1", 0)]))), ["bind p000 to n1"]);
}

#[test]
fn a_pod_in_line_that_starts_to_terminate_is_skipped_and_the_next_one_is_asked_about() {
    let mut harness = crowded(2);
    let (first, second) = (pod(EXTENDER_CALLS_MAX), pod(EXTENDER_CALLS_MAX + 1));
    harness.show(terminating(pending(&first, 1)));
    let commands = harness.answer(&pod(0), Ok(passed(&[("n1", 0)])));
    assert_eq!(
        commands,
        [
            "bind p000 to n1".to_owned(),
            format!("warn about {first}"),
            format!("ask [0] about {second}: n1"),
        ]
    );
}

#[test]
fn calls_about_victims_are_bounded_as_well() {
    let preempting = Extender { preempts: true, ..Extender::default() };
    let mut harness = Harness::with_extenders(vec![preempting], &[("n1", 4000)]);
    harness.show(running("x", "n1", 3000));
    for number in 0..EXTENDER_CALLS_MAX + 2 {
        harness.show(important(&pod(number), 3000, 10));
    }
    assert_eq!(harness.schedule().len(), EXTENDER_CALLS_MAX);
    let commands = harness.answer_victims(&pod(0), Ok(Vec::new()));
    let next = format!("ask [0] about victims of {}: n1(x)", pod(EXTENDER_CALLS_MAX));
    assert_eq!(commands, ["Unschedulable p000, nominate for none".to_owned(), next]);
}

#[test]
fn tickets_are_never_used_twice() {
    let mut harness = crowded(1);
    let mut tickets: Vec<u64> = harness.tickets.values().copied().collect();
    harness.answer(&pod(0), Err("no answer"));
    tickets.push(harness.tickets[&pod(EXTENDER_CALLS_MAX)]);
    harness.answer(&pod(1), Err("no answer"));
    harness.now += 2 * SECOND;
    harness.tick();
    harness.schedule();
    tickets.push(harness.tickets[&pod(0)]);
    let count = tickets.len();
    tickets.sort_unstable();
    tickets.dedup();
    assert_eq!(tickets.len(), count);
}
