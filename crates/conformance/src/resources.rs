//! Allocatable resources of nodes and requests of pods, in all notations of quantities.

use serde_json::{Map, Value, json};

use crate::draft::{CaseDraft, push};
use crate::rng::Rng;
use crate::theme::Topic;

const CPU_SMALL: [&str; 8] = ["100m", "250m", "0.1", "0", "50m", "1m", "0.25", "200m"];
const CPU_LARGE: [&str; 8] = ["1", "1.5", "2", "500m", "1100m", "750m", "1e0", "0.5"];
const MEMORY_SMALL: [&str; 10] =
    ["64Mi", "128Mi", "200Mi", "0.1Gi", "100m", "1e3", "0", "123456789", "500k", "1M"];
const MEMORY_LARGE: [&str; 7] = ["512Mi", "1Gi", "1.5Gi", "2Gi", "1e9", "700M", "0.75Gi"];
const STORAGE: [&str; 5] = ["500Mi", "1Gi", "2G", "0", "4Gi"];
/// Extended resources; some profiles ignore the group of the last one.
pub(crate) const EXTENDED: [&str; 3] = ["example.com/gpu", "example.com/fpga", "ignored.io/token"];

/// Returns the allocatable resources of a node.
pub(crate) fn allocatable(draft: &mut CaseDraft) -> Value {
    let about = draft.theme.is_about(Topic::Resources);
    let crowded = !about && draft.theme.is_about(Topic::Preemption);
    let rng = &mut draft.rng;
    let (cpu, memory, pods) = if about {
        let cpu = rng.pick(&["1", "2", "3500m", "4", "0.5", "6"]);
        (
            cpu,
            rng.pick(&["1Gi", "2Gi", "3.5Gi", "4Gi", "4e9"]),
            rng.pick(&["4", "6", "10", "110", "2"]),
        )
    } else if crowded {
        (
            rng.pick(&["2", "2500m", "3", "4"]),
            rng.pick(&["3Gi", "4Gi", "6Gi"]),
            rng.pick(&["2", "3", "5", "110"]),
        )
    } else {
        (
            rng.pick(&["4", "8", "7.5", "16"]),
            rng.pick(&["8Gi", "16Gi", "15.5Gi", "32e9"]),
            rng.pick(&["110", "110", "8", "20"]),
        )
    };
    let mut list = Map::new();
    let mut set = |name: &str, value: &str| list.insert(name.to_owned(), json!(value));
    set("cpu", cpu);
    set("memory", memory);
    set("pods", pods);
    if rng.chance(if about { 80 } else { 95 }) {
        set("ephemeral-storage", rng.pick(&["2Gi", "8Gi", "50Gi", "10G"]));
    }
    if about && rng.chance(3) {
        set(rng.pick(&["cpu", "memory", "pods"]), "0");
    }
    if rng.chance(if about { 75 } else { 50 }) {
        set(EXTENDED[0], rng.pick(&["1", "2", "4", "8"]));
    }
    if rng.chance(if about { 55 } else { 30 }) {
        set(EXTENDED[1], rng.pick(&["1", "0", "3"]));
    }
    if rng.chance(if about { 55 } else { 30 }) {
        set("hugepages-2Mi", rng.pick(&["64Mi", "128Mi", "1Gi"]));
    }
    if rng.chance(5) {
        set("attachable-volumes-csi-csi.example.com", "3");
    }
    Value::Object(list)
}

/// Size of the requests of a pod.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestSize {
    Small,
    Large,
}

