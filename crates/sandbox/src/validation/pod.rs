//! Validation of pods and pod templates.

use serde_json::{Value, json};

use super::{IMMUTABLE, NOT_NEGATIVE, Selector, at, int, list, map, text};
use crate::field_error::FieldError;
use crate::json::quantity;
use crate::names;
use crate::quantity::Quantity;

/// Upstream's message about the fields of a pod spec that may change.
const UPDATES: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Validates a Pod.
pub(crate) fn pod(pod: &Value, before: Option<&Value>) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    pod_spec(spec, "spec", &mut problems);
    match before {
        None if !text(spec, &["nodeName"]).is_empty()
            && !list(spec, &["schedulingGates"]).is_empty() =>
        {
            problems.push(FieldError::forbidden(
                "nodeName",
                "cannot be set until all schedulingGates have been cleared",
            ));
        }
        None => {}
        Some(before) => update(pod, before, &mut problems),
    }
    problems
}

/// Validates the spec of a pod or of a pod template.
pub(crate) fn pod_spec(spec: &Value, path: &str, problems: &mut Vec<FieldError>) {
    if list(spec, &["containers"]).is_empty() {
        problems.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let volumes = volumes(spec, path, problems);
    let mut seen: Vec<&str> = Vec::new();
    for kind in ["initContainers", "containers"] {
        for (index, container) in list(spec, &[kind]).iter().enumerate() {
            let path = format!("{path}.{kind}[{index}]");
            let name = text(container, &["name"]);
            if seen.contains(&name) {
                problems.push(FieldError::duplicate(format!("{path}.name"), name));
            }
            seen.push(name);
            self::container(container, &path, &volumes, problems);
        }
    }
    for (field, supported) in [
        ("restartPolicy", &["Always", "OnFailure", "Never"][..]),
        ("dnsPolicy", &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"]),
        ("preemptionPolicy", &["PreemptLowerPriority", "Never"]),
    ] {
        if let Some(value) = spec.get(field)
            && !value.as_str().is_some_and(|value| supported.contains(&value))
        {
            problems.push(FieldError::not_supported(
                format!("{path}.{field}"),
                value.clone(),
                supported,
            ));
        }
    }
    if let Some(seconds) = int(spec, &["activeDeadlineSeconds"]).filter(|seconds| *seconds < 1) {
        let why = "must be between 1 and 2147483647, inclusive";
        problems.push(FieldError::invalid(format!("{path}.activeDeadlineSeconds"), seconds, why));
    }
    for (key, value) in map(spec, &["nodeSelector"]) {
        if let Err(why) = names::qualified(key) {
            problems.push(FieldError::invalid(format!("{path}.nodeSelector"), key.as_str(), &why));
        }
        let value = value.as_str().unwrap_or_default();
        if let Err(why) = names::label_value(value) {
            problems.push(FieldError::invalid(format!("{path}.nodeSelector"), value, &why));
        }
    }
    tolerations(spec, path, problems);
    affinity(spec, path, problems);
    spreading(spec, path, problems);
    gates(spec, path, problems);
}

fn volumes<'a>(spec: &'a Value, path: &str, problems: &mut Vec<FieldError>) -> Vec<&'a str> {
    let mut seen: Vec<&str> = Vec::new();
    for (index, volume) in list(spec, &["volumes"]).iter().enumerate() {
        let path = format!("{path}.volumes[{index}]");
        let name = text(volume, &["name"]);
        if name.is_empty() {
            problems.push(FieldError::required(format!("{path}.name"), ""));
        } else if let Err(why) = names::label(name) {
            problems.push(FieldError::invalid(format!("{path}.name"), name, &why));
        } else if seen.contains(&name) {
            problems.push(FieldError::duplicate(format!("{path}.name"), name));
        }
        let sources = volume.as_object().map_or(0, serde_json::Map::len).saturating_sub(1);
        if sources == 0 {
            problems.push(FieldError::required(path.clone(), "must specify a volume type"));
        } else if sources > 1 {
            problems.push(FieldError::forbidden(
                path.clone(),
                "may not specify more than 1 volume type",
            ));
        }
        seen.push(name);
    }
    seen
}

