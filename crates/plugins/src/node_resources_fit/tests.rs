//! Tests of NodeResourcesFit.

use super::*;

use api::config::args::{RequestedToCapacityRatio, ResourceSpec, UtilizationShapePoint};
use engine::cycle::evaluation::Evaluation;
use engine::object::Pod;
use engine::testing::{
    class, displace, node, node_event, place, pod, pod_event, profile, scores, state, verdict_if,
    verdicts, with_device_class,
};
use proptest::prelude::*;

const GPU: &str = "example.com/gpu";

fn requests(cpu: i64, memory: i64, scalars: &[(&str, i64)]) -> PodSpec {
    let scalars = scalars.iter().map(|(name, amount)| ((*name).into(), *amount)).collect();
    let requests = Resources { cpu, memory, ephemeral: 0, scalars };
    PodSpec {
        requests_for_score: requests.clone(),
        requests_on_node: requests.clone(),
        requests,
        non_zero_cpu: cpu,
        non_zero_memory: memory,
        ..PodSpec::default()
    }
}

fn node_with(name: &str, cpu: i64, memory: i64, scalars: &[(&str, i64)]) -> Node {
    let allocatable = requests(cpu, memory, scalars).requests;
    Node { allocatable, ..node(name) }
}

fn pod_on(name: &str, node: &str, spec: PodSpec) -> Pod {
    Pod { node: node.into(), spec: spec.into(), ..pod(name) }
}

fn args(change: impl FnOnce(&mut NodeResourcesFitArgs)) -> PluginArgs {
    let Some(PluginArgs::NodeResourcesFit(mut args)) =
        PluginArgs::default_of(NAME, Gates::default())
    else {
        unreachable!("the plugin has default arguments")
    };
    change(&mut args);
    PluginArgs::NodeResourcesFit(args)
}

fn scoring(strategy: ScoringStrategyType, resources: &[(&str, i64)]) -> PluginArgs {
    args(|args| {
        args.scoring_strategy.strategy = strategy;
        let resources = resources.iter();
        args.scoring_strategy.resources = resources
            .map(|(name, weight)| ResourceSpec { name: (*name).to_owned(), weight: *weight })
            .collect();
    })
}

fn shaped(points: &[(i32, i32)], resources: &[(&str, i64)]) -> PluginArgs {
    let mut args = scoring(ScoringStrategyType::RequestedToCapacityRatio, resources);
    if let PluginArgs::NodeResourcesFit(args) = &mut args {
        let shape = points
            .iter()
            .map(|(utilization, score)| UtilizationShapePoint {
                utilization: *utilization,
                score: *score,
            })
            .collect();
        args.scoring_strategy.requested_to_capacity_ratio =
            Some(RequestedToCapacityRatio { shape });
    }
    args
}

#[test]
fn all_shortages_are_reported_in_order() {
    let full = Node { allowed_pods: 1, ..node_with("full", 1000, 1000, &[(GPU, 1)]) };
    let nodes = [
        node_with("fits", 2000, 2000, &[(GPU, 2)]),
        node_with("small", 1000, 2000, &[(GPU, 2)]),
        node_with("none", 2000, 2000, &[]),
        node_with("busy", 2000, 3000, &[(GPU, 4)]),
        full,
    ];
    let busy = pod_on("p", "busy", requests(1, 2000, &[(GPU, 3)]));
    let other = pod_on("q", "full", requests(0, 0, &[]));
    let mut state = state(nodes, [busy, other]);
    let spec = requests(2000, 1500, &[(GPU, 2), ("hugepages-2Mi", 0)]);
    assert_eq!(
        verdicts(build(None), class(spec), &mut state),
        [
            "fits: ok",
            "small: UnschedulableAndUnresolvable Insufficient cpu",
            "none: UnschedulableAndUnresolvable Insufficient example.com/gpu",
            "busy: Unschedulable Insufficient cpu, Insufficient memory, \
             Insufficient example.com/gpu",
            "full: UnschedulableAndUnresolvable Too many pods, Insufficient cpu, \
             Insufficient memory, Insufficient example.com/gpu",
        ]
    );
}

