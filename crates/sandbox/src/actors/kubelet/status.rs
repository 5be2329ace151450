//! The status that a kubelet writes for each step of a pod's lifecycle.

use serde_json::{Value, json};

use super::life::{CONTAINER_SCHEME, closed_gates, containers_ready, exit_code};
use super::requested::Rejection;
use crate::json::{at, int, list, members, name, slot, text};
use crate::subresources::set_condition;

/// Conditions of a pod that a kubelet writes, in its order.
const CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// Reason of a pod that exceeded its `activeDeadlineSeconds`.
pub(super) const EXPIRED: &str = "DeadlineExceeded";
pub(super) const EXPIRED_MESSAGE: &str =
    "Pod was active on the node longer than the specified deadline";

/// Exit code of a process that was terminated by SIGTERM.
const SIGTERM_EXIT_CODE: i64 = 143;
/// Exit code that a kubelet reports for containers whose state is unknown.
const UNKNOWN_EXIT_CODE: i64 = 137;

/// Returns a pod that was rejected at admission.
pub(super) fn rejected(before: &Value, now: &str, rejection: &Rejection) -> Value {
    let mut pod = before.clone();
    let status = slot(&mut pod, &["status"]);
    status["phase"] = "Failed".into();
    status["reason"] = rejection.reason.as_str().into();
    status["message"] = format!("Pod was rejected: {}", rejection.message).into();
    crate::json::default(status, "startTime", now);
    set_observed_generation(before, status);
    pod
}

/// Returns an admitted pod whose containers are being created.
pub(super) fn creating(before: &Value, now: &str, host: &str) -> Value {
    let mut pod = before.clone();
    let statuses: Vec<Value> = list(before, &["spec", "containers"])
        .iter()
        .map(|container| {
            json!({
                "name": container["name"], "image": container["image"], "imageID": "",
                "ready": false, "started": false, "restartCount": 0, "lastState": {},
                "state": {"waiting": {"reason": "ContainerCreating"}},
            })
        })
        .collect();
    let status = slot(&mut pod, &["status"]);
    set_admitted(before, status, now, host);
    status["containerStatuses"] = statuses.into();
    let unready = unready_message(before);
    for (kind, truth) in [
        ("PodReadyToStartContainers", "False"),
        ("Initialized", "True"),
        ("Ready", "False"),
        ("ContainersReady", "False"),
        ("PodScheduled", "True"),
    ] {
        let mut one = condition(before, kind, truth, now);
        if ["Ready", "ContainersReady"].contains(&kind) {
            one["reason"] = "ContainersNotReady".into();
            one["message"] = unready.as_str().into();
        }
        set_condition(status, one);
    }
    sort_conditions(status);
    pod
}

/// Returns the pod with running containers, started for the first time or again.
pub(super) fn started(before: &Value, now: &str, host: &str, address: &str) -> Value {
    let mut pod = before.clone();
    let statuses = containers(before, now);
    let inits = init_containers(before, now);
    let status = slot(&mut pod, &["status"]);
    set_admitted(before, status, now, host);
    status["phase"] = "Running".into();
    status["podIP"] = address.into();
    status["podIPs"] = json!([{"ip": address}]);
    status["containerStatuses"] = statuses.into();
    if !inits.is_empty() {
        status["initContainerStatuses"] = inits.into();
    }
    for kind in CONDITIONS.into_iter().filter(|kind| *kind != "Ready") {
        set_condition(status, condition(before, kind, "True", now));
    }
    let ready = ready(&pod, now);
    let status = slot(&mut pod, &["status"]);
    set_condition(status, ready);
    sort_conditions(status);
    pod
}

/// Returns the pod with an updated condition `Ready`.
pub(super) fn readiness_updated(before: &Value, now: &str) -> Value {
    let mut pod = before.clone();
    set_condition(slot(&mut pod, &["status"]), ready(before, now));
    pod
}