fn container(container: &Value, path: &str, volumes: &[&str], problems: &mut Vec<FieldError>) {
    let name = text(container, &["name"]);
    if name.is_empty() {
        problems.push(FieldError::required(format!("{path}.name"), ""));
    } else if let Err(why) = names::label(name) {
        problems.push(FieldError::invalid(format!("{path}.name"), name, &why));
    }
    let image = text(container, &["image"]);
    if image.is_empty() {
        problems.push(FieldError::required(format!("{path}.image"), ""));
    } else if image != image.trim() {
        let why = "must not have leading or trailing whitespace";
        problems.push(FieldError::invalid(format!("{path}.image"), image, why));
    }
    for (index, port) in list(container, &["ports"]).iter().enumerate() {
        for field in ["containerPort", "hostPort"] {
            let number = int(port, &[field]);
            let absent = number.is_none_or(|number| number == 0);
            let path = format!("{path}.ports[{index}].{field}");
            if absent && field == "containerPort" {
                problems.push(FieldError::required(path, ""));
            } else if let Some(number) = number.filter(|n| *n != 0 && !(1..=65535).contains(n)) {
                let why = "must be between 1 and 65535, inclusive";
                problems.push(FieldError::invalid(path, number, why));
            }
        }
    }
    for (index, mount) in list(container, &["volumeMounts"]).iter().enumerate() {
        let path = format!("{path}.volumeMounts[{index}]");
        let name = text(mount, &["name"]);
        if name.is_empty() {
            problems.push(FieldError::required(format!("{path}.name"), ""));
        } else if !volumes.contains(&name) {
            problems.push(FieldError {
                field: format!("{path}.name"),
                what: crate::field_error::FieldErrorKind::Invalid(
                    name.into(),
                    "not found".to_owned(),
                ),
            });
        }
        if text(mount, &["mountPath"]).is_empty() {
            problems.push(FieldError::required(format!("{path}.mountPath"), ""));
        }
    }
    let policies = ["Always", "IfNotPresent", "Never"];
    if let Some(policy) = container.get("imagePullPolicy")
        && !policy.as_str().is_some_and(|policy| policies.contains(&policy))
    {
        let path = format!("{path}.imagePullPolicy");
        problems.push(FieldError::not_supported(path, policy.clone(), &policies));
    }
    resources(container, &format!("{path}.resources"), problems);
}

fn resources(container: &Value, path: &str, problems: &mut Vec<FieldError>) {
    for kind in ["limits", "requests"] {
        for (name, value) in map(container, &["resources", kind]) {
            let field = format!("{path}.{kind}");
            let standard = ["cpu", "memory", "ephemeral-storage", "storage"].contains(&&**name)
                || name.starts_with("hugepages-");
            if names::qualified(name).is_err() || (!standard && !name.contains('/')) {
                let why = "must be a standard resource type or fully qualified";
                problems.push(FieldError::invalid(field.clone(), name.as_str(), why));
            }
            let Some(amount) = value.as_str().and_then(Quantity::parse) else { continue };
            if amount.is_negative() {
                problems.push(FieldError::invalid(
                    format!("{field}.{name}"),
                    value.clone(),
                    NOT_NEGATIVE,
                ));
            }
            if !standard && !amount.is_whole() {
                problems.push(FieldError::invalid(
                    format!("{field}.{name}"),
                    value.clone(),
                    "must be an integer",
                ));
            }
            if kind != "requests" {
                continue;
            }
            let limit_path = ["resources", "limits", name.as_str()];
            let limit = at(container, &limit_path);
            match quantity(container, &limit_path) {
                Some(limit) if amount > limit => {
                    let why = format!("must be less than or equal to {name} limit of {limit}");
                    problems.push(FieldError::invalid(field, value.clone(), &why));
                }
                Some(limit) if !standard && amount != limit => {
                    let why = format!("must be equal to {name} limit of {limit}");
                    problems.push(FieldError::invalid(field, value.clone(), &why));
                }
                None if !standard && limit.is_none() => {
                    problems.push(FieldError::required(
                        format!("{path}.limits.{name}"),
                        "Limit must be set for non overcommitable resources",
                    ));
                }
                _ => {}
            }
        }
    }
}

