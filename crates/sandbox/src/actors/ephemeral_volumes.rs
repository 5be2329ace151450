//! Controller of generic ephemeral volumes: creates the claims that pods describe in
//! `spec.volumes[].ephemeral`. Garbage collection deletes them with their pods.

use std::time::Duration;

use serde_json::{Value, json};

use super::controller::{Controller, Key, own_key};
use super::workload::{controller_of, create, owner};
use crate::cluster::Cluster;
use crate::json::{at, list, name, text};
use crate::status_error::{ApiResult, ignore};
use crate::store::{Change, ChangeKind};

/// Parts of a template's metadata that its claim gets.
const COPIED_METADATA: [&str; 2] = ["labels", "annotations"];

/// The controller of generic ephemeral volumes.
pub(super) struct EphemeralVolumes;

impl Controller for EphemeralVolumes {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "pods"), ("", "persistentvolumeclaims")]
    }

    fn keys_of_change(&self, _: &Cluster, source: usize, change: &Change) -> Vec<Key> {
        match (source, change.kind) {
            // The volumes of a pod never change. Most pods need no claim and are not parsed.
            (0, ChangeKind::Added) if has_template(&change.object.json) => vec![own_key(change)],
            (1, ChangeKind::Deleted) => controller_of(change, "Pod"),
            _ => Vec::new(),
        }
    }

    fn reconcile(
        &self,
        cluster: &Cluster,
        (namespace, pod_name): &Key,
    ) -> ApiResult<Option<Duration>> {
        let pods = cluster.resource("", "pods");
        let Some(pod) = cluster.value(&pods, namespace, pod_name) else { return Ok(None) };
        if at(&pod, &["metadata", "deletionTimestamp"]).is_some() {
            return Ok(None);
        }
        let claims = cluster.resource("", "persistentvolumeclaims");
        for claim in list(&pod, &["spec", "volumes"]).iter().filter_map(|one| claim(&pod, one)) {
            if cluster.value(&claims, namespace, name(&claim)).is_none() {
                ignore(create(cluster, &claims, namespace, claim), &[409])?;
            }
        }
        Ok(None)
    }
}

fn has_template(pod: &[u8]) -> bool {
    std::str::from_utf8(pod).is_ok_and(|pod| pod.contains("\"volumeClaimTemplate\""))
}

/// Returns the claim of a volume, or `None` if the volume is of another type.
fn claim(pod: &Value, volume: &Value) -> Option<Value> {
    let template = at(volume, &["ephemeral", "volumeClaimTemplate"])?;
    let mut metadata = json!({
        "name": format!("{}-{}", name(pod), text(volume, &["name"])),
        "ownerReferences": [owner(pod)],
    });
    for field in COPIED_METADATA {
        if let Some(value) = at(template, &["metadata", field]) {
            metadata[field] = value.clone();
        }
    }
    Some(json!({"metadata": metadata, "spec": template["spec"]}))
}
