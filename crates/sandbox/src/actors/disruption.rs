//! Controller of PodDisruptionBudgets: the number of disruptions allowed now.

use std::time::Duration;

use serde_json::{Value, json};

use super::controller::{Controller, Key, own_key};
use super::workload::scaled_value;
use crate::cluster::{Cluster, Part, WriteOptions, seconds};
use crate::json::{at, holds, int, list, map, name, slot, text};
use crate::selector::Selector;
use crate::status_error::ApiResult;
use crate::store::Change;
use crate::subresources::set_condition;

/// Time for which an evicted pod that still exists counts as disrupted, in seconds, as upstream.
const EVICTION_SECONDS: i64 = 120;

/// The controller of PodDisruptionBudgets.
pub(super) struct Budgets;

impl Controller for Budgets {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("policy", "poddisruptionbudgets"), ("", "pods")]
    }

    fn keys_of_change(&self, cluster: &Cluster, source: usize, change: &Change) -> Vec<Key> {
        if source == 0 {
            return vec![own_key(change)];
        }
        let budgets = cluster.resource("policy", "poddisruptionbudgets");
        if budgets.objects.is_empty() {
            return Vec::new();
        }
        let namespace = change.object.namespace.to_string();
        let all = budgets.objects.list(&budgets.prefix(Some(&namespace))).objects;
        all.iter()
            .filter(|budget| {
                let selector =
                    at(&budget.value(), &["spec", "selector"]).and_then(Selector::of_object);
                selector.is_some_and(|selector| selector.matches(change.object.labels()))
            })
            .map(|budget| (namespace.clone(), budget.name.to_string()))
            .collect()
    }

    fn reconcile(
        &self,
        cluster: &Cluster,
        (namespace, budget_name): &Key,
    ) -> ApiResult<Option<Duration>> {
        let budgets = cluster.resource("policy", "poddisruptionbudgets");
        let Some(budget) = cluster.value(&budgets, namespace, budget_name) else { return Ok(None) };
        let Some(selector) = at(&budget, &["spec", "selector"]).and_then(Selector::of_object)
        else {
            return Ok(None);
        };
        let pods = cluster.resource("", "pods");
        let selected: Vec<_> = pods
            .objects
            .list(&pods.prefix(Some(namespace)))
            .objects
            .into_iter()
            .filter(|pod| selector.matches(pod.labels()))
            .collect();
        let values: Vec<Value> = selected
            .iter()
            .map(|pod| pod.value())
            .filter(|pod| !crate::pods::is_finished(pod))
            .collect();
        let expected = expected(cluster, namespace, &budget, &values);
        let desired = desired(&budget, expected);
        let now = cluster.now();
        let mut disrupted = serde_json::Map::new();
        for (pod, time) in map(&budget, &["status", "disruptedPods"]) {
            let age = time
                .as_str()
                .and_then(|time| time.parse::<jiff::Timestamp>().ok())
                .map_or(EVICTION_SECONDS, |time| now.as_second() - time.as_second());
            let present = values.iter().any(|one| {
                name(one) == pod && at(one, &["metadata", "deletionTimestamp"]).is_none()
            });
            if present && age < EVICTION_SECONDS {
                disrupted.insert(pod.clone(), time.clone());
            }
        }
        let healthy = values
            .iter()
            .filter(|pod| {
                holds(pod, "Ready")
                    && at(pod, &["metadata", "deletionTimestamp"]).is_none()
                    && !disrupted.contains_key(name(pod))
            })
            .count() as i64;
        let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
        cluster.change(&budgets, namespace, budget_name, Part::Status, &WriteOptions::default(), |_, before| {
            let mut object = before.clone();
            let status = slot(&mut object, &["status"]);
            for (field, count) in [("currentHealthy", healthy), ("desiredHealthy", desired), ("disruptionsAllowed", allowed), ("expectedPods", expected)] {
                status[field] = count.into();
            }
            status["observedGeneration"] = before["metadata"]["generation"].clone();
            if disrupted.is_empty() {
                crate::json::members(status).remove("disruptedPods");
            } else {
                status["disruptedPods"] = Value::Object(disrupted.clone());
            }
            let (truth, reason) = if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
            set_condition(status, json!({
                "type": "DisruptionAllowed", "status": truth, "reason": reason, "message": "",
                "observedGeneration": before["metadata"]["generation"], "lastTransitionTime": seconds(now),
            }));
            Ok(Some(object))
        })?;
        Ok((!disrupted.is_empty()).then_some(Duration::from_secs(5)))
    }
}

/// Returns the expected number of pods: the `replicas` of their controllers if the budget is relative.
fn expected(cluster: &Cluster, namespace: &str, budget: &Value, pods: &[Value]) -> i64 {
    let percent = |name: &str| at(budget, &["spec", name]).is_some_and(Value::is_string);
    let by_controllers =
        at(budget, &["spec", "maxUnavailable"]).is_some() || percent("minAvailable");
    if !by_controllers {
        return pods.len() as i64;
    }
    let mut seen: Vec<&str> = Vec::new();
    let mut sum = 0;
    for pod in pods {
        let owners = list(pod, &["metadata", "ownerReferences"]);
        let Some(owner) = owners.iter().find(|owner| crate::json::truth(owner, &["controller"]))
        else {
            continue;
        };
        let uid = text(owner, &["uid"]);
        if seen.contains(&uid) {
            continue;
        }
        seen.push(uid);
        let resource =
            cluster.kinds.of_object(text(owner, &["apiVersion"]), text(owner, &["kind"]));
        let object = resource
            .and_then(|resource| cluster.value(&resource, namespace, text(owner, &["name"])));
        sum += object.and_then(|object| int(&object, &["spec", "replicas"])).unwrap_or(0);
    }
    sum
}

fn desired(budget: &Value, expected: i64) -> i64 {
    if let Some(most) = at(budget, &["spec", "maxUnavailable"]) {
        return (expected - scaled_value(Some(most), expected, true)).max(0);
    }
    match at(budget, &["spec", "minAvailable"]) {
        Some(least) => scaled_value(Some(least), expected, true),
        None => 0,
    }
}