fn tolerations(spec: &Value, path: &str, problems: &mut Vec<FieldError>) {
    for (index, toleration) in list(spec, &["tolerations"]).iter().enumerate() {
        let path = format!("{path}.tolerations[{index}]");
        let (key, operator) = (text(toleration, &["key"]), text(toleration, &["operator"]));
        if !key.is_empty()
            && let Err(why) = names::qualified(key)
        {
            problems.push(FieldError::invalid(format!("{path}.key"), key, &why));
        }
        if key.is_empty() && operator != "Exists" {
            let why = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            problems.push(FieldError::invalid(format!("{path}.operator"), operator, why));
        }
        match operator {
            "" | "Equal" | "Lt" | "Gt" => {}
            "Exists" => {
                if !text(toleration, &["value"]).is_empty() {
                    let why = "value must be empty when `operator` is 'Exists'";
                    problems.push(FieldError::invalid(
                        format!("{path}.operator"),
                        toleration.clone(),
                        why,
                    ));
                }
            }
            other => problems.push(FieldError::not_supported(
                format!("{path}.operator"),
                other,
                &["Equal", "Exists"],
            )),
        }
        let effect = text(toleration, &["effect"]);
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effect.is_empty() && !effects.contains(&effect) {
            problems.push(FieldError::not_supported(format!("{path}.effect"), effect, &effects));
        }
        if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
            let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            problems.push(FieldError::invalid(format!("{path}.effect"), effect, why));
        }
    }
}

fn affinity(spec: &Value, path: &str, problems: &mut Vec<FieldError>) {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    let path = format!("{path}.affinity");
    let node = at(spec, &["affinity", "nodeAffinity", required]);
    if node.is_some_and(|node| list(node, &["nodeSelectorTerms"]).is_empty()) {
        let field = format!("{path}.nodeAffinity.{required}.nodeSelectorTerms");
        problems.push(FieldError::required(field, "must have at least one node selector term"));
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (index, term) in list(spec, &["affinity", kind, required]).iter().enumerate() {
            pod_term(term, &format!("{path}.{kind}.{required}[{index}]"), problems);
        }
        for (index, weighted) in list(spec, &["affinity", kind, preferred]).iter().enumerate() {
            let path = format!("{path}.{kind}.{preferred}[{index}]");
            let weight = int(weighted, &["weight"]).unwrap_or(0);
            if !(1..=100).contains(&weight) {
                let why = "must be in the range 1-100";
                problems.push(FieldError::invalid(format!("{path}.weight"), weight, why));
            }
            let term = weighted.get("podAffinityTerm").unwrap_or(&Value::Null);
            pod_term(term, &format!("{path}.podAffinityTerm"), problems);
        }
    }
    for (index, weighted) in list(spec, &["affinity", "nodeAffinity", preferred]).iter().enumerate()
    {
        let weight = int(weighted, &["weight"]).unwrap_or(0);
        if !(1..=100).contains(&weight) {
            let field = format!("{path}.nodeAffinity.{preferred}[{index}].weight");
            problems.push(FieldError::invalid(field, weight, "must be in the range 1-100"));
        }
    }
}

fn pod_term(term: &Value, path: &str, problems: &mut Vec<FieldError>) {
    if text(term, &["topologyKey"]).is_empty() {
        problems.push(FieldError::required(format!("{path}.topologyKey"), "can not be empty"));
    }
    if let Some(selector) = term.get("labelSelector")
        && Selector::of_object(selector).is_none()
    {
        let field = format!("{path}.labelSelector");
        problems.push(FieldError::invalid(field, selector.clone(), "not a valid selector"));
    }
}

