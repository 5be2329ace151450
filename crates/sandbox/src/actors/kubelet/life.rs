//! The lifecycle of a pod on its node: the stage that its object shows, and the steps that follow.
//!
//! This module reads no clock and writes no object: [`Stage::of`] and [`due_steps`] are functions of a pod and
//! a given time. The kubelet takes each step when it is due.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use crate::json::{at, holds, int, list, text, truth};

/// Annotation: time after which the containers of a pod exit by themselves, such as `5s`.
pub(crate) const RUNS_FOR: &str = "sandbox.novasphere.dev/runs-for";
/// Annotation: exit code of containers that exit by themselves.
pub(crate) const EXIT_CODE: &str = "sandbox.novasphere.dev/exit-code";
/// Annotation: time from the admission of a pod to the start of its containers.
pub(crate) const STARTS_AFTER: &str = "sandbox.novasphere.dev/starts-after";
/// Annotation: time that the containers of a deleted pod take to stop, at most the grace period.
pub(crate) const STOPS_AFTER: &str = "sandbox.novasphere.dev/stops-after";

/// Run time of pods of Jobs without the annotation.
const JOB_RUNS_FOR: Duration = Duration::from_secs(1);
/// Time that containers take to stop without the annotation.
const STOP_TIME: Duration = Duration::from_secs(1);
/// Delay before the first restart of an exited container; it doubles with every restart.
const BACKOFF_MIN: Duration = Duration::from_secs(10);
const BACKOFF_MAX: Duration = Duration::from_mins(5);

/// Prefix of the ids of containers that a simulated kubelet has started.
pub(super) const CONTAINER_SCHEME: &str = "sandbox://";

/// Stage of a pod on a node, derived from its object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Bound, not yet admitted by its kubelet.
    Bound,
    /// Admitted; its containers do not run yet.
    Creating,
    /// Its containers run.
    Running,
    /// Its containers have exited and wait for their restart.
    BackOff,
    /// Succeeded or failed.
    Ended,
    /// Deleted; its containers have not stopped yet.
    Stopping,
    /// Deleted; no container runs.
    Stopped,
}

/// A step that a kubelet takes for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Checks that the pod fits on the node.
    Admit,
    /// Starts the containers, for the first time or again.
    Start,
    /// Updates the condition `Ready`.
    UpdateReadiness,
    /// The containers exit by themselves.
    Exit,
    /// The `activeDeadlineSeconds` of the pod have passed.
    Expire,
    /// Stops the containers of a deleted pod.
    Stop,
    /// Removes the object of a deleted pod.
    Remove,
}

/// Current time, and the factor by which the time of pods runs faster than real time.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScaledClock {
    pub(super) now: Timestamp,
    pub(super) speed: f64,
}

impl Stage {
    /// Returns the stage of a pod, or `None` if it is not bound.
    pub(super) fn of(pod: &Value) -> Option<Self> {
        if text(pod, &["spec", "nodeName"]).is_empty() {
            return None;
        }
        let ended = crate::pods::is_finished(pod);
        if at(pod, &["metadata", "deletionTimestamp"]).is_some() {
            return Some(if ended { Self::Stopped } else { Self::Stopping });
        }
        Some(match text(pod, &["status", "phase"]) {
            _ if ended => Self::Ended,
            "Running" if waiting(pod) => Self::BackOff,
            "Running" => Self::Running,
            _ if at(pod, &["status", "startTime"]).is_some() => Self::Creating,
            _ => Self::Bound,
        })
    }

    /// Returns `true` if a step may be taken in this stage.
    pub(super) fn allows(self, step: Step) -> bool {
        match step {
            Step::Admit => self == Self::Bound,
            Step::Start => matches!(self, Self::Creating | Self::BackOff),
            Step::UpdateReadiness | Step::Exit => self == Self::Running,
            Step::Expire => matches!(self, Self::Creating | Self::Running | Self::BackOff),
            Step::Stop => self == Self::Stopping,
            Step::Remove => self == Self::Stopped,
        }
    }
}

/// Returns the steps that follow from the stage of a pod, and the delay of each.
pub(super) fn due_steps(pod: &Value, clock: ScaledClock) -> Vec<(Step, Duration)> {
    let mut steps = Vec::new();
    let mut add = |step, wait: Option<Duration>| steps.extend(wait.map(|wait| (step, wait)));
    let at_once = Some(Duration::ZERO);
    let Some(stage) = Stage::of(pod) else { return steps };
    match stage {
        Stage::Bound => add(Step::Admit, at_once),
        Stage::Creating => add(Step::Start, Some(starts_after(pod).unwrap_or_default())),
        Stage::Running => {
            add(Step::UpdateReadiness, at_once.filter(|_| readiness_is_outdated(pod)));
            add(Step::Exit, runs_for(pod));
        }
        Stage::BackOff => add(Step::Start, Some(backoff(pod))),
        Stage::Stopping => add(Step::Stop, Some(stops_after(pod))),
        // With a grace period of 0 only finalizers hold the object, and removing the last one deletes it.
        Stage::Stopped => add(Step::Remove, at_once.filter(|_| grace(pod) != 0)),
        Stage::Ended => {}
    }
    if stage.allows(Step::Expire) {
        add(Step::Expire, deadline(pod, clock));
    }
    steps
}

