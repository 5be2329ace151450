//! Tests of the feasible nodes of a class.

use std::sync::Arc;

use super::*;
use crate::cycle::testing::{Judge, Stub, class, nodes, number, pods_on, profile, web};
use crate::limits::NODE_CHANGES_MAX;
use crate::object::{ClusterObject, Namespace};
use crate::state::Areas;
use crate::testing;

fn rejection(code: Code) -> Rejection {
    Rejection::new(code, vec!["no".into()])
}

fn rejecting(name: &'static str, code: Code) -> Stub {
    Stub::filter(name, move |_, _| PreFilterResult::Reject(rejection(code)))
}

/// Lets nodes with at least this number pass.
fn at_least(name: &'static str, least: i64) -> Stub {
    let judge = move |state: &State, node| u32::from(number(state, node, "number") < least);
    Stub::judge(name, judge, &[rejection(Code::Unschedulable)])
}

/// Narrows the choice to nodes with numbers in a range.
fn narrowing(name: &'static str, range: std::ops::Range<i64>) -> Stub {
    Stub::filter(name, move |_, preparation| {
        let state = &preparation.state;
        let mut nodes = state.nodes.present().clone();
        nodes.retain(|node| range.contains(&number(state, node, "number")));
        PreFilterResult::Narrow(nodes, None)
    })
}

fn feasible(evaluation: &Evaluation) -> Vec<u32> {
    assert_eq!(evaluation.feasible_count(), evaluation.feasible().count());
    evaluation.feasible().iter().map(|node| node.0).collect()
}

#[test]
fn a_node_is_feasible_if_all_filters_pass_it_and_the_first_to_refuse_is_named() {
    let profile = profile([at_least("Two", 2), at_least("Four", 4)]);
    let mut state = testing::state(nodes(6), []);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    assert_eq!(feasible(&evaluation), [4, 5]);
    let mut refused_by = |node| evaluation.verdict(&state, NodeIdx(node)).map(|(filter, _)| filter);
    let refused: Vec<_> = (0..6).map(&mut refused_by).collect();
    assert_eq!(refused, [Some(0), Some(0), Some(1), Some(1), None, None]);
}

#[test]
fn pre_filter_ends_with_a_rejection_that_no_preemption_can_help() {
    use Code::{Error, Pending, Unschedulable, UnschedulableAndUnresolvable};
    for (codes, run, rejected) in [
        (&[Unschedulable][..], &[0, 1][..], 0),
        (&[Unschedulable, Unschedulable], &[0, 1, 2], 1),
        (&[UnschedulableAndUnresolvable, Unschedulable], &[0], 0),
        (&[Unschedulable, UnschedulableAndUnresolvable], &[0, 1], 1),
        (&[Pending], &[0], 0),
        (&[Error], &[0], 0),
    ] {
        let stubs = codes.iter().map(|code| rejecting("Rejecting", *code));
        let profile = profile(stubs.chain([at_least("Last", 0)]));
        let mut state = testing::state(nodes(3), []);
        let evaluation = Evaluation::new(&profile, class(), &mut state);
        assert_eq!(evaluation.pre_filters_run, run, "{codes:?}");
        let expected =
            PreFilterRejection { plugin: Some(rejected), rejection: rejection(codes[rejected]) };
        assert_eq!(evaluation.rejected, Some(expected), "{codes:?}");
        assert_eq!((feasible(&evaluation), evaluation.filters.len()), (vec![], 0));
    }
}

