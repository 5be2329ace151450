//! Tests of the texts and counts of a diagnosis.

use super::*;
use crate::cycle::testing::{Judge, Stub, class, nodes, number, profile};
use crate::framework::PreFilterResult;
use crate::testing;

fn unschedulable(reasons: &[&'static str]) -> Rejection {
    let reasons = reasons.iter().map(|reason| (*reason).into()).collect();
    Rejection::new(Code::Unschedulable, reasons)
}

#[test]
fn the_text_counts_reasons_and_sorts_them_as_strings() {
    let all = "0/12 nodes are available:";
    for (rejections, absent, reasons) in [
        (&[][..], None, ""),
        (&[(&["a"][..], 2)], None, " 2 a."),
        (&[(&["b"], 1), (&["a"], 1)], None, " 1 a, 1 b."),
        (&[(&["a"], 2), (&["b"], 10)], None, " 10 b, 2 a."),
        (&[(&["a", "b"], 2), (&["b"], 1)], None, " 2 a, 3 b."),
        (&[(&["a"], 0)], None, ""),
        (&[(&[], 3)], None, ""),
        (&[(&["a"], 2)], Some("rest"), " 10 rest, 2 a."),
        (&[(&["a"], 12)], Some("rest"), " 12 a."),
        (&[(&["a"], 2)], Some("a"), " 12 a."),
        (&[], Some("rest"), " 12 rest."),
    ] {
        let rejections: Vec<_> =
            rejections.iter().map(|(reasons, nodes)| (unschedulable(reasons), *nodes)).collect();
        let absent = absent.map(Rejection::unresolvable);
        let counted = rejections.iter().map(|(rejection, nodes)| (rejection, *nodes));
        let text = fit_error(12, None, counted, absent.as_ref());
        assert_eq!(text, format!("{all}{reasons}"), "{rejections:?} {absent:?}");
    }
}

#[test]
fn a_rejection_by_pre_filter_is_the_whole_text() {
    let rejection = unschedulable(&["a"]);
    for (message, text) in
        [("", "0/3 nodes are available:"), ("no claim", "0/3 nodes are available: no claim.")]
    {
        let rejections = std::iter::once((&rejection, 2));
        assert_eq!(fit_error(3, Some(message), rejections, None), text);
    }
}

/// Rejects nodes by `number % 3`: two reasons, one reason that cannot be resolved, none.
fn by_number() -> Stub {
    let judge = |state: &State, node| number(state, node, "number") as u32 % 3;
    Stub::judge(
        "ByNumber",
        judge,
        &[unschedulable(&["one", "uno"]), Rejection::unresolvable("two")],
    )
}

#[test]
fn nodes_are_listed_in_visiting_order_with_who_refused_them() {
    let profile = profile([Stub::filter("Skip", |_, _| PreFilterResult::Skip), by_number()]);
    let mut state = testing::state(nodes(6), []);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    let diagnosis = Diagnosis::new(&profile, &mut evaluation, &state);
    let listed: Vec<_> = diagnosis
        .nodes()
        .map(|(node, plugin, rejection)| (node.0, plugin, rejection.message()))
        .collect();
    let (one, two) = ("one, uno".to_owned(), "two".to_owned());
    let expected = [
        (1, Some(1), one.clone()),
        (2, Some(1), two.clone()),
        (4, Some(1), one),
        (5, Some(1), two),
    ];
    assert_eq!(listed, expected);
    assert_eq!((diagnosis.rejected_count(), diagnosis.refusal_count()), (4, 2));
    assert_eq!(diagnosis.count_of(Code::Unschedulable), 2);
    assert_eq!(diagnosis.count_of(Code::Error), 0);
    assert_eq!(diagnosis.rejectors(), [1]);
    assert_eq!(diagnosis.text(""), "0/6 nodes are available: 2 one, 2 two, 2 uno.");
    assert_eq!(
        diagnosis.text("preemption: none."),
        "0/6 nodes are available: 2 one, 2 two, 2 uno. preemption: none."
    );
    assert_eq!(diagnosis.code(NodeIdx(4)), Code::Unschedulable);
    assert_eq!(diagnosis.code(NodeIdx(5)), Code::UnschedulableAndUnresolvable);
    assert_eq!(diagnosis.code(NodeIdx(0)), Code::UnschedulableAndUnresolvable, "without an entry");
    let positions = [0, 1, 2, 5].map(|node| diagnosis.position_of(&state, NodeIdx(node)));
    assert_eq!(positions, [None, Some(0), Some(1), Some(3)]);
}

#[test]
fn a_rejection_by_pre_filter_stands_for_all_nodes() {
    let reject = Stub::filter("Reject", |_, _| PreFilterResult::Reject(unschedulable(&["a", "b"])));
    let profile = profile([narrow("Narrow"), reject]);
    let mut state = testing::state(nodes(3), []);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    let diagnosis = Diagnosis::new(&profile, &mut evaluation, &state);
    assert_eq!((diagnosis.rejected_count(), diagnosis.rejectors()), (0, vec![0, 1]));
    assert_eq!(
        (diagnosis.absent_code(), diagnosis.code(NodeIdx(2))),
        (Code::Unschedulable, Code::Unschedulable)
    );
    assert_eq!(diagnosis.text(""), "0/3 nodes are available: a, b.");
}

/// Narrows the choice to node 1.
fn narrow(name: &'static str) -> Stub {
    Stub::filter(name, |_, preparation| {
        let mut nodes = preparation.state.nodes.present().clone();
        nodes.retain(|node| node == NodeIdx(1));
        PreFilterResult::Narrow(nodes, None)
    })
}

#[test]
fn nodes_left_out_by_narrowing_have_a_reason_that_names_the_plugins() {
    let profile = profile([narrow("B"), narrow("A"), by_number()]);
    let mut state = testing::state(nodes(4), []);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    let diagnosis = Diagnosis::new(&profile, &mut evaluation, &state);
    assert_eq!(
        diagnosis.text(""),
        "0/4 nodes are available: 1 one, 1 uno, 3 node(s) didn't satisfy plugin(s) [A B]."
    );
    assert_eq!(diagnosis.rejectors(), [0, 1, 2]);
    // The node that the pod is nominated for was looked at although it is left out.
    let nominated = (NodeIdx(2), 2, unschedulable(&["taken"]));
    let mut diagnosis = Diagnosis::empty(&profile, &evaluation, &state, Some(&nominated));
    diagnosis.add(NodeIdx(1), Some(2), unschedulable(&["one"]));
    assert_eq!(
        diagnosis.text(""),
        "0/4 nodes are available: 1 one, 1 taken, 2 node(s) didn't satisfy plugin(s) [A B ByNumber]."
    );
    // One that is not left out comes with the others.
    let nominated = (NodeIdx(1), 2, unschedulable(&["taken"]));
    let diagnosis = Diagnosis::empty(&profile, &evaluation, &state, Some(&nominated));
    assert_eq!(diagnosis.rejected_count(), 0);
}

#[test]
fn equal_refusals_are_kept_once_and_those_of_different_plugins_apart() {
    let mut diagnosis = Diagnosis { node_count: 5, ..Diagnosis::default() };
    diagnosis.add(NodeIdx(0), Some(0), unschedulable(&["a"]));
    diagnosis.add(NodeIdx(1), Some(0), unschedulable(&["a"]));
    diagnosis.add(NodeIdx(2), Some(3), unschedulable(&["a"]));
    diagnosis.add(NodeIdx(3), None, unschedulable(&["a"]));
    diagnosis.add(NodeIdx(4), None, Rejection::unresolvable("a"));
    assert_eq!((diagnosis.refusal_count(), diagnosis.rejectors()), (4, vec![0, 3]));
    assert_eq!(diagnosis.text(""), "0/5 nodes are available: 5 a.");
    assert_eq!(diagnosis.count_of(Code::Unschedulable), 4);
}

#[test]
fn reasons_that_vary_by_node_are_refusals_of_their_own() {
    let varying = Stub::filter("Varies", |_, _| {
        let rejections = vec![unschedulable(&["not"])];
        PreFilterResult::Filter(Box::new(Judge {
            judge: |_: &State, _| 1,
            rejections,
            varies: true,
        }))
    });
    let profile = profile([varying]);
    let mut state = testing::state(nodes(3), []);
    let mut evaluation = Evaluation::new(&profile, class(), &mut state);
    let diagnosis = Diagnosis::new(&profile, &mut evaluation, &state);
    assert_eq!(diagnosis.refusal_count(), 3);
    assert_eq!(diagnosis.text(""), "0/3 nodes are available: 1 not n0, 1 not n1, 1 not n2.");
}

#[test]
fn a_replaced_refusal_counts_for_its_nodes_only() {
    let mut diagnosis = Diagnosis { node_count: 2, ..Diagnosis::default() };
    diagnosis.add(NodeIdx(0), Some(0), unschedulable(&["a"]));
    diagnosis.add(NodeIdx(1), Some(1), unschedulable(&["b"]));
    diagnosis.replace(0, 1);
    assert_eq!(diagnosis.text(""), "0/2 nodes are available: 2 b.");
    assert_eq!(diagnosis.rejectors(), [1], "the first plugin refuses no node any more");
    assert!(diagnosis.nodes().all(|(_, plugin, _)| plugin == Some(1)));
}
