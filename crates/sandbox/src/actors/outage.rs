//! Node outages: the annotation [`FAILS`] makes a node unreachable until it is removed.
//!
//! A failed node is treated as upstream's node lifecycle controller treats a node whose kubelet stopped
//! reporting, but without the 40 s delay: its conditions become `Unknown`, it gets the taints of
//! unreachable nodes, and its pods become unready. Its kubelet is inactive, so deleted pods stay until they
//! are deleted with force.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Settings;
use super::controller::{Controller, Key, own_key};
use super::kubelet::duration;
use super::recorder::EventRecorder;
use crate::cluster::{Cluster, Part, WriteOptions, micros, seconds};
use crate::json::{condition, list, members, slot, text};
use crate::status_error::ApiResult;
use crate::store::{Change, ChangeKind};
use crate::subresources::set_condition;

/// Annotation that makes a node fail: `true` until it is removed, or for a time such as `5m`.
pub(crate) const FAILS: &str = "sandbox.novasphere.dev/fails";
/// Annotation with the time of the failure; recovery is due only for nodes that have it.
const FAILED_AT: &str = "sandbox.novasphere.dev/failed-at";

const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const STATUS_UNKNOWN: &str = "NodeStatusUnknown";
const KUBELET_STOPPED: &str = "Kubelet stopped posting node status.";

static RECORDER: EventRecorder = EventRecorder::new("node-controller");

/// Value of the annotation of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FailsAnnotation {
    /// The node works.
    Works,
    /// The node fails until the annotation is removed.
    Fails,
    /// The node fails for this long.
    FailsFor(Duration),
    /// The value is invalid, and the node works.
    Invalid,
}

impl FailsAnnotation {
    fn of(node: &Value) -> Self {
        match text(node, &["metadata", "annotations", FAILS]) {
            "" | "false" => Self::Works,
            "true" => Self::Fails,
            given => duration(given).map_or(Self::Invalid, Self::FailsFor),
        }
    }
}

/// Returns `true` if a node fails now.
pub(super) fn fails(node: &Value) -> bool {
    matches!(FailsAnnotation::of(node), FailsAnnotation::Fails | FailsAnnotation::FailsFor(_))
}

/// The controller of node outages.
pub(super) struct Outages {
    settings: Settings,
}

impl Outages {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings }
    }
}

impl Controller for Outages {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "nodes")]
    }

    fn keys_of_change(&self, _: &Cluster, _: usize, change: &Change) -> Vec<Key> {
        if change.kind == ChangeKind::Deleted { Vec::new() } else { vec![own_key(change)] }
    }

    fn reconcile(&self, cluster: &Cluster, (_, node_name): &Key) -> ApiResult<Option<Duration>> {
        let nodes = cluster.resource("", "nodes");
        let Some(node) = cluster.value(&nodes, "", node_name) else { return Ok(None) };
        let failed_at = text(&node, &["metadata", "annotations", FAILED_AT]);
        let length = match FailsAnnotation::of(&node) {
            FailsAnnotation::FailsFor(length) => Some(length),
            FailsAnnotation::Fails => None,
            annotation => {
                if annotation == FailsAnnotation::Invalid {
                    warn(cluster, &node);
                }
                if !failed_at.is_empty() {
                    recover(cluster, node_name)?;
                }
                return Ok(None);
            }
        };
        let passed = failed_at.parse::<Timestamp>().map_or(Duration::ZERO, |since| {
            let passed = cluster.now().duration_since(since).as_secs_f64() * self.settings.speed;
            Duration::try_from_secs_f64(passed).unwrap_or_default()
        });
        let left = length.map(|length| length.saturating_sub(passed));
        if left.is_some_and(|left| left.is_zero()) && !failed_at.is_empty() {
            recover(cluster, node_name)?;
            return Ok(None);
        }
        fail(cluster, node_name)?;
        Ok(left.map(|left| self.settings.wait(left)))
    }
}

/// Emits an event about an invalid annotation.
fn warn(cluster: &Cluster, node: &Value) {
    let message = format!(
        "metadata.annotations[{FAILS}]: found {:?}, which is not \"true\", \"false\" or a time such as \"5m\"; the node does not fail",
        text(node, &["metadata", "annotations", FAILS])
    );
    RECORDER.record(cluster, node, "Warning", "InvalidAnnotation", &message);
}