fn spreading(spec: &Value, path: &str, problems: &mut Vec<FieldError>) {
    for (index, constraint) in list(spec, &["topologySpreadConstraints"]).iter().enumerate() {
        let path = format!("{path}.topologySpreadConstraints[{index}]");
        if int(constraint, &["maxSkew"]).unwrap_or(0) <= 0 {
            let skew = int(constraint, &["maxSkew"]).unwrap_or(0);
            problems.push(FieldError::invalid(
                format!("{path}.maxSkew"),
                skew,
                "must be greater than zero",
            ));
        }
        if text(constraint, &["topologyKey"]).is_empty() {
            problems.push(FieldError::required(format!("{path}.topologyKey"), "can not be empty"));
        }
        let action = text(constraint, &["whenUnsatisfiable"]);
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if !actions.contains(&action) {
            let field = format!("{path}.whenUnsatisfiable");
            problems.push(FieldError::not_supported(field, action, &actions));
        }
    }
}

fn gates(spec: &Value, path: &str, problems: &mut Vec<FieldError>) {
    let mut seen: Vec<&str> = Vec::new();
    for (index, gate) in list(spec, &["schedulingGates"]).iter().enumerate() {
        let name = text(gate, &["name"]);
        let field = format!("{path}.schedulingGates[{index}]");
        if let Err(why) = names::qualified(name) {
            problems.push(FieldError::invalid(field.clone(), name, &why));
        }
        if seen.contains(&name) {
            problems.push(FieldError::duplicate(field, name));
        }
        seen.push(name);
    }
}

/// Validates the changes of an update.
fn update(pod: &Value, before: &Value, problems: &mut Vec<FieldError>) {
    let (mut now, mut then) = (
        pod.get("spec").cloned().unwrap_or_default(),
        before.get("spec").cloned().unwrap_or_default(),
    );
    let gates = |spec: &Value| -> Vec<String> {
        list(spec, &["schedulingGates"])
            .iter()
            .map(|gate| text(gate, &["name"]).to_owned())
            .collect()
    };
    let (gates_now, gates_then) = (gates(&now), gates(&then));
    if let Some(new) = gates_now.iter().find(|gate| !gates_then.contains(gate)) {
        problems.push(FieldError::forbidden(
            "spec.schedulingGates",
            &format!("only deletion is allowed, but found new scheduling gate '{new}'"),
        ));
    }
    let had = list(&then, &["tolerations"]).to_vec();
    let has = list(&now, &["tolerations"]);
    if let Some(lost) = had.iter().find(|toleration| !has.contains(toleration)) {
        problems.push(FieldError::forbidden(
            "spec.tolerations",
            &format!(
                "existing toleration can not be modified except its tolerationSeconds: {lost}"
            ),
        ));
    }
    // Node selector and affinity of a gated pod may be changed.
    let mut free = vec!["schedulingGates", "tolerations", "activeDeadlineSeconds"];
    if !gates_then.is_empty() {
        free.extend(["nodeSelector", "affinity"]);
    }
    for spec in [&mut now, &mut then] {
        for name in &free {
            crate::json::members(spec).remove(*name);
        }
        for kind in ["containers", "initContainers", "ephemeralContainers"] {
            if let Some(containers) = spec.get_mut(kind).and_then(Value::as_array_mut) {
                for container in containers {
                    container["image"] = json!("");
                    // Resources may be resized; this server derives nothing from their old values.
                    crate::json::members(container).remove("resources");
                }
            }
        }
    }
    let mut fixed = true;
    for kind in ["containers", "initContainers"] {
        if list(&now, &[kind]).len() != list(&then, &[kind]).len() {
            let why = "pod updates may not add or remove containers";
            problems.push(FieldError::forbidden(format!("spec.{kind}"), why));
            fixed = false;
        }
    }
    if fixed && now != then {
        problems.push(FieldError::forbidden("spec", UPDATES));
    }
    if crate::json::uid(pod) != crate::json::uid(before) {
        problems.push(FieldError::invalid("metadata.uid", crate::json::uid(pod), IMMUTABLE));
    }
}