/// Returns the condition `Ready`: all containers are ready, and the conditions of all gates are `True`.
fn ready(pod: &Value, now: &str) -> Value {
    if containers_ready(pod) != Some(true) {
        let mut one = condition(pod, "Ready", "False", now);
        one["reason"] = "ContainersNotReady".into();
        one["message"] = unready_message(pod).into();
        return one;
    }
    let closed: Vec<String> = closed_gates(pod)
        .map(|gate| match crate::json::condition(pod, gate) {
            Some(found) => format!(
                "the status of pod readiness gate {gate:?} is not \"True\", but {}",
                text(found, &["status"])
            ),
            None => {
                format!("corresponding condition of pod readiness gate {gate:?} does not exist.")
            }
        })
        .collect();
    let mut one = condition(pod, "Ready", if closed.is_empty() { "True" } else { "False" }, now);
    if !closed.is_empty() {
        one["reason"] = "ReadinessGatesNotReady".into();
        one["message"] = closed.join(", ").into();
    }
    one
}

/// Returns the pod after its containers have exited by themselves; they wait for a restart if the
/// restart policy has one.
pub(super) fn exited(before: &Value, now: &str) -> Value {
    let code = exit_code(before);
    let again = match text(before, &["spec", "restartPolicy"]) {
        "Always" => true,
        "OnFailure" => code != 0,
        _ => false,
    };
    if !again {
        return terminate(before, now, code);
    }
    let mut pod = before.clone();
    let status = slot(&mut pod, &["status"]);
    for container in container_statuses(status) {
        let restarts = int(container, &["restartCount"]).unwrap_or(0) + 1;
        let message = format!(
            "back-off restarting failed container={} pod={}",
            text(container, &["name"]),
            name(before)
        );
        container["lastState"] = terminated(container, now, code);
        container["ready"] = false.into();
        container["started"] = false.into();
        container["restartCount"] = restarts.into();
        container["state"] = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
    }
    for kind in ["Ready", "ContainersReady"] {
        let mut one = condition(before, kind, "False", now);
        one["reason"] = "ContainersNotReady".into();
        set_condition(status, one);
    }
    pod
}

/// Returns a deleted pod after its containers have stopped. With restartPolicy Always they count as
/// servers that exit with 0, otherwise as interrupted.
pub(super) fn stopped(before: &Value, now: &str) -> Value {
    let served = text(before, &["spec", "restartPolicy"]) == "Always";
    terminate(before, now, if served { 0 } else { SIGTERM_EXIT_CODE })
}

/// Returns a pod that exceeded its active deadline.
pub(super) fn expired(before: &Value, now: &str) -> Value {
    let mut pod = terminate(before, now, SIGTERM_EXIT_CODE);
    let status = slot(&mut pod, &["status"]);
    status["phase"] = "Failed".into();
    status["reason"] = EXPIRED.into();
    status["message"] = EXPIRED_MESSAGE.into();
    for kind in ["Ready", "ContainersReady"] {
        let mut one = condition(before, kind, "False", now);
        one["reason"] = "PodFailed".into();
        set_condition(status, one);
    }
    pod
}

/// Terminates all containers of the pod; those that run exit with this code.
fn terminate(before: &Value, now: &str, code: i64) -> Value {
    let mut pod = before.clone();
    let status = slot(&mut pod, &["status"]);
    let mut codes = Vec::new();
    for container in container_statuses(status) {
        container["state"] = if at(container, &["state", "terminated"]).is_some() {
            container["state"].clone()
        } else if at(container, &["state", "running"]).is_some() {
            terminated(container, now, code)
        } else if at(container, &["lastState", "terminated"]).is_some() {
            container["lastState"].clone()
        } else {
            json!({"terminated": {
                "exitCode": UNKNOWN_EXIT_CODE, "reason": "ContainerStatusUnknown",
                "message": "The container could not be located when the pod was terminated",
                "startedAt": null, "finishedAt": null,
            }})
        };
        container["ready"] = false.into();
        container["started"] = false.into();
        codes.push(int(container, &["state", "terminated", "exitCode"]));
    }
    let succeeded = !codes.is_empty() && codes.iter().all(|code| *code == Some(0));
    status["phase"] = if succeeded { "Succeeded" } else { "Failed" }.into();
    for kind in ["Ready", "ContainersReady"] {
        let mut one = condition(before, kind, "False", now);
        one["reason"] = if succeeded { "PodCompleted" } else { "PodFailed" }.into();
        set_condition(status, one);
    }
    pod
}

