//! Tests of explanations; that they equal decisions is tested with the cycle.

use super::*;
use crate::cycle::testing::{ByNode, Stub, class, nodes, number, profile};
use crate::framework::{PostFilterOutcome, PreFilterResult, Rejection};
use crate::object::{Pod, Volume};
use crate::queue::Nominator;
use crate::testing::{self, labels};

fn explained(count: usize, stubs: impl IntoIterator<Item = Stub>) -> Explanation {
    let profile = profile(stubs);
    let mut state = testing::state(nodes(count), [testing::pod("pod")]);
    let pod = state.find_pod("default", "pod").unwrap();
    let nominator = Nominator::default();
    explain(&profile, class(), &mut state, &PostFilterInput::new(pod, &nominator, 0, 0))
}

fn by_number(scale: fn(i64) -> i64) -> Stub {
    let judge = move |state: &State, node| scale(number(state, node, "number")) as u32;
    Stub::judge("ByNumber", judge, &[Rejection::unschedulable("low"), Rejection::error("broken")])
}

#[test]
fn errors_have_the_texts_of_upstream() {
    let score = |score: fn(&State, NodeIdx) -> i64| Stub::score_by("Score", ByNode::new(score));
    for (case, count, stub, error) in [
        ("no nodes", 0, score(|_, _| 1), Some("no nodes available to schedule pods")),
        (
            "PreFilter fails",
            2,
            Stub::filter("Pre", |_, _| PreFilterResult::Reject(Rejection::error("broken"))),
            Some("running PreFilter plugin \"Pre\": broken"),
        ),
        (
            "a filter fails",
            3,
            by_number(|number| number),
            Some("running \"ByNumber\" filter plugin: broken"),
        ),
        (
            "a score is out of range",
            2,
            score(|_, _| 200),
            Some(
                "plugin \"Score\" returns an invalid score 200, it should in the range of [0, 100] after normalizing",
            ),
        ),
        ("nothing is scored for one node", 1, score(|_, _| 200), None),
    ] {
        let explanation = explained(count, [stub]);
        assert_eq!(explanation.error.as_deref(), error, "{case}");
        assert_eq!(explanation.selected.is_some(), error.is_none(), "{case}");
    }
}

#[test]
fn the_best_node_comes_with_all_scores_and_rejections() {
    let scored = Stub::score_by("Score", ByNode::new(|state, node| number(state, node, "number")));
    let explanation =
        explained(4, [by_number(|number| i64::from(number == 3)), scored.weighing(10)]);
    assert_eq!(explanation.selected, Some(NodeIdx(2)));
    assert_eq!(explanation.feasible, [NodeIdx(0), NodeIdx(1), NodeIdx(2)]);
    assert_eq!(explanation.scores.plugins, [(1, vec![0, 10, 20])]);
    assert_eq!(explanation.diagnosis.code(NodeIdx(3)), Code::Unschedulable);
    assert_eq!((explanation.message.as_str(), explanation.error), ("", None));
}

#[test]
fn what_post_filter_says_follows_the_reasons() {
    let says = Stub::post_filter("Says", |_| PostFilterOutcome::Unschedulable {
        reasons: vec!["preemption: no help".into()],
        clear_nomination: false,
    });
    let explanation = explained(2, [by_number(|_| 1), says]);
    assert_eq!(explanation.message, "0/2 nodes are available: 2 low. preemption: no help");
    let nominates = Stub::post_filter("Finds", |_| PostFilterOutcome::Nominate {
        node: NodeIdx(1),
        victims: Vec::new(),
    });
    let explanation = explained(2, [by_number(|_| 1), nominates]);
    assert_eq!(explanation.message, "0/2 nodes are available: 2 low.");
    assert_eq!(explanation.post_filter.nominated, Some((NodeIdx(1), Vec::new())));
    assert_eq!(explanation.selected, None);
}

#[test]
fn without_scorers_the_first_node_is_enough() {
    let explanation = explained(4, [by_number(|number| i64::from(number == 0))]);
    assert_eq!(explanation.feasible, [NodeIdx(1)]);
    assert_eq!(explanation.diagnosis.rejected_count(), 1);
}

#[test]
fn a_class_has_a_uid_only_if_claims_are_made_for_the_pod() {
    let mut pod = Pod { labels: labels(&[("app", "web")]), ..testing::pod("a") };
    let volumes = [
        (Volume::Claim { name: "c".into() }, ""),
        (Volume::Ephemeral { claim: "a-c".into() }, "uid-default-a"),
    ];
    for (volume, uid) in volumes {
        pod.spec_mut().volumes = [volume].into();
        let state = testing::state([], [pod.clone()]);
        let index = state.find_pod("default", "a").unwrap();
        let class = class_of(&state, index, "n1");
        assert_eq!((class.uid, &*class.node_name), (uid.into(), "n1"));
        assert_eq!((class.labels, &*class.namespace), (pod.labels.clone(), "default"));
        assert_eq!(class.spec, pod.spec);
    }
}
