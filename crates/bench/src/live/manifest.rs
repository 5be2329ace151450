//! Converts engine objects of a workload to Kubernetes objects: the inverse of lowering.

use anyhow::{Result, bail};
use engine::object::{
    Labels, Node, NodeTerm, Operator, Pod, PodTerm, Requirement, Resources, Selector,
    SpreadConstraint, TaintEffect, WhenUnsatisfiable,
};
use serde_json::{Map, Value, json};

/// Returns a namespace with labels.
pub(super) fn namespace(name: &str, labels: &Labels) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": pairs(labels)}})
}

/// Returns a ready node.
pub(super) fn node(node: &Node) -> Value {
    let taints = node.taints.iter().map(
        |taint| json!({"key": &*taint.key, "value": &*taint.value, "effect": effect(taint.effect)}),
    );
    let mut allocatable = amounts(&node.allocatable);
    allocatable.insert("pods".into(), node.allowed_pods.to_string().into());
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": &*node.name, "labels": pairs(&node.labels)},
        "spec": {"taints": taints.collect::<Vec<_>>()},
        "status": {
            "capacity": allocatable, "allocatable": allocatable,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "Bench", "message": "created by jindou-bench",
            }],
        },
    })
}

/// Returns a pod; fails if it needs something that a control plane without controllers does not provide.
pub(super) fn pod(pod: &Pod) -> Result<Value> {
    let spec = &pod.spec;
    for (is_used, what) in [
        (pod.priority != 0, "pods with a priority"),
        (!spec.volumes.is_empty(), "volumes"),
        (!spec.resource_claims.is_empty(), "claims on devices"),
        (!spec.required_features.is_empty(), "features of nodes"),
        (!spec.host_ports.is_empty(), "ports of nodes"),
        (spec.owner.is_some(), "pods of a controller"),
    ] {
        if is_used {
            bail!("it needs {what}, which live benchmarks do not create");
        }
    }
    let terms = |terms: &[PodTerm]| terms.iter().map(pod_term).collect::<Vec<_>>();
    let weighted = |terms: &[(i32, PodTerm)]| {
        let entry = |(weight, term): &(i32, PodTerm)| json!({"weight": weight, "podAffinityTerm": pod_term(term)});
        terms.iter().map(entry).collect::<Vec<_>>()
    };
    let mut affinity = Map::new();
    if let Some(required) = &spec.node_affinity.required {
        let terms: Vec<_> = required.iter().map(node_term).collect();
        let selector = json!({"nodeSelectorTerms": terms});
        affinity.insert("nodeAffinity".into(), json!({REQUIRED: selector}));
    }
    let of_pods = &spec.pod_affinity;
    if of_pods.has_affinity {
        let value =
            json!({REQUIRED: terms(&of_pods.required), PREFERRED: weighted(&of_pods.preferred)});
        affinity.insert("podAffinity".into(), value);
    }
    if of_pods.has_anti_affinity {
        let value = json!({
            REQUIRED: terms(&of_pods.required_anti), PREFERRED: weighted(&of_pods.preferred_anti),
        });
        affinity.insert("podAntiAffinity".into(), value);
    }
    let mut value = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "namespace": &*pod.namespace, "name": &*pod.name, "labels": pairs(&pod.labels),
        },
        "spec": {
            "schedulerName": &*spec.scheduler_name,
            "terminationGracePeriodSeconds": 0,
            "containers": [{
                "name": "pause",
                "image": spec.images.first().map_or("", |image| image),
                "resources": {"requests": amounts(&spec.requests)},
            }],
        },
    });
    let fields = &mut value["spec"];
    if !pod.node.is_empty() {
        fields["nodeName"] = (&*pod.node).into();
    }
    if !affinity.is_empty() {
        fields["affinity"] = affinity.into();
    }
    if !spec.spread.is_empty() {
        fields["topologySpreadConstraints"] = spec.spread.iter().map(spread).collect();
    }
    if !pod.gates.is_empty() {
        fields["schedulingGates"] = pod.gates.iter().map(|gate| json!({"name": &**gate})).collect();
    }
    Ok(value)
}

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

fn pairs(labels: &Labels) -> Map<String, Value> {
    labels.iter().map(|(key, value)| (key.to_owned(), value.into())).collect()
}

