//! Random clusters: incremental verdicts and scores against the reference implementation.

use engine::index::{NodeIdx, PodIdx};
use engine::testing::{catch_up, final_scores, remove_pod};
use proptest::prelude::*;

use super::reference::Reference;
use super::*;

fn any_term() -> impl Strategy<Value = PodTerm> {
    let selector = prop_oneof![
        6 => Just(Some(app("web"))),
        4 => Just(Some(app("db"))),
        1 => Just(Some(requires("app", Operator::Exists, &[]))),
        1 => Just(Some(Selector::default())),
        1 => Just(None),
    ];
    let team = |operator, name| Some(requires("team", operator, &[name]));
    let namespaces = prop::sample::select(vec![
        (vec!["default"], None),
        (vec!["default"], None),
        (vec!["default"], None),
        (vec!["other"], None),
        (vec!["default", "other"], None),
        (vec![], Some(Selector::default())),
        (vec![], team(Operator::In, "a")),
        (vec!["default"], team(Operator::In, "b")),
        (vec![], team(Operator::NotIn, "b")),
    ]);
    let key = prop_oneof![Just("zone"), Just("rack"), Just("region"), Just(HOSTNAME)];
    (selector, namespaces, key).prop_map(|(selector, (namespaces, namespace_selector), key)| {
        PodTerm {
            selector,
            namespaces: namespaces.iter().map(|name| Text::from(*name)).collect(),
            namespace_selector,
            topology_key: key.into(),
        }
    })
}

fn any_affinity() -> impl Strategy<Value = PodAffinity> {
    let required = || prop::collection::vec(any_term(), 0..3);
    let preferred = || prop::collection::vec((1..101, any_term()), 0..3);
    let parts = (required(), required(), preferred(), preferred(), 0..16_u8);
    // Pods with terms of all kinds would be rejected by almost every node.
    parts.prop_map(|(required, anti, preferred, preferred_anti, kinds)| PodAffinity {
        required: required.into_iter().filter(|_| kinds & 1 > 0).collect(),
        required_anti: anti.into_iter().filter(|_| kinds & 2 > 0).collect(),
        preferred: preferred.into_iter().filter(|_| kinds & 4 > 0).collect(),
        preferred_anti: preferred_anti.into_iter().filter(|_| kinds & 8 > 0).collect(),
        has_affinity: true,
        has_anti_affinity: true,
    })
}

fn any_pod() -> impl Strategy<Value = Pod> {
    let app = prop_oneof![4 => Just(Some("web")), 2 => Just(Some("db")), 1 => Just(None)];
    (app, any_affinity(), prop::bool::weighted(0.2)).prop_map(|(app, pod_affinity, elsewhere)| {
        Pod {
            labels: app.map(|app| ("app", app)).into_iter().collect(),
            namespace: if elsewhere { "other".into() } else { "default".into() },
            ..pod_of_app("", "", "", pod_affinity)
        }
    })
}

fn any_cluster() -> impl Strategy<Value = State> {
    let value = || prop_oneof![4 => Just(Some("a")), 4 => Just(Some("b")), 2 => Just(None)];
    let shape = (value(), value(), prop::bool::weighted(0.9));
    (prop::collection::vec(shape, 1..8), any::<bool>()).prop_map(|(nodes, region)| {
        let nodes = nodes.into_iter().enumerate().map(|(i, (zone, rack, named))| {
            let name = format!("n{i}");
            let pairs = [
                zone.map(|zone| ("zone", zone)),
                rack.map(|rack| ("rack", rack)),
                named.then_some((HOSTNAME, &*name)),
                // Often all nodes are in one domain.
                (region || i > 0).then_some(("region", "r")),
            ];
            Node { labels: pairs.into_iter().flatten().collect(), ..node(&name) }
        });
        let state = with_namespace(state(nodes, []), "default", &[("team", "a")]);
        with_namespace(state, "other", &[("team", "b")])
    })
}

#[derive(Clone, Debug)]
enum Step {
    Add { pod: usize, node: usize },
    Remove(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (any::<usize>(), any::<usize>()).prop_map(|(pod, node)| Step::Add { pod, node }),
        1 => any::<usize>().prop_map(Step::Remove),
    ]
}

