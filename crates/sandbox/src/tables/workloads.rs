//! Table cells of workloads.

use jiff::Timestamp;
use serde_json::Value;

use super::{Clock, age, containers, human, labels, or_none, since};
use crate::json::{at, holds, int, list, name, text, truth};
use crate::selector::Selector;

fn count(object: &Value, path: &[&str]) -> i64 {
    int(object, path).unwrap_or(0)
}

fn template(object: &Value) -> (Value, Value) {
    containers(at(object, &["spec", "template", "spec"]).unwrap_or(&Value::Null))
}

fn selector(object: &Value) -> Value {
    let selector = at(object, &["spec", "selector"]).unwrap_or(&Value::Null);
    match Selector::of_object(selector) {
        Some(selector) if !selector.is_empty() => selector.to_string().into(),
        _ => or_none(""),
    }
}

/// Returns the cells of a Deployment.
pub(crate) fn deployment(object: &Value, clock: Clock) -> Vec<Value> {
    let (names, images) = template(object);
    let (ready, wanted) =
        (count(object, &["status", "readyReplicas"]), count(object, &["spec", "replicas"]));
    vec![
        name(object).into(),
        format!("{ready}/{wanted}").into(),
        count(object, &["status", "updatedReplicas"]).into(),
        count(object, &["status", "availableReplicas"]).into(),
        age(object, clock),
        names,
        images,
        selector(object),
    ]
}

/// Returns the cells of a ReplicaSet or ReplicationController.
pub(crate) fn replicas(object: &Value, clock: Clock) -> Vec<Value> {
    let (names, images) = template(object);
    let shown = if at(object, &["spec", "selector", "matchLabels"]).is_some()
        || at(object, &["spec", "selector", "matchExpressions"]).is_some()
    {
        selector(object)
    } else {
        labels(at(object, &["spec", "selector"]))
    };
    vec![
        name(object).into(),
        count(object, &["spec", "replicas"]).into(),
        count(object, &["status", "replicas"]).into(),
        count(object, &["status", "readyReplicas"]).into(),
        age(object, clock),
        names,
        images,
        shown,
    ]
}

/// Returns the cells of a StatefulSet.
pub(crate) fn stateful_set(object: &Value, clock: Clock) -> Vec<Value> {
    let (names, images) = template(object);
    let (ready, wanted) =
        (count(object, &["status", "readyReplicas"]), count(object, &["spec", "replicas"]));
    vec![name(object).into(), format!("{ready}/{wanted}").into(), age(object, clock), names, images]
}

/// Returns the cells of a DaemonSet.
pub(crate) fn daemon_set(object: &Value, clock: Clock) -> Vec<Value> {
    let (names, images) = template(object);
    let status = |what: &str| Value::from(count(object, &["status", what]));
    vec![
        name(object).into(),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        labels(at(object, &["spec", "template", "spec", "nodeSelector"])),
        age(object, clock),
        names,
        images,
        selector(object),
    ]
}

/// Returns the cells of a Job.
pub(crate) fn job(object: &Value, clock: Clock) -> Vec<Value> {
    let (names, images) = template(object);
    let succeeded = count(object, &["status", "succeeded"]);
    let completions = match int(object, &["spec", "completions"]) {
        Some(wanted) => format!("{succeeded}/{wanted}"),
        None => match count(object, &["spec", "parallelism"]) {
            parallel if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
            _ => format!("{succeeded}/1"),
        },
    };
    let time = |what: &str| text(object, &["status", what]).parse::<Timestamp>().ok();
    let duration = match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), None) => human(clock.0.as_second() - start.as_second()),
        (Some(start), Some(end)) => human(end.as_second() - start.as_second()),
    };
    let status = match () {
        () if holds(object, "Complete") => "Complete",
        () if holds(object, "Failed") => "Failed",
        () if at(object, &["metadata", "deletionTimestamp"]).is_some() => "Terminating",
        () if holds(object, "Suspended") => "Suspended",
        () if holds(object, "FailureTarget") => "FailureTarget",
        () if holds(object, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    };
    vec![
        name(object).into(),
        status.into(),
        completions.into(),
        duration.into(),
        age(object, clock),
        names,
        images,
        selector(object),
    ]
}

/// Returns the cells of a CronJob.
pub(crate) fn cron_job(object: &Value, clock: Clock) -> Vec<Value> {
    let spec = at(object, &["spec", "jobTemplate", "spec", "template", "spec"]);
    let (names, images) = containers(spec.unwrap_or(&Value::Null));
    let last = text(object, &["status", "lastScheduleTime"]);
    vec![
        name(object).into(),
        text(object, &["spec", "schedule"]).into(),
        or_none(text(object, &["spec", "timeZone"])),
        if truth(object, &["spec", "suspend"]) { "True" } else { "False" }.into(),
        list(object, &["status", "active"]).len().into(),
        if last.is_empty() { or_none("") } else { since(last, clock).into() },
        age(object, clock),
        names,
        images,
        or_none(""),
    ]
}

/// Returns the cells of a PodTemplate.
pub(crate) fn pod_template(object: &Value, _: Clock) -> Vec<Value> {
    let (names, images) = containers(at(object, &["template", "spec"]).unwrap_or(&Value::Null));
    vec![
        name(object).into(),
        names,
        images,
        labels(at(object, &["template", "metadata", "labels"])),
    ]
}

/// Returns the cells of a ControllerRevision.
pub(crate) fn revision(object: &Value, clock: Clock) -> Vec<Value> {
    let owners = list(object, &["metadata", "ownerReferences"]);
    let owner = owners.iter().find(|owner| truth(owner, &["controller"])).map(|owner| {
        let group = text(owner, &["apiVersion"]).split_once('/').map_or("", |(group, _)| group);
        let dot = if group.is_empty() { "" } else { "." };
        let kind = text(owner, &["kind"]).to_lowercase();
        format!("{kind}{dot}{group}/{}", text(owner, &["name"]))
    });
    vec![
        name(object).into(),
        or_none(&owner.unwrap_or_default()),
        count(object, &["revision"]).into(),
        age(object, clock),
    ]
}
