//! Controller of PersistentVolumeClaims: binds matching volumes or provisions new ones.

mod index;

use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use serde_json::{Value, json};

use super::controller::{Controller, Key, own_key};
use super::workload::create;
use crate::cluster::{Cluster, DeleteOptions, Part, WriteOptions};
use crate::json::{at, list, name, namespace, quantity, slot, text, uid};
use crate::lock::lock;
use crate::status_error::ApiResult;
use crate::store::{Change, ChangeKind};
use index::{Index, allows};

const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// The controller of PersistentVolumeClaims.
#[derive(Default)]
pub(super) struct Claims {
    index: Mutex<Index>,
}

impl Claims {
    fn index(&self) -> MutexGuard<'_, Index> {
        lock(&self.index)
    }
}

impl Controller for Claims {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("", "persistentvolumeclaims"),
            ("", "persistentvolumes"),
            ("storage.k8s.io", "storageclasses"),
        ]
    }

    fn keys_of_change(&self, cluster: &Cluster, source: usize, change: &Change) -> Vec<Key> {
        if source == 0 && change.kind == ChangeKind::Deleted {
            release(cluster, &change.object.value());
        }
        if source == 1 && change.kind != ChangeKind::Deleted {
            make_available(cluster, &change.object.name);
        }
        let mut index = self.index();
        match source {
            0 => {
                index.apply_claim(&own_key(change), change);
                vec![own_key(change)]
            }
            1 => {
                index.apply_volume(change);
                index.claims_for(&change.object.name)
            }
            _ => index.unbound_of(&change.object.name),
        }
    }

    fn reconcile(
        &self,
        cluster: &Cluster,
        (namespace, claim_name): &Key,
    ) -> ApiResult<Option<Duration>> {
        let claims = cluster.resource("", "persistentvolumeclaims");
        let Some(claim) = cluster.value(&claims, namespace, claim_name) else { return Ok(None) };
        if text(&claim, &["status", "phase"]) == "Bound"
            || at(&claim, &["metadata", "deletionTimestamp"]).is_some()
        {
            return Ok(None);
        }
        if let Some(volume) = self.reserved(cluster, &claim) {
            return bind(cluster, &claim, &volume).map(|()| None);
        }
        let class = text(&claim, &["spec", "storageClassName"]).to_owned();
        let class =
            cluster.value(&cluster.resource("storage.k8s.io", "storageclasses"), "", &class);
        let waits = class
            .as_ref()
            .is_some_and(|class| text(class, &["volumeBindingMode"]) == "WaitForFirstConsumer");
        let node = text(&claim, &["metadata", "annotations", SELECTED_NODE]);
        if waits && node.is_empty() {
            return Ok(None);
        }
        if !waits && let Some(volume) = self.matching(cluster, &claim) {
            return bind(cluster, &claim, &volume).map(|()| None);
        }
        match class {
            Some(class) if text(&class, &["provisioner"]) != NO_PROVISIONER => {
                let volume = provision(cluster, &claim, &class, node)?;
                bind(cluster, &claim, &volume).map(|()| None)
            }
            _ => Ok(None),
        }
    }
}

impl Claims {
    /// Returns the volume that a claim names, or that is reserved for the claim.
    fn reserved(&self, cluster: &Cluster, claim: &Value) -> Option<Value> {
        let volumes = cluster.resource("", "persistentvolumes");
        let named = text(claim, &["spec", "volumeName"]);
        if !named.is_empty() {
            return cluster.value(&volumes, "", named);
        }
        let key = (namespace(claim).to_owned(), name(claim).to_owned());
        let names = self.index().reserved(&key);
        names.iter().filter_map(|name| cluster.value(&volumes, "", name)).find(|volume| {
            text(volume, &["spec", "claimRef", "namespace"]) == namespace(claim)
                && text(volume, &["spec", "claimRef", "name"]) == name(claim)
                && ["", uid(claim)].contains(&text(volume, &["spec", "claimRef", "uid"]))
        })
    }

    /// Returns the smallest free volume that is large enough.
    fn matching(&self, cluster: &Cluster, claim: &Value) -> Option<Value> {
        let volumes = cluster.resource("", "persistentvolumes");
        let wanted = quantity(claim, &["spec", "resources", "requests", "storage"])?;
        let names = self.index().large_enough(claim);
        names.iter().filter_map(|name| cluster.value(&volumes, "", name)).find(|volume| {
            at(volume, &["spec", "claimRef"]).is_none()
                && quantity(volume, &["spec", "capacity", "storage"])
                    .is_some_and(|capacity| capacity >= wanted)
                && allows(volume, claim)
        })
    }
}