#[test]
fn pods_without_requests_need_only_room_for_a_pod() {
    let over = pod_on("p", "over", requests(9000, 0, &[]));
    let full = Node { allowed_pods: 0, ..node("full") };
    let mut state = state([node("over"), full], [over]);
    assert_eq!(
        verdicts(build(None), class(requests(0, 0, &[])), &mut state),
        ["over: ok", "full: Unschedulable Too many pods"]
    );
    let mut storage = requests(0, 0, &[]);
    storage.requests.ephemeral = 1;
    assert_eq!(
        verdicts(build(None), class(storage), &mut state)[0],
        "over: UnschedulableAndUnresolvable Insufficient ephemeral-storage"
    );
}

#[test]
fn ignored_resources_are_not_checked() {
    let spec = requests(0, 0, &[("a.com/x", 1), ("b.com/y", 1), ("hugepages-2Mi", 1)]);
    for (resources, groups, reasons) in [
        (
            &[][..],
            &[][..],
            "Insufficient a.com/x, Insufficient b.com/y, Insufficient hugepages-2Mi",
        ),
        (&["a.com/x"], &[], "Insufficient b.com/y, Insufficient hugepages-2Mi"),
        (&["a.com/x"], &["b.com"], "Insufficient hugepages-2Mi"),
        (&["hugepages-2Mi"], &["a.com", "b.com"], "Insufficient hugepages-2Mi"),
    ] {
        let args = args(|args| {
            args.ignored_resources = resources.iter().map(ToString::to_string).collect();
            args.ignored_resource_groups = groups.iter().map(ToString::to_string).collect();
        });
        let found = verdicts(build(Some(&args)), class(spec.clone()), &mut state([node("a")], []));
        assert_eq!(found, [format!("a: UnschedulableAndUnresolvable {reasons}")]);
    }
}

#[test]
fn resources_of_device_classes_are_not_checked_on_nodes_without_them() {
    let nodes = [
        node_with("none", 1000, 1000, &[]),
        node_with("zero", 1000, 1000, &[(GPU, 0)]),
        node_with("few", 1000, 1000, &[(GPU, 1)]),
    ];
    let mut state = with_device_class(state(nodes, []), "gpu", GPU);
    let few = "few: UnschedulableAndUnresolvable Insufficient example.com/gpu";
    let found = verdicts(build(None), class(requests(0, 0, &[(GPU, 2)])), &mut state);
    assert_eq!(found, ["none: ok", "zero: ok", few]);
    let implicit = "deviceclass.resource.kubernetes.io/gpu";
    let found = verdicts(build(None), class(requests(0, 0, &[(implicit, 2)])), &mut state);
    assert_eq!(found, ["none: ok", "zero: ok", "few: ok"]);
}

#[test]
fn a_what_if_sees_the_supposed_pods() {
    let there = pod_on("there", "a", requests(3000, 0, &[]));
    let coming = Pod { spec: requests(3000, 0, &[]).into(), ..pod("coming") };
    let mut state = state([node("a")], [there, coming]);
    let class = class(requests(2000, 0, &[]));
    for (added, removed, expected) in [
        (&[][..], &[][..], "Unschedulable Insufficient cpu"),
        (&[], &["there"], "ok"),
        (&["coming"], &["there"], "Unschedulable Insufficient cpu"),
    ] {
        let found = verdict_if(build(None), class.clone(), &mut state, "a", added, removed);
        assert_eq!(found, expected);
    }
}

