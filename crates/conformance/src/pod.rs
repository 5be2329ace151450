//! The pod to schedule; containers, ports, images and tolerations of all pods; taints of nodes.

use serde_json::{Value, json};

use crate::cluster::IMAGES;
use crate::draft::{CaseDraft, NAMESPACES, pod_labels, push};
use crate::rng::Rng;
use crate::theme::Topic;
use crate::{affinity, preemption, resources, spread};

/// Adds the pod to schedule.
pub(crate) fn add_pod(draft: &mut CaseDraft) {
    let rng = &mut draft.rng;
    let namespace = rng.weighted(&[(70, NAMESPACES[0]), (20, NAMESPACES[1]), (10, NAMESPACES[2])]);
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "subject", "namespace": namespace, "uid": "subject", "labels": pod_labels(rng)},
        "spec": {"restartPolicy": "Always", "schedulerName": "default-scheduler"},
        "status": {"phase": "Pending"},
    });
    fill_containers(draft, &mut pod, false);
    preemption::set_subject_priority(draft, &mut pod);
    add_tolerations(draft, &mut pod);
    affinity::add_node_affinity(draft, &mut pod);
    affinity::add_pod_affinity(draft, &mut pod, false);
    spread::add_constraints(draft, &mut pod);
    add_features(draft, &mut pod);
    let named = if draft.theme.plugin == Some("NodeName") { 600 } else { 12 };
    if draft.rng.rarely(named) {
        pod["spec"]["nodeName"] = json!(draft.some_node_name());
    }
    if draft.nodes.len() > 100 {
        // With more than 100 candidates upstream samples nodes for preemption at random; this priority allows no victim.
        pod["spec"]["priority"] = json!(-10);
    }
    draft.pod = pod;
}

/// Adds containers with images, requests and ports; a `running` pod also gets statuses as kubelets report them.
pub(crate) fn fill_containers(draft: &mut CaseDraft, pod: &mut Value, running: bool) {
    let app = draft.rng.weighted(&[(70, 1), (22, 2), (8, 3)]);
    let init = if draft.often(Topic::Resources, 35, 100) || draft.often(Topic::Ports, 30, 0) {
        draft.rng.between(1, 3)
    } else {
        0
    };
    for index in 0..app {
        let container = container(draft, &format!("app-{index}"));
        push(&mut pod["spec"], "containers", container);
    }
    for index in 0..init {
        let mut container = container(draft, &format!("init-{index}"));
        if draft.rng.chance(50) {
            container["restartPolicy"] = json!("Always");
        }
        push(&mut pod["spec"], "initContainers", container);
    }
    resources::add_requests(draft, pod, running);
    add_ports(draft, pod, running);
    if running {
        affinity::add_pod_affinity(draft, pod, true);
    }
}

fn container(draft: &mut CaseDraft, name: &str) -> Value {
    json!({"name": name, "image": draft.rng.pick(&IMAGES)})
}

/// Adds host ports, none of them twice in a pod.
fn add_ports(draft: &mut CaseDraft, pod: &mut Value, running: bool) {
    let wanted =
        if running { draft.often(Topic::Ports, 75, 20) } else { draft.often(Topic::Ports, 95, 40) };
    if !wanted {
        return;
    }
    let rng = &mut draft.rng;
    let mut taken = Vec::new();
    for list in ["containers", "initContainers"] {
        let count = pod["spec"][list].as_array().map_or(0, Vec::len);
        for index in 0..count {
            let ports = rng.weighted(&[(20, 0), (58, 1), (22, 2)]);
            for _ in 0..ports {
                let port = random_port(rng);
                let key =
                    (port["hostPort"].clone(), port["protocol"].clone(), port["hostIP"].clone());
                if !taken.contains(&key) {
                    taken.push(key);
                    push(&mut pod["spec"][list][index], "ports", port);
                }
            }
        }
    }
}

fn random_port(rng: &mut Rng) -> Value {
    let port = rng.weighted(&[(40, 80), (30, 443), (20, 8080), (10, 0)]);
    let protocol = rng.weighted(&[(70, "TCP"), (20, "UDP"), (10, "SCTP")]);
    let address =
        rng.weighted(&[(45, ""), (15, "0.0.0.0"), (22, "10.0.0.1"), (13, "10.0.0.2"), (5, "::")]);
    let mut result = json!({"containerPort": port.max(1), "protocol": protocol});
    if port != 0 {
        result["hostPort"] = json!(port);
    }
    if !address.is_empty() {
        result["hostIP"] = json!(address);
    }
    result
}

