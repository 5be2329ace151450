//! Validation of built-in kinds, with upstream's messages.

mod metadata;
mod pod;

use serde_json::Value;

pub(crate) use metadata::metadata;
pub(crate) use pod::{pod, pod_spec};

use crate::field_error::FieldError;
use crate::json::{at, int, list, map, text};
use crate::names;
use crate::quantity::Quantity;
use crate::selector::{Attributes, Selector};

const IMMUTABLE: &str = "field is immutable";
const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

struct Labels<'a>(Option<&'a Value>);

impl Attributes for Labels<'_> {
    fn value_of(&self, key: &str) -> Option<&str> {
        self.0?.get(key)?.as_str()
    }
}

fn immutable(now: &Value, before: Option<&Value>, path: &[&str], problems: &mut Vec<FieldError>) {
    let Some(before) = before else { return };
    if at(now, path) != at(before, path) {
        let value = at(now, path).cloned().unwrap_or(Value::Null);
        problems.push(FieldError::invalid(path.join("."), value, IMMUTABLE));
    }
}

fn not_negative(object: &Value, path: &[&str], problems: &mut Vec<FieldError>) {
    if let Some(number) = int(object, path).filter(|number| *number < 0) {
        problems.push(FieldError::invalid(path.join("."), number, NOT_NEGATIVE));
    }
}

fn one_of(object: &Value, path: &[&str], supported: &[&str], problems: &mut Vec<FieldError>) {
    if let Some(value) = at(object, path)
        && !value.as_str().is_some_and(|value| supported.contains(&value))
    {
        problems.push(FieldError::not_supported(path.join("."), value.clone(), supported));
    }
}

fn required(object: &Value, path: &[&str], problems: &mut Vec<FieldError>) {
    if matches!(at(object, path), None | Some(Value::Null)) || text_is_empty(object, path) {
        problems.push(FieldError::required(path.join("."), ""));
    }
}

fn text_is_empty(object: &Value, path: &[&str]) -> bool {
    at(object, path).and_then(Value::as_str) == Some("")
}

/// Validates the fields that workloads with selector and template share.
fn workload(object: &Value, before: Option<&Value>, restart: &[&str]) -> Vec<FieldError> {
    let mut problems = Vec::new();
    not_negative(object, &["spec", "replicas"], &mut problems);
    not_negative(object, &["spec", "minReadySeconds"], &mut problems);
    not_negative(object, &["spec", "revisionHistoryLimit"], &mut problems);
    let labels = at(object, &["spec", "template", "metadata", "labels"]);
    match at(object, &["spec", "selector"]) {
        None => problems.push(FieldError::required("spec.selector", "")),
        Some(given) => match Selector::of_object(given) {
            None => problems.push(FieldError::invalid(
                "spec.selector",
                given.clone(),
                "invalid label selector",
            )),
            Some(selector) if selector.is_empty() => problems.push(FieldError::invalid(
                "spec.selector",
                given.clone(),
                "empty selector is invalid for deployment",
            )),
            Some(selector) if !selector.matches(&Labels(labels)) => {
                problems.push(FieldError::invalid(
                    "spec.template.metadata.labels",
                    labels.cloned().unwrap_or(Value::Null),
                    "`selector` does not match template `labels`",
                ));
            }
            Some(_) => {}
        },
    }
    immutable(object, before, &["spec", "selector"], &mut problems);
    if let Some(template) = at(object, &["spec", "template"]) {
        metadata::labels(template, "spec.template.metadata", &mut problems);
        pod_spec(template.get("spec").unwrap_or(&Value::Null), "spec.template.spec", &mut problems);
    }
    one_of(object, &["spec", "template", "spec", "restartPolicy"], restart, &mut problems);
    problems
}

/// Validates a CronJob.
pub(crate) fn cron_job(object: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let schedule = text(object, &["spec", "schedule"]);
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if schedule.is_empty() {
        return vec![FieldError::required("spec.schedule", "")];
    }
    if schedule.starts_with('@') || fields.len() == 5 {
        return Vec::new();
    }
    let why = format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" "));
    vec![FieldError::invalid("spec.schedule", schedule, &why)]
}

/// Validates a Deployment.
pub(crate) fn deployment(object: &Value, before: Option<&Value>) -> Vec<FieldError> {
    let mut problems = workload(object, before, &["Always"]);
    one_of(object, &["spec", "strategy", "type"], &["Recreate", "RollingUpdate"], &mut problems);
    let recreate = text(object, &["spec", "strategy", "type"]) == "Recreate";
    if recreate && at(object, &["spec", "strategy", "rollingUpdate"]).is_some() {
        problems.push(FieldError::forbidden(
            "spec.strategy.rollingUpdate",
            "may not be specified when strategy `type` is 'Recreate'",
        ));
    }
    let rolling = ["maxUnavailable", "maxSurge"]
        .map(|name| at(object, &["spec", "strategy", "rollingUpdate", name]));
    let zero = |value: Option<&Value>| match value {
        Some(Value::Number(number)) => number.as_i64() == Some(0),
        Some(Value::String(text)) => text == "0%",
        _ => false,
    };
    if zero(rolling[0]) && zero(rolling[1]) {
        problems.push(FieldError::invalid(
            "spec.strategy.rollingUpdate.maxUnavailable",
            rolling[0].cloned().unwrap_or(Value::Null),
            "may not be 0 when `maxSurge` is 0",
        ));
    }
    problems
}

