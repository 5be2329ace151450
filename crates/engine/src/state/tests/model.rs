//! The state compared with a plain list of objects, counted anew after each of many random changes.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::super::domains::DomainSums;
use super::super::tallies::{Matcher, NamespaceScope, TallySource};
use super::super::terms::TermKind;
use super::super::*;
use crate::index::ResourceIdx;
use crate::object::{
    Image, Labels, Node, Pod, PodSpec, Selector, Taint, TaintEffect, Text, Volume,
};
use crate::testing::{self, labels, pod_term, selector};

const NODES: usize = 5;
const PODS: usize = 12;
const KINDS: usize = 6;

#[derive(Clone, Debug)]
enum Step {
    /// A node in one of several forms.
    SetNode(usize, usize),
    RemoveNode(usize),
    /// A pod of one of several kinds, pending or on a node that perhaps does not exist.
    AddPod(usize, usize, Option<usize>),
    RemovePod(usize),
    /// A new version of a pod, of another kind.
    UpdatePod(usize, usize),
    Terminate(usize),
    Place(usize, usize),
    Displace(usize),
    /// Readers catch up.
    Read,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..NODES, 0_usize..8).prop_map(|(node, form)| Step::SetNode(node, form)),
        1 => (0..NODES).prop_map(Step::RemoveNode),
        6 => (0..PODS, 0..KINDS, prop::option::weighted(0.7, 0..NODES))
            .prop_map(|(pod, kind, node)| Step::AddPod(pod, kind, node)),
        2 => (0..PODS).prop_map(Step::RemovePod),
        3 => (0..PODS, 0..KINDS).prop_map(|(pod, kind)| Step::UpdatePod(pod, kind)),
        1 => (0..PODS).prop_map(Step::Terminate),
        3 => (0..PODS, 0..NODES).prop_map(|(pod, node)| Step::Place(pod, node)),
        2 => (0..PODS).prop_map(Step::Displace),
        2 => Just(Step::Read),
    ]
}

fn node(number: usize, form: usize) -> Node {
    let mut node = testing::node(&format!("n{number}"));
    if form != 0 {
        node.labels = labels(&[("zone", ["a", "b"][form % 2])]);
    }
    if form >= 4 {
        let effect = if form.is_multiple_of(2) {
            TaintEffect::NoSchedule
        } else {
            TaintEffect::PreferNoSchedule
        };
        node.taints = [Taint { key: "k".into(), value: "".into(), effect }].into();
        node.allocatable.scalars = [("a.com/gpu".into(), form as i64)].into();
    }
    node.unschedulable = form == 7;
    node.images = [Image { names: [format!("image{}", form % 3).into()].into(), size: 1 }].into();
    node.allocatable.cpu = 1000 * form as i64;
    node
}

/// Kinds differ in labels, requests, affinity terms and claims.
fn pod(number: usize, kind: usize, node: Option<usize>) -> Pod {
    let mut pod = Pod {
        labels: labels(&[("app", ["web", "db"][kind % 2]), ("kind", &kind.to_string())]),
        priority: kind as i32 - 2,
        node: node.map_or(Text::default(), |node| format!("n{node}").into()),
        ..testing::pod(&format!("p{number}"))
    };
    let spec = pod.spec_mut();
    spec.requests_on_node.cpu = [0, 100, 250, i64::MAX - 5, 70, i64::MAX][kind];
    (spec.non_zero_cpu, spec.non_zero_memory) = (100 + kind as i64, i64::MAX / 6 * kind as i64);
    if kind >= 3 {
        spec.requests_on_node.scalars = [("a.com/gpu".into(), kind as i64)].into();
        spec.pod_affinity.required_anti = [pod_term("zone", &[("app", "web")])].into();
    }
    if kind >= 4 {
        spec.pod_affinity.preferred = [(kind as i32, pod_term("zone", &[("app", "db")]))].into();
        spec.volumes = [Volume::Claim { name: format!("c{}", kind % 2).into() }].into();
    }
    pod
}

fn source(live_only: bool) -> TallySource {
    let matcher = Matcher { scope: NamespaceScope::All, selector: selector(&[("app", "web")]) };
    TallySource::Matching { matchers: [matcher].into(), live_only }
}

/// The expected contents of the state.
#[derive(Default)]
struct Model {
    nodes: BTreeMap<String, Node>,
    /// Pods by name, each with the node it is on.
    pods: BTreeMap<String, Pod>,
}

impl Model {
    fn on<'a>(&'a self, node: &'a str) -> impl Iterator<Item = &'a Pod> {
        self.pods.values().filter(move |pod| *pod.node == *node)
    }

    fn live_nodes(&self, holds: impl Fn(&Node) -> bool) -> BTreeSet<String> {
        let nodes = self.nodes.iter().filter(|(_, node)| holds(node));
        nodes.map(|(name, _)| name.clone()).collect()
    }
}

/// A reader of a tally, which counts pods by zone.
struct Reader {
    live_only: bool,
    sums: DomainSums,
    versions: Versions,
}

