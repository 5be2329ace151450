//! Functions shared by the controllers of workloads.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::controller::Key;
use crate::cluster::{Cluster, DeleteOptions, NAME_LETTERS, WriteOptions};
use crate::json::{at, condition, members, name, text, uid};
use crate::kinds::Resource;
use crate::status_error::{ApiResult, ignore};
use crate::store::{Change, Object};

/// A pod, parsed only on demand: a controller may own thousands.
pub(super) struct Pod {
    pub(super) object: Arc<Object>,
}

impl Pod {
    /// Parses the object.
    pub(super) fn value(&self) -> Value {
        self.object.value()
    }

    pub(super) fn phase(&self) -> &str {
        self.object.field_named("status.phase")
    }

    pub(super) fn node(&self) -> &str {
        self.object.field_named("spec.nodeName")
    }

    /// Returns `true` if its phase is `Succeeded` or `Failed`.
    pub(super) fn is_finished(&self) -> bool {
        Self::is_finished_object(&self.object)
    }

    /// Returns `true` if the phase of a pod object is `Succeeded` or `Failed`.
    pub(super) fn is_finished_object(pod: &Object) -> bool {
        crate::pods::is_terminal(pod.field_named("status.phase"))
    }

    /// Returns `true` if the pod is neither finished nor being deleted.
    pub(super) fn active(&self) -> bool {
        !self.object.deleting && !self.is_finished()
    }

    pub(super) fn ready(&self) -> bool {
        self.object.ready
    }

    /// Returns `true` if it has been ready for at least `seconds`.
    pub(super) fn available(&self, seconds: i64, now: Timestamp) -> bool {
        if seconds == 0 || !self.ready() {
            return self.ready();
        }
        let value = self.value();
        let since = condition(&value, "Ready").map(|ready| text(ready, &["lastTransitionTime"]));
        let since = since.and_then(|since| since.parse::<Timestamp>().ok());
        since.is_some_and(|since| now.as_second() - since.as_second() >= seconds)
    }

    pub(super) fn label(&self, key: &str) -> &str {
        self.object.label(key).unwrap_or_default()
    }
}

/// Returns the pods that an object controls.
pub(super) fn pods_of(cluster: &Cluster, owner: &str) -> Vec<Pod> {
    let owned = cluster.resource("", "pods").objects.owned_by(owner);
    let controlled = owned.into_iter().filter(|object| controls(owner, object));
    controlled.map(|object| Pod { object }).collect()
}

/// Returns `true` if `owner` is the controller of an object.
pub(super) fn controls(owner: &str, object: &Object) -> bool {
    object.controller().is_some_and(|controller| *controller.uid == *owner)
}

/// Returns an owner reference to the controller of a new object.
pub(super) fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": text(object, &["apiVersion"]), "kind": text(object, &["kind"]),
        "name": name(object), "uid": uid(object), "controller": true, "blockOwnerDeletion": true,
    })
}

/// Returns a pod from the template of its owner.
pub(super) fn from_template(object: &Value) -> Value {
    let template = at(object, &["spec", "template"]).cloned().unwrap_or_default();
    let mut metadata = template.get("metadata").cloned().unwrap_or_else(|| json!({}));
    members(&mut metadata)
        .retain(|name, _| ["labels", "annotations", "finalizers"].contains(&&**name));
    metadata["ownerReferences"] = json!([owner(object)]);
    json!({"metadata": metadata, "spec": template.get("spec").cloned().unwrap_or_else(|| json!({}))})
}

/// Creates an object.
pub(super) fn create(
    cluster: &Cluster,
    resource: &Resource,
    namespace: &str,
    object: Value,
) -> ApiResult<Arc<Object>> {
    cluster
        .create(resource, namespace, object, &WriteOptions::default())
        .map(|written| written.object)
}

/// Deletes a pod with its grace period; a pod that no longer exists is not an error.
pub(super) fn delete_pod(cluster: &Cluster, pod: &Object) -> ApiResult<()> {
    let options = DeleteOptions { uid: pod.uid.to_string(), ..DeleteOptions::default() };
    let pods = cluster.resource("", "pods");
    ignore(cluster.delete(&pods, &pod.namespace, &pod.name, &options), &[404, 409])
}

/// Returns the key of the controller of a changed object if it is of this kind.
pub(super) fn controller_of(change: &Change, kind: &str) -> Vec<Key> {
    match change.object.controller() {
        Some(owner) if *owner.kind == *kind => {
            vec![(change.object.namespace.to_string(), owner.name.to_string())]
        }
        _ => Vec::new(),
    }
}

/// Resolves a number or a percentage of `of`, rounded up or down.
pub(super) fn scaled_value(value: Option<&Value>, of: i64, up: bool) -> i64 {
    match value {
        Some(Value::Number(number)) => number.as_i64().unwrap_or(0),
        Some(Value::String(text)) => {
            let percent = text.trim_end_matches('%').parse::<i64>().unwrap_or(0);
            let product = of.saturating_mul(percent);
            if up { (product + 99) / 100 } else { product / 100 }
        }
        _ => 0,
    }
}

/// Returns a short hash in the letters of generated names; equal values have equal hashes.
pub(crate) fn fingerprint(value: &Value) -> String {
    // FNV-1a: small, and stable across runs.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in value.to_string().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut text = String::new();
    for _ in 0..10 {
        text.push(char::from(NAME_LETTERS[(hash % 27) as usize]));
        hash /= 27;
    }
    text
}