#[test]
fn plugins_narrow_the_choice_together() {
    let mut state = testing::state(nodes(6), []);
    let both = profile([narrowing("B", 1..4), narrowing("A", 3..6), at_least("Least", 0)]);
    let evaluation = Evaluation::new(&both, class(), &mut state);
    assert_eq!(feasible(&evaluation), [3]);
    assert_eq!(
        evaluation.narrowed.map(|(plugins, nodes)| (plugins, nodes.count())),
        Some((vec![0, 1], 1))
    );
    let disjoint = profile([narrowing("B", 1..3), narrowing("A", 3..6), at_least("Least", 0)]);
    let evaluation = Evaluation::new(&disjoint, class(), &mut state);
    let text = "node(s) didn't satisfy plugin(s) [A B] simultaneously";
    let expected = PreFilterRejection { plugin: None, rejection: Rejection::unresolvable(text) };
    assert_eq!((evaluation.rejected, evaluation.pre_filters_run), (Some(expected), vec![0, 1]));
    // One plugin alone may leave no node without rejecting the pod.
    let alone = profile([narrowing("A", 9..9)]);
    let evaluation = Evaluation::new(&alone, class(), &mut state);
    assert_eq!((feasible(&evaluation), evaluation.rejected), (vec![], None));
}

#[test]
fn a_plugin_filters_only_where_it_is_enabled() {
    let mut state = testing::state(nodes(6), []);
    for (case, plugin, expected) in [
        ("both", at_least("Three", 3), &[3, 4, 5][..]),
        ("PreFilter only", at_least("Three", 3).at(&[Point::PreFilter]), &[0, 1, 2, 3, 4, 5]),
        ("Filter only", at_least("Three", 3).at(&[Point::Filter]), &[3, 4, 5]),
        ("narrowing at both", narrowing("Narrow", 1..3), &[1, 2]),
        ("narrowing at PreFilter", narrowing("N", 1..3).at(&[Point::PreFilter]), &[1, 2]),
        ("narrowing at Filter", narrowing("N", 1..3).at(&[Point::Filter]), &[0, 1, 2, 3, 4, 5]),
        ("skipping", Stub::filter("Skip", |_, _| PreFilterResult::Skip), &[0, 1, 2, 3, 4, 5]),
        ("rejecting at Filter", rejecting("Reject", Code::Unschedulable).at(&[Point::Filter]), &[]),
    ] {
        let evaluation = Evaluation::new(&profile([plugin]), class(), &mut state);
        assert_eq!(feasible(&evaluation), expected, "{case}");
        assert_eq!(evaluation.rejected, None, "{case}");
    }
}

#[test]
fn a_filter_that_needs_its_pre_filter_fails_without_it() {
    let mut state = testing::state(nodes(2), []);
    let needs = || at_least("Needs", 0).failing_without_pre("no state");
    let mut evaluation = Evaluation::new(&profile([needs()]), class(), &mut state);
    assert!(!evaluation.can_fail() && evaluation.verdict(&state, NodeIdx(0)).is_none());
    let without = profile([needs().at(&[Point::Filter])]);
    let mut evaluation = Evaluation::new(&without, class(), &mut state);
    assert!(evaluation.can_fail());
    let verdict = evaluation.verdict(&state, NodeIdx(0)).unwrap();
    let (plugin, rejection) = evaluation.rejection(&state, NodeIdx(0), verdict);
    assert_eq!(plugin, 0);
    assert_eq!(rejection, Rejection::error("running \"Needs\" filter plugin: no state"));
}

#[test]
fn a_pod_too_large_to_work_with_is_rejected_in_the_name_of_a_gate() {
    let mut state = testing::state(nodes(2), []);
    let mut large = class();
    Arc::make_mut(&mut large.spec).too_large = Some("too many containers".into());
    for (stubs, plugin) in [
        (vec![at_least("Filter", 0)], None),
        (vec![at_least("Filter", 0), at_least("Gate", 0).at(&[Point::PreEnqueue])], Some(1)),
    ] {
        let evaluation = Evaluation::new(&profile(stubs), large.clone(), &mut state);
        let rejection = Rejection::unresolvable("too many containers");
        assert_eq!(evaluation.rejected, Some(PreFilterRejection { plugin, rejection }));
        assert!(evaluation.pre_filters_run.is_empty());
    }
}