/// Adds requests of containers, pod overhead and pod-level requests.
pub(crate) fn add_requests(draft: &mut CaseDraft, pod: &mut Value, running: bool) {
    let about = draft.theme.is_about(Topic::Resources);
    let crowded = draft.theme.is_about(Topic::Preemption);
    let large_percent = match (about, crowded, running) {
        (_, true, true) => 65,
        (true, false, true) => 40,
        (true, _, false) => 45,
        (false, true, false) => 0,
        (false, false, true) => 15,
        (false, false, false) => 20,
    };
    let pod_level = draft.often(Topic::Resources, 14, 15);
    let rng = &mut draft.rng;
    let size = if rng.chance(large_percent) && !pod_level {
        RequestSize::Large
    } else {
        RequestSize::Small
    };
    let none = rng.chance(12);
    for list in ["containers", "initContainers"] {
        let count = pod["spec"][list].as_array().map_or(0, Vec::len);
        for index in 0..count {
            if !none && rng.chance(88) {
                pod["spec"][list][index]["resources"] = container_resources(rng, about, size);
            }
        }
    }
    if crowded && !running && !pod_level && draft.rng.chance(80) {
        // Enough to need victims, not more than most nodes have.
        let rng = &mut draft.rng;
        let (cpu, memory) =
            (rng.pick(&["1", "1.5", "1800m", "500m"]), rng.pick(&["512Mi", "1Gi", "2e9"]));
        pod["spec"]["containers"][0]["resources"] =
            json!({"requests": {"cpu": cpu, "memory": memory}});
    }
    if draft.often(Topic::Resources, 15, 20) {
        let rng = &mut draft.rng;
        pod["spec"]["runtimeClassName"] = json!("kata");
        pod["spec"]["overhead"] =
            json!({"cpu": rng.pick(&["50m", "250m"]), "memory": rng.pick(&["120Mi", "0.5Gi"])});
        if rng.chance(30) {
            pod["spec"]["overhead"] = json!({"memory": "64Mi"});
        }
    }
    if pod_level {
        add_pod_level(&mut draft.rng, pod);
    }
    if running && draft.often(Topic::Resources, 25, 10) {
        add_resize_status(&mut draft.rng, pod);
    }
}

fn container_resources(rng: &mut Rng, about: bool, size: RequestSize) -> Value {
    let large = size == RequestSize::Large;
    let (mut requests, mut limits) = (Map::new(), Map::new());
    let cpu = if large && rng.chance(70) { rng.pick(&CPU_LARGE) } else { rng.pick(&CPU_SMALL) };
    let memory =
        if large && rng.chance(60) { rng.pick(&MEMORY_LARGE) } else { rng.pick(&MEMORY_SMALL) };
    if rng.chance(85) {
        requests.insert("cpu".to_owned(), json!(cpu));
    }
    if rng.chance(80) {
        requests.insert("memory".to_owned(), json!(memory));
    }
    if rng.chance(if about { 22 } else { 5 }) {
        requests.insert("ephemeral-storage".to_owned(), json!(rng.pick(&STORAGE)));
    }
    if rng.chance(if about { 18 } else { 2 }) {
        let name = rng.weighted(&[(70, EXTENDED[0]), (15, EXTENDED[1]), (15, EXTENDED[2])]);
        let amount = rng.weighted(&[(70, "1"), (15, "2"), (15, "0")]);
        requests.insert(name.to_owned(), json!(amount));
        limits.insert(name.to_owned(), json!(amount));
    }
    // Huge pages are valid only with cpu or memory.
    if !requests.is_empty() && rng.chance(if about { 10 } else { 1 }) {
        let amount = rng.pick(&["2Mi", "32Mi", "64Mi"]);
        requests.insert("hugepages-2Mi".to_owned(), json!(amount));
        limits.insert("hugepages-2Mi".to_owned(), json!(amount));
    }
    let mut result = json!({});
    if !requests.is_empty() || rng.chance(50) {
        result["requests"] = Value::Object(requests);
    }
    if !limits.is_empty() {
        result["limits"] = Value::Object(limits);
    }
    result
}

/// Adds pod-level requests in an API server's notation, at least as large as those of the containers together, as an API
/// server requires. A fraction such as 1.5Gi would change whenever upstream adds overhead to it, because Go copies only
/// the pointer inside the quantity.
fn add_pod_level(rng: &mut Rng, pod: &mut Value) {
    let mut requests = Map::new();
    if rng.chance(75) {
        requests.insert("cpu".to_owned(), json!(rng.pick(&["1500m", "2", "3"])));
    }
    if rng.chance(75) || requests.is_empty() {
        requests.insert("memory".to_owned(), json!(rng.pick(&["1536Mi", "2Gi", "3e9"])));
    }
    let mut resources = json!({"requests": requests});
    let containers =
        pod["spec"]["containers"].to_string() + &pod["spec"]["initContainers"].to_string();
    if rng.chance(20) && !containers.contains("hugepages") {
        resources["requests"]["hugepages-2Mi"] = json!("64Mi");
        resources["limits"] = json!({"hugepages-2Mi": "64Mi"});
    }
    pod["spec"]["resources"] = resources;
}

