//! The files in `deploy/examples`, which the README uses.

use insta::assert_snapshot;

use crate::{Run, jindou, root};

fn example(pod: &str) -> Run {
    let (cluster, pod) = ("deploy/examples/cluster.yaml", format!("deploy/examples/{pod}.yaml"));
    jindou(&root(), &["explain", "--snapshot", cluster, "--pod", &pod])
}

#[test]
fn a_pod_that_fits() {
    assert_snapshot!(example("pod-fits").text(), @r"
    shop/web-3 goes to worker-c1
    5 of 8 nodes fit; its total of 599 is the highest. Ahead of worker-a2 by PodTopologySpread +200, NodeResourcesBalancedAllocation -2, NodeResourcesFit -25.

    NODE       TOTAL  ImageLocality  NodeResourcesBalancedAllocation  NodeResourcesFit  PodTopologySpread
    worker-c1    599              0                               73                26                200
    worker-a2    426              0                               75                51                  0
    worker-a1    410              8                               73                29                  0
    worker-b1    402              0                               73                29                  0
    worker-b2    392              0                               75                17                  0
    Equal on all: DynamicResources 0, TaintToleration 300

    NODES  PLUGIN             REASON                            WHICH
        2  TaintToleration    node(s) had untolerated taint(s)  control-1, gpu-c1
        1  NodeUnschedulable  node(s) were unschedulable        worker-c2
    --- exit code 0
    ");
}

#[test]
fn a_typo_in_the_selector() {
    assert_snapshot!(example("pod-typo").text(), @r"
    shop/search-1 fits on none of 8 nodes
    0/8 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s), 5 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/8 nodes are available: 8 Preemption is not helpful for scheduling.

    NODES  PLUGIN             REASON                                             WHICH
        5  NodeAffinity       node(s) didn't match Pod's node affinity/selector  worker-a1, worker-a2, worker-b1, …
        2  TaintToleration    node(s) had untolerated taint(s)                   control-1, gpu-c1
        1  NodeUnschedulable  node(s) were unschedulable                         worker-c2

    What would help
      - nodeSelector topology.kubernetes.io/zone=eu-wset-1a: no node has it; did you mean eu-west-1a (3 nodes)?
      - drop nodeSelector topology.kubernetes.io/zone=eu-wset-1a: opens 3 nodes (worker-a1, worker-b1, worker-c1)
    --- exit code 2
    ");
}

#[test]
fn a_pod_that_is_too_large() {
    assert_snapshot!(example("pod-too-large").text(), @r"
    batch/import-1 fits on none of 8 nodes
    0/8 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s), 4 Insufficient memory, 5 Insufficient cpu. no new claims to deallocate, preemption: not eligible due to preemptionPolicy=Never.

    NODES  PLUGIN             REASON                                 WHICH
        4  NodeResourcesFit   Insufficient cpu, Insufficient memory  worker-a1, worker-b1, worker-b2, …
        2  TaintToleration    node(s) had untolerated taint(s)       control-1, gpu-c1
        1  NodeResourcesFit   Insufficient cpu                       worker-a2
        1  NodeUnschedulable  node(s) were unschedulable             worker-c2

    What would help
      - lower the cpu request from 6 to at most 2500m, which worker-a2 has left: opens up to 1 node (worker-a2)
    --- exit code 2
    ");
}

#[test]
fn a_pod_that_preempts() {
    assert_snapshot!(example("pod-preempts").text(), @r"
    shop/checkout-1 fits on none of 8 nodes
    0/8 nodes are available: 1 node(s) were unschedulable, 2 node(s) had untolerated taint(s), 5 Insufficient cpu.

    NODES  PLUGIN             REASON                            WHICH
        5  NodeResourcesFit   Insufficient cpu                  worker-a1, worker-a2, worker-b1, …
        2  TaintToleration    node(s) had untolerated taint(s)  control-1, gpu-c1
        1  NodeUnschedulable  node(s) were unschedulable        worker-c2

    Preemption would make room on worker-c1 by evicting batch/report-4.

    What would help
      - lower the cpu request from 3 to at most 2500m, which worker-a2 has left: opens up to 5 nodes (worker-a1, worker-a2, worker-b1, …)
      - uncordon nodes: opens 1 node (worker-c2)
    --- exit code 2
    ");
}

#[test]
fn the_configurations_are_valid() {
    for file in ["config-most-allocated.yaml", "config-v1beta2.yaml"] {
        let file = format!("deploy/examples/{file}");
        let run = jindou(&root(), &["config", "check", &file]);
        assert_eq!((run.code, &*run.stdout), (0, &*format!("{file}: valid\n")), "{}", run.stderr);
    }
}