/// A change, and whether filters are prepared anew after it.
type Case = (&'static str, fn(&mut State), bool);

#[test]
fn filters_are_prepared_anew_when_an_area_they_depend_on_changes() {
    let depends = Stub::filter("Depends", |_, preparation| {
        preparation.depends_on(Areas::NAMESPACES);
        PreFilterResult::Skip
    });
    let full = |state: &State, node| u32::from(pods_on(state, node) > 1);
    let limit = Stub::judge("Limit", full, &[rejection(Code::Unschedulable)]);
    let profile = profile([depends, limit]);
    let mut state = testing::state(nodes(3), []);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    let cases: [Case; 6] = [
        ("nothing", |_| {}, false),
        ("a pod", |state| _ = state.add_pod(web("a", "n1")), false),
        ("volumes", |state| state.invalidate(Areas::VOLUMES), false),
        (
            "a namespace",
            |state| {
                let namespace = Namespace { name: "a".into(), ..Namespace::default() };
                state.set_object(ClusterObject::Namespace(namespace.into()));
            },
            true,
        ),
        ("a node", |state| drop(state.remove_node("n2")), true),
        (
            "too many pods to follow",
            |state| {
                for _ in 0..=NODE_CHANGES_MAX {
                    testing::displace(state, "a");
                    testing::place(state, "a", "n0");
                }
            },
            true,
        ),
    ];
    for (case, change, rebuilt) in cases {
        let before = evaluation.rebuilds();
        change(&mut state);
        evaluation.refresh(&profile, &mut state);
        assert_eq!(evaluation.rebuilds() > before, rebuilt, "{case}");
    }
    let before = evaluation.rebuilds();
    let mut preparation = Preparation::new(&mut state);
    preparation.depends_on(Areas::VOLUMES);
    evaluation.depend_on(preparation.into_dependencies(), &state);
    state.invalidate(Areas::VOLUMES);
    evaluation.refresh(&profile, &mut state);
    assert_eq!(evaluation.rebuilds(), before + 1, "the ranking depends on it now");
}

#[test]
fn filters_are_prepared_anew_at_the_time_until_which_they_are_valid() {
    let timed = Stub::filter("Timed", |_, preparation| {
        if preparation.state.now() < 100 {
            preparation.valid_until(100);
        }
        PreFilterResult::Skip
    });
    let profile = profile([timed]);
    let mut state = testing::state(nodes(1), []);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    assert_eq!(evaluation.valid_until(), Some(100));
    for (now, rebuilds, until) in [(99, 1, Some(100)), (100, 2, None), (1000, 2, None)] {
        state.set_now(now);
        evaluation.refresh(&profile, &mut state);
        assert_eq!((evaluation.rebuilds(), evaluation.valid_until()), (rebuilds, until), "{now}");
    }
}

#[test]
fn rejections_with_an_end_limit_the_validity() {
    /// Rejects each node with as many seconds left as it has pods.
    struct Ends(Option<i64>);
    impl Filter for Ends {
        fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
            let until = 100 - pods_on(state, node);
            self.0 = self.0.into_iter().chain([until]).min();
            NodeVerdict(1)
        }

        fn rejection(&self, _: &State, _: NodeIdx, _: NodeVerdict) -> Rejection {
            rejection(Code::Unschedulable)
        }

        fn valid_until(&self) -> Option<i64> {
            self.0
        }

        fn reads_pods(&self) -> bool {
            true
        }
    }
    let ends = Stub::filter("Ends", |_, _| PreFilterResult::Filter(Box::new(Ends(None))));
    let profile = profile([ends]);
    let mut state = testing::state(nodes(2), [web("a", "n1")]);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    assert_eq!(evaluation.valid_until(), Some(99));
    state.add_pod(web("b", "n1"));
    evaluation.refresh(&profile, &mut state);
    assert_eq!((evaluation.valid_until(), evaluation.rebuilds()), (Some(98), 1), "it caught up");

    let gate = Stub::filter("Gate", |_, _| {
        PreFilterResult::Reject(rejection(Code::UnschedulableAndUnresolvable).until(50))
    });
    let evaluation = Evaluation::new(&self::profile([gate]), class(), &mut state);
    assert_eq!(evaluation.valid_until(), Some(50));
}

