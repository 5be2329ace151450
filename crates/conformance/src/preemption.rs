//! Priorities, disruption budgets, nominated and terminating pods.

use serde_json::{Value, json};

use crate::cluster::add_running_pod;
use crate::draft::{
    CaseDraft, NAMESPACES, POD_LABELS, name_of, pod_labels, pod_selector, push, time,
};
use crate::pod::fill_containers;
use crate::theme::{ClusterSize, Topic};

/// Priorities of pods; few, so that they are often equal.
const PRIORITIES: [i64; 6] = [0, 10, 50, 100, -5, 1000];

/// Sets the priority of a running pod.
pub(crate) fn set_priority(draft: &mut CaseDraft, pod: &mut Value) {
    if draft.often(Topic::Preemption, 85, 100) {
        let weights = [(35, 0), (25, 1), (15, 2), (8, 3), (12, 4), (5, 5)];
        pod["spec"]["priority"] = json!(PRIORITIES[draft.rng.weighted(&weights)]);
    } else if draft.rng.chance(50) {
        pod["spec"]["priority"] = json!(0);
    }
    if draft.often(Topic::Preemption, 6, 0) {
        // A victim of an earlier attempt.
        pod["metadata"]["deletionTimestamp"] = json!(time(3000));
        let condition = json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"});
        push(&mut pod["status"], "conditions", condition);
    }
}

/// Fills all nodes with pods, so that the pod to schedule needs victims.
pub(crate) fn fill_nodes(draft: &mut CaseDraft) {
    let pods_max = if draft.theme.size == ClusterSize::Small { 2 } else { 4 };
    // Equal victims on several nodes make candidates tie.
    let alike = draft.rng.chance(35);
    for name in draft.node_names() {
        for _ in 0..draft.rng.between(1, pods_max) {
            add_running_pod(draft, &name);
            if alike && let Some(pod) = draft.pods.last_mut() {
                pod["spec"]["priority"] = json!(0);
            }
            let rng = &mut draft.rng;
            let (cpu, memory) =
                (rng.pick(&["1", "1.5", "750m", "2"]), rng.pick(&["512Mi", "1Gi", "0"]));
            if let Some(pod) = draft.pods.last_mut() {
                pod["spec"]["containers"][0]["resources"] =
                    json!({"requests": {"cpu": cpu, "memory": memory}});
            }
        }
    }
}

/// Sets the priority of the pod to schedule, mostly above that of others.
pub(crate) fn set_subject_priority(draft: &mut CaseDraft, pod: &mut Value) {
    if draft.often(Topic::Preemption, 95, 150) {
        pod["spec"]["priority"] =
            json!(draft.rng.weighted(&[(15, 10), (20, 50), (55, 100), (5, 0), (5, 2_000_000_000)]));
        if draft.rng.chance(85) {
            let policy = if draft.rng.chance(7) { "Never" } else { "PreemptLowerPriority" };
            pod["spec"]["preemptionPolicy"] = json!(policy);
        }
    } else if draft.rng.chance(50) {
        pod["spec"]["priority"] = json!(0);
    }
    if draft.often(Topic::Preemption, 6, 6) {
        pod["status"]["nominatedNodeName"] = json!(draft.some_node_name());
    }
}

/// Adds nominated pods.
pub(crate) fn add_nominated(draft: &mut CaseDraft) {
    if draft.nodes.is_empty() || !draft.often(Topic::Preemption, 30, 25) {
        return;
    }
    for index in 0..draft.rng.between(1, 3) {
        let rng = &mut draft.rng;
        let namespace = rng.pick(&NAMESPACES);
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("nominated-{index}"), "namespace": namespace, "uid": format!("nominated-{index}"), "labels": pod_labels(rng)},
            "spec": {"restartPolicy": "Always", "schedulerName": "default-scheduler"},
            "status": {"phase": "Pending", "startTime": time(500 + index)},
        });
        fill_containers(draft, &mut pod, true);
        pod["spec"]["priority"] = json!(draft.rng.pick(&PRIORITIES[..4]));
        if draft.rng.chance(92) {
            pod["status"]["nominatedNodeName"] = json!(name_of(&draft.rng.pick(&draft.nodes)));
        }
        if draft.rng.chance(8) {
            // Nominations by another scheduler have no effect.
            pod["spec"]["schedulerName"] = json!("other-scheduler");
        }
        draft.pods.push(pod);
    }
}

/// Adds disruption budgets.
pub(crate) fn add_budgets(draft: &mut CaseDraft) {
    if !draft.often(Topic::Preemption, 65, 30) {
        return;
    }
    for index in 0..draft.rng.between(1, 3) {
        let rng = &mut draft.rng;
        let namespace =
            rng.weighted(&[(70, NAMESPACES[0]), (20, NAMESPACES[1]), (10, NAMESPACES[2])]);
        let mut budget = json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
            "metadata": {"name": format!("budget-{index}"), "namespace": namespace},
            "spec": {},
            "status": {"disruptionsAllowed": rng.weighted(&[(60, 0), (25, 1), (15, 2)]), "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1},
        });
        let simple = json!({"matchLabels": {"app": rng.pick(POD_LABELS[0].1)}});
        let selector = if rng.chance(60) { simple } else { pod_selector(rng) };
        if !selector.is_null() {
            budget["spec"]["selector"] = selector;
        }
        if rng.chance(30) && !draft.pods.is_empty() {
            let name = name_of(&rng.pick(&draft.pods));
            budget["status"]["disruptedPods"][name] = json!(time(1000));
        }
        draft.others.push(budget);
    }
}
