//! Admission of priority: resolves priority classes and allows one default class.

use serde_json::Value;

use crate::cluster::Cluster;
use crate::json::{at, int, name, slot, text, truth};
use crate::status_error::{ApiResult, GroupResource, StatusError};

const PODS: GroupResource<'static> = GroupResource { group: "", resource: "pods" };

/// Sets the priority of a pod from its class.
pub(super) fn pod(cluster: &Cluster, pod: &mut Value) -> ApiResult<()> {
    let classes = cluster.resource("scheduling.k8s.io", "priorityclasses").objects.clone();
    let named = text(pod, &["spec", "priorityClassName"]).to_owned();
    let class = if named.is_empty() {
        let all = classes.list("").objects;
        let defaults = all.iter().filter(|class| class.field_named("globalDefault") == "true");
        let defaults = defaults.map(|class| class.value());
        defaults.min_by_key(|class| int(class, &["value"]).unwrap_or(0))
    } else {
        let found = classes.get(&named).map(|class| class.value());
        if found.is_none() {
            let why = format!("no PriorityClass with name {named} was found");
            return Err(StatusError::forbidden(PODS, name(pod), &why));
        }
        found
    };
    let (value, policy) = class.as_ref().map_or((0, "PreemptLowerPriority"), |class| {
        let policy = text(class, &["preemptionPolicy"]);
        (
            int(class, &["value"]).unwrap_or(0),
            if policy.is_empty() { "PreemptLowerPriority" } else { policy },
        )
    });
    let given = at(pod, &["spec", "priority"]).and_then(Value::as_i64);
    if given.is_some_and(|given| given != value) {
        let why = format!(
            "the integer value of priority ({}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name",
            given.unwrap_or(0)
        );
        return Err(StatusError::forbidden(PODS, name(pod), &why));
    }
    let spec = slot(pod, &["spec"]);
    spec["priority"] = value.into();
    crate::json::default_text(spec, "preemptionPolicy", policy);
    if let Some(class) = class.filter(|_| named.is_empty()) {
        spec["priorityClassName"] = name(&class).into();
    }
    Ok(())
}

/// Rejects a second default class.
pub(super) fn class(cluster: &Cluster, class: &Value) -> ApiResult<()> {
    if !truth(class, &["globalDefault"]) {
        return Ok(());
    }
    let classes = cluster.resource("scheduling.k8s.io", "priorityclasses");
    let all = classes.objects.list("").objects;
    let other = all
        .iter()
        .map(|one| one.value())
        .find(|one| truth(one, &["globalDefault"]) && name(one) != name(class));
    match other {
        None => Ok(()),
        Some(other) => {
            let why = format!(
                "PriorityClass {} is already marked as default. Only one default can exist",
                name(&other)
            );
            Err(StatusError::forbidden(classes.group_resource(), name(class), &why))
        }
    }
}
