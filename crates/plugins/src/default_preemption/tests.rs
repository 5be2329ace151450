//! Tests of DefaultPreemption, together with the filters that make it necessary.

use std::sync::Arc;

use super::*;

use engine::cycle::explain::explain;
use engine::cycle::post_filter::{PostFilterInput, PostFilterReport};
use engine::framework::Profile;
use engine::object::{
    DisruptionBudget, Labels, Node, Operator, Pod, PodSpec, Requirement, Selector,
};
use engine::queue::Nominator;
use engine::testing::{labels, node, pod, state, with_budget};

use crate::{dynamic_resources, node_resources_fit, node_unschedulable};

const NOW: i64 = 1_000_000;

fn spec(cpu: i64) -> PodSpec {
    let mut spec = PodSpec::default();
    spec.requests.cpu = cpu;
    spec.requests_on_node.cpu = cpu;
    spec
}

fn on(node: &str, name: &str, cpu: i64, priority: i32, started: i64) -> Pod {
    let (node, start_time) = (node.into(), Some(started));
    Pod { node, priority, start_time, spec: spec(cpu).into(), ..pod(name) }
}

fn waiting(cpu: i64, priority: i32) -> Pod {
    Pod { priority, spec: spec(cpu).into(), ..pod("preemptor") }
}

fn profile(args: Option<&PluginArgs>) -> Profile {
    let plugins = vec![
        node_unschedulable::build(None),
        node_resources_fit::build(None),
        dynamic_resources::build(None),
        build(args),
    ];
    let points = vec![
        (Point::PreFilter, vec![1, 2]),
        (Point::Filter, vec![0, 1, 2]),
        (Point::PostFilter, vec![2, 3]),
    ];
    Profile {
        name: "default-scheduler".into(),
        plugins,
        points,
        weights: Vec::new(),
        percentage_of_nodes_to_score: None,
        extenders: Vec::new(),
    }
}

fn run(state: &mut State, args: Option<&PluginArgs>, random: u64) -> (String, PostFilterReport) {
    let pod = state.find_pod("default", "preemptor").expect("the preemptor is there");
    let class = Class {
        namespace: state.namespace(pod).into(),
        labels: state.labels(pod).clone(),
        node_name: "".into(),
        uid: "".into(),
        spec: Arc::new(state.spec(pod).clone()),
    };
    let mut nominator = Nominator::default();
    for (pod, record) in state.pods.iter() {
        nominator.nominate(pod, record.nominated);
    }
    let input = PostFilterInput::new(pod, &nominator, NOW, random);
    let explanation = explain(&profile(args), class, state, &input);
    (explanation.message, explanation.post_filter)
}

/// Returns `node: victims`, most important first, or the message of the plugins.
fn outcome(state: &mut State) -> String {
    outcome_from(state, None, 0)
}

fn outcome_from(state: &mut State, args: Option<&PluginArgs>, random: u64) -> String {
    let before = format!("{:?}", state.nodes);
    let (_, report) = run(state, args, random);
    assert_eq!(format!("{:?}", state.nodes), before, "the what-ifs were undone");
    let Some((node, victims)) = report.nominated else { return report.message };
    let victims: Vec<&str> = victims.iter().map(|pod| &*state.pods.get(*pod).name).collect();
    format!("{}: {}", state.nodes.name(node), victims.join(" "))
}

fn budget(name: &str, app: &str, allowed: i32, disrupted: &[&str]) -> DisruptionBudget {
    let requirement =
        Requirement { key: "app".into(), operator: Operator::In, values: [app.into()].into() };
    DisruptionBudget {
        namespace: "default".into(),
        name: name.into(),
        selector: Some(Selector { requirements: [requirement].into() }),
        disruptions_allowed: allowed,
        disrupted_pods: disrupted.iter().map(|name| (*name).into()).collect(),
    }
}

fn app(name: &str) -> Labels {
    labels(&[("app", name)])
}

#[test]
fn as_few_as_possible_are_evicted_the_least_important_first() {
    for (pods, cpu, expected) in [
        // The lowest priority is evicted.
        (vec![("high", 2000, 5, 1), ("low", 2000, 1, 1)], 2000, "a: low"),
        // Of equal priority, the youngest.
        (vec![("young", 2000, 1, 9), ("old", 2000, 1, 1)], 2000, "a: young"),
        // Evicting the large one is necessary; the less important one stays.
        (vec![("large", 3000, 5, 1), ("small", 1000, 1, 1)], 3000, "a: large"),
        // All of them.
        (vec![("x", 2000, 1, 2), ("y", 2000, 1, 1)], 4000, "a: y x"),
        // Pods of the same priority are not evicted.
        (vec![("same", 1000, 10, 1), ("low", 3000, 1, 1)], 3000, "a: low"),
    ] {
        let pods = pods
            .into_iter()
            .map(|(name, cpu, priority, started)| on("a", name, cpu, priority, started));
        let mut state = state([node("a")], pods.chain([waiting(cpu, 10)]));
        assert_eq!(outcome(&mut state), expected);
    }
}

