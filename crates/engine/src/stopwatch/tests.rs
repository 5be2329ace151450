//! Tests of the stopwatch.

use std::cell::Cell;
use std::sync::Arc;

use super::*;
use crate::cycle::diagnosis::Diagnosis;
use crate::framework::{Class, Plugin, Point, PreFilterResult, Preparation, Profile, Rejection};
use crate::index::{NodeIdx, PodIdx};
use crate::state::State;

std::thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

fn clock() -> u64 {
    NOW.get()
}

/// A stopwatch in an attempt that it measures.
fn timing() -> Stopwatch {
    Stopwatch { clock: Some(clock), is_timing: true, ..Stopwatch::default() }
}

#[test]
fn nothing_is_measured_without_a_clock() {
    let mut stopwatch = Stopwatch::default();
    for _ in 0..100 {
        stopwatch.begin_attempt();
        assert_eq!((stopwatch.now(), stopwatch.now_if_sampled()), (None, None));
        stopwatch.filtered(Some(1));
        stopwatch.scored(None);
        stopwatch.decided(0, &Decision::NoNodes);
        stopwatch.end_attempt();
    }
    assert_eq!(stopwatch.take(), Measurements::default());
}

#[test]
fn times_of_one_attempt_add_up_and_a_new_one_begins_with_none() {
    let mut stopwatch = timing();
    NOW.set(100);
    let begun = stopwatch.now();
    NOW.set(130);
    stopwatch.filtered(begun);
    stopwatch.filtered(Some(125));
    assert_eq!(stopwatch.times.filter, Some(35));
    assert_eq!(stopwatch.times.score, None);
    stopwatch.scored(None);
    assert_eq!(stopwatch.times.score, None, "the beginning was not measured");
    // A clock that goes back measures zero.
    stopwatch.scored(Some(1000));
    assert_eq!(stopwatch.times.score, Some(0));
    stopwatch.begin_attempt();
    assert_eq!(stopwatch.times, AttemptTimes::default());
}

#[test]
fn one_of_ten_attempts_is_measured() {
    let mut stopwatch = Stopwatch::default();
    stopwatch.set_clock(Some(clock));
    let mut measured = 0;
    for _ in 0..1000 {
        stopwatch.begin_attempt();
        measured += usize::from(stopwatch.now().is_some());
        stopwatch.end_attempt();
        assert_eq!(stopwatch.now(), None, "no attempt is in progress");
    }
    assert!((60..=140).contains(&measured), "{measured}");
}

#[test]
fn decisions_have_the_status_of_upstream() {
    for (decision, status) in [
        (Decision::Node { node: NodeIdx(0), feasible: 1 }, "Success"),
        (Decision::NoNodes, "Unschedulable"),
        (Decision::Unschedulable(Arc::new(Diagnosis::default())), "Unschedulable"),
        (Decision::Error("broken".to_owned()), "Error"),
    ] {
        let mut stopwatch = timing();
        stopwatch.decided(3, &decision);
        assert_eq!(stopwatch.times.attempt, Some((3, status)));
    }
}

/// A plugin whose every call takes 5 ns.
struct Slow;

impl Plugin for Slow {
    fn name(&self) -> &'static str {
        "Slow"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::PreEnqueue, Point::PreFilter, Point::Filter]
    }

    fn pre_enqueue(&self, _: &State, _: PodIdx) -> Result<(), Rejection> {
        NOW.set(NOW.get() + 5);
        Err(Rejection::unschedulable("gated"))
    }

    fn prepare_filter(&self, _: &Class, _: &mut Preparation) -> PreFilterResult {
        NOW.set(NOW.get() + 5);
        PreFilterResult::Reject(Rejection::unresolvable("no"))
    }
}

fn profile() -> Profile {
    crate::testing::profile(Box::new(Slow))
}

fn call(
    profile: &Profile,
    point: &'static str,
    status: &'static str,
    nanoseconds: Option<u64>,
) -> PluginCall {
    let (profile, plugin) = (profile.name.as_str().into(), "Slow".into());
    PluginCall { profile, plugin, called: Called::Point(point), status, nanoseconds }
}

#[test]
fn calls_of_pre_filter_are_always_recorded_and_measured_in_some_attempts() {
    let (profile, mut state) = (profile(), State::default());
    let class = crate::testing::class(crate::object::PodSpec::default());
    let prepare = |state: &mut State| {
        profile.prepare_filter(0, &class, &mut Preparation::new(state));
        state.stopwatch.take().calls
    };
    assert_eq!(prepare(&mut state), [], "there is no clock");
    state.stopwatch.set_clock(Some(clock));
    let status = "UnschedulableAndUnresolvable";
    assert_eq!(prepare(&mut state), [call(&profile, "PreFilter", status, None)]);
    state.stopwatch = timing();
    assert_eq!(prepare(&mut state), [call(&profile, "PreFilter", status, Some(5))]);
    assert_eq!(prepare(&mut state.clone()), [], "a copy measures nothing");
}

#[test]
fn one_of_ten_calls_outside_of_attempts_is_measured() {
    let (profile, mut state) = (profile(), State::default());
    state.stopwatch.set_clock(Some(clock));
    for _ in 0..21 {
        let rejected = profile.pre_enqueue(0, &state, PodIdx::NONE);
        assert_eq!(rejected, Err(Rejection::unschedulable("gated")));
    }
    let expected = call(&profile, "PreEnqueue", "Unschedulable", Some(5));
    assert_eq!(state.stopwatch.take().calls, [expected.clone(), expected.clone(), expected]);
}
