//! Suggestions for pods without feasible nodes.

use insta::assert_snapshot;

use crate::{explain, node, placed, pod};

/// Returns the suggestions for a pod without feasible nodes.
#[track_caller]
fn suggest(cluster: &str, pod: &str) -> String {
    let run = explain(cluster, pod, &["-o", "json"]);
    assert_eq!(run.code, 2, "the pod must fit nowhere: {}", run.text());
    run.suggestions()
}

fn zones() -> String {
    ["1", "2"]
        .iter()
        .flat_map(|zone| {
            (0..3).map(move |n| {
                node(&format!("n{zone}-{n}"), &format!("zone: eu-west-{zone}, disk: ssd"), "")
            })
        })
        .collect()
}

#[test]
fn a_value_that_no_node_has() {
    let wrong = pod("nodeSelector: {zone: eu-wset-1, disk: ssd},");
    assert_snapshot!(suggest(&zones(), &wrong), @r"
    nodeSelector zone=eu-wset-1: no node has it; did you mean eu-west-1 (3 nodes)?
    drop nodeSelector zone=eu-wset-1: opens 6 nodes (n1-0, n1-1, n1-2, …)
    ");
}

#[test]
fn a_value_that_is_far_from_all() {
    assert_snapshot!(suggest(&zones(), &pod("nodeSelector: {zone: antarctica},")), @r"
    nodeSelector zone=antarctica: no node has it; nodes have eu-west-1 (3), eu-west-2 (3)
    drop nodeSelector zone=antarctica: opens 6 nodes (n1-0, n1-1, n1-2, …)
    ");
}

#[test]
fn a_key_that_no_node_has() {
    let cluster = node("a", "topology.kubernetes.io/zone: x", "");
    assert_snapshot!(suggest(&cluster, &pod("nodeSelector: {zone: x},")), @r"
    nodeSelector zone=x: no node has the label zone; did you mean topology.kubernetes.io/zone (1 node)?
    drop nodeSelector zone=x: opens 1 node (a)
    ");
}

#[test]
fn node_affinity_expressions() {
    let affinity = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: \
        [{matchExpressions: [{key: zone, operator: In, values: [eu-west-1]}, {key: disk, operator: NotIn, values: [ssd]}]}]}}},";
    assert_snapshot!(suggest(&zones(), &pod(affinity)), @r"
    drop the required node affinity: opens 6 nodes (n1-0, n1-1, n1-2, …)
    drop the node affinity rule disk!=ssd: opens 3 nodes (n1-0, n1-1, n1-2)
    ");
    let one = "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: \
        [{matchExpressions: [{key: cores, operator: Gt, values: ['8']}]}]}}},";
    assert_snapshot!(suggest(&zones(), &pod(one)), @"drop the node affinity rule cores>8: opens 6 nodes (n1-0, n1-1, n1-2, …)");
}

#[test]
fn taints_and_cordons() {
    let cluster = node("a", "", "taints: [{key: dedicated, value: gpu, effect: NoSchedule}]")
        + &node("b", "", "taints: [{key: dedicated, value: gpu, effect: NoSchedule}]")
        + &node("c", "", "taints: [{key: node.kubernetes.io/not-ready, effect: NoExecute}]")
        + &node(
            "d",
            "",
            "unschedulable: true, taints: [{key: node.kubernetes.io/unschedulable, effect: NoSchedule}]",
        )
        + &node(
            "e",
            "",
            "taints: [{key: one, effect: NoSchedule}, {key: two, effect: NoSchedule}]",
        );
    assert_snapshot!(suggest(&cluster, &pod("")), @r"
    tolerate taint dedicated=gpu:NoSchedule: opens 2 nodes (a, b)
    repair the nodes that Kubernetes tainted with node.kubernetes.io/not-ready:NoExecute: opens 1 node (c)
    uncordon nodes: opens 1 node (d)
    ");
}

#[test]
fn host_ports() {
    let taken = placed("q", "a", "").replace("image: i", "image: i, ports: [{hostPort: 8080}]");
    let asked = pod("").replace("image: i,", "image: i, ports: [{hostPort: 8080}],");
    assert_snapshot!(suggest(&(node("a", "", "") + &taken), &asked), @"use another host port than 8080/TCP: opens 1 node (a)");
}

#[test]
fn pod_affinity_terms() {
    let term = |kind: &str, app: &str| {
        format!(
            "{kind}: {{requiredDuringSchedulingIgnoredDuringExecution: \
             [{{labelSelector: {{matchLabels: {{app: {app}}}}}, topologyKey: kubernetes.io/hostname}}]}}"
        )
    };
    let cluster =
        node("a", "", "") + &node("b", "", "") + &placed("web", "a", "") + &placed("db", "b", "");
    let affinity = format!("affinity: {{{}}},", term("podAffinity", "cache"));
    assert_snapshot!(suggest(&cluster, &pod(&affinity)), @"drop the required pod affinity to app=cache by kubernetes.io/hostname: opens 2 nodes (a, b)");
    let both = format!(
        "affinity: {{{}, {}}},",
        term("podAffinity", "web"),
        term("podAntiAffinity", "web")
    );
    assert_snapshot!(suggest(&cluster, &pod(&both)), @r"
    drop the required pod affinity to app=web by kubernetes.io/hostname: opens 1 node (b)
    drop the required pod anti-affinity to app=web by kubernetes.io/hostname: opens 1 node (a)
    ");
    let repelling =
        placed("lonely", "a", &format!("affinity: {{{}}},", term("podAntiAffinity", "p")));
    assert_snapshot!(suggest(&(node("a", "", "") + &repelling), &pod("")), @"move pods whose anti-affinity matches the labels of this one (default/lonely): opens up to 1 node (a)");
}

#[test]
fn spread_constraints() {
    let spread = "topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, \
        labelSelector: {matchLabels: {app: web}}}],";
    let cluster = node("a", "zone: x", "")
        + &node("b", "zone: two", "taints: [{key: k, effect: NoSchedule}]")
        + &placed("web", "a", "");
    let asked = pod(spread).replace("app: p", "app: web");
    assert_snapshot!(suggest(&cluster, &asked), @r"
    tolerate taint k:NoSchedule: opens 1 node (b)
    soften the spread constraint by zone (maxSkew 1) to ScheduleAnyway: opens 1 node (a)
    ");
    let unknown = pod(&spread.replace("topologyKey: zone", "topologyKey: zome"));
    assert_snapshot!(suggest(&cluster, &unknown), @r"
    spread constraint by zome: no node has the label zome; did you mean zone (2 nodes)?
    soften the spread constraint by zome (maxSkew 1) to ScheduleAnyway: opens 1 node (a)
    ");
}

#[test]
fn the_largest_size_that_fits() {
    let busy = |name: &str, node: &str, requests: &str| {
        placed(name, node, "")
            .replace("image: i", &format!("image: i, resources: {{requests: {{{requests}}}}}"))
    };
    let cluster = node("a", "", "")
        + &node("b", "", "")
        + &busy("q", "a", "cpu: 500m, memory: 1Gi")
        + &busy("r", "b", "cpu: 2, memory: 5Gi");
    let sized = |requests: &str| pod("").replace("cpu: 500m, memory: 1Gi", requests);
    assert_snapshot!(suggest(&cluster, &sized("cpu: 16, memory: 1Gi")), @"lower the cpu request from 16 to at most 3500m, which a has left: opens up to 2 nodes (a, b)");
    assert_snapshot!(suggest(&cluster, &sized("cpu: 1, memory: 100G")), @"lower the memory request from 100G to at most 7Gi, which a has left: opens up to 2 nodes (a, b)");
    assert_snapshot!(suggest(&cluster, &sized("cpu: 16, memory: 100Gi")), @"lower the requests: a comes closest (cpu from 16 to 3500m and memory from 100Gi to 7Gi); smaller ones open up to 2 nodes (a, b)");
    assert_snapshot!(suggest(&cluster, &sized("cpu: 1, example.com/gpus: 1")), @r"
    resource example.com/gpus: no node offers it
    drop the example.com/gpus request of 1: opens 2 nodes (a, b)
    ");
    let offers = cluster.replace("cpu: 4, memory: 8Gi", "cpu: 4, memory: 8Gi, example.com/gpu: 2");
    assert_snapshot!(suggest(&offers, &sized("cpu: 1, example.com/gpus: 1")), @r"
    resource example.com/gpus: no node offers it; did you mean example.com/gpu (2 nodes)?
    drop the example.com/gpus request of 1: opens 2 nodes (a, b)
    ");
    assert_snapshot!(suggest(&offers, &sized("cpu: 1, example.com/gpu: 3")), @"lower the example.com/gpu request from 3 to at most 2, which a has left: opens up to 2 nodes (a, b)");
}

#[test]
fn nodes_full_of_pods() {
    let cluster = node("a", "", "").replace("pods: 10", "pods: 1") + &placed("q", "a", "");
    assert_snapshot!(suggest(&cluster, &pod("")), @"allow more pods per node (maxPods of the kubelet), or remove one: opens 1 node (a)");
}

#[test]
fn claims_that_are_not_there() {
    let asked = pod("volumes: [{name: v, persistentVolumeClaim: {claimName: dta}}],");
    let cluster = node("a", "", "");
    assert_snapshot!(suggest(&cluster, &asked), @"create PersistentVolumeClaim default/dta, which does not exist: opens up to 1 node (a)");
    let claim = |spec: &str| {
        format!(
            "---\n{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: data}}, spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 10Gi}}}}, {spec}}}}}\n"
        )
    };
    assert_snapshot!(suggest(&(cluster.clone() + &claim("")), &asked), @"create PersistentVolumeClaim default/dta, which does not exist (did you mean data?): opens up to 1 node (a)");
    let asked = asked.replace("dta", "data");
    let with = |claim: &str, class: &str| format!("{}{claim}{class}", node("a", "", ""));
    assert_snapshot!(suggest(&with(&claim("storageClassName: ''"), ""), &asked), @"create a PersistentVolume of 10Gi without a class for PersistentVolumeClaim default/data, which is not bound: opens up to 1 node (a)");
    assert_snapshot!(suggest(&with(&claim("storageClassName: fast"), ""), &asked), @"create StorageClass fast, which PersistentVolumeClaim default/data names: opens up to 1 node (a)");
    let class = |mode: &str| {
        format!(
            "---\n{{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {{name: fast}}, provisioner: kubernetes.io/no-provisioner, volumeBindingMode: {mode}}}\n"
        )
    };
    assert_snapshot!(suggest(&with(&claim("storageClassName: fast"), &class("Immediate")), &asked), @"create a PersistentVolume of 10Gi of class fast for PersistentVolumeClaim default/data, which is not bound and does not wait for the pod: opens up to 1 node (a)");
    assert_snapshot!(suggest(&with(&claim("storageClassName: fast"), &class("WaitForFirstConsumer")), &asked), @"create a PersistentVolume of 10Gi of class fast that these nodes can use for PersistentVolumeClaim default/data: opens up to 1 node (a)");
}

#[test]
fn a_node_name_that_does_not_exist() {
    assert_snapshot!(suggest(&node("worker-1", "", ""), &pod("nodeName: wroker-1,")), @r"
    nodeName wroker-1: there is no such node; did you mean worker-1?
    drop nodeName wroker-1: opens 1 node (worker-1)
    ");
}

#[test]
fn claims_on_devices_are_not_supported_yet() {
    let asked = pod("resourceClaims: [{name: gpu, resourceClaimName: gpu}],");
    assert_snapshot!(suggest(&node("a", "", ""), &asked), @"drop the claims on devices (gpu), which are not supported yet: opens 1 node (a)");
}

#[test]
fn no_single_change_is_enough() {
    let cluster = node(
        "a",
        "",
        "taints: [{key: one, effect: NoSchedule}, {key: two, effect: NoSchedule}]",
    ) + &node(
        "b",
        "",
        "taints: [{key: one, effect: NoSchedule}], unschedulable: true",
    ) + &node(
        "c",
        "",
        "taints: [{key: one, effect: NoSchedule}, {key: two, effect: NoSchedule}], unschedulable: true",
    );
    assert_snapshot!(suggest(&cluster, &pod("nodeSelector: {zone: x},")), @r"
    nodeSelector zone=x: no node has the label zone
    no single change is enough; nodes are rejected by NodeUnschedulable and TaintToleration and NodeAffinity (2 nodes), TaintToleration and NodeAffinity (1 node)
    ");
}