/// Returns the start delay of a pod if its annotation sets one.
pub(super) fn starts_after(pod: &Value) -> Option<Duration> {
    time_in(pod, STARTS_AFTER)
}

/// Returns the exit code of containers that exit by themselves.
pub(super) fn exit_code(pod: &Value) -> i64 {
    text(pod, &["metadata", "annotations", EXIT_CODE]).parse().unwrap_or(0)
}

fn runs_for(pod: &Value) -> Option<Duration> {
    // Containers that a snapshot shows as running keep running.
    let ours = list(pod, &["status", "containerStatuses"])
        .iter()
        .any(|status| text(status, &["containerID"]).starts_with(CONTAINER_SCHEME));
    let of_job = list(pod, &["metadata", "ownerReferences"])
        .iter()
        .any(|owner| text(owner, &["kind"]) == "Job");
    time_in(pod, RUNS_FOR).or((ours && of_job).then_some(JOB_RUNS_FOR))
}

fn stops_after(pod: &Value) -> Duration {
    if text(pod, &["status", "phase"]) != "Running" || waiting(pod) {
        return Duration::ZERO;
    }
    let grace = Duration::from_secs(u64::try_from(grace(pod)).unwrap_or(0));
    time_in(pod, STOPS_AFTER).unwrap_or(STOP_TIME).min(grace)
}

fn grace(pod: &Value) -> i64 {
    int(pod, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0)
}

fn backoff(pod: &Value) -> Duration {
    let statuses = list(pod, &["status", "containerStatuses"]).iter();
    let restarts = statuses.filter_map(|status| int(status, &["restartCount"])).max().unwrap_or(0);
    let doublings = u32::try_from(restarts - 1).unwrap_or(0).min(8);
    BACKOFF_MIN.saturating_mul(1 << doublings).min(BACKOFF_MAX)
}

fn deadline(pod: &Value, clock: ScaledClock) -> Option<Duration> {
    let allowed = int(pod, &["spec", "activeDeadlineSeconds"])?;
    let start: Timestamp = text(pod, &["status", "startTime"]).parse().ok()?;
    let passed = (clock.now.as_second() - start.as_second()).max(0) as f64 * clock.speed;
    Some(Duration::try_from_secs_f64(allowed as f64 - passed).unwrap_or_default())
}

/// Returns `true` if all containers of a pod are ready, or `None` without container statuses.
pub(super) fn containers_ready(pod: &Value) -> Option<bool> {
    let statuses = list(pod, &["status", "containerStatuses"]);
    let ready = statuses.iter().all(|status| truth(status, &["ready"]));
    (!statuses.is_empty()).then_some(ready)
}

/// Returns the readiness gates of a pod whose conditions are not `True`.
pub(super) fn closed_gates(pod: &Value) -> impl Iterator<Item = &str> {
    let gates = list(pod, &["spec", "readinessGates"]).iter();
    gates.map(|gate| text(gate, &["conditionType"])).filter(|kind| !holds(pod, kind))
}

/// Returns `true` if the condition `Ready` differs from what containers and readiness gates imply.
fn readiness_is_outdated(pod: &Value) -> bool {
    containers_ready(pod)
        .is_some_and(|ready| holds(pod, "Ready") != (ready && closed_gates(pod).next().is_none()))
}

/// Returns `true` if a pod is admitted and not finished, so that it occupies its requests.
pub(super) fn occupies_resources(pod: &Value) -> bool {
    match Stage::of(pod) {
        Some(Stage::Creating | Stage::Running | Stage::BackOff) => true,
        Some(Stage::Stopping) => {
            at(pod, &["status", "startTime"]).is_some()
                || text(pod, &["status", "phase"]) == "Running"
        }
        _ => false,
    }
}

/// Returns `true` if containers of a pod wait for their start and none runs.
fn waiting(pod: &Value) -> bool {
    let any = |state: &str| {
        let mut statuses = list(pod, &["status", "containerStatuses"]).iter();
        statuses.any(|status| at(status, &["state", state]).is_some())
    };
    any("waiting") && !any("running")
}

/// Returns the duration in an annotation.
fn time_in(pod: &Value, annotation: &str) -> Option<Duration> {
    duration(text(pod, &["metadata", "annotations", annotation]))
}

