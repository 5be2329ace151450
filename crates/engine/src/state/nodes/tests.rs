//! Tests of the node table.

use super::*;
use crate::object::{Image, InlineDisk, Labels, Pod, Protocol, Resources, Taint};
use crate::state::State;
use crate::testing::{self, labels, state};

/// A node with 4 cores that offers scalar resources.
fn node(name: &str, scalars: &[(&str, i64)]) -> Node {
    let mut node = testing::node(name);
    node.allocatable.scalars =
        scalars.iter().map(|(name, amount)| ((*name).into(), *amount)).collect();
    node
}

/// A pod on a node that requests cpu, memory and scalar resources.
fn pod(name: &str, node: &str, cpu: i64, memory: i64, scalars: &[(&str, i64)]) -> Pod {
    let mut pod = Pod { node: node.into(), ..testing::pod(name) };
    let scalars = scalars.iter().map(|(name, amount)| ((*name).into(), *amount)).collect();
    let spec = pod.spec_mut();
    spec.requests_on_node = Resources { cpu, memory, ephemeral: 0, scalars };
    (spec.non_zero_cpu, spec.non_zero_memory) = (cpu, memory);
    pod
}

fn find(state: &State, name: &str) -> NodeIdx {
    state.nodes.find(name).unwrap()
}

fn set(state: &mut State, node: Node) {
    state.set_node(&node.into());
}

fn remove_pod(state: &mut State, name: &str) {
    let pod = state.find_pod("default", name).unwrap();
    testing::remove_pod(state, pod);
}

#[test]
fn a_node_is_found_while_it_exists_and_keeps_its_slot() {
    let mut state = state([node("a", &[]), node("b", &[])], []);
    let (a, b) = (find(&state, "a"), find(&state, "b"));
    assert_eq!((state.nodes.name(a), &*state.nodes.object(b).name), ("a", "b"));
    assert_eq!((state.nodes.count(), state.nodes.slots()), (2, 2));
    set(&mut state, Node { unschedulable: true, ..node("a", &[]) });
    assert_eq!((find(&state, "a"), state.nodes.count()), (a, 2));
    assert_eq!(state.remove_node("a").map(|old| old.unschedulable), Some(true));
    assert_eq!((state.nodes.find("a"), state.remove_node("a")), (None, None));
    assert_eq!((state.nodes.count(), state.nodes.present().iter().collect()), (1, vec![b]));
}

#[test]
fn a_slot_used_again_has_nothing_of_the_node_before() {
    let taint = |effect| Taint { key: "k".into(), value: "".into(), effect };
    let mut old = node("old", &[("a.com/gpu", 8)]);
    old.labels = labels(&[("zone", "a")]);
    old.taints = [taint(TaintEffect::NoExecute), taint(TaintEffect::PreferNoSchedule)].into();
    old.unschedulable = true;
    old.images = [Image { names: ["image".into()].into(), size: 1 }].into();
    let mut state = state([old], [pod("p", "old", 100, 10, &[("a.com/gpu", 1)])]);
    let zone = state.label_column("zone");
    let slot = find(&state, "old");
    remove_pod(&mut state, "p");
    state.remove_node("old");
    let bare = Node { name: "new".into(), ..Node::default() };
    set(&mut state, bare);
    assert_eq!(find(&state, "new"), slot);
    let nodes = &state.nodes;
    let gpu = state.resources.get("a.com/gpu").unwrap();
    for resource in [ResourceIdx::CPU, ResourceIdx::MEMORY, gpu] {
        let amounts = (nodes.allocatable_of(resource, slot), nodes.requested_of(resource, slot));
        assert_eq!(amounts, (0, 0), "{}", state.resources.name(resource));
    }
    for set in [nodes.unschedulable(), nodes.hard_tainted(), nodes.soft_tainted()] {
        assert!(set.is_empty());
    }
    assert!(!nodes.taint_lists().of(slot).is_some());
    assert!(!state.topology.column(zone).domain(slot).is_some());
    assert_eq!(state.images.get("image"), None);
    assert_eq!((nodes.allowed_pods()[slot.at()], nodes.pod_counts()[slot.at()]), (0, 0));
    assert_eq!(state.lowest_priorities.of(slot), i32::MAX);
}