const TAINT_KEYS: [&str; 4] =
    ["dedicated", "gpu", "node.kubernetes.io/unschedulable", "example.com/spot"];
const TAINT_VALUES: [&str; 3] = ["", "a", "b"];
const EFFECTS: [(usize, &str); 3] =
    [(38, "NoSchedule"), (47, "PreferNoSchedule"), (15, "NoExecute")];

/// Adds taints to nodes and makes some unschedulable.
pub(crate) fn add_taints(draft: &mut CaseDraft) {
    let narrow = draft.theme.plugin == Some("NodeUnschedulable");
    for index in 0..draft.nodes.len() {
        if draft.often(Topic::Taints, 60, 22) {
            let count = draft.rng.weighted(&[(60, 1), (30, 2), (10, 3)]);
            let mut seen = Vec::new();
            for _ in 0..count {
                let rng = &mut draft.rng;
                let (key, effect) = (rng.pick(&TAINT_KEYS), rng.weighted(&EFFECTS));
                if !seen.contains(&(key, effect)) {
                    seen.push((key, effect));
                    let mut taint = json!({"key": key, "effect": effect});
                    let value = rng.pick(&TAINT_VALUES);
                    if !value.is_empty() {
                        taint["value"] = json!(value);
                    }
                    push(&mut draft.nodes[index]["spec"], "taints", taint);
                }
            }
        }
        if narrow && draft.rng.chance(40) || draft.often(Topic::Taints, 12, 8) {
            draft.nodes[index]["spec"]["unschedulable"] = json!(true);
        }
    }
}

fn add_tolerations(draft: &mut CaseDraft, pod: &mut Value) {
    if !draft.often(Topic::Taints, 75, 150) {
        return;
    }
    let hostile = draft.theme.hostile;
    let rng = &mut draft.rng;
    let count = rng.weighted(&[(40, 1), (35, 2), (20, 3), (5, 5)]);
    for _ in 0..count {
        let operator = rng.weighted(&[(25, ""), (35, "Equal"), (40, "Exists")]);
        let anything = operator == "Exists" && rng.chance(20);
        let mut toleration = json!({});
        if !operator.is_empty() {
            toleration["operator"] = json!(operator);
        }
        if !(anything || hostile && rng.chance(30)) {
            toleration["key"] = json!(rng.pick(&TAINT_KEYS));
        }
        let value = rng.pick(&TAINT_VALUES);
        if operator != "Exists" && !value.is_empty() {
            toleration["value"] = json!(value);
        }
        if rng.chance(65) {
            let effect = rng.weighted(&EFFECTS);
            toleration["effect"] = json!(effect);
            if effect == "NoExecute" && rng.chance(40) {
                toleration["tolerationSeconds"] = json!(300);
            }
        }
        if hostile && rng.chance(30) {
            toleration["operator"] = json!(rng.pick(&["Lt", "Gt"]));
            toleration["value"] = json!("5");
        }
        push(&mut pod["spec"], "tolerations", toleration);
    }
}

/// Adds fields that require features declared by the node.
fn add_features(draft: &mut CaseDraft, pod: &mut Value) {
    if draft.often(Topic::Features, 60, 6) {
        pod["spec"]["hostNetwork"] = json!(true);
        if draft.rng.chance(75) {
            pod["spec"]["hostUsers"] = json!(false);
        }
        keep_host_ports(pod);
    } else if draft.often(Topic::Features, 20, 10) {
        pod["spec"]["hostUsers"] = json!(draft.rng.chance(50));
    }
    if draft.often(Topic::Features, 45, 6) {
        let action = draft.rng.weighted(&[(80, "RestartAllContainers"), (20, "Restart")]);
        let list = if draft.rng.chance(50) && pod["spec"]["initContainers"].is_array() {
            "initContainers"
        } else {
            "containers"
        };
        let container = &mut pod["spec"][list][0];
        if container["restartPolicy"].is_null() {
            container["restartPolicy"] = json!("Never");
        }
        container["restartPolicyRules"] =
            json!([{"action": action, "exitCodes": {"operator": "In", "values": [42]}}]);
    }
}

/// Keeps only ports with a host port: on the host network every container port is one, and duplicates are invalid.
fn keep_host_ports(pod: &mut Value) {
    for list in ["containers", "initContainers"] {
        let containers = pod["spec"].get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(ports) = container.get_mut("ports").and_then(Value::as_array_mut) {
                ports.retain(|port| !port["hostPort"].is_null());
            }
        }
    }
}
