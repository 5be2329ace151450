//! Nodes, namespaces, images, declared features and running pods.

use serde_json::{Map, Value, json};

use crate::draft::{
    CaseDraft, HOSTNAME, NAMESPACES, REGION, REGION_BETA, ZONE, ZONE_BETA, ZONES, name_of,
    pod_labels, time,
};
use crate::rng::Rng;
use crate::theme::{ClusterSize, Topic};
use crate::{pod, preemption, resources};

/// Image names of containers, with and without tag and digest.
pub(crate) const IMAGES: [&str; 6] = [
    "example.com/web:v1",
    "example.com/db:v2",
    "cache:7",
    "example.com:5000/tool",
    "busybox",
    "example.com/web@sha256:0123",
];

/// Labels of namespaces, to which namespace selectors refer.
pub(crate) const NAMESPACE_LABELS: [(&str, &[&str]); 3] = [
    ("team", &["a", "b"]),
    ("env", &["dev", "prod"]),
    ("kubernetes.io/metadata.name", &["default", "team-a", "team-b"]),
];

/// Adds namespaces and nodes.
pub(crate) fn add_nodes(draft: &mut CaseDraft) {
    for namespace in NAMESPACES {
        if !draft.rng.rarely(25) {
            draft.others.push(random_namespace(&mut draft.rng, namespace));
        }
    }
    let roomy =
        !draft.theme.is_about(Topic::Preemption) && !draft.theme.is_about(Topic::VolumeBinding);
    let rng = &mut draft.rng;
    let count = match draft.theme.size {
        ClusterSize::Small => rng.weighted(&[(1, 1), (3, 2), (4, 3), (3, 4), (1, 5)]),
        ClusterSize::Usual if roomy && rng.rarely(6) => rng.between(101, 140),
        ClusterSize::Usual => match rng.below(100) {
            0 => 0,
            1..=5 => 1,
            6..=50 => rng.between(2, 5),
            51..=95 => rng.between(6, 12),
            _ => rng.between(13, 30),
        },
    };
    for index in 0..count {
        let node = node(draft, index);
        draft.nodes.push(node);
    }
    if draft.rng.chance(30) {
        draft.rng.shuffle(&mut draft.nodes);
    }
    add_images(draft);
    add_features(draft);
}

/// Adds running pods, 1.5 % of them on a node that does not exist.
pub(crate) fn add_pods(draft: &mut CaseDraft) {
    let nodes = draft.nodes.len();
    let many_pods = [Topic::Preemption, Topic::Resources, Topic::Spread, Topic::SpreadDefaults]
        .iter()
        .any(|topic| draft.theme.is_about(*topic));
    let per_node = if many_pods { draft.rng.between(1, 4) } else { draft.rng.between(0, 3) };
    let pods_max = if draft.theme.size == ClusterSize::Small { 8 } else { 40 };
    let count = if nodes == 0 {
        draft.rng.below(3)
    } else {
        draft.rng.between(0, 2) + (nodes * per_node).min(pods_max)
    };
    for _ in 0..count {
        let node = some_node(draft);
        add_running_pod(draft, &node);
    }
    if draft.often(Topic::Preemption, 65, 0) {
        preemption::fill_nodes(draft);
    }
    set_start_times(draft);
}

/// Returns the name of a node for a running pod; with spread constraints the first nodes are more likely.
fn some_node(draft: &mut CaseDraft) -> String {
    let nodes = draft.nodes.len();
    if nodes == 0 || draft.rng.rarely(15) {
        return "gone".to_owned();
    }
    let uneven = draft.theme.is_about(Topic::Spread) || draft.theme.is_about(Topic::SpreadDefaults);
    let (one, other) = (draft.rng.below(nodes), draft.rng.below(nodes));
    name_of(&draft.nodes[if uneven { one.min(other) } else { one }])
}

/// Sets start times, often equal ones; all different on nodes with more than 12 pods, where upstream's order of equal ones
/// is that of Go's sort, which is stable only for short lists.
fn set_start_times(draft: &mut CaseDraft) {
    let times = draft.rng.weighted(&[(20, 1), (80, 4)]);
    for index in 0..draft.pods.len() {
        let node = draft.pods[index]["spec"]["nodeName"].clone();
        let neighbours = draft.pods.iter().filter(|pod| pod["spec"]["nodeName"] == node).count();
        let minutes = if neighbours > 12 { 7 * index } else { draft.rng.below(times) * 30 };
        draft.pods[index]["status"]["startTime"] = json!(time(minutes));
    }
}