#[test]
fn pods_that_have_not_started_are_evicted_in_the_order_of_arrival() {
    let not_started = |name| Pod { start_time: None, ..on("a", name, 1000, 1, 0) };
    let pods = ["p", "q", "r"].map(not_started);
    let old = on("a", "old", 1000, 1, 5);
    let mut state = state([node("a")], pods.into_iter().chain([old, waiting(2000, 10)]));
    assert_eq!(outcome(&mut state), "a: q p");
}

#[test]
fn useless_preemption_is_explained() {
    let nodes = ["none", "high", "small", "cordoned"].map(|name| match name {
        "small" => {
            let mut small = node(name);
            small.allocatable.cpu = 1000;
            small
        }
        "cordoned" => Node { unschedulable: true, ..node(name) },
        _ => node(name),
    });
    let pods = [
        on("none", "same", 3000, 10, 1),
        on("high", "higher", 3000, 11, 1),
        on("high", "low", 500, 1, 1),
        waiting(2000, 10),
    ];
    let mut state = state(nodes, pods);
    let (message, report) = run(&mut state, None, 0);
    assert_eq!(
        message,
        "0/4 nodes are available: 1 node(s) were unschedulable, 3 Insufficient cpu. \
         no new claims to deallocate, preemption: 0/4 nodes are available: \
         1 Insufficient cpu, 1 No preemption victims found for incoming pod, \
         2 Preemption is not helpful for scheduling."
    );
    assert!(report.clear_nomination && report.nominated.is_none());
}

#[test]
fn some_pods_may_not_preempt() {
    let mut never = waiting(4000, 10);
    never.spec_mut().never_preempts = true;
    let mut cluster = state([node("a")], [on("a", "p", 1000, 1, 1), never]);
    let (message, report) = run(&mut cluster, None, 0);
    assert!(message.ends_with("preemption: not eligible due to preemptionPolicy=Never."));
    assert!(!report.clear_nomination);

    let waits = "no new claims to deallocate, preemption: \
                 not eligible due to a terminating pod on the nominated node.";
    for (terminating, preempted, priority, cpu, expected) in [
        (true, true, 1, 4000, waits),
        (true, false, 1, 4000, "b: q"),
        (false, true, 1, 4000, "b: q"),
        (true, true, 10, 4000, "b: q"),
        // Evictions cannot make the nominated node fit.
        (true, true, 1, 5000, "c: r"),
    ] {
        let mut large = node("c");
        large.allocatable.cpu = 8000;
        let victim = Pod { terminating, preempted, ..on("a", "p", 1000, priority, 1) };
        let preemptor = Pod { nominated_node: "a".into(), ..waiting(cpu, 10) };
        let others = [on("b", "q", 1000, -5, 1), on("c", "r", 8000, 0, 1)];
        let pods = [victim].into_iter().chain(others).chain([preemptor]);
        let mut cluster = state([node("a"), node("b"), large], pods);
        assert_eq!(outcome(&mut cluster), expected, "{terminating} {preempted} {priority} {cpu}");
    }
}

#[test]
fn the_best_candidate_is_chosen_by_five_criteria() {
    for (pods, expected) in [
        // Lowest priority of the most important victim.
        (vec![on("a", "p", 4000, 2, 1), on("b", "q", 4000, 1, 1)], "b: q"),
        // Smallest sum of priorities.
        (
            vec![
                on("a", "p", 2000, 2, 1),
                on("a", "r", 2000, 1, 1),
                on("b", "q", 2000, 2, 1),
                on("b", "s", 2000, 0, 1),
            ],
            "b: q s",
        ),
        // Fewer victims win, also with negative priorities.
        (
            vec![on("a", "p", 2000, -1, 1), on("a", "r", 2000, -1, 1), on("b", "q", 4000, -1, 1)],
            "b: q",
        ),
        // The latest start of the most important.
        (vec![on("a", "p", 4000, 1, 1), on("b", "q", 4000, 1, 2)], "b: q"),
        // The first.
        (vec![on("a", "p", 4000, 1, 1), on("b", "q", 4000, 1, 1)], "a: p"),
    ] {
        let mut state = state([node("a"), node("b")], pods.into_iter().chain([waiting(4000, 10)]));
        assert_eq!(outcome(&mut state), expected);
    }
}