#[test]
fn a_deleted_node_with_pods_keeps_an_orphan_slot_until_they_are_gone() {
    let mut state =
        state([node("a", &[])], [pod("p", "a", 100, 0, &[]), pod("q", "a", 20, 0, &[])]);
    let slot = find(&state, "a");
    state.remove_node("a");
    assert_eq!(state.nodes.find("a"), None);
    assert_eq!((state.nodes.name(slot), state.nodes.pods(slot).len()), ("a", 2));
    let offered = state.nodes.allocatable_of(ResourceIdx::CPU, slot);
    assert_eq!((offered, state.nodes.allowed_pods()[slot.at()]), (0, 0));
    set(&mut state, node("b", &[]));
    assert_ne!(find(&state, "b"), slot, "the slot is still in use");
    remove_pod(&mut state, "p");
    assert_eq!(state.nodes.requested_of(ResourceIdx::CPU, slot), 20);
    remove_pod(&mut state, "q");
    set(&mut state, node("c", &[]));
    assert_eq!((find(&state, "c"), state.nodes.slots()), (slot, 2), "the slot is free again");
    assert_eq!(state.nodes.find("a"), None);
}

#[test]
fn a_node_that_comes_back_finds_the_pods_that_stayed() {
    let mut state = state([node("a", &[])], [pod("p", "a", 100, 7, &[])]);
    let slot = find(&state, "a");
    state.remove_node("a");
    set(&mut state, node("a", &[]));
    assert_eq!(find(&state, "a"), slot);
    assert_eq!(state.nodes.requested_of(ResourceIdx::CPU, slot), 100);
    assert_eq!(state.nodes.allocatable_of(ResourceIdx::CPU, slot), 4000);
    assert_eq!(state.nodes.pod_counts()[slot.at()], 1);
    assert_eq!(state.audit_nodes(0..usize::MAX), Ok(()));
}

#[test]
fn pods_may_name_a_node_before_it_exists() {
    let mut state = state([node("a", &[])], [pod("p", "late", 100, 0, &[("a.com/gpu", 2)])]);
    assert_eq!((state.nodes.find("late"), state.nodes.count()), (None, 1));
    set(&mut state, node("late", &[("a.com/gpu", 4)]));
    let late = find(&state, "late");
    let gpu = state.resources.get("a.com/gpu").unwrap();
    assert_eq!(state.nodes.requested_of(gpu, late), 2);
    assert_eq!(state.nodes.allocatable_of(gpu, late), 4);
    assert_eq!(state.nodes.allocatable_of(gpu, find(&state, "a")), 0);
}

#[test]
fn columns_have_an_entry_for_every_slot_however_late_they_are_made() {
    let mut state = State::default();
    for number in 0..300 {
        let scalars: &[(&str, i64)] =
            if number >= 150 { &[("a.com/gpu", 1), ("a.com/npu", 2)] } else { &[] };
        set(&mut state, node(&format!("n{number}"), scalars));
        if number == 200 {
            state.add_pod(pod("p", "n3", 5, 0, &[("b.com/fpga", 9)]));
        }
    }
    let slots = state.nodes.slots();
    assert_eq!(slots, 300);
    for name in ["cpu", "memory", "a.com/gpu", "a.com/npu"] {
        let resource = state.resources.get(name).unwrap();
        assert_eq!(state.nodes.allocatable(resource).map(<[_]>::len), Some(slots), "{name}");
    }
    let [gpu, fpga] = ["a.com/gpu", "b.com/fpga"].map(|name| state.resources.get(name).unwrap());
    assert_eq!(state.nodes.allocatable(gpu).unwrap().iter().sum::<i64>(), 150);
    let requested = state.nodes.requested(fpga).unwrap();
    assert_eq!((requested.len(), requested[3], requested.iter().sum()), (slots, 9, 9));
    for length in [
        state.nodes.allowed_pods().len(),
        state.nodes.pod_counts().len(),
        state.nodes.non_zero_cpu().len(),
        state.nodes.non_zero_memory().len(),
        state.nodes.taint_lists().column().len(),
    ] {
        assert_eq!(length, slots);
    }
}