impl Reader {
    fn new(state: &mut State, live_only: bool) -> Self {
        let mut sums = DomainSums::new(state, "zone", None);
        sums.follow(state, &source(live_only), 1);
        Self { live_only, sums, versions: state.versions() }
    }

    /// Follows the changes, or counts anew after a change of nodes as prepared filters do.
    fn catch_up(&mut self, state: &mut State) {
        let valid = state.versions().agree(&self.versions, Areas::NODES);
        if !(valid && self.sums.refresh(state, |_| {})) {
            *self = Self::new(state, self.live_only);
        }
    }

    fn check(&mut self, state: &mut State, model: &Model) {
        self.catch_up(state);
        let column = state.topology.column(self.sums.key());
        for zone in ["a", "b"] {
            let nodes = model.live_nodes(|node| node.labels.get("zone") == Some(zone));
            let pods = nodes.iter().flat_map(|node| model.on(node));
            let counted = pods.filter(|pod| {
                pod.labels.get("app") == Some("web") && !(self.live_only && pod.terminating)
            });
            let kept = column.find(zone).map_or(0, |domain| self.sums.sum(domain));
            assert_eq!(kept, counted.count() as i64, "zone {zone}, live only: {}", self.live_only);
        }
    }
}

fn apply(state: &mut State, model: &mut Model, step: &Step) {
    let known = |state: &State, pod: usize| state.find_pod("default", &format!("p{pod}"));
    match *step {
        Step::SetNode(number, form) => {
            let node = node(number, form);
            state.set_node(&node.clone().into());
            model.nodes.insert(node.name.to_string(), node);
        }
        Step::RemoveNode(number) => {
            let name = format!("n{number}");
            let removed = state.remove_node(&name).is_some();
            assert_eq!(removed, model.nodes.remove(&name).is_some());
        }
        Step::AddPod(number, kind, node) if known(state, number).is_none() => {
            let pod = pod(number, kind, node);
            state.add_pod(pod.clone());
            model.pods.insert(pod.name.to_string(), pod);
        }
        Step::RemovePod(number) => {
            if let Some(pod) = known(state, number) {
                state.remove_pod(pod);
                model.pods.remove(&format!("p{number}"));
            }
        }
        Step::UpdatePod(number, kind) => {
            if let Some(index) = known(state, number) {
                let kept = model.pods.get_mut(&format!("p{number}")).unwrap();
                let new = Pod { terminating: kept.terminating, ..pod(number, kind, None) };
                state.update_pod(index, new.clone());
                *kept = Pod { node: kept.node.clone(), ..new };
            }
        }
        Step::Terminate(number) => {
            if let Some(pod) = known(state, number) {
                state.set_terminating(pod);
                model.pods.get_mut(&format!("p{number}")).unwrap().terminating = true;
            }
        }
        Step::Place(number, node) => {
            let name = format!("n{node}");
            let pod = known(state, number).filter(|pod| !state.pods.get(*pod).node.is_some());
            if let (Some(pod), Some(node)) = (pod, state.nodes.find(&name)) {
                state.place(pod, node);
                model.pods.get_mut(&format!("p{number}")).unwrap().node = name.into();
            }
        }
        Step::Displace(number) => {
            if let Some(pod) = known(state, number) {
                state.displace(pod);
                model.pods.get_mut(&format!("p{number}")).unwrap().node = Text::default();
            }
        }
        Step::AddPod(..) | Step::Read => {}
    }
}

fn check_readers(readers: &mut [Reader], state: &mut State, model: &Model) {
    for reader in readers {
        reader.check(state, model);
    }
}

