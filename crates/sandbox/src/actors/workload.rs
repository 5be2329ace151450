//! What controllers of pods have in common.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::controller::Key;
use crate::cluster::{Cluster, DeleteOptions, WriteOptions};
use crate::json::{at, condition, members, name, text, uid};
use crate::kinds::Resource;
use crate::status_error::ApiResult;
use crate::store::{Change, Object};

/// A pod. What it says is only read when somebody asks: there may be thousands.
pub(super) struct Pod {
    pub(super) object: Arc<Object>,
}

impl Pod {
    /// All that it says.
    pub(super) fn value(&self) -> Value {
        self.object.value()
    }

    pub(super) fn phase(&self) -> &str {
        self.object.field_named("status.phase")
    }

    pub(super) fn node(&self) -> &str {
        self.object.field_named("spec.nodeName")
    }

    /// Whether it has come to its end.
    pub(super) fn ended(&self) -> bool {
        Self::phase_is_last(&self.object)
    }

    /// Whether an object that is a pod is Succeeded or Failed.
    pub(super) fn phase_is_last(pod: &Object) -> bool {
        ["Succeeded", "Failed"].contains(&pod.field_named("status.phase"))
    }

    /// Whether it counts: it has not ended and nobody wants it gone.
    pub(super) fn active(&self) -> bool {
        !self.object.deleting && !self.ended()
    }

    pub(super) fn ready(&self) -> bool {
        self.object.ready
    }

    /// Whether it has been ready for long enough.
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

/// The pods that an object controls.
pub(super) fn pods_of(cluster: &Cluster, owner: &str) -> Vec<Pod> {
    let owned = cluster.resource("", "pods").objects.owned_by(owner);
    let controlled = owned.into_iter().filter(|object| controls(owner, object));
    controlled.map(|object| Pod { object }).collect()
}

/// Whether somebody manages an object.
pub(super) fn controls(owner: &str, object: &Object) -> bool {
    object.controller().is_some_and(|controller| *controller.uid == *owner)
}

/// A reference to the owner of a new object.
pub(super) fn owner(object: &Value) -> Value {
    json!({
        "apiVersion": text(object, &["apiVersion"]), "kind": text(object, &["kind"]),
        "name": name(object), "uid": uid(object), "controller": true, "blockOwnerDeletion": true,
    })
}

/// A pod of an owner's template.
pub(super) fn from_template(object: &Value) -> Value {
    let template = at(object, &["spec", "template"]).cloned().unwrap_or_default();
    let mut metadata = template.get("metadata").cloned().unwrap_or_else(|| json!({}));
    members(&mut metadata)
        .retain(|name, _| ["labels", "annotations", "finalizers"].contains(&&**name));
    metadata["ownerReferences"] = json!([owner(object)]);
    json!({"metadata": metadata, "spec": template.get("spec").cloned().unwrap_or_else(|| json!({}))})
}

/// Creates an object for an owner.
pub(super) fn create(
    cluster: &Cluster,
    resource: &Resource,
    place: &str,
    object: Value,
) -> ApiResult<Arc<Object>> {
    cluster.create(resource, place, object, &WriteOptions::default()).map(|written| written.object)
}

/// Deletes a pod in its own time. One that is gone already is no failure.
pub(super) fn delete_pod(cluster: &Cluster, pod: &Object) -> ApiResult<()> {
    let options = DeleteOptions { uid: pod.uid.to_string(), ..DeleteOptions::default() };
    match cluster.delete(&cluster.resource("", "pods"), &pod.namespace, &pod.name, &options) {
        Err(failure) if failure.code != 404 && failure.code != 409 => Err(failure),
        _ => Ok(()),
    }
}

/// The object of a kind that controls the object of a change.
pub(super) fn controller_of(change: &Change, kind: &str) -> Vec<Key> {
    match change.object.controller() {
        Some(owner) if *owner.kind == *kind => {
            vec![(change.object.namespace.to_string(), owner.name.to_string())]
        }
        _ => Vec::new(),
    }
}

/// A number or a share of a whole, rounded up or down.
pub(super) fn share(value: Option<&Value>, of: i64, up: bool) -> i64 {
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

/// A short text that is the same for equal values.
pub(crate) fn fingerprint(value: &Value) -> String {
    const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    // FNV: small, and the same in every run.
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in value.to_string().bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    let mut text = String::new();
    for _ in 0..10 {
        text.push(char::from(LETTERS[(hash % 27) as usize]));
        hash /= 27;
    }
    text
}