/// Parses a duration such as `500ms`, `5s` or `2m`.
pub(crate) fn duration(given: &str) -> Option<Duration> {
    let end = given.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = given.split_at(end);
    let number: f64 =
        number.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CLOCK: ScaledClock = ScaledClock { now: Timestamp::UNIX_EPOCH, speed: 1.0 };

    fn pod(phase: &str, state: Option<&str>) -> Value {
        let mut pod = json!({"metadata": {"annotations": {}}, "spec": {"nodeName": "n"}, "status": {"phase": phase}});
        if let Some(state) = state {
            pod["status"]["startTime"] = "1970-01-01T00:00:00Z".into();
            pod["status"]["containerStatuses"] =
                json!([{"restartCount": 2, "containerID": "other://1", "state": {state: {}}}]);
        }
        pod
    }

    fn deleted(mut pod: Value, grace: i64) -> Value {
        pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:00:00Z".into();
        pod["metadata"]["deletionGracePeriodSeconds"] = grace.into();
        pod
    }

    #[test]
    fn every_stage_has_steps_that_it_allows() {
        let mut free = pod("Pending", None);
        free["spec"]["nodeName"] = "".into();
        let seconds = Duration::from_secs;
        for (pod, stage, steps) in [
            (free, None, vec![]),
            (pod("Pending", None), Some(Stage::Bound), vec![(Step::Admit, seconds(0))]),
            (
                pod("Pending", Some("waiting")),
                Some(Stage::Creating),
                vec![(Step::Start, seconds(0))],
            ),
            (pod("Running", Some("running")), Some(Stage::Running), vec![]),
            (
                pod("Running", Some("waiting")),
                Some(Stage::BackOff),
                vec![(Step::Start, seconds(20))],
            ),
            (pod("Succeeded", Some("terminated")), Some(Stage::Ended), vec![]),
            (
                deleted(pod("Running", Some("running")), 30),
                Some(Stage::Stopping),
                vec![(Step::Stop, seconds(1))],
            ),
            (
                deleted(pod("Pending", None), 30),
                Some(Stage::Stopping),
                vec![(Step::Stop, seconds(0))],
            ),
            (
                deleted(pod("Failed", Some("terminated")), 30),
                Some(Stage::Stopped),
                vec![(Step::Remove, seconds(0))],
            ),
            (deleted(pod("Failed", Some("terminated")), 0), Some(Stage::Stopped), vec![]),
        ] {
            assert_eq!(Stage::of(&pod), stage, "{pod}");
            assert_eq!(due_steps(&pod, CLOCK), steps, "{pod}");
            for (step, _) in due_steps(&pod, CLOCK) {
                assert!(stage.is_some_and(|stage| stage.allows(step)), "{step:?}: {pod}");
            }
        }
    }

    #[test]
    fn containers_never_take_longer_to_stop_than_the_grace_period() {
        let stop = |given: &str, grace: i64| {
            let mut pod = deleted(pod("Running", Some("running")), grace);
            pod["metadata"]["annotations"][STOPS_AFTER] = given.into();
            due_steps(&pod, CLOCK)[0].1.as_secs()
        };
        assert_eq!(
            [stop("20s", 30), stop("20s", 5), stop("nonsense", 30), stop("0s", 30), stop("20s", 0)],
            [20, 5, 1, 0, 0]
        );
    }

    #[test]
    fn a_deadline_counts_from_the_start_time_and_with_the_speed() {
        let mut pod = pod("Running", Some("running"));
        pod["spec"]["activeDeadlineSeconds"] = 100.into();
        let clock =
            |second, speed| ScaledClock { now: Timestamp::from_second(second).unwrap(), speed };
        let left = |clock| due_steps(&pod, clock)[0].1.as_secs();
        assert_eq!(
            [
                left(clock(0, 1.0)),
                left(clock(30, 1.0)),
                left(clock(4, 20.0)),
                left(clock(500, 1.0))
            ],
            [100, 70, 20, 0]
        );
        // A clock that was set back does not extend the deadline.
        assert_eq!(left(clock(-50, 1.0)), 100);
    }

    #[test]
    fn pods_of_jobs_end_by_themselves_only_if_the_sandbox_started_them() {
        let mut pod = pod("Running", Some("running"));
        pod["metadata"]["ownerReferences"] = json!([{"kind": "Job"}]);
        assert_eq!(due_steps(&pod, CLOCK), []);
        pod["status"]["containerStatuses"][0]["containerID"] = "sandbox://1".into();
        assert_eq!(due_steps(&pod, CLOCK), [(Step::Exit, JOB_RUNS_FOR)]);
        pod["metadata"]["annotations"][RUNS_FOR] = "7s".into();
        assert_eq!(due_steps(&pod, CLOCK), [(Step::Exit, Duration::from_secs(7))]);
    }
}