#[test]
fn budgets_are_respected_where_possible() {
    let labelled = |pod: Pod, name: &str| Pod { labels: app(name), ..pod };
    let cluster = |pods: Vec<Pod>, budgets: Vec<DisruptionBudget>, cpu| {
        let pods = pods.into_iter().chain([waiting(cpu, 10)]);
        budgets.into_iter().fold(state([node("a"), node("b")], pods), with_budget)
    };
    let two_nodes =
        || vec![labelled(on("a", "p", 4000, 1, 1), "x"), labelled(on("b", "q", 4000, 5, 1), "y")];
    // A node that violates no budget is better even if its victim is more important.
    let mut violated = cluster(two_nodes(), vec![budget("x", "x", 0, &[])], 4000);
    assert_eq!(outcome(&mut violated), "b: q");
    let mut allowed = cluster(two_nodes(), vec![budget("x", "x", 1, &[])], 4000);
    assert_eq!(outcome(&mut allowed), "a: p");
    let mut counted = cluster(two_nodes(), vec![budget("x", "x", 0, &["p"])], 4000);
    assert_eq!(outcome(&mut counted), "a: p");
    let empty =
        DisruptionBudget { selector: Some(Selector::default()), ..budget("x", "x", 0, &[]) };
    let mut matches_nothing = cluster(two_nodes(), vec![empty], 4000);
    assert_eq!(outcome(&mut matches_nothing), "a: p");

    // Pods that violate a budget are put back first, although they are less important. Every potential
    // victim counts against the budget, so that the second one violates it.
    let one_node = vec![
        labelled(on("a", "first", 1000, 3, 1), "x"),
        labelled(on("a", "second", 1000, 2, 1), "x"),
        on("a", "other", 2000, 4, 1),
        on("b", "higher", 4000, 11, 1),
    ];
    let mut mixed = cluster(one_node, vec![budget("x", "x", 1, &[])], 2000);
    assert_eq!(outcome(&mut mixed), "a: other");
    let both = vec![
        labelled(on("a", "first", 2000, 3, 1), "x"),
        on("a", "other", 2000, 4, 1),
        on("b", "higher", 4000, 11, 1),
    ];
    let mut all = cluster(both, vec![budget("x", "x", 0, &[])], 4000);
    assert_eq!(outcome(&mut all), "a: other first");
}

#[test]
fn nominated_pods_keep_their_node() {
    let pods = [on("a", "p", 4000, 1, 1), on("b", "q", 4000, 2, 1)];
    let mut rival = waiting(1000, 10);
    (rival.name, rival.uid) = ("rival".into(), "rival".into());
    rival.nominated_node = "a".into();
    let all = pods.into_iter().chain([rival, waiting(4000, 10)]);
    assert_eq!(outcome(&mut state([node("a"), node("b")], all)), "b: q");
}

#[test]
fn a_part_of_the_nodes_is_tried_from_a_random_one_on() {
    let nodes = (0..10).map(|i| node(&format!("n{i}")));
    let pods = (0..10).map(|i| on(&format!("n{i}"), &format!("p{i}"), 4000, 10 - i, 1));
    let mut cluster = state(nodes, pods.chain([waiting(4000, 100)]));
    let args = |percentage, absolute| {
        PluginArgs::DefaultPreemption(DefaultPreemptionArgs {
            min_candidate_nodes_percentage: percentage,
            min_candidate_nodes_absolute: absolute,
        })
    };
    for (percentage, absolute, random, expected) in [
        (0, 1, 0, "n0: p0"),
        (20, 1, 0, "n1: p1"),
        (20, 3, 0, "n2: p2"),
        (0, 1, 17, "n7: p7"),
        (20, 0, 9, "n9: p9"),
        (10, 100, 3, "n9: p9"),
    ] {
        let found = outcome_from(&mut cluster, Some(&args(percentage, absolute)), random);
        assert_eq!(found, expected, "{percentage} {absolute} {random}");
    }
    // As upstream: a share that rounds to zero means that no candidate is kept.
    let found = outcome_from(&mut cluster, Some(&args(1, 0)), 0);
    assert!(found.ends_with("10 Preemption is not helpful for scheduling."), "{found}");
}

#[test]
fn nodes_are_tried_until_one_violates_no_budget() {
    let nodes = (0..4).map(|i| node(&format!("n{i}")));
    let pods = (0..4).map(|i| Pod {
        labels: app(if i == 3 { "free" } else { "x" }),
        ..on(&format!("n{i}"), &format!("p{i}"), 4000, 1, 1)
    });
    let cluster = state(nodes, pods.chain([waiting(4000, 100)]));
    let mut cluster = with_budget(cluster, budget("x", "x", 0, &[]));
    let args = PluginArgs::DefaultPreemption(DefaultPreemptionArgs {
        min_candidate_nodes_percentage: 0,
        min_candidate_nodes_absolute: 1,
    });
    assert_eq!(outcome_from(&mut cluster, Some(&args), 0), "n3: p3");
}