#[test]
fn filters_are_prepared_anew_when_a_plugin_state_they_depend_on_changes() {
    #[derive(Clone, Debug, PartialEq)]
    struct Placed(usize);
    impl crate::framework::PluginState for Placed {
        fn pod_placed(&mut self, _: &State, _: crate::index::PodIdx, _: NodeIdx) -> bool {
            self.0 += 1;
            self.0.is_multiple_of(2)
        }

        fn pod_removed(&mut self, _: &State, _: crate::index::PodIdx, _: NodeIdx) -> bool {
            false
        }
    }
    let depends = Stub::filter("Depends", |_, preparation| {
        preparation.depends_on_state::<Placed>();
        PreFilterResult::Skip
    });
    let profile = profile([depends]);
    let mut state = testing::state(nodes(1), []);
    state.plugin_states.add(crate::framework::InitialState::new(Placed(0)));
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    for (pod, rebuilds) in [("a", 1), ("b", 2), ("c", 2), ("d", 3)] {
        state.add_pod(web(pod, "n0"));
        evaluation.refresh(&profile, &mut state);
        assert_eq!(evaluation.rebuilds(), rebuilds, "{pod}");
    }
}

#[test]
fn the_version_changes_with_the_feasible_nodes_only() {
    let full = |state: &State, node| u32::from(pods_on(state, node) > 1);
    let profile = profile([Stub::judge("Limit", full, &[rejection(Code::Unschedulable)])]);
    let mut state = testing::state(nodes(3), [web("a", ""), web("b", "")]);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    for (pod, changes, expected) in [("a", false, &[0, 1, 2][..]), ("b", true, &[0, 2])] {
        let before = (evaluation.feasible_version(), evaluation.global_changes());
        testing::place(&mut state, pod, "n1");
        evaluation.refresh(&profile, &mut state);
        assert_eq!(evaluation.feasible_version() != before.0, changes, "{pod}");
        assert_eq!(evaluation.global_changes(), before.1, "only one node is affected");
        assert_eq!(feasible(&evaluation), expected);
    }
}

#[test]
fn a_filter_that_cannot_catch_up_is_prepared_anew() {
    struct Stale;
    impl Filter for Stale {
        fn check(&mut self, _state: &State, _node: NodeIdx) -> NodeVerdict {
            NodeVerdict::PASS
        }

        fn rejection(&self, _: &State, _: NodeIdx, _: NodeVerdict) -> Rejection {
            rejection(Code::Unschedulable)
        }

        fn refresh(&mut self, _state: &State, _passing: &mut NodeSet) -> Freshness {
            Freshness::Stale
        }
    }
    let profile = profile([Stub::filter("Stale", |_, _| PreFilterResult::Filter(Box::new(Stale)))]);
    let mut state = testing::state(nodes(1), []);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    evaluation.refresh(&profile, &mut state);
    assert_eq!((evaluation.rebuilds(), feasible(&evaluation)), (2, vec![0]));
}

#[test]
fn reasons_that_vary_are_those_of_each_node() {
    let stub = Stub::filter("Varies", |_, _| {
        let rejections = vec![rejection(Code::Unschedulable)];
        PreFilterResult::Filter(Box::new(Judge {
            judge: |_: &State, _| 1,
            rejections,
            varies: true,
        }))
    });
    let mut state = testing::state(nodes(2), []);
    let mut evaluation = Evaluation::new(&profile([stub]), class(), &mut state);
    let verdict = evaluation.check(&state, NodeIdx(1)).unwrap();
    assert!(evaluation.rejection_varies(verdict));
    let (_, rejection) = evaluation.rejection(&state, NodeIdx(1), verdict);
    assert_eq!(rejection.message(), "no n1");
}
