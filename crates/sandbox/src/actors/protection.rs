//! Controllers of storage protection: finalizers keep claims while pods use them, and volumes while they
//! are bound.

use std::time::Duration;

use serde_json::{Value, json};

use super::controller::{Controller, Key, own_key};
use super::workload::Pod;
use crate::cluster::{Cluster, Part, WriteOptions};
use crate::json::{at, list, name, namespace, remove_text, slot, text};
use crate::kinds::Resource;
use crate::status_error::{ApiResult, ignore};
use crate::store::{Change, ChangeKind, Object};

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// The controller that protects PersistentVolumeClaims.
pub(super) struct ClaimProtection;

impl Controller for ClaimProtection {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "persistentvolumeclaims"), ("", "pods")]
    }

    fn keys_of_change(&self, _: &Cluster, source: usize, change: &Change) -> Vec<Key> {
        let pod = &change.object;
        match source {
            0 if change.kind == ChangeKind::Deleted => Vec::new(),
            0 => vec![own_key(change)],
            _ if change.kind == ChangeKind::Deleted || Pod::is_finished_object(pod) => {
                let key = |claim| (pod.namespace.to_string(), claim);
                claims_of(pod).into_iter().map(key).collect()
            }
            _ => Vec::new(),
        }
    }

    fn reconcile(
        &self,
        cluster: &Cluster,
        (namespace, claim_name): &Key,
    ) -> ApiResult<Option<Duration>> {
        let claims = cluster.resource("", "persistentvolumeclaims");
        let Some(claim) = cluster.value(&claims, namespace, claim_name) else { return Ok(None) };
        let in_use = || {
            let pods = cluster.resource("", "pods").objects.list(namespace).objects;
            pods.iter().any(|pod| uses(pod, claim_name))
        };
        protect(cluster, &claims, &claim, CLAIM_FINALIZER, in_use)
    }
}

/// The controller that protects PersistentVolumes.
pub(super) struct VolumeProtection;

impl Controller for VolumeProtection {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "persistentvolumes")]
    }

    fn keys_of_change(&self, _: &Cluster, _: usize, change: &Change) -> Vec<Key> {
        vec![own_key(change)]
    }

    fn reconcile(&self, cluster: &Cluster, (_, volume_name): &Key) -> ApiResult<Option<Duration>> {
        let volumes = cluster.resource("", "persistentvolumes");
        let Some(volume) = cluster.value(&volumes, "", volume_name) else { return Ok(None) };
        let in_use = || text(&volume, &["status", "phase"]) == "Bound";
        protect(cluster, &volumes, &volume, VOLUME_FINALIZER, in_use)
    }
}

/// Adds the finalizer, or removes it from an object that is being deleted and not in use.
fn protect(
    cluster: &Cluster,
    resource: &Resource,
    object: &Value,
    finalizer: &str,
    in_use: impl Fn() -> bool,
) -> ApiResult<Option<Duration>> {
    let deleting = is_deleting(object);
    if is_protected(object, finalizer) != deleting || deleting && in_use() {
        return Ok(None);
    }
    let (options, namespace) = (WriteOptions::default(), namespace(object));
    let written =
        cluster.change(resource, namespace, name(object), Part::Main, &options, |_, before| {
            if is_deleting(before) != deleting || is_protected(before, finalizer) != deleting {
                return Ok(None);
            }
            let mut object = before.clone();
            if deleting {
                remove_text(&mut object, &["metadata", "finalizers"], finalizer);
            } else {
                let metadata = slot(&mut object, &["metadata"]);
                let mut finalizers = list(metadata, &["finalizers"]).to_vec();
                finalizers.push(json!(finalizer));
                metadata["finalizers"] = finalizers.into();
            }
            Ok(Some(object))
        });
    ignore(written, &[404, 409]).map(|()| None)
}

fn is_deleting(object: &Value) -> bool {
    at(object, &["metadata", "deletionTimestamp"]).is_some()
}

fn is_protected(object: &Value, finalizer: &str) -> bool {
    list(object, &["metadata", "finalizers"]).iter().any(|one| one == finalizer)
}

/// Returns `true` if a pod uses a claim: it is on a node and not finished.
fn uses(pod: &Object, claim: &str) -> bool {
    !pod.field_named("spec.nodeName").is_empty()
        && !Pod::is_finished_object(pod)
        && claims_of(pod).iter().any(|one| one == claim)
}

/// Returns the names of a pod's claims. Most pods have none and are not parsed.
fn claims_of(pod: &Object) -> Vec<String> {
    let mentions =
        |json: &str| json.contains("\"persistentVolumeClaim\"") || json.contains("\"ephemeral\"");
    if !std::str::from_utf8(&pod.json).is_ok_and(mentions) {
        return Vec::new();
    }
    let value = pod.value();
    let claims = list(&value, &["spec", "volumes"]).iter().filter_map(|volume| {
        let named = text(volume, &["persistentVolumeClaim", "claimName"]);
        if at(volume, &["ephemeral"]).is_some() {
            return Some(format!("{}-{}", pod.name, text(volume, &["name"])));
        }
        (!named.is_empty()).then(|| named.to_owned())
    });
    claims.collect()
}