/// Adds the status that kubelets report while a running pod is resized in place.
fn add_resize_status(rng: &mut Rng, pod: &mut Value) {
    for (list, statuses) in
        [("containers", "containerStatuses"), ("initContainers", "initContainerStatuses")]
    {
        let names: Vec<Value> = pod["spec"][list]
            .as_array()
            .into_iter()
            .flatten()
            .map(|container| container["name"].clone())
            .collect();
        for name in names {
            let mut status =
                json!({"name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0});
            if rng.chance(80) {
                status["resources"] = json!({"requests": status_amounts(rng)});
            }
            if rng.chance(70) {
                status["allocatedResources"] = status_amounts(rng);
            }
            push(&mut pod["status"], statuses, status);
        }
    }
    if rng.chance(60) {
        let reason = rng.weighted(&[(60, "Infeasible"), (40, "Deferred")]);
        push(
            &mut pod["status"],
            "conditions",
            json!({"type": "PodResizePending", "status": "True", "reason": reason}),
        );
    }
    if pod["spec"]["resources"].is_object() && rng.chance(60) {
        let mut amounts = || json!({"cpu": rng.pick(&["1500m", "2", "4"]), "memory": rng.pick(&["512Mi", "2Gi", "3Gi"])});
        pod["status"]["resources"] = json!({"requests": amounts()});
        pod["status"]["allocatedResources"] = amounts();
    }
}

fn status_amounts(rng: &mut Rng) -> Value {
    let mut amounts = json!({});
    if rng.chance(85) {
        amounts["cpu"] =
            json!(if rng.chance(50) { rng.pick(&CPU_SMALL) } else { rng.pick(&CPU_LARGE) });
    }
    if rng.chance(80) {
        amounts["memory"] =
            json!(if rng.chance(50) { rng.pick(&MEMORY_SMALL) } else { rng.pick(&MEMORY_LARGE) });
    }
    amounts
}

/// Returns arguments of NodeResourcesFit.
pub(crate) fn fit_args(rng: &mut Rng) -> Value {
    let mut args = json!({});
    if rng.chance(25) {
        let count = rng.between(1, 2);
        args["ignoredResources"] = json!(rng.some(&EXTENDED, count));
    }
    if rng.chance(20) {
        args["ignoredResourceGroups"] = json!([rng.pick(&["ignored.io", "example.com"])]);
    }
    if rng.chance(85) {
        let kind = rng.pick(&["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]);
        let mut strategy = json!({"type": kind});
        if rng.chance(75) {
            strategy["resources"] = scored_resources(rng, true);
        }
        if kind == "RequestedToCapacityRatio" {
            strategy["requestedToCapacityRatio"] = json!({"shape": shape(rng)});
        }
        args["scoringStrategy"] = strategy;
    }
    args
}

/// Returns arguments of NodeResourcesBalancedAllocation.
pub(crate) fn balanced_args(rng: &mut Rng) -> Value {
    json!({"resources": scored_resources(rng, false)})
}

fn scored_resources(rng: &mut Rng, weights: bool) -> Value {
    let pool = [
        "cpu",
        "memory",
        "ephemeral-storage",
        EXTENDED[0],
        EXTENDED[1],
        "hugepages-2Mi",
        "cpu",
        "memory",
    ];
    let count = rng.between(1, 4);
    let mut names = Vec::new();
    for name in rng.some(&pool, count) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let resources: Vec<Value> = names
        .into_iter()
        .map(|name| {
            let weight = if weights {
                rng.weighted(&[(40, 1), (20, 2), (20, 5), (10, 100), (10, 0)])
            } else {
                1
            };
            if weight == 0 {
                json!({"name": name})
            } else {
                json!({"name": name, "weight": weight})
            }
        })
        .collect();
    json!(resources)
}

/// Returns the points of a utilisation function: rising, falling or both.
fn shape(rng: &mut Rng) -> Value {
    let count = rng.weighted(&[(10, 1), (45, 2), (30, 3), (15, 4)]);
    let mut utilizations = rng.some(&[0, 10, 30, 33, 50, 67, 70, 90, 100], count);
    utilizations.sort_unstable();
    let points: Vec<Value> = utilizations
        .into_iter()
        .map(|utilization| json!({"utilization": utilization, "score": rng.between(0, 10)}))
        .collect();
    json!(points)
}
