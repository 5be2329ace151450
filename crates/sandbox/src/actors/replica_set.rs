//! Controller of ReplicaSets and ReplicationControllers.

use std::time::Duration;

use serde_json::{Value, json};

use super::controller::{Controller, Key, own_key};
use super::recorder::EventRecorder;
use super::workload::{Pod, controller_of, create, delete_pod, from_template, pods_of};
use crate::cluster::{Cluster, Part, WriteOptions, seconds};
use crate::json::{at, int, map, members, name, slot, text, uid};
use crate::status_error::{ApiResult, StatusError};
use crate::store::Change;
use crate::subresources::set_condition;

/// Maximum number of pods created or deleted per reconcile, as upstream.
const BURST: usize = 500;

/// Condition of a set whose last creation or deletion of a pod failed.
pub(super) const FAILURE: &str = "ReplicaFailure";

static RECORDER: EventRecorder = EventRecorder::new("replicaset-controller");

/// The controller of one of the two kinds.
pub(super) struct ReplicaSets {
    group: &'static str,
    plural: &'static str,
    kind: &'static str,
}

impl ReplicaSets {
    pub(super) fn new(group: &'static str, plural: &'static str, kind: &'static str) -> Self {
        Self { group, plural, kind }
    }
}

impl Controller for ReplicaSets {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        if self.group.is_empty() {
            &[("", "replicationcontrollers"), ("", "pods")]
        } else {
            &[("apps", "replicasets"), ("", "pods")]
        }
    }

    fn keys_of_change(&self, _: &Cluster, source: usize, change: &Change) -> Vec<Key> {
        if source == 0 { vec![own_key(change)] } else { controller_of(change, self.kind) }
    }

    fn reconcile(
        &self,
        cluster: &Cluster,
        (namespace, set_name): &Key,
    ) -> ApiResult<Option<Duration>> {
        let sets = cluster.resource(self.group, self.plural);
        let Some(set) = cluster.value(&sets, namespace, set_name) else { return Ok(None) };
        let pods = pods_of(cluster, uid(&set));
        let terminating = at(&set, &["metadata", "deletionTimestamp"]).is_some();
        let wanted = int(&set, &["spec", "replicas"]).unwrap_or(1).max(0) as usize;
        let active = pods.iter().filter(|pod| pod.active()).count();
        // Workloads of a snapshot keep their pods unchanged.
        let done = if terminating || cluster.snapshot_state.is_held(&set) {
            Ok(false)
        } else if active < wanted {
            create_pods(cluster, namespace, &set, wanted - active)
                .map_err(|why| ("FailedCreate", why))
        } else if active > wanted {
            delete_pods(cluster, &set, &pods, active - wanted)
                .map(|()| false)
                .map_err(|why| ("FailedDelete", why))
        } else {
            Ok(false)
        };
        // The status is written even if the creation of a pod was rejected.
        let pods = pods_of(cluster, uid(&set));
        let failure_of_pods = done.as_ref().err();
        let wait = write_status(cluster, &sets, namespace, &set, &pods, failure_of_pods)?;
        match done {
            Ok(true) => Ok(Some(Duration::ZERO)),
            Ok(false) => Ok(wait),
            Err((_, failure)) => Err(failure),
        }
    }
}

/// Creates pods, at most one burst. Returns `true` if more are missing.
fn create_pods(cluster: &Cluster, namespace: &str, set: &Value, missing: usize) -> ApiResult<bool> {
    let mut pod = from_template(set);
    pod["metadata"]["generateName"] = format!("{}-", name(set)).into();
    let resource = cluster.resource("", "pods");
    for _ in 0..missing.min(BURST) {
        match create(cluster, &resource, namespace, pod.clone()) {
            Ok(made) => {
                let message = format!("Created pod: {}", made.name);
                RECORDER.record(cluster, set, "Normal", "SuccessfulCreate", &message);
            }
            Err(failure) => {
                let message = format!("Error creating: {}", failure.message);
                RECORDER.record(cluster, set, "Warning", "FailedCreate", &message);
                return Err(failure);
            }
        }
    }
    Ok(missing > BURST)
}

/// Deletes surplus pods in upstream's order: first those not bound, not running, not ready, of low cost.
fn delete_pods(cluster: &Cluster, set: &Value, pods: &[Pod], surplus: usize) -> ApiResult<()> {
    let mut active: Vec<&Pod> = pods.iter().filter(|pod| pod.active()).collect();
    active.sort_by_cached_key(|pod| {
        let value = &pod.value();
        let placed = !text(value, &["spec", "nodeName"]).is_empty();
        let running = text(value, &["status", "phase"]) == "Running";
        let cost =
            text(value, &["metadata", "annotations", "controller.kubernetes.io/pod-deletion-cost"]);
        let cost = cost.parse::<i64>().unwrap_or(0);
        (placed, running, pod.ready(), cost, std::cmp::Reverse(pod.object.version))
    });
    for pod in active.into_iter().take(surplus.min(BURST)) {
        delete_pod(cluster, &pod.object)?;
        let message = format!("Deleted pod: {}", pod.object.name);
        RECORDER.record(cluster, set, "Normal", "SuccessfulDelete", &message);
    }
    Ok(())
}

fn write_status(
    cluster: &Cluster,
    sets: &crate::kinds::Resource,
    namespace: &str,
    set: &Value,
    pods: &[Pod],
    failure_of_pods: Option<&(&str, StatusError)>,
) -> ApiResult<Option<Duration>> {
    let now = cluster.now();
    let ready_for = int(set, &["spec", "minReadySeconds"]).unwrap_or(0);
    let active: Vec<&Pod> = pods.iter().filter(|pod| pod.active()).collect();
    let labelled = active
        .iter()
        .filter(|pod| {
            map(set, &["spec", "template", "metadata", "labels"])
                .all(|(key, value)| pod.label(key) == value.as_str().unwrap_or_default())
        })
        .count();
    let ready = active.iter().filter(|pod| pod.ready()).count();
    let terminating = pods.iter().filter(|pod| pod.object.deleting && !pod.is_finished()).count();
    let counts_terminating = text(set, &["kind"]) == "ReplicaSet";
    let available = active.iter().filter(|pod| pod.available(ready_for, now)).count();
    cluster.change(
        sets,
        namespace,
        name(set),
        Part::Status,
        &WriteOptions::default(),
        |_, before| {
            let mut object = before.clone();
            let status = slot(&mut object, &["status"]);
            status["replicas"] = active.len().into();
            if counts_terminating {
                status["terminatingReplicas"] = terminating.into();
            }
            for (field, count) in [
                ("fullyLabeledReplicas", labelled),
                ("readyReplicas", ready),
                ("availableReplicas", available),
            ] {
                if count > 0 || status.get(field).is_some() {
                    status[field] = count.into();
                }
            }
            if let Some((reason, failure)) = failure_of_pods {
                set_condition(
                    status,
                    json!({"type": FAILURE, "status": "True", "reason": reason, "message": failure.message, "lastTransitionTime": seconds(now)}),
                );
            } else if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
                conditions.retain(|one| text(one, &["type"]) != FAILURE);
                if conditions.is_empty() {
                    members(status).remove("conditions");
                }
            }
            status["observedGeneration"] = before["metadata"]["generation"].clone();
            Ok(Some(object))
        },
    )?;
    Ok((ready > available).then_some(Duration::from_secs(1)))
}