/// Sets conditions and taints of an unreachable node, and makes its pods unready.
fn fail(cluster: &Cluster, node_name: &str) -> ApiResult<()> {
    let nodes = cluster.resource("", "nodes");
    let (time, now) = (cluster.now(), seconds(cluster.now()));
    let options = WriteOptions::default();
    cluster.change(&nodes, "", node_name, Part::Status, &options, |_, before| {
        let mut node = before.clone();
        crate::json::default(
            slot(&mut node, &["metadata", "annotations"]),
            FAILED_AT,
            micros(time),
        );
        let status = slot(&mut node, &["status"]);
        for kind in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
            let heartbeat = condition(before, kind).and_then(|one| one.get("lastHeartbeatTime"));
            set_condition(
                status,
                json!({
                    "type": kind, "status": "Unknown", "reason": STATUS_UNKNOWN, "message": KUBELET_STOPPED,
                    "lastHeartbeatTime": heartbeat, "lastTransitionTime": now,
                }),
            );
        }
        Ok(Some(node))
    })?;
    cluster.change(&nodes, "", node_name, Part::Main, &options, |_, before| {
        let mut node = before.clone();
        let mut taints = list(before, &["spec", "taints"]).to_vec();
        for effect in ["NoSchedule", "NoExecute"] {
            let present = taints.iter().any(|taint| {
                text(taint, &["key"]) == UNREACHABLE && text(taint, &["effect"]) == effect
            });
            if !present {
                taints.push(json!({"key": UNREACHABLE, "effect": effect, "timeAdded": now}));
            }
        }
        slot(&mut node, &["spec"])["taints"] = taints.into();
        Ok(Some(node))
    })?;
    let pods = cluster.resource("", "pods");
    for pod in pods.objects.by_field(node_name).objects.iter().filter(|pod| pod.ready) {
        let marked = cluster.change(
            &pods,
            &pod.namespace,
            &pod.name,
            Part::Status,
            &options,
            |current, before| {
                let mut pod_now = before.clone();
                let ready = json!({"type": "Ready", "status": "False", "lastTransitionTime": now});
                set_condition(slot(&mut pod_now, &["status"]), ready);
                Ok((current.uid == pod.uid && current.ready).then_some(pod_now))
            },
        );
        match marked {
            Ok(_) => {
                let message = "Node is not ready";
                RECORDER.record(cluster, &pod.value(), "Warning", "NodeNotReady", message);
            }
            Err(failure) if failure.code == 404 => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Restores conditions and taints of a node that failed.
fn recover(cluster: &Cluster, node_name: &str) -> ApiResult<()> {
    let nodes = cluster.resource("", "nodes");
    let now = seconds(cluster.now());
    let options = WriteOptions::default();
    cluster.change(&nodes, "", node_name, Part::Main, &options, |_, before| {
        let mut node = before.clone();
        let taints = list(before, &["spec", "taints"]).iter();
        let taints: Vec<Value> =
            taints.filter(|taint| text(taint, &["key"]) != UNREACHABLE).cloned().collect();
        let spec = slot(&mut node, &["spec"]);
        if taints.is_empty() {
            members(spec).remove("taints");
        } else {
            spec["taints"] = taints.into();
        }
        Ok(Some(node))
    })?;
    // The annotations are removed last, so that a recovery that fails half-way is retried.
    cluster.change(&nodes, "", node_name, Part::Status, &options, |_, before| {
        let mut node = before.clone();
        super::nodes::set_healthy(slot(&mut node, &["status"]), &now);
        let annotations = members(slot(&mut node, &["metadata", "annotations"]));
        annotations.remove(FAILED_AT);
        annotations.remove(FAILS);
        if annotations.is_empty() {
            members(slot(&mut node, &["metadata"])).remove("annotations");
        }
        Ok(Some(node))
    })?;
    tracing::debug!(node = node_name, "failed node recovered");
    Ok(())
}

#[cfg(test)]
mod tests;