#[test]
fn a_resource_that_no_pod_requests_has_no_column_of_requests() {
    let mut state =
        state([node("a", &[("a.com/gpu", 1)])], [pod("p", "a", 1, 0, &[("a.com/gpu", 0)])]);
    let gpu = state.resources.get("a.com/gpu").unwrap();
    assert_eq!((state.nodes.allocatable(gpu), state.nodes.requested(gpu)), (Some(&[1][..]), None));
    assert_eq!(state.nodes.requested_of(gpu, NodeIdx(0)), 0);
    state.add_pod(pod("q", "a", 1, 0, &[("a.com/gpu", 3)]));
    assert_eq!(state.nodes.requested(gpu), Some(&[3][..]));
}

#[test]
fn a_resource_that_a_node_no_longer_offers_is_zero() {
    let mut state = state([node("a", &[("a.com/gpu", 8)])], []);
    let gpu = state.resources.get("a.com/gpu").unwrap();
    set(&mut state, node("a", &[]));
    assert_eq!(state.nodes.allocatable(gpu), Some(&[0][..]));
    assert_eq!(state.nodes.allocatable_of(ResourceIdx::CPU, NodeIdx(0)), 4000);
}

#[test]
fn requests_beyond_64_bits_are_exact_again_once_a_pod_leaves() {
    let huge = i64::MAX - 10;
    let pods =
        [pod("p", "a", huge, huge, &[]), pod("q", "a", huge, huge, &[]), pod("r", "a", 7, 7, &[])];
    let mut state = state([node("a", &[])], pods);
    let sums = |state: &State| {
        let nodes = &state.nodes;
        let memory = nodes.requested_of(ResourceIdx::MEMORY, NodeIdx(0));
        (memory, nodes.non_zero_cpu()[0], nodes.non_zero_memory()[0])
    };
    assert_eq!(sums(&state), (i64::MAX, i64::MAX, i64::MAX));
    remove_pod(&mut state, "p");
    assert_eq!(sums(&state), (huge + 7, huge + 7, huge + 7));
    remove_pod(&mut state, "q");
    assert_eq!(sums(&state), (7, 7, 7));
}

#[test]
fn a_host_port_is_listed_once_and_freed_by_the_first_pod_that_goes() {
    let port = |port| HostPort { ip: "0.0.0.0".into(), protocol: Protocol::Tcp, port };
    let with_ports = |name: &str, ports: &[i32]| {
        let mut pod = pod(name, "a", 0, 0, &[]);
        pod.spec_mut().host_ports = ports.iter().copied().map(port).collect();
        pod
    };
    let pods = [with_ports("p", &[80, 443]), with_ports("q", &[80, 90]), with_ports("r", &[])];
    let mut state = state([node("a", &[])], pods);
    let ports = |state: &State| -> Vec<i32> {
        state.nodes.ports(NodeIdx(0)).iter().map(|port| port.port).collect()
    };
    assert_eq!(ports(&state), [80, 443, 90]);
    remove_pod(&mut state, "r");
    assert_eq!(ports(&state), [80, 443, 90]);
    // As upstream, although the other pod has it too.
    remove_pod(&mut state, "q");
    assert_eq!(ports(&state), [443]);
    remove_pod(&mut state, "p");
    assert_eq!(ports(&state), []);
}

#[test]
fn ports_differ_by_address_and_protocol() {
    let port = |ip: &str, protocol| HostPort { ip: ip.into(), protocol, port: 80 };
    let mut pod = pod("p", "a", 0, 0, &[]);
    pod.spec_mut().host_ports = [
        port("0.0.0.0", Protocol::Tcp),
        port("10.0.0.1", Protocol::Tcp),
        port("0.0.0.0", Protocol::Udp),
        port("0.0.0.0", Protocol::Tcp),
    ]
    .into();
    let state = state([node("a", &[])], [pod]);
    assert_eq!(state.nodes.ports(NodeIdx(0)).len(), 3);
}