/// Sets the fields that a kubelet sets at admission.
fn set_admitted(before: &Value, status: &mut Value, now: &str, host: &str) {
    status["hostIP"] = host.into();
    status["hostIPs"] = json!([{"ip": host}]);
    crate::json::default(status, "startTime", now);
    set_observed_generation(before, status);
}

fn set_observed_generation(before: &Value, status: &mut Value) {
    if let Some(generation) = before["metadata"].get("generation") {
        status["observedGeneration"] = generation.clone();
    }
}

fn condition(pod: &Value, kind: &str, truth: &str, now: &str) -> Value {
    let mut condition = json!({"type": kind, "status": truth, "lastTransitionTime": now});
    if let Some(generation) = pod["metadata"].get("generation") {
        condition["observedGeneration"] = generation.clone();
    }
    condition
}

/// Sorts conditions: those of other writers first, then the kubelet's in its order.
fn sort_conditions(status: &mut Value) {
    if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
        conditions.sort_by_key(|condition| {
            CONDITIONS.iter().position(|kind| *kind == text(condition, &["type"]))
        });
    }
}

fn unready_message(pod: &Value) -> String {
    let names = list(pod, &["spec", "containers"]).iter();
    let names: Vec<&str> = names.map(|container| text(container, &["name"])).collect();
    format!("containers with unready status: [{}]", names.join(" "))
}

fn container_statuses(status: &mut Value) -> impl Iterator<Item = &mut Value> {
    status.get_mut("containerStatuses").and_then(Value::as_array_mut).into_iter().flatten()
}

fn terminated(container: &Value, now: &str, code: i64) -> Value {
    json!({"terminated": {
        "exitCode": code, "reason": if code == 0 { "Completed" } else { "Error" },
        "startedAt": at(container, &["state", "running", "startedAt"]), "finishedAt": now,
        "containerID": container["containerID"],
    }})
}

fn containers(pod: &Value, now: &str) -> Vec<Value> {
    let old = list(pod, &["status", "containerStatuses"]);
    list(pod, &["spec", "containers"])
        .iter()
        .map(|container| {
            let name = text(container, &["name"]);
            let before = old.iter().find(|status| text(status, &["name"]) == name);
            running(container, before, now)
        })
        .collect()
}

fn init_containers(pod: &Value, now: &str) -> Vec<Value> {
    list(pod, &["spec", "initContainers"])
        .iter()
        .map(|container| {
            let mut status = running(container, None, now);
            if text(container, &["restartPolicy"]) != "Always" {
                status["started"] = false.into();
                status["state"] = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}});
            }
            status
        })
        .collect()
}

fn running(container: &Value, before: Option<&Value>, now: &str) -> Value {
    let image = text(container, &["image"]);
    let restarts = before.and_then(|before| int(before, &["restartCount"])).unwrap_or(0);
    let last =
        before.and_then(|before| before.get("lastState")).cloned().unwrap_or_else(|| json!({}));
    let mut status = json!({
        "name": container["name"], "image": image, "imageID": format!("{CONTAINER_SCHEME}{image}"),
        "containerID": format!("{CONTAINER_SCHEME}{}", uuid::Uuid::new_v4().simple()),
        "ready": true, "started": true, "restartCount": restarts,
        "state": {"running": {"startedAt": now}}, "lastState": last,
    });
    if let Some(resources) = container
        .get("resources")
        .filter(|resources| resources.as_object().is_some_and(|all| !all.is_empty()))
    {
        status["resources"] = resources.clone();
    }
    members(&mut status).retain(|_, value| !value.is_null());
    status
}