/// Validates a ReplicaSet.
pub(crate) fn replica_set(object: &Value, before: Option<&Value>) -> Vec<FieldError> {
    workload(object, before, &["Always"])
}

/// Validates a StatefulSet.
pub(crate) fn stateful_set(object: &Value, before: Option<&Value>) -> Vec<FieldError> {
    let mut problems = workload(object, before, &["Always"]);
    one_of(object, &["spec", "podManagementPolicy"], &["OrderedReady", "Parallel"], &mut problems);
    problems
}

/// Validates a DaemonSet.
pub(crate) fn daemon_set(object: &Value, before: Option<&Value>) -> Vec<FieldError> {
    workload(object, before, &["Always"])
}

/// Validates a Job.
pub(crate) fn job(object: &Value, before: Option<&Value>) -> Vec<FieldError> {
    let mut problems = Vec::new();
    for name in ["parallelism", "completions", "backoffLimit", "activeDeadlineSeconds"] {
        not_negative(object, &["spec", name], &mut problems);
    }
    one_of(object, &["spec", "completionMode"], &["NonIndexed", "Indexed"], &mut problems);
    immutable(object, before, &["spec", "selector"], &mut problems);
    immutable(object, before, &["spec", "template"], &mut problems);
    if let Some(spec) = at(object, &["spec", "template", "spec"]) {
        pod_spec(spec, "spec.template.spec", &mut problems);
        if text(spec, &["restartPolicy"]) == "Always" {
            problems.push(FieldError {
                field: "spec.template.spec.restartPolicy".to_owned(),
                what: crate::field_error::FieldErrorKind::NotSupported(
                    "Always".into(),
                    vec!["OnFailure".to_owned(), "Never".to_owned()],
                ),
            });
        }
    }
    problems
}

