//! The `binding` subresource: sets the node of a pod, once.

use serde_json::{Value, json};

use crate::cluster::{Cluster, Part, WriteOptions, seconds};
use crate::field_error::FieldError;
use crate::json::{at, list, map, members, slot, text};
use crate::status_error::{ApiResult, GroupResource, StatusError};

const BINDING: GroupResource<'static> = GroupResource { group: "", resource: "pods/binding" };

/// Labels of a node that are copied to its pods.
const TOPOLOGY: &[&str] = &["topology.kubernetes.io/region", "topology.kubernetes.io/zone"];

/// Binds a pod to the node of a `Binding`.
///
/// As upstream, the node is not checked: it may be full, cordoned or absent.
pub(crate) fn bind(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    binding: &Value,
    dry_run: bool,
) -> ApiResult<()> {
    let problems = check(binding, name);
    if !problems.is_empty() {
        return Err(StatusError::invalid(
            "",
            "Binding",
            text(binding, &["metadata", "name"]),
            &problems,
        ));
    }
    let node = text(binding, &["target", "name"]);
    let (uid, version) =
        (text(binding, &["metadata", "uid"]), text(binding, &["metadata", "resourceVersion"]));
    let conflict = |why: String| Err(StatusError::conflict(BINDING, name, &why));
    let pods = cluster.resource("", "pods");
    let options = WriteOptions { dry_run, ..WriteOptions::default() };
    let time = seconds(cluster.now());
    // As upstream, pods get the topology labels of their node.
    let placed = cluster.resource("", "nodes").objects.get(node);
    let topology: Vec<(&str, &str)> =
        TOPOLOGY.iter().filter_map(|key| Some((*key, placed.as_ref()?.label(key)?))).collect();
    cluster.change(&pods, namespace, name, Part::Whole, &options, |current, before| {
        if !uid.is_empty() && uid != &*current.uid {
            return conflict(format!(
                "Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                current.uid
            ));
        }
        if !version.is_empty() && version != current.version.to_string() {
            return conflict(format!(
                "Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {}",
                current.version
            ));
        }
        if current.deleting {
            return conflict(format!("pod {name} is being deleted, cannot be assigned to a host"));
        }
        let assigned = text(before, &["spec", "nodeName"]);
        if !assigned.is_empty() {
            return conflict(format!("pod {name} is already assigned to node {assigned:?}"));
        }
        if !list(before, &["spec", "schedulingGates"]).is_empty() {
            return conflict(format!("pod {name} has non-empty .spec.schedulingGates"));
        }
        let mut pod = before.clone();
        pod["spec"]["nodeName"] = node.into();
        for (key, value) in &topology {
            crate::json::default(slot(&mut pod, &["metadata", "labels"]), key, *value);
        }
        for (key, value) in map(binding, &["metadata", "annotations"]) {
            slot(&mut pod, &["metadata", "annotations"])[key] = value.clone();
        }
        let status = slot(&mut pod, &["status"]);
        members(status).remove("nominatedNodeName");
        set_condition(status, json!({
            "type": "PodScheduled", "status": "True", "lastTransitionTime": time,
        }));
        Ok(Some(pod))
    })?;
    Ok(())
}

fn check(binding: &Value, name: &str) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let given = text(binding, &["metadata", "name"]);
    if !given.is_empty() && given != name {
        problems.push(FieldError::invalid(
            "metadata.name",
            given,
            "must be the name of the pod in the URL",
        ));
    }
    let kind = text(binding, &["target", "kind"]);
    if !["", "Node"].contains(&kind) {
        problems.push(FieldError::not_supported("target.kind", kind, &["Node", "<empty>"]));
    }
    if text(binding, &["target", "name"]).is_empty() {
        problems.push(FieldError::required("target.name", ""));
    }
    problems
}

/// Sets a condition; its transition time is kept if its status is unchanged.
pub(crate) fn set_condition(status: &mut Value, mut condition: Value) {
    let kind = text(&condition, &["type"]).to_owned();
    members(&mut condition).retain(|_, value| !value.is_null());
    let conditions = members(status).entry("conditions").or_insert_with(|| json!([]));
    let Value::Array(conditions) = conditions else { return };
    match conditions.iter_mut().find(|one| text(one, &["type"]) == kind) {
        None => conditions.push(condition),
        Some(old) => {
            if at(old, &["status"]) == at(&condition, &["status"])
                && let Some(time) = at(old, &["lastTransitionTime"])
            {
                condition["lastTransitionTime"] = time.clone();
            }
            *old = condition;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cluster, pod};

    fn stage(edit: impl FnOnce(&mut Value)) -> Cluster {
        let cluster = cluster();
        let mut pod = pod("a");
        edit(&mut pod);
        cluster
            .create(&cluster.resource("", "pods"), "default", pod, &WriteOptions::default())
            .unwrap();
        cluster
    }

    fn to(node: &str) -> Value {
        json!({"metadata": {"name": "a"}, "target": {"kind": "Node", "name": node}})
    }

    #[test]
    fn a_pod_is_bound_once() {
        let cluster = stage(|_| {});
        bind(&cluster, "default", "a", &to("n1"), false).unwrap();
        let error = bind(&cluster, "default", "a", &to("n2"), false).unwrap_err();
        assert_eq!(
            (error.code, &*error.message),
            (
                409,
                "Operation cannot be fulfilled on pods/binding \"a\": pod a is already assigned to node \"n1\""
            )
        );
        let pod = cluster.value(&cluster.resource("", "pods"), "default", "a").unwrap();
        assert_eq!(pod["spec"]["nodeName"], "n1");
        assert!(crate::json::holds(&pod, "PodScheduled"));
        let other = json!({"target": {"name": "n"}});
        assert_eq!(bind(&cluster, "default", "b", &other, false).unwrap_err().code, 404);
    }

    #[test]
    fn preconditions_gates_and_deletion_are_checked() {
        let cluster = stage(|pod| pod["spec"]["schedulingGates"] = json!([{"name": "wait"}]));
        assert!(
            bind(&cluster, "default", "a", &to("n"), false)
                .unwrap_err()
                .message
                .ends_with("has non-empty .spec.schedulingGates")
        );
        let cluster = stage(|_| {});
        for (field, value) in [("uid", "x"), ("resourceVersion", "1")] {
            let mut binding = to("n");
            binding["metadata"][field] = json!(value);
            assert_eq!(bind(&cluster, "default", "a", &binding, false).unwrap_err().code, 409);
        }
        let wrong = json!({"target": {"kind": "Pod"}});
        assert_eq!(bind(&cluster, "default", "a", &wrong, false).unwrap_err().code, 422);
        let cluster = stage(|pod| pod["metadata"]["finalizers"] = json!(["x/y"]));
        cluster
            .delete(
                &cluster.resource("", "pods"),
                "default",
                "a",
                &crate::cluster::DeleteOptions::default(),
            )
            .unwrap();
        assert!(
            bind(&cluster, "default", "a", &to("n"), false)
                .unwrap_err()
                .message
                .contains("is being deleted")
        );
    }
}
