//! Table cells of pods.

use std::fmt::Write as _;

use jiff::Timestamp;
use serde_json::Value;

use super::{Clock, age, or_none, since};
use crate::json::{at, condition, holds, int, list, name, text, truth};

/// Summary of the containers of a pod.
#[derive(Default)]
struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    restarted: Option<String>,
}

/// Returns the cells of a Pod.
pub(crate) fn cells(pod: &Value, clock: Clock) -> Vec<Value> {
    let summary = summarise(pod);
    let mut restarts = summary.restarts.to_string();
    if let Some(time) = summary.restarted.filter(|_| summary.restarts > 0) {
        let _ = write!(restarts, " ({} ago)", since(&time, clock));
    }
    let gates = list(pod, &["spec", "readinessGates"]);
    let open = gates.iter().filter(|gate| holds(pod, text(gate, &["conditionType"]))).count();
    let gates = if gates.is_empty() { String::new() } else { format!("{open}/{}", gates.len()) };
    vec![
        name(pod).into(),
        format!("{}/{}", summary.ready, summary.total).into(),
        summary.reason.into(),
        restarts.into(),
        age(pod, clock),
        or_none(text(pod, &["status", "podIP"])),
        or_none(text(pod, &["spec", "nodeName"])),
        or_none(text(pod, &["status", "nominatedNodeName"])),
        or_none(&gates),
    ]
}

fn summarise(pod: &Value) -> Summary {
    let phase = text(pod, &["status", "phase"]);
    let mut summary = Summary { reason: phase.to_owned(), ..Summary::default() };
    let reason = text(pod, &["status", "reason"]);
    if !reason.is_empty() {
        reason.clone_into(&mut summary.reason);
    }
    if condition(pod, "PodScheduled").is_some_and(|c| text(c, &["reason"]) == "SchedulingGated") {
        "SchedulingGated".clone_into(&mut summary.reason);
    }
    summary.total = list(pod, &["spec", "containers"]).len()
        + list(pod, &["spec", "initContainers"]).iter().filter(|one| restartable(one)).count();
    let initialising = initialise(pod, &mut summary);
    if !initialising || holds(pod, "Initialized") {
        main_containers(pod, &mut summary);
    }
    if at(pod, &["metadata", "deletionTimestamp"]).is_some() {
        if reason == "NodeLost" {
            "Unknown".clone_into(&mut summary.reason);
        } else if !crate::pods::is_terminal(phase) {
            "Terminating".clone_into(&mut summary.reason);
        }
    }
    summary
}

fn restartable(container: &Value) -> bool {
    text(container, &["restartPolicy"]) == "Always"
}

/// Adds the init containers to a summary. Returns `true` if one of them has not finished.
fn initialise(pod: &Value, summary: &mut Summary) -> bool {
    let specs = list(pod, &["spec", "initContainers"]);
    for (index, status) in list(pod, &["status", "initContainerStatuses"]).iter().enumerate() {
        count_restarts(status, summary);
        let sidecar = specs
            .iter()
            .any(|spec| text(spec, &["name"]) == text(status, &["name"]) && restartable(spec));
        if let Some(ended) = at(status, &["state", "terminated"]) {
            if int(ended, &["exitCode"]) == Some(0) {
                continue;
            }
            summary.reason = format!("Init:{}", ending(ended));
            return true;
        }
        if sidecar && truth(status, &["started"]) {
            if truth(status, &["ready"]) {
                summary.ready += 1;
            }
            continue;
        }
        let waiting = text(status, &["state", "waiting", "reason"]);
        summary.reason = if !waiting.is_empty() && waiting != "PodInitializing" {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", specs.len())
        };
        return true;
    }
    false
}

fn main_containers(pod: &Value, summary: &mut Summary) {
    let mut running = false;
    for status in list(pod, &["status", "containerStatuses"]).iter().rev() {
        count_restarts(status, summary);
        let waiting = text(status, &["state", "waiting", "reason"]);
        if !waiting.is_empty() {
            waiting.clone_into(&mut summary.reason);
        } else if let Some(ended) = at(status, &["state", "terminated"]) {
            summary.reason = ending(ended);
        } else if truth(status, &["ready"]) && at(status, &["state", "running"]).is_some() {
            running = true;
            summary.ready += 1;
        }
    }
    if summary.reason == "Completed" && running {
        let shown = if holds(pod, "Ready") { "Running" } else { "NotReady" };
        shown.clone_into(&mut summary.reason);
    }
}

fn ending(ended: &Value) -> String {
    let reason = text(ended, &["reason"]);
    match int(ended, &["signal"]) {
        _ if !reason.is_empty() => reason.to_owned(),
        Some(signal) if signal != 0 => format!("Signal:{signal}"),
        _ => format!("ExitCode:{}", int(ended, &["exitCode"]).unwrap_or(0)),
    }
}

fn count_restarts(status: &Value, summary: &mut Summary) {
    summary.restarts += int(status, &["restartCount"]).unwrap_or(0);
    let ended = text(status, &["lastState", "terminated", "finishedAt"]);
    let parse = |time: &str| time.parse::<Timestamp>().ok();
    let last = summary.restarted.as_deref().and_then(parse);
    if parse(ended).is_some_and(|ended| last.is_none_or(|last| ended > last)) {
        summary.restarted = Some(ended.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_status_of_a_pod_is_that_of_its_containers() {
        let spec = json!({"containers": [{"name": "a"}, {"name": "b"}]});
        for (pod, ready, reason) in [
            (json!({"spec": spec, "status": {"phase": "Pending"}}), "0/2", "Pending"),
            (
                json!({"spec": spec, "status": {"phase": "Running", "containerStatuses": [
                    {"ready": true, "state": {"running": {}}},
                    {"ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}),
                "1/2",
                "CrashLoopBackOff",
            ),
            (
                json!({"spec": spec, "status": {"phase": "Failed", "containerStatuses": [
                    {"state": {"terminated": {"exitCode": 3}}}]}}),
                "0/2",
                "ExitCode:3",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "x"}, "spec": spec, "status": {"phase": "Running"}}),
                "0/2",
                "Terminating",
            ),
            (
                json!({"spec": {"containers": [{"name": "a"}], "initContainers": [{"name": "i"}]}, "status": {
                    "phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}}),
                "0/1",
                "Init:0/1",
            ),
        ] {
            let cells = cells(&pod, Clock(Timestamp::UNIX_EPOCH));
            assert_eq!((cells[1].as_str(), cells[2].as_str()), (Some(ready), Some(reason)));
        }
    }
}