fn apply(step: &Step, number: usize, kinds: &[Pod], pods: &mut Vec<PodIdx>, state: &mut State) {
    match step {
        Step::Add { pod, node } => {
            let node = state.nodes.order()[node % state.nodes.count()];
            let pod = Pod {
                name: format!("p{number}").into(),
                uid: format!("u{number}").into(),
                node: state.nodes.name(node).into(),
                ..kinds[pod % kinds.len()].clone()
            };
            pods.push(add_pod(state, pod));
        }
        Step::Remove(at) if !pods.is_empty() => {
            remove_pod(state, pods.swap_remove(at % pods.len()));
        }
        Step::Remove(_) => {}
    }
}

fn class_of(pod: &Pod) -> Class {
    let class = class(PodSpec::clone(&pod.spec));
    Class { namespace: pod.namespace.clone(), labels: pod.labels.clone(), ..class }
}

proptest! {
    #[test]
    fn incremental_verdicts_equal_the_reference(
        mut state in any_cluster(),
        kinds in prop::collection::vec(any_pod(), 1..4),
        steps in prop::collection::vec(any_step(), 1..15),
    ) {
        let class = class_of(&kinds[0]);
        // A pending pod, so that the state has its terms.
        let pending = add_pod(&mut state, Pod { uid: "pending".into(), ..kinds[0].clone() });
        let mut filter = filter_of(&class, &mut state);
        let mut passing = state.nodes.present().clone();
        filter.filter(&state, &mut passing);
        let mut pods = Vec::new();
        for (number, step) in steps.iter().enumerate() {
            apply(step, number, &kinds, &mut pods, &mut state);
            let before = passing.clone();
            match filter.refresh(&state, &mut passing) {
                Freshness::Same => prop_assert_eq!(&passing, &before),
                Freshness::Changed => {}
                Freshness::Stale => {
                    filter = filter_of(&class, &mut state);
                    passing.copy_from(state.nodes.present());
                    filter.filter(&state, &mut passing);
                }
            }
            let reference = Reference { state: &state, class: &class };
            let nodes: Vec<NodeIdx> = state.nodes.present().iter().collect();
            let verdicts = |filter: &mut dyn Filter| -> Vec<u32> {
                nodes.iter().map(|node| filter.check(&state, *node).0).collect()
            };
            let expected = reference.verdicts(&[]);
            prop_assert_eq!(&verdicts(&mut *filter), &expected);
            for (node, verdict) in nodes.iter().zip(&expected) {
                prop_assert_eq!(passing.contains(*node), *verdict == 0);
            }
            let node = nodes[number % nodes.len()];
            filter.add_pod(&state, pending, node);
            prop_assert_eq!(&verdicts(&mut *filter), &reference.verdicts(&[(pending, node, 1)]));
            filter.remove_pod(&state, pending, node);
            if let Some(pod) = pods.first().copied() {
                let node = state.pods.get(pod).node;
                filter.remove_pod(&state, pod, node);
                prop_assert_eq!(&verdicts(&mut *filter), &reference.verdicts(&[(pod, node, -1)]));
                filter.add_pod(&state, pod, node);
            }
            prop_assert_eq!(&verdicts(&mut *filter), &expected);
        }
    }

    #[test]
    fn incremental_scores_equal_the_reference(
        mut state in any_cluster(),
        kinds in prop::collection::vec(any_pod(), 1..4),
        steps in prop::collection::vec((any_step(), any::<u8>(), any::<bool>()), 1..15),
    ) {
        let class = class_of(&kinds[0]);
        let plugin = build(None);
        let mut feasible = state.nodes.present().clone();
        let mut changed = true;
        let mut raw = Vec::new();
        let mut pods = Vec::new();
        let prepare = |state: &mut State| {
            plugin.prepare_score(&class, &mut Preparation::new(state)).unwrap()
        };
        let mut scorer = prepare(&mut state);
        for (number, (step, mask, changes)) in steps.iter().enumerate() {
            apply(step, number, &kinds, &mut pods, &mut state);
            if *changes {
                feasible.copy_from(state.nodes.present());
                feasible.retain(|node| mask >> node.at() & 1 == 1);
                changed = true;
            }
            if !catch_up(&mut *scorer, &state, &feasible, changed, &mut raw) {
                scorer = prepare(&mut state);
                prop_assert!(catch_up(&mut *scorer, &state, &feasible, true, &mut raw));
            }
            changed = false;
            let found = (!scorer.skipped()).then(|| final_scores(&*scorer, &feasible, &raw));
            let reference = Reference { state: &state, class: &class };
            prop_assert_eq!(found, reference.scores(&feasible));
        }
    }
}
