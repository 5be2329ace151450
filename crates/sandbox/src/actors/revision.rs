//! Controller revisions: earlier pod templates of DaemonSets and StatefulSets.

use serde_json::{Value, json};

use super::workload::{create, fingerprint, owner};
use crate::cluster::Cluster;
use crate::json::{at, int, name, uid};
use crate::status_error::ApiResult;

/// Label of a pod with the revision of the template that it was created from.
pub(crate) const REVISION: &str = "controller-revision-hash";

/// Stores the template of a set as a controller revision, unless it exists. Returns the value of
/// [`REVISION`] for its pods, which `label` derives from the name and the hash of the revision.
pub(super) fn ensure(
    cluster: &Cluster,
    namespace: &str,
    set: &Value,
    label: fn(String, String) -> String,
) -> ApiResult<String> {
    if let Some(revision) = cluster.snapshot_state.revision(set) {
        return Ok(revision);
    }
    let data = json!({"spec": {"template": set["spec"]["template"]}});
    let hash = fingerprint(&data);
    let revision_name = format!("{}-{hash}", name(set));
    let label = label(revision_name.clone(), hash);
    let revisions = cluster.resource("apps", "controllerrevisions");
    if revisions.objects.get(&format!("{namespace}/{revision_name}")).is_none() {
        let owned = revisions.objects.owned_by(uid(set));
        let last = owned.iter().filter_map(|one| int(&one.value(), &["revision"])).max();
        let labels = at(set, &["spec", "template", "metadata", "labels"]).cloned();
        let mut labels = labels.unwrap_or_else(|| json!({}));
        labels[REVISION] = label.as_str().into();
        let revision = json!({
            "metadata": {"name": revision_name, "labels": labels, "ownerReferences": [owner(set)]},
            "data": data, "revision": last.unwrap_or(0) + 1,
        });
        create(cluster, &revisions, namespace, revision)?;
    }
    Ok(label)
}