#[test]
fn scores_are_those_of_upstream() {
    use ScoringStrategyType::{LeastAllocated, MostAllocated};
    let two = [("cpu", 1), ("memory", 1)];
    let cases = [
        // Node of 4000m and 10000 bytes; used before: 1000m, 5000 bytes.
        (scoring(LeastAllocated, &two), requests(1000, 2500, &[]), 37),
        (scoring(MostAllocated, &two), requests(1000, 2500, &[]), 62),
        (scoring(LeastAllocated, &[("cpu", 3), ("memory", 1)]), requests(1000, 2500, &[]), 43),
        (scoring(LeastAllocated, &two), requests(9000, 9000, &[]), 0),
        (scoring(MostAllocated, &two), requests(9000, 9000, &[]), 100),
        // Scalars count only if they are requested and the node has them.
        (scoring(LeastAllocated, &[("cpu", 1), (GPU, 1)]), requests(1000, 0, &[]), 50),
        (scoring(LeastAllocated, &[("cpu", 1), (GPU, 1)]), requests(1000, 0, &[(GPU, 1)]), 62),
        (scoring(LeastAllocated, &[("cpu", 1), ("x.y/z", 1)]), requests(0, 0, &[("x.y/z", 1)]), 75),
        (scoring(LeastAllocated, &[("x.y/z", 1)]), requests(0, 0, &[("x.y/z", 1)]), 0),
        // Falling and rising shapes; zeros are excluded from the average; halves are rounded up.
        (shaped(&[(0, 10), (100, 0)], &two), requests(1000, 2500, &[]), 38),
        (shaped(&[(0, 0), (100, 10)], &two), requests(1000, 2500, &[]), 63),
        (shaped(&[(0, 10), (50, 0)], &two), requests(0, 0, &[]), 50),
        (shaped(&[(40, 10), (60, 4)], &two), requests(1000, 0, &[]), 70),
        (shaped(&[(40, 10), (60, 4)], &two), requests(9000, 9000, &[]), 40),
    ];
    for (args, spec, expected) in cases {
        let existing = pod_on("p", "a", requests(1000, 5000, &[(GPU, 0)]));
        let node = node_with("a", 4000, 10_000, &[(GPU, 4)]);
        let found =
            scores(&*build(Some(&args)), &class(spec.clone()), &mut state([node], [existing]));
        assert_eq!(found, Some(vec![format!("a: {expected}")]), "{args:?} {:?}", spec.requests);
    }
}

#[test]
fn cpu_and_memory_of_existing_pods_count_with_their_defaults() {
    let mut spec = requests(0, 0, &[]);
    (spec.non_zero_cpu, spec.non_zero_memory) = (100, 200 << 20);
    (spec.requests_for_score.cpu, spec.requests_for_score.memory) = (100, 200 << 20);
    let existing = pod_on("p", "a", spec.clone());
    let mut state = state([node("a"), node("b")], [existing]);
    let found = scores(&*build(None), &class(spec), &mut state);
    assert_eq!(found, Some(vec!["a: 95".to_owned(), "b: 97".to_owned()]));
}

#[test]
fn events_that_could_help_wake_the_pod() {
    let state = with_device_class(state([], []), "gpu", GPU);
    let plugin = build(None);
    let class = class(requests(2000, 0, &[]));
    let small = node_with("a", 1000, 1, &[]);
    let large = node_with("a", 2000, 1, &[]);
    let more_memory = node_with("a", 2000, 2, &[]);
    let more_pods = Node { allowed_pods: 111, ..node_with("a", 2000, 1, &[]) };
    for (old, new, expected) in [
        (None, &small, false),
        (None, &large, true),
        (Some(&small), &large, true),
        (Some(&large), &more_memory, false),
        (Some(&large), &more_pods, true),
    ] {
        let event = node_event(Action::UPDATE_NODE_ALLOCATABLE, old, new);
        assert_eq!(plugin.hint(&state, &class, &event), expected, "{new:?}");
    }
    let on_node = pod_on("p", "a", requests(2000, 2, &[]));
    let less_cpu = pod_on("p", "a", requests(1000, 2, &[]));
    let less_memory = pod_on("p", "a", requests(2000, 1, &[]));
    let pending = pod("q");
    let nominated = Pod { nominated_node: "a".into(), ..pod("q") };
    for (old, new, own, expected) in [
        (&on_node, None, false, true),
        (&pending, None, false, false),
        (&nominated, None, false, true),
        (&on_node, Some(&less_cpu), false, true),
        (&on_node, Some(&less_memory), false, false),
        (&pending, Some(&pending), true, true),
        (&pending, Some(&pending), false, false),
    ] {
        let event = pod_event(Action::DELETE, Some(old), new, own);
        assert_eq!(plugin.hint(&state, &class, &event), expected, "{old:?} {new:?}");
    }
}