fn amounts(resources: &Resources) -> Map<String, Value> {
    let mut amounts = Map::new();
    let mut put = |name: &str, amount: i64, unit: &str| {
        if amount > 0 {
            amounts.insert(name.to_owned(), format!("{amount}{unit}").into());
        }
    };
    put("cpu", resources.cpu, "m");
    put("memory", resources.memory, "");
    put("ephemeral-storage", resources.ephemeral, "");
    for (name, amount) in &resources.scalars {
        put(name, *amount, "");
    }
    amounts
}

fn effect(effect: TaintEffect) -> &'static str {
    match effect {
        TaintEffect::NoSchedule => "NoSchedule",
        TaintEffect::PreferNoSchedule => "PreferNoSchedule",
        TaintEffect::NoExecute => "NoExecute",
    }
}

fn requirement(requirement: &Requirement) -> Value {
    let operator = match requirement.operator {
        Operator::In => "In",
        Operator::NotIn => "NotIn",
        Operator::Exists => "Exists",
        Operator::DoesNotExist => "DoesNotExist",
        Operator::Gt => "Gt",
        Operator::Lt => "Lt",
    };
    let values: Vec<&str> = requirement.values.iter().map(|value| &**value).collect();
    json!({"key": &*requirement.key, "operator": operator, "values": values})
}

fn selector(selector: &Selector) -> Value {
    json!({"matchExpressions": selector.requirements.iter().map(requirement).collect::<Vec<_>>()})
}

fn node_term(term: &NodeTerm) -> Value {
    let all = |list: &[Requirement]| list.iter().map(requirement).collect::<Vec<_>>();
    json!({"matchExpressions": all(&term.expressions), "matchFields": all(&term.fields)})
}

fn pod_term(term: &PodTerm) -> Value {
    let namespaces: Vec<&str> = term.namespaces.iter().map(|name| &**name).collect();
    json!({
        "labelSelector": term.selector.as_ref().map(selector),
        "namespaces": namespaces,
        "namespaceSelector": term.namespace_selector.as_ref().map(selector),
        "topologyKey": &*term.topology_key,
    })
}

fn spread(constraint: &SpreadConstraint) -> Value {
    let policy = |honor: bool| if honor { "Honor" } else { "Ignore" };
    let mut value = json!({
        "maxSkew": constraint.max_skew,
        "topologyKey": &*constraint.topology_key,
        "whenUnsatisfiable": match constraint.when_unsatisfiable {
            WhenUnsatisfiable::DoNotSchedule => "DoNotSchedule",
            WhenUnsatisfiable::ScheduleAnyway => "ScheduleAnyway",
        },
        "labelSelector": constraint.selector.as_ref().map(selector),
        "nodeAffinityPolicy": policy(constraint.honor_affinity),
        "nodeTaintsPolicy": policy(constraint.honor_taints),
    });
    // Valid only with DoNotSchedule.
    if constraint.min_domains > 1 {
        value["minDomains"] = constraint.min_domains.into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::FAMILIES;

    #[test]
    fn manifests_lower_to_the_objects_that_they_were_made_from() {
        let mut families = 0;
        for family in FAMILIES {
            let work = (family.work)(10);
            let pods: Vec<_> = work.initial.chain(work.waiting).chain(work.measured).collect();
            let Ok(values) = pods.iter().map(super::pod).collect::<Result<Vec<_>>>() else {
                continue;
            };
            families += 1;
            for (pod, value) in pods.iter().zip(&values) {
                let (lowered, problems) = api::lower::pod(value);
                assert_eq!(problems, [], "{}", family.name);
                let mut lowered = lowered.unwrap();
                // The API server sets these.
                lowered.uid = pod.uid.clone();
                lowered.resource_version = pod.resource_version;
                assert_eq!(&lowered, pod, "{}", family.name);
            }
            for node in work.nodes {
                let mut lowered = api::lower::node(&super::node(&node)).0.unwrap();
                assert_ne!(
                    lowered.conditions, node.conditions,
                    "a manifest has the condition Ready"
                );
                lowered.conditions = node.conditions;
                assert_eq!(lowered, node, "{}", family.name);
            }
        }
        assert!(families >= 20, "{families}");
    }

    #[test]
    fn a_pod_that_live_benchmarks_cannot_create_is_rejected() {
        let family = FAMILIES.iter().find(|family| family.name == "SchedulingCSIPVs").unwrap();
        let mut work = (family.work)(10);
        let error = super::pod(&work.measured.next().unwrap()).unwrap_err().to_string();
        assert_eq!(error, "it needs volumes, which live benchmarks do not create");
    }
}