fn provision(cluster: &Cluster, claim: &Value, class: &Value, node: &str) -> ApiResult<Value> {
    let volume_name = format!("pvc-{}", uid(claim));
    let volumes = cluster.resource("", "persistentvolumes");
    if let Some(volume) = cluster.value(&volumes, "", &volume_name) {
        return Ok(volume);
    }
    let mut volume = json!({
        "metadata": {"name": volume_name, "annotations": {"pv.kubernetes.io/provisioned-by": class["provisioner"]}},
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": claim["spec"]["accessModes"],
            "volumeMode": claim["spec"]["volumeMode"],
            "persistentVolumeReclaimPolicy": class["reclaimPolicy"],
            "storageClassName": name(class),
            "csi": {"driver": class["provisioner"], "volumeHandle": volume_name},
            // Set at creation so that no other claim takes the volume.
            "claimRef": reference(claim),
        },
    });
    // The class determines the topology, otherwise the zone of the selected node.
    let topologies = list(class, &["allowedTopologies"]);
    let found = cluster.value(&cluster.resource("", "nodes"), "", node);
    let zone = found
        .as_ref()
        .map(|node| text(node, &["metadata", "labels", "topology.kubernetes.io/zone"]))
        .filter(|zone| !zone.is_empty());
    if let Some(zone) = zone.filter(|_| topologies.is_empty()) {
        volume["spec"]["nodeAffinity"] = json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}]}]}});
    }
    create(cluster, &volumes, "", volume).map(|made| made.value())
}

/// Returns the claim reference of a volume.
fn reference(claim: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace(claim),
        "name": name(claim), "uid": uid(claim),
    })
}

fn bind(cluster: &Cluster, claim: &Value, volume: &Value) -> ApiResult<()> {
    let options = WriteOptions::default();
    let volumes = cluster.resource("", "persistentvolumes");
    let reference = reference(claim);
    cluster.change(&volumes, "", name(volume), Part::Whole, &options, |_, before| {
        let mut object = before.clone();
        object["spec"]["claimRef"] = reference.clone();
        slot(&mut object, &["status"])["phase"] = "Bound".into();
        Ok(Some(object))
    })?;
    let claims = cluster.resource("", "persistentvolumeclaims");
    cluster.change(&claims, namespace(claim), name(claim), Part::Whole, &options, |_, before| {
        let mut object = before.clone();
        object["spec"]["volumeName"] = name(volume).into();
        slot(&mut object, &["metadata", "annotations"])["pv.kubernetes.io/bind-completed"] = "yes".into();
        *slot(&mut object, &["status"]) = json!({
            "phase": "Bound", "accessModes": volume["spec"]["accessModes"], "capacity": volume["spec"]["capacity"],
        });
        Ok(Some(object))
    })?;
    Ok(())
}

/// Makes a new volume without a claim `Available`.
fn make_available(cluster: &Cluster, volume: &str) {
    let volumes = cluster.resource("", "persistentvolumes");
    let _ = cluster.change(
        &volumes,
        "",
        volume,
        Part::Status,
        &WriteOptions::default(),
        |_, before| {
            let fresh = text(before, &["status", "phase"]) == "Pending"
                && at(before, &["spec", "claimRef"]).is_none();
            let mut object = before.clone();
            slot(&mut object, &["status"])["phase"] = "Available".into();
            Ok(fresh.then_some(object))
        },
    );
}

/// Deletes or releases the volume of a deleted claim, according to its reclaim policy.
fn release(cluster: &Cluster, claim: &Value) {
    let volume_name = text(claim, &["spec", "volumeName"]);
    let volumes = cluster.resource("", "persistentvolumes");
    let Some(volume) = cluster.value(&volumes, "", volume_name) else { return };
    if text(&volume, &["spec", "claimRef", "uid"]) != uid(claim) {
        return;
    }
    // Released first, since a bound volume is protected against deletion.
    let _ = cluster.change(
        &volumes,
        "",
        volume_name,
        Part::Status,
        &WriteOptions::default(),
        |_, before| {
            let mut object = before.clone();
            slot(&mut object, &["status"])["phase"] = "Released".into();
            Ok(Some(object))
        },
    );
    if text(&volume, &["spec", "persistentVolumeReclaimPolicy"]) == "Delete" {
        let _ = cluster.delete(&volumes, "", volume_name, &DeleteOptions::default());
    }
}
