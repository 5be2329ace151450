//! Random clusters: incremental verdicts and scores against the reference implementation.

use engine::index::PodIdx;
use engine::testing::{add_pod, catch_up, final_scores, remove_pod, terminate};
use proptest::prelude::*;

use super::reference::Reference;
use super::*;

/// A random change of the cluster.
#[derive(Clone, Debug)]
enum Step {
    Add { node: usize, web: bool, elsewhere: bool },
    Remove(usize),
    Terminate(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (any::<usize>(), prop::bool::weighted(0.8), prop::bool::weighted(0.1))
            .prop_map(|(node, web, elsewhere)| Step::Add { node, web, elsewhere }),
        2 => any::<usize>().prop_map(Step::Remove),
        1 => any::<usize>().prop_map(Step::Terminate),
    ]
}

fn any_node() -> impl Strategy<Value = Node> {
    let value = prop_oneof![6 => Just(Some("a")), 6 => Just(Some("b")), 4 => Just(Some("c")),
        1 => Just(Some("")), 2 => Just(None)];
    let tainted = prop::bool::weighted(0.2);
    let named = prop::bool::weighted(0.9);
    (value.clone(), value, named, tainted).prop_map(|(zone, rack, named, tainted)| {
        let zone = zone.map(|zone| [("zone", zone), (ZONE, zone)]).into_iter().flatten();
        let rack = rack.map(|rack| ("rack", rack));
        let host = named.then_some((HOSTNAME, "host"));
        let taint = Taint { key: "k".into(), value: "".into(), effect: TaintEffect::NoSchedule };
        Node {
            labels: zone.chain(rack).chain(host).collect(),
            taints: tainted.then_some(taint).into_iter().collect(),
            ..node("")
        }
    })
}

fn any_constraint(kind: WhenUnsatisfiable) -> impl Strategy<Value = SpreadConstraint> {
    let selector = prop_oneof![
        8 => Just(Some(equals("app", "web"))),
        1 => Just(Some(Selector::default())),
        1 => Just(None),
    ];
    let key = prop_oneof![Just("zone"), Just("rack"), Just(HOSTNAME)];
    (key, 1..4, selector, 1..5, any::<bool>(), any::<bool>()).prop_map(
        move |(key, max_skew, selector, min_domains, honor_affinity, honor_taints)| {
            SpreadConstraint {
                max_skew,
                selector,
                min_domains,
                honor_affinity,
                honor_taints,
                ..constraint(key, kind)
            }
        },
    )
}

/// Returns a state with nodes named by their position.
fn cluster(nodes: Vec<Node>) -> State {
    let named = nodes.into_iter().enumerate().map(|(i, node)| {
        let name: Text = format!("n{i}").into();
        let mut pairs: Vec<(Text, Text)> =
            node.labels.iter().map(|(k, v)| (k.into(), v.into())).collect();
        for (key, value) in &mut pairs {
            if **key == *HOSTNAME {
                *value = name.clone();
            }
        }
        Node { name, labels: pairs.into_iter().collect(), ..node }
    });
    state(named, [])
}

fn apply(step: &Step, number: usize, pods: &mut Vec<PodIdx>, state: &mut State) {
    match step {
        Step::Add { node, web, elsewhere } => {
            let at = state.nodes.order()[node % state.nodes.count()];
            let mut pod = web_pod(&format!("p{number}"), state.nodes.name(at));
            if !web {
                pod.labels = Labels::default();
            }
            if *elsewhere {
                pod.namespace = "other".into();
            }
            pods.push(add_pod(state, pod));
        }
        Step::Remove(at) if !pods.is_empty() => {
            remove_pod(state, pods.swap_remove(at % pods.len()));
        }
        Step::Terminate(at) if !pods.is_empty() => terminate(state, pods[at % pods.len()]),
        Step::Remove(_) | Step::Terminate(_) => {}
    }
}

fn random_class(constraints: Vec<SpreadConstraint>, zone: Option<&'static str>) -> Class {
    let mut class = web(constraints);
    let mut spec = (*class.spec).clone();
    spec.node_selector = zone.map(|zone| labels(&[("zone", zone)]));
    class.spec = spec.into();
    class
}

