//! The `eviction` subresource: a deletion that disruption budgets can forbid.

use serde_json::Value;

use crate::cluster::{Cluster, DeleteOptions, Part, WriteOptions, seconds};
use crate::json::{at, holds, int, name, slot, text};
use crate::selector::Selector;
use crate::status_error::{ApiResult, StatusError};
use crate::store::key_of;

/// Retry-After of an eviction whose budget is not yet computed, in seconds.
const RETRY_SECONDS: u64 = 10;

/// Evicts a pod.
pub(crate) fn evict(
    cluster: &Cluster,
    namespace: &str,
    pod_name: &str,
    eviction: &Value,
    dry_run: bool,
) -> ApiResult<()> {
    let given = text(eviction, &["metadata", "name"]);
    if !given.is_empty() && given != pod_name {
        return Err(StatusError::bad_request("name in URL does not match name in Eviction object"));
    }
    let mut options = DeleteOptions::parse(eviction.get("deleteOptions").unwrap_or(&Value::Null))?;
    options.dry_run |= dry_run;
    let pods = cluster.resource("", "pods");
    let Some(object) = pods.objects.get(&key_of(namespace, pod_name)) else {
        return Err(StatusError::not_found(pods.group_resource(), pod_name));
    };
    let pod = object.value();
    let phase = text(&pod, &["status", "phase"]);
    let free = ["Pending", "Succeeded", "Failed"].contains(&phase) || object.deleting;
    if !free {
        let budgets = cluster.resource("policy", "poddisruptionbudgets");
        let present = budgets.objects.list(&budgets.prefix(Some(namespace))).objects;
        let matching: Vec<Value> = present
            .iter()
            .map(|budget| budget.value())
            .filter(|budget| selects(budget, &object))
            .collect();
        match &*matching {
            [] => {}
            [budget] => spend(cluster, namespace, budget, &pod, options.dry_run)?,
            _ => {
                return Err(StatusError::internal(
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
                ));
            }
        }
    }
    cluster.delete(&pods, namespace, pod_name, &options).map(drop)
}

/// Returns `true` if a budget selects a pod.
pub(crate) fn selects(budget: &Value, pod: &crate::store::Object) -> bool {
    let selector = at(budget, &["spec", "selector"]).and_then(Selector::of_object);
    selector.is_some_and(|selector| selector.matches(pod.labels()))
}

fn spend(
    cluster: &Cluster,
    namespace: &str,
    budget: &Value,
    pod: &Value,
    dry_run: bool,
) -> ApiResult<()> {
    let healthy = holds(pod, "Ready");
    let count = |name: &str| int(budget, &["status", name]).unwrap_or(0);
    if !healthy {
        let policy = text(budget, &["spec", "unhealthyPodEvictionPolicy"]);
        let enough =
            count("currentHealthy") >= count("desiredHealthy") && count("desiredHealthy") > 0;
        if policy == "AlwaysAllow" || enough {
            return Ok(());
        }
    }
    let budgets = cluster.resource("policy", "poddisruptionbudgets");
    let options = WriteOptions { dry_run, ..WriteOptions::default() };
    let time = seconds(cluster.now());
    cluster.change(&budgets, namespace, name(budget), Part::Status, &options, |_, before| {
        let count = |name: &str| int(before, &["status", name]).unwrap_or(0);
        let generation = int(before, &["metadata", "generation"]).unwrap_or(0);
        let observed = count("observedGeneration");
        if observed < generation {
            let why = format!(
                "The disruption budget {} is still being processed by the server.",
                name(before)
            );
            return Err(StatusError::budget(&why, RETRY_SECONDS));
        }
        let allowed = count("disruptionsAllowed");
        if allowed < 0 {
            return Err(StatusError::forbidden(
                budgets.group_resource(),
                name(before),
                "pdb disruptions allowed is negative",
            ));
        }
        if allowed == 0 {
            let why = format!(
                "The disruption budget {} needs {} healthy pods and has {} currently",
                name(before),
                count("desiredHealthy"),
                count("currentHealthy")
            );
            return Err(StatusError::budget(&why, 0));
        }
        let mut budget = before.clone();
        budget["status"]["disruptionsAllowed"] = (allowed - 1).into();
        slot(&mut budget, &["status", "disruptedPods"])[name(pod)] = time.as_str().into();
        Ok(Some(budget))
    })?;
    Ok(())
}