/// Validates a Node.
pub(crate) fn node(object: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (index, taint) in list(object, &["spec", "taints"]).iter().enumerate() {
        let path = format!("spec.taints[{index}]");
        let (key, effect) = (text(taint, &["key"]), text(taint, &["effect"]));
        if let Err(why) = names::qualified(key) {
            problems.push(FieldError::invalid(format!("{path}.key"), key, &why));
        }
        if let Err(why) = names::label_value(text(taint, &["value"])) {
            problems.push(FieldError::invalid(
                format!("{path}.value"),
                text(taint, &["value"]),
                &why,
            ));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effects.contains(&effect) {
            problems.push(FieldError::not_supported(format!("{path}.effect"), effect, &effects));
        }
        if seen.contains(&(key, effect)) {
            problems.push(FieldError::duplicate(path, taint.clone()));
        }
        seen.push((key, effect));
    }
    for kind in ["capacity", "allocatable"] {
        for (name, value) in map(object, &["status", kind]) {
            if value.as_str().and_then(Quantity::parse).is_some_and(Quantity::is_negative) {
                problems.push(FieldError::invalid(
                    format!("status.{kind}.{name}"),
                    value.clone(),
                    NOT_NEGATIVE,
                ));
            }
        }
    }
    problems
}

/// Validates a Service.
pub(crate) fn service(object: &Value, before: Option<&Value>) -> Vec<FieldError> {
    let mut problems = Vec::new();
    one_of(
        object,
        &["spec", "type"],
        &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"],
        &mut problems,
    );
    let ports = list(object, &["spec", "ports"]);
    let headless = text(object, &["spec", "clusterIP"]) == "None";
    if ports.is_empty() && !headless && text(object, &["spec", "type"]) != "ExternalName" {
        problems.push(FieldError::required("spec.ports", ""));
    }
    for (index, port) in ports.iter().enumerate() {
        let number = int(port, &["port"]).unwrap_or(0);
        if !(1..=65535).contains(&number) {
            problems.push(FieldError::invalid(
                format!("spec.ports[{index}].port"),
                number,
                "must be between 1 and 65535, inclusive",
            ));
        }
        if ports.len() > 1 && text(port, &["name"]).is_empty() {
            problems.push(FieldError::required(format!("spec.ports[{index}].name"), ""));
        }
    }
    if before.is_some_and(|before| text(before, &["spec", "type"]) != "ExternalName") {
        immutable(object, before, &["spec", "clusterIP"], &mut problems);
    }
    problems
}

/// Validates a PodDisruptionBudget.
pub(crate) fn disruption_budget(object: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let both = ["minAvailable", "maxUnavailable"].map(|name| at(object, &["spec", name]));
    if both.iter().all(Option::is_some) {
        problems.push(FieldError::invalid(
            "spec",
            object.get("spec").cloned().unwrap_or(Value::Null),
            "minAvailable and maxUnavailable cannot be both set",
        ));
    }
    for (name, value) in ["minAvailable", "maxUnavailable"].into_iter().zip(both) {
        match value {
            Some(Value::Number(number)) if number.as_i64().is_some_and(|n| n < 0) => {
                problems.push(FieldError::invalid(
                    format!("spec.{name}"),
                    number.clone(),
                    NOT_NEGATIVE,
                ));
            }
            Some(Value::String(text)) => {
                let percent = text.strip_suffix('%').and_then(|n| n.parse::<u32>().ok());
                if percent.is_none() {
                    problems.push(FieldError::invalid(format!("spec.{name}"), text.as_str(), "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"));
                } else if percent.is_some_and(|percent| percent > 100) {
                    problems.push(FieldError::invalid(
                        format!("spec.{name}"),
                        text.as_str(),
                        "must not be greater than 100%",
                    ));
                }
            }
            _ => {}
        }
    }
    problems
}

/// Validates a PersistentVolume.
pub(crate) fn persistent_volume(object: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut problems = Vec::new();
    required(object, &["spec", "capacity"], &mut problems);
    if list(object, &["spec", "accessModes"]).is_empty() {
        problems.push(FieldError::required("spec.accessModes", ""));
    }
    problems
}

/// Validates a PersistentVolumeClaim.
pub(crate) fn persistent_volume_claim(object: &Value, before: Option<&Value>) -> Vec<FieldError> {
    let mut problems = Vec::new();
    if list(object, &["spec", "accessModes"]).is_empty() {
        problems
            .push(FieldError::required("spec.accessModes", "at least 1 access mode is required"));
    }
    required(object, &["spec", "resources", "requests", "storage"], &mut problems);
    if before.is_some_and(|before| !text(before, &["spec", "volumeName"]).is_empty()) {
        immutable(object, before, &["spec", "volumeName"], &mut problems);
    }
    problems
}

/// Validates a StorageClass.
pub(crate) fn storage_class(object: &Value, before: Option<&Value>) -> Vec<FieldError> {
    let mut problems = Vec::new();
    required(object, &["provisioner"], &mut problems);
    one_of(object, &["volumeBindingMode"], &["Immediate", "WaitForFirstConsumer"], &mut problems);
    one_of(object, &["reclaimPolicy"], &["Delete", "Retain"], &mut problems);
    for name in ["provisioner", "parameters", "reclaimPolicy", "volumeBindingMode"] {
        if before.is_some_and(|before| before.get(name) != object.get(name)) {
            problems.push(FieldError::forbidden(name, "updates to this field are forbidden."));
        }
    }
    problems
}

/// Validates a PriorityClass.
pub(crate) fn priority_class(object: &Value, before: Option<&Value>) -> Vec<FieldError> {
    const HIGHEST: i64 = 1_000_000_000;
    let mut problems = Vec::new();
    let system = crate::json::name(object).starts_with("system-");
    let value = int(object, &["value"]).unwrap_or(0);
    if value > HIGHEST && !system {
        problems.push(FieldError::forbidden(
            "value",
            "maximum allowed value of a user defined priority is 1000000000",
        ));
    }
    one_of(object, &["preemptionPolicy"], &["Never", "PreemptLowerPriority"], &mut problems);
    if before.is_some_and(|before| before.get("value") != object.get("value")) {
        problems.push(FieldError::forbidden("value", "may not be changed in an update."));
    }
    problems
}

/// Validates a CustomResourceDefinition.
pub(crate) fn definition(object: &Value, _: Option<&Value>) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let (group, plural) =
        (text(object, &["spec", "group"]), text(object, &["spec", "names", "plural"]));
    for path in [&["spec", "group"][..], &["spec", "names", "plural"], &["spec", "names", "kind"]] {
        required(object, path, &mut problems);
    }
    let wanted = format!("{plural}.{group}");
    if crate::json::name(object) != wanted {
        problems.push(FieldError::invalid(
            "metadata.name",
            crate::json::name(object),
            "must be spec.names.plural+\".\"+spec.group",
        ));
    }
    one_of(object, &["spec", "scope"], &["Cluster", "Namespaced"], &mut problems);
    required(object, &["spec", "scope"], &mut problems);
    let versions = list(object, &["spec", "versions"]);
    let stored = versions.iter().filter(|one| crate::json::truth(one, &["storage"])).count();
    if stored != 1 {
        problems.push(FieldError::invalid(
            "spec.versions",
            at(object, &["spec", "versions"]).cloned().unwrap_or(Value::Null),
            "must have exactly one version marked as storage version",
        ));
    }
    for (index, version) in versions.iter().enumerate() {
        let path = format!("spec.versions[{index}]");
        if at(version, &["schema", "openAPIV3Schema"]).is_none() {
            problems.push(FieldError::required(
                format!("{path}.schema.openAPIV3Schema"),
                "schemas are required",
            ));
        }
        for (column, printed) in list(version, &["additionalPrinterColumns"]).iter().enumerate() {
            let json_path = text(printed, &["jsonPath"]);
            if let Err(why) = crate::path::Path::parse(json_path) {
                problems.push(FieldError::invalid(
                    format!("{path}.additionalPrinterColumns[{column}].jsonPath"),
                    json_path,
                    &why,
                ));
            }
        }
    }
    problems
}

#[cfg(test)]
mod tests;