fn check_nodes(state: &mut State, model: &Model) {
    let names = |set: &crate::bitset::NodeSet| -> BTreeSet<String> {
        set.iter().map(|node| state.nodes.name(node).to_owned()).collect()
    };
    assert_eq!(names(state.nodes.present()), model.live_nodes(|_| true));
    assert_eq!(state.nodes.count(), model.nodes.len());
    assert_eq!(names(state.nodes.unschedulable()), model.live_nodes(|node| node.unschedulable));
    let has =
        |effect| model.live_nodes(|node| node.taints.iter().any(|taint| taint.effect == effect));
    assert_eq!(names(state.nodes.hard_tainted()), has(TaintEffect::NoSchedule));
    assert_eq!(names(state.nodes.soft_tainted()), has(TaintEffect::PreferNoSchedule));
    for image in ["image0", "image1", "image2"] {
        let listed = |node: &Node| node.images.iter().any(|other| *other.names[0] == *image);
        let kept = state.images.get(image).map_or(Vec::new(), |image| image.nodes.clone());
        let kept: BTreeSet<String> =
            kept.iter().map(|node| state.nodes.name(*node).to_owned()).collect();
        assert_eq!(kept, model.live_nodes(listed), "{image}");
    }
    assert!(state.nodes.slots() <= NODES, "slots of nodes without object and pods are used again");
    let gpu = state.resources.get("a.com/gpu");
    for (name, object) in &model.nodes {
        let node = state.nodes.find(name).unwrap();
        assert_eq!(state.nodes.object(node), object);
        let allocatable = |resource| state.nodes.allocatable_of(resource, node);
        assert_eq!(allocatable(ResourceIdx::CPU), object.allocatable.cpu);
        assert_eq!(gpu.map_or(0, allocatable), object.allocatable.amount("a.com/gpu"));
        let mut kept: Vec<&str> =
            state.nodes.pods(node).iter().map(|pod| &*state.pods.get(*pod).name).collect();
        kept.sort_unstable();
        let mut on_node: Vec<&str> = model.on(name).map(|pod| &*pod.name).collect();
        on_node.sort_unstable();
        assert_eq!(kept, on_node);
        assert_eq!(state.nodes.pod_counts()[node.at()], on_node.len() as i64);
        let sum = |amount: fn(&PodSpec) -> i64| {
            let sum: i128 = model.on(name).map(|pod| i128::from(amount(&pod.spec))).sum();
            sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64
        };
        let requested = |resource| state.nodes.requested_of(resource, node);
        assert_eq!(requested(ResourceIdx::CPU), sum(|spec| spec.requests_on_node.cpu));
        assert_eq!(gpu.map_or(0, requested), sum(|spec| spec.requests_on_node.amount("a.com/gpu")));
        assert_eq!(state.nodes.non_zero_cpu()[node.at()], sum(|spec| spec.non_zero_cpu));
        assert_eq!(state.nodes.non_zero_memory()[node.at()], sum(|spec| spec.non_zero_memory));
        let lowest = model.on(name).map(|pod| pod.priority).min().unwrap_or(i32::MAX);
        assert_eq!(state.lowest_priorities.of(node), lowest);
    }
    assert_eq!(state.audit_nodes(0..usize::MAX), Ok(()));
}

fn check_pods(state: &State, model: &Model) {
    assert_eq!(state.pods.count(), model.pods.len());
    assert_eq!(state.audit_pods(0..usize::MAX), Ok(()));
    for (name, pod) in &model.pods {
        let index = state.find_pod("default", name).unwrap();
        let record = state.pods.get(index);
        assert_eq!(state.pods.find(&pod.uid), Some(index));
        let node = if record.node.is_some() { state.nodes.name(record.node) } else { "" };
        assert_eq!((node, record.terminating), (&*pod.node, pod.terminating), "{name}");
        assert_eq!((state.labels(index), state.spec(index)), (&pod.labels, &*pod.spec));
    }
    let placed = || model.pods.values().filter(|pod| !pod.node.is_empty());
    for claim in ["c0", "c1"] {
        let uses = |pod: &&Pod| pod.spec.volumes.contains(&Volume::Claim { name: claim.into() });
        let users = placed().filter(uses).count();
        assert_eq!(state.volumes.claim_users("default", claim), users as u32, "{claim}");
    }
    // Label sets, specs and terms live as long as pods have them.
    let distinct: BTreeSet<_> = model.pods.values().map(|pod| &pod.labels).collect();
    assert_eq!(state.label_sets.candidates(&Selector::default()).len(), distinct.len());
    let terms: BTreeSet<_> = model
        .pods
        .values()
        .flat_map(|pod| {
            let affinity = &pod.spec.pod_affinity;
            let anti = affinity.required_anti.iter().map(|term| (TermKind::RequiredAnti, term));
            let preferred = affinity.preferred.iter();
            anti.chain(preferred.map(|(weight, term)| (TermKind::Preferred(*weight), term)))
        })
        .filter(|(_, term)| term.selector.as_ref().unwrap().matches(&labels(&[("app", "web")])))
        .collect();
    let kept: BTreeSet<_> = state
        .terms
        .matching("default", &labels(&[("app", "web")]), &Labels::default())
        .into_iter()
        .map(|term| (state.terms.get(term).kind, &state.terms.get(term).term))
        .collect();
    assert_eq!(kept, terms);
}

proptest! {
    #[test]
    fn everything_counted_equals_a_recount_after_any_changes(
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let (mut state, mut model) = (State::default(), Model::default());
        let mut readers = [true, false].map(|live_only| Reader::new(&mut state, live_only));
        for step in &steps {
            apply(&mut state, &mut model, step);
            check_nodes(&mut state, &model);
            check_pods(&state, &model);
            if let Step::Read = step {
                check_readers(&mut readers, &mut state, &model);
            }
        }
        check_readers(&mut readers, &mut state, &model);
        for number in 0..PODS {
            apply(&mut state, &mut model, &Step::RemovePod(number));
        }
        for number in 0..NODES {
            apply(&mut state, &mut model, &Step::RemoveNode(number));
        }
        let names = (0..NODES).map(|number| format!("x{number}"));
        let slots = state.nodes.slots();
        for name in names.take(slots) {
            state.set_node(&testing::node(&name).into());
        }
        prop_assert_eq!(state.nodes.slots(), slots, "no slot is lost");
        for column in [state.nodes.requested(ResourceIdx::CPU).unwrap(), state.nodes.non_zero_cpu()] {
            prop_assert!(column.iter().all(|sum| *sum == 0));
        }
    }
}