#[test]
fn hints_ignore_the_resources_that_the_filter_ignores() {
    let args = args(|args| args.ignored_resources = vec!["a.com/x".to_owned()]);
    let state = with_device_class(state([], []), "gpu", GPU);
    let spec = requests(1, 0, &[("a.com/x", 1), (GPU, 1)]);
    let new = node("a");
    let event = node_event(Action::ADD, None, &new);
    assert!(build(Some(&args)).hint(&state, &class(spec.clone()), &event));
    assert!(!build(None).hint(&state, &class(spec.clone()), &event));
    let device_class = Event {
        resource: Resource::DeviceClass,
        action: Action::ADD,
        object: Object::None,
        own: false,
    };
    assert!(build(None).hint(&state, &class(spec), &device_class));
    assert!(!build(None).hint(&state, &class(requests(1, 0, &[])), &device_class));
}

#[test]
fn a_huge_request_on_one_node_does_not_affect_the_scores_of_others() {
    // Also on an orphan slot.
    let huge = |name: &str, node: &str| pod_on(name, node, requests(i64::MAX, i64::MAX, &[]));
    let some = pod_on("some", "a", requests(1000, 3 << 30, &[]));
    let pods = [some, huge("p", "b"), huge("q", "b"), huge("r", "absent")];
    let state = state([node("a"), node("b")], pods);
    let shape = score::FitStrategy::shape(&[(0, 0), (100, 100)]);
    for strategy in [score::FitStrategy::Least, score::FitStrategy::Most, shape] {
        for weights in [(1, 1), (3, 2)] {
            let part =
                |resource, used, amount, weight| ScoredResource { resource, used, amount, weight };
            let parts = [
                part(ResourceIdx::CPU, UsedColumn::NonZeroCpu, 500, weights.0),
                part(ResourceIdx::MEMORY, UsedColumn::NonZeroMemory, 1 << 30, weights.1),
            ];
            let mut raw = vec![-1; state.nodes.slots()];
            assert!(!score::score_columns(&strategy, &parts, &state, &mut raw));
            let mut scorer = ResourceScorer { strategy: strategy.clone(), resources: parts.into() };
            let a = state.nodes.find("a").expect("the node is there");
            assert_eq!(raw[a.at()], scorer.score(&state, a));
            scorer.score_all(&state, &mut raw);
            for (slot, raw) in raw.into_iter().enumerate() {
                assert_eq!(raw, scorer.score(&state, slot.into()), "slot {slot}");
            }
        }
    }
}

/// Generates amounts of every magnitude, and the boundary values.
fn amount() -> impl proptest::strategy::Strategy<Value = i64> {
    prop_oneof![
        4 => 0i64..10_000,
        2 => 0i64..1 << 46,
        1 => prop::sample::select(vec![
            0, 1, (1 << 46) - 1, 1 << 46, (1 << 53) - 1, 1 << 53, i64::MAX / 100, i64::MAX,
        ]),
    ]
}