#[test]
fn volumes_of_pods_are_counted_by_whether_they_name_a_claim() {
    let claim = Volume::Claim { name: "c".into() };
    let ephemeral = Volume::Ephemeral { claim: "p-v".into() };
    let inline = Volume::Inline(InlineDisk::AzureDisk { uri: "u".into() });
    let with_volumes = |name: &str, volumes: &[&Volume]| {
        let mut pod = pod(name, "a", 0, 0, &[]);
        pod.spec_mut().volumes = volumes.iter().copied().cloned().collect();
        pod
    };
    let pods = [with_volumes("p", &[&claim, &ephemeral, &inline]), with_volumes("q", &[&claim])];
    let mut state = state([node("a", &[])], pods);
    assert_eq!(state.nodes.volumes(NodeIdx(0)), VolumeCount { claims: 2, others: 2 });
    remove_pod(&mut state, "p");
    assert_eq!(state.nodes.volumes(NodeIdx(0)), VolumeCount { claims: 1, others: 0 });
    remove_pod(&mut state, "q");
    assert_eq!(state.nodes.volumes(NodeIdx(0)), VolumeCount::default());
}

#[test]
fn taints_are_hard_or_soft_by_their_effects() {
    use TaintEffect::{NoExecute, NoSchedule, PreferNoSchedule};
    for (effects, hard, soft) in [
        (&[][..], false, false),
        (&[NoSchedule], true, false),
        (&[NoExecute], true, false),
        (&[PreferNoSchedule], false, true),
        (&[PreferNoSchedule, NoExecute], true, true),
    ] {
        let taint =
            |effect: &TaintEffect| Taint { key: "k".into(), value: "".into(), effect: *effect };
        let taints = effects.iter().map(taint).collect();
        let mut state = state([Node { taints, ..node("a", &[]) }], []);
        let kept = |state: &State| {
            let nodes = &state.nodes;
            (nodes.hard_tainted().contains(NodeIdx(0)), nodes.soft_tainted().contains(NodeIdx(0)))
        };
        assert_eq!(kept(&state), (hard, soft), "{effects:?}");
        set(&mut state, node("a", &[]));
        assert_eq!(kept(&state), (false, false));
    }
}

#[test]
fn readers_learn_of_pods_on_nodes_that_exist_only() {
    let mut state = state([node("a", &[]), node("b", &[])], []);
    let begun = state.nodes.pod_changes().end();
    for (name, on) in [("p", "b"), ("q", "unknown"), ("r", "a"), ("s", "b")] {
        state.add_pod(pod(name, on, 1, 1, &[]));
    }
    remove_pod(&mut state, "p");
    remove_pod(&mut state, "q");
    let (a, b) = (find(&state, "a"), find(&state, "b"));
    assert_eq!(state.nodes.pod_changes().since(begun), Some(&[b, a, b, b][..]));
    for _ in 0..=NODE_CHANGES_MAX {
        testing::displace(&mut state, "r");
        testing::place(&mut state, "r", "a");
    }
    assert_eq!(state.nodes.pod_changes().since(begun), None, "too far behind");
}

#[test]
fn zones_order_the_nodes_of_the_table() {
    let in_zone = |name: &str, zone: &str| {
        let labels: Labels = labels(&[("topology.kubernetes.io/zone", zone)]);
        Node { labels, ..node(name, &[]) }
    };
    let mut state = state([in_zone("a", "1"), in_zone("b", "1"), in_zone("c", "2")], []);
    let names = |state: &mut State| -> Vec<String> {
        state.nodes.refresh_order();
        state.nodes.order().iter().map(|node| state.nodes.name(*node).to_owned()).collect()
    };
    assert_eq!(names(&mut state), ["a", "c", "b"]);
    set(&mut state, in_zone("a", "2"));
    assert_eq!(names(&mut state), ["a", "c", "b"], "it stays until a node comes or goes");
    state.remove_node("c");
    assert_eq!(names(&mut state), ["b", "a"]);
}