fn random_namespace(rng: &mut Rng, name: &str) -> Value {
    let mut labels = Map::new();
    labels.insert("kubernetes.io/metadata.name".to_owned(), json!(name));
    if name != "default" || rng.chance(50) {
        labels.insert("team".to_owned(), json!(if name == "team-b" { "b" } else { "a" }));
    }
    if rng.chance(60) {
        labels.insert("env".to_owned(), json!(rng.pick(&["dev", "prod"])));
    }
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
}

fn node(draft: &mut CaseDraft, index: usize) -> Value {
    let name = format!("n{index:02}");
    let labels = node_labels(&mut draft.rng, &name);
    let allocatable = resources::allocatable(draft);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "uid": format!("node-{index}"), "labels": labels},
        "spec": {},
        "status": {
            "allocatable": allocatable, "capacity": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}

fn node_labels(rng: &mut Rng, name: &str) -> Value {
    let mut labels = Map::new();
    let mut set = |key: &str, value: &str| labels.insert(key.to_owned(), json!(value));
    if rng.chance(96) {
        set(HOSTNAME, name);
    }
    let zone = rng.pick(&ZONES);
    let region = if zone == "z3" { "r2" } else { "r1" };
    match rng.weighted(&[(76, 0), (6, 1), (8, 2), (10, 3)]) {
        0 => {
            set(ZONE, zone);
            set(REGION, region);
        }
        1 => {
            set(ZONE, zone);
        }
        2 => {
            set(ZONE_BETA, zone);
            set(REGION_BETA, region);
            if rng.chance(50) {
                set(ZONE, rng.pick(&ZONES));
            }
        }
        _ => {}
    }
    if rng.chance(55) {
        set("rack", rng.pick(&["a", "b", ""]));
    }
    if rng.chance(60) {
        set("disk", rng.pick(&["ssd", "hdd"]));
    }
    if rng.chance(55) {
        set("rank", rng.pick(&["1", "5", "10", "007", "x", "1.5", "9223372036854775808"]));
    }
    Value::Object(labels)
}

fn add_images(draft: &mut CaseDraft) {
    let megabyte = 1024 * 1024;
    for index in 0..draft.nodes.len() {
        if !draft.often(Topic::Images, 75, 120) {
            continue;
        }
        let rng = &mut draft.rng;
        let count = rng.between(1, 4);
        let mut images = Vec::new();
        for name in rng.some(&IMAGES, count) {
            let stored = if name.rfind(':') > name.rfind('/') {
                name.to_owned()
            } else {
                format!("{name}:latest")
            };
            let mut names = vec![stored];
            if rng.chance(30) {
                names.push(format!("{name}@sha256:feed"));
            }
            let size = match rng.below(4) {
                0 => rng.between(1, 60) * megabyte,
                1 => rng.between(60, 900) * megabyte,
                2 => rng.between(900, 4000) * megabyte,
                _ => [100, 500, 1000][rng.below(3)] * megabyte + rng.below(1000),
            };
            images.push(json!({"names": names, "sizeBytes": size}));
        }
        draft.nodes[index]["status"]["images"] = json!(images);
    }
}

fn add_features(draft: &mut CaseDraft) {
    let known = [
        "RestartAllContainersOnContainerExits",
        "UserNamespacesHostNetworkSupport",
        "ExtendWebSocketsToKubelet",
    ];
    for index in 0..draft.nodes.len() {
        if draft.often(Topic::Features, 75, 60) {
            let count = draft.rng.between(1, 3);
            let mut features = draft.rng.some(&known, count);
            features.sort_unstable();
            draft.nodes[index]["status"]["declaredFeatures"] = json!(features);
        }
    }
}

/// Adds a pod that runs on the node.
pub(crate) fn add_running_pod(draft: &mut CaseDraft, node: &str) {
    let index = draft.pods.len();
    let rng = &mut draft.rng;
    let namespace = rng.weighted(&[(70, NAMESPACES[0]), (20, NAMESPACES[1]), (10, NAMESPACES[2])]);
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("p{index:02}"), "namespace": namespace, "uid": format!("pod-{index}"), "labels": pod_labels(rng),
        },
        "spec": {"restartPolicy": "Always", "schedulerName": "default-scheduler", "nodeName": node},
        "status": {"phase": "Running"},
    });
    pod::fill_containers(draft, &mut pod, true);
    preemption::set_priority(draft, &mut pod);
    if draft.often(Topic::Preemption, 6, 15) || draft.often(Topic::Spread, 8, 0) {
        pod["metadata"]["deletionTimestamp"] = json!(time(3000));
        pod["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    }
    if draft.rng.rarely(12) {
        // The scheduler does not watch terminated pods, and they use no resources.
        pod["status"]["phase"] = json!(draft.rng.pick(&["Succeeded", "Failed"]));
    }
    draft.pods.push(pod);
}