/// Upstream's formulas, written independently of the implementation.
fn by_formula(kind: u8, shape: &[(i32, i32)], parts: &[(i64, i64, i64)]) -> i64 {
    let (mut total, mut weights) = (0i64, 0i64);
    for (requested, allocatable, weight) in parts {
        if *allocatable == 0 {
            continue;
        }
        let percent = |n: i64| n.wrapping_mul(100).wrapping_div(*allocatable);
        let score = match kind {
            0 if requested > allocatable => 0,
            0 => percent(allocatable.wrapping_sub(*requested)),
            1 => percent(*requested.min(allocatable)),
            _ => {
                let used = if requested > allocatable { 100 } else { percent(*requested) };
                let line = |x: i64| {
                    let points: Vec<_> =
                        shape.iter().map(|(x, y)| (i64::from(*x), i64::from(*y) * 10)).collect();
                    for i in 0..points.len() {
                        if x <= points[i].0 {
                            if i == 0 {
                                return points[0].1;
                            }
                            let ((x0, y0), (x1, y1)) = (points[i - 1], points[i]);
                            return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
                        }
                    }
                    points[points.len() - 1].1
                };
                line(used)
            }
        };
        if kind < 2 || score > 0 {
            total = total.wrapping_add(score.wrapping_mul(*weight));
            weights += weight;
        }
    }
    match (kind, weights) {
        (_, 0) => 0,
        (2, _) => (total as f64 / weights as f64).round() as i64,
        _ => total / weights,
    }
}

proptest! {
    #[test]
    fn columns_agree_with_the_formulas(
        nodes in prop::collection::vec((amount(), amount(), amount(), amount()), 1..20),
        requested in (amount(), amount()),
        weights in (1i64..=100, 1i64..=100),
        kind in 0u8..3,
    ) {
        let resources = [("cpu", weights.0), ("memory", weights.1)];
        let shape = [(0, 7), (30, 0), (70, 10), (90, 3)];
        let args = match kind {
            0 => scoring(ScoringStrategyType::LeastAllocated, &resources),
            1 => scoring(ScoringStrategyType::MostAllocated, &resources),
            _ => shaped(&shape, &resources),
        };
        // Unlike upstream, sums saturate instead of wrapping around.
        let existing = nodes.iter().enumerate().map(|(i, (_, _, cpu, memory))| {
            pod_on(&format!("p{i}"), &i.to_string(), requests(*cpu, *memory, &[]))
        });
        let objects = nodes.iter().enumerate().map(|(i, (cpu, memory, _, _))| {
            node_with(&i.to_string(), *cpu, *memory, &[])
        });
        let mut state = state(objects, existing);
        let class = class(requests(requested.0, requested.1, &[]));
        let found = scores(&*build(Some(&args)), &class, &mut state);
        let expected = nodes.iter().enumerate().map(|(i, (cpu, memory, used_cpu, used_memory))| {
            let parts = [
                (used_cpu.saturating_add(requested.0), *cpu, weights.0),
                (used_memory.saturating_add(requested.1), *memory, weights.1),
            ];
            format!("{i}: {}", by_formula(kind, &shape, &parts))
        });
        prop_assert_eq!(found, Some(expected.collect::<Vec<_>>()));
    }

    #[test]
    fn incremental_verdicts_equal_those_from_scratch(
        moves in prop::collection::vec((0usize..40, 0usize..70), 1..60),
    ) {
        let nodes = (0..70).map(|i| {
            Node { allowed_pods: 3, ..node_with(&i.to_string(), 1000, 1000, &[(GPU, i % 3)]) }
        });
        let pods = (0..40).map(|i| {
            let spec = requests(100 * (i % 8), 50 * (i % 16), &[(GPU, i % 2)]);
            Pod { spec: spec.into(), ..pod(&format!("p{i}")) }
        });
        let mut state = state(nodes, pods);
        let spec = requests(300, 400, &[(GPU, 1)]);
        let profile = profile(build(None));
        let mut incremental = Evaluation::new(&profile, class(spec.clone()), &mut state);
        for (pod, node) in moves {
            let (pod, node) = (format!("p{pod}"), node.to_string());
            let found = state.find_pod("default", &pod).expect("the pod is there");
            if state.pods.get(found).node.is_some() {
                displace(&mut state, &pod);
            } else {
                place(&mut state, &pod, &node);
            }
            incremental.refresh(&profile, &mut state);
            let fresh = Evaluation::new(&profile, class(spec.clone()), &mut state);
            prop_assert_eq!(incremental.feasible(), fresh.feasible());
        }
    }
}
