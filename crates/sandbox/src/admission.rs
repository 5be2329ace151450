//! Admission: mutation and validation of objects beyond defaulting and validation of their kind.

mod limit_range;
mod priority;
mod quota;

use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::json::{list, members, slot, text};
use crate::kinds::Resource;
use crate::status_error::ApiResult;

/// Default toleration seconds for not-ready and unreachable nodes, as upstream.
const TOLERATION_SECONDS: i64 = 300;

/// Runs admission for a new object. The returned guard keeps quotas locked until the object is stored.
pub(crate) fn create<'a>(
    cluster: &'a Cluster,
    resource: &Resource,
    object: &mut Value,
    dry_run: bool,
) -> ApiResult<Option<quota::QuotaGuard<'a>>> {
    let kind = &resource.kind;
    match (&*kind.group, &*kind.plural) {
        ("", "pods") => {
            priority::pod(cluster, object)?;
            add_tolerations(object);
            set_service_account(object);
            limit_range::pod(cluster, object)?;
            (kind.strategy.defaults)(object);
        }
        ("", "persistentvolumeclaims") => default_class(cluster, object),
        ("scheduling.k8s.io", "priorityclasses") => priority::class(cluster, object)?,
        _ => {}
    }
    if kind.namespaced { quota::charge(cluster, resource, object, dry_run) } else { Ok(None) }
}

/// Runs admission for a new version of an object.
pub(crate) fn update(resource: &Resource, object: &mut Value, before: &Value) {
    if resource.kind.plural == "pods" && resource.kind.group.is_empty() {
        // Fields set by admission are kept if a client omits them.
        for name in ["priority", "preemptionPolicy", "serviceAccountName", "serviceAccount"] {
            if let Some(value) = before["spec"].get(name) {
                slot(object, &["spec"])[name] = value.clone();
            }
        }
    }
}

/// Recounts quotas after the creation of an object failed.
pub(crate) fn uncharge(cluster: &Cluster, resource: &Resource, object: &Value) {
    if resource.kind.namespaced {
        quota::recount(cluster, crate::json::namespace(object));
    }
}

/// Recounts the used amounts of the quotas of a namespace.
pub(crate) fn recount(cluster: &Cluster, namespace: &str) {
    quota::recount(cluster, namespace);
}

fn add_tolerations(pod: &mut Value) {
    let spec = slot(pod, &["spec"]);
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerated = list(spec, &["tolerations"]).iter().any(|toleration| {
            let (own, effect) = (text(toleration, &["key"]), text(toleration, &["effect"]));
            (own == key || own.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !tolerated {
            let tolerations = members(spec).entry("tolerations").or_insert_with(|| json!([]));
            if let Value::Array(tolerations) = tolerations {
                tolerations.push(json!({
                    "key": key, "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": TOLERATION_SECONDS,
                }));
            }
        }
    }
}

fn set_service_account(pod: &mut Value) {
    let spec = slot(pod, &["spec"]);
    crate::json::default_text(spec, "serviceAccountName", "default");
    let name = text(spec, &["serviceAccountName"]).to_owned();
    spec["serviceAccount"] = name.into();
}

/// Sets the default storage class of a claim that names none.
fn default_class(cluster: &Cluster, claim: &mut Value) {
    if crate::json::at(claim, &["spec", "storageClassName"]).is_some() {
        return;
    }
    let classes = cluster.resource("storage.k8s.io", "storageclasses").objects.list("").objects;
    let marked = |class: &Value| {
        let annotation = "storageclass.kubernetes.io/is-default-class";
        text(class, &["metadata", "annotations", annotation]) == "true"
    };
    let newest =
        classes.iter().filter(|class| marked(&class.value())).max_by_key(|class| class.version);
    if let Some(class) = newest {
        slot(claim, &["spec"])["storageClassName"] = (*class.name).into();
    }
}

#[cfg(test)]
mod tests;