proptest! {
    #[test]
    fn incremental_verdicts_equal_the_reference(
        nodes in prop::collection::vec(any_node(), 1..8),
        constraints in
            prop::collection::vec(any_constraint(WhenUnsatisfiable::DoNotSchedule), 1..4),
        zone in prop::option::weighted(0.3, Just("a")),
        steps in prop::collection::vec(any_step(), 1..20),
    ) {
        let mut state = cluster(nodes);
        let class = random_class(constraints, zone);
        let mut pods = Vec::new();
        let mut filter = filter_of(&class, &mut state);
        let mut passing = state.nodes.present().clone();
        filter.filter(&state, &mut passing);
        for (number, step) in steps.iter().enumerate() {
            apply(step, number, &mut pods, &mut state);
            let before = passing.clone();
            let freshness = filter.refresh(&state, &mut passing);
            prop_assert!(freshness != Freshness::Same || before == passing);
            let mut fresh = state.nodes.present().clone();
            filter_of(&class, &mut state).filter(&state, &mut fresh);
            prop_assert_eq!(&passing, &fresh);
            let reference = Reference { state: &state, class: &class, constraints: &class.spec.spread };
            let verdicts = |filter: &mut dyn Filter| -> Vec<u32> {
                state.nodes.present().iter().map(|node| filter.check(&state, node).0).collect()
            };
            prop_assert_eq!(verdicts(&mut *filter), reference.verdicts(&[]));
            let expected: Vec<bool> = reference.verdicts(&[]).iter().map(|a| *a == 0).collect();
            let found: Vec<bool> =
                state.nodes.present().iter().map(|node| passing.contains(node)).collect();
            prop_assert_eq!(found, expected);
            if let Some(pod) = pods.first().copied() {
                let node = state.pods.get(pod).node;
                filter.remove_pod(&state, pod, node);
                prop_assert_eq!(verdicts(&mut *filter), reference.verdicts(&[(pod, node, -1)]));
                filter.add_pod(&state, pod, node);
                filter.add_pod(&state, pod, node);
                prop_assert_eq!(verdicts(&mut *filter), reference.verdicts(&[(pod, node, 1)]));
                filter.remove_pod(&state, pod, node);
            }
        }
    }

    #[test]
    fn incremental_scores_equal_the_reference(
        nodes in prop::collection::vec(any_node(), 1..8),
        own in prop::collection::vec(any_constraint(WhenUnsatisfiable::ScheduleAnyway), 1..4),
        system_default in prop::bool::weighted(0.3),
        zone in prop::option::weighted(0.3, Just("a")),
        steps in prop::collection::vec((any_step(), any::<u8>(), any::<bool>()), 1..20),
    ) {
        let service = Workload {
            kind: WorkloadKind::Service,
            namespace: "default".into(),
            name: "s".into(),
            selector: Some(equals("app", "web")),
            ..Workload::default()
        };
        let mut state = with_workload(cluster(nodes), service);
        let class = random_class(if system_default { Vec::new() } else { own }, zone);
        let constraints = if system_default {
            let selector = Some(equals("app", "web"));
            [super::super::system_default(HOSTNAME, 3), super::super::system_default(ZONE, 5)]
                .map(|c| SpreadConstraint { selector: selector.clone(), ..c })
                .to_vec()
        } else {
            class.spec.spread.to_vec()
        };
        let plugin = build(None);
        let mut pods = Vec::new();
        let mut scorer = plugin.prepare_score(&class, &mut Preparation::new(&mut state)).unwrap();
        let mut raw = Vec::new();
        let mut feasible = state.nodes.present().clone();
        let mut changed = true;
        for (number, (step, mask, changes)) in steps.iter().enumerate() {
            apply(step, number, &mut pods, &mut state);
            if *changes {
                let before = feasible.clone();
                feasible.copy_from(state.nodes.present());
                feasible.retain(|node| mask >> node.at() & 1 == 1);
                changed |= feasible != before;
            }
            prop_assert!(catch_up(&mut *scorer, &state, &feasible, changed, &mut raw));
            changed = false;
            let found = final_scores(&*scorer, &feasible, &raw);
            let reference = Reference { state: &state, class: &class, constraints: &constraints };
            prop_assert_eq!(found, reference.scores(&feasible, !system_default));
        }
    }
}
