//! Nominations: kept, overridden, ended, and stale values that the watch shows late.

use crate::change::Change;
use crate::engine::testing::*;
use crate::object::{Node, Pod};
use crate::queue::QueueStage;
use crate::testing::labels;

fn nominated(pod: Pod, node: &str) -> Pod {
    Pod { nominated_node: node.into(), ..pod }
}

/// `p` evicts `v` from `n1` and is nominated there; the deletion is answered.
fn preempting(nodes: &[(&str, i64)]) -> Harness {
    let mut harness = Harness::new(nodes);
    harness.show(running("v", "n1", 4000));
    harness.place(important("p", 4000, 10));
    harness.tell(evicted("p", "v"));
    assert_eq!(harness.nominated("p"), Some("n1"));
    harness
}

#[test]
fn a_nominated_node_is_kept_free_of_pods_of_equal_or_lower_priority() {
    for (priority, is_placed) in [(5, false), (10, false), (11, true)] {
        let mut harness = preempting(&[("n1", 4000)]);
        harness.tell(gone("v"));
        harness.show(important("q", 1000, priority));
        // The preemptor backs off, so the other pod is tried first.
        let commands = harness.attempt(1);
        assert_eq!(commands == ["bind q to n1"], is_placed, "{priority}: {commands:?}");
    }
}

#[test]
fn a_stale_nomination_does_not_replace_a_later_decision() {
    let mut harness = preempting(&[("n1", 4000)]);
    // The node can never take it any more; another node can.
    harness.set_node(Node { unschedulable: true, ..node_with("n1", 4000) });
    harness.add_node("n2", 4000);
    harness.show(running("w", "n2", 4000));
    assert_eq!(harness.after(400 * SECOND)[0], "delete w on n2 for p");
    let shown = |node| nominated(important("p", 4000, 10), node);
    // (value that the watch shows, the nomination afterwards)
    for (value, holds) in [("n1", Some("n2")), ("n2", Some("n2")), ("n1", Some("n1")), ("", None)] {
        harness.show(shown(value));
        assert_eq!(harness.nominated("p"), holds, "after {value:?}");
    }
}

#[test]
fn a_value_that_was_not_written_here_replaces_the_nomination() {
    let mut harness = preempting(&[("n1", 4000), ("n2", 100)]);
    harness.show(nominated(important("p", 4000, 10), "n2"));
    assert_eq!(harness.nominated("p"), Some("n2"));
    harness.show(nominated(important("p", 4000, 10), "n2"));
    assert_eq!(harness.nominated("p"), Some("n2"), "the same value says nothing new");
    harness.show(nominated(important("p", 4000, 10), "unknown"));
    assert_eq!(harness.nominated("p"), None, "the node does not exist");
    harness.add_node("unknown", 100);
    assert_eq!(harness.nominated("p"), Some("unknown"));
}

#[test]
fn a_nomination_for_a_node_that_is_added_later_follows_the_last_value() {
    let mut harness = Harness::new(&[]);
    harness.show(nominated(pending("p", 100), "n1"));
    harness.show(nominated(pending("p", 100), "n2"));
    harness.add_node("n1", 4000);
    assert_eq!(harness.nominated("p"), None);
    harness.add_node("n2", 4000);
    assert_eq!(harness.nominated("p"), Some("n2"));
    harness.show(nominated(pending("q", 100), "n3"));
    harness.show(pending("q", 100));
    harness.add_node("n3", 4000);
    assert_eq!(harness.nominated("q"), None, "the value was taken away before the node came");
}

#[test]
fn a_gated_pod_is_nominated_when_it_is_let_in() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    let waiting = nominated(pending("p", 1000), "n1");
    harness.show(Pod { gates: ["later".into()].into(), ..waiting.clone() });
    assert_eq!((harness.stage("p"), harness.nominated("p")), (Some(QueueStage::Gated), None));
    harness.show(waiting);
    assert_eq!(harness.nominated("p"), Some("n1"));
}

#[test]
fn nothing_is_inherited_from_a_removed_node() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    let large = || nominated(important("p", 64_000, 10), "n1");
    harness.script.post_filters.lock().insert("p".to_owned(), "never preempts");
    harness.show(large());
    harness.schedule();
    assert_eq!(harness.nominated("p"), Some("n1"), "such a failure leaves it as it is");
    harness.remove_node("n1");
    harness.add_node("n9", 4000);
    assert_eq!(harness.engine.state().nodes.slots(), 1, "the slot is used again");
    harness.after(400 * SECOND);
    assert_eq!(harness.nominated("p"), None);
    harness.show(Pod { labels: labels(&[("a", "b")]), ..large() });
    harness.after(400 * SECOND);
    assert_eq!(harness.nominated("p"), None);
    assert_eq!(harness.place(pending("small", 1000)), ["bind small to n9"]);
}

#[test]
fn a_nomination_for_a_removed_node_does_not_return_with_the_node() {
    let mut harness = preempting(&[("n1", 4000)]);
    harness.show(nominated(important("p", 4000, 10), "n1"));
    harness.remove_node("n1");
    assert_eq!(harness.nominated("p"), None);
    harness.add_node("n1", 4000);
    assert_eq!(harness.nominated("p"), None, "the value shown is that of before the removal");
}

#[test]
fn a_pod_of_lower_priority_loses_its_nomination_to_a_higher_one() {
    let mut harness = preempting(&[("n1", 4000)]);
    let commands = harness.place(important("higher", 4000, 20));
    // The victim terminates already.
    assert_eq!(commands[..2], ["Unschedulable higher, nominate for n1", "nominate p for none"]);
    assert_eq!((harness.nominated("p"), harness.nominated("higher")), (None, Some("n1")));
}

#[test]
fn a_pod_of_equal_priority_keeps_its_nomination() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.show(running("v", "n1", 4000));
    harness.place(important("p", 1000, 10));
    harness.tell(evicted("p", "v"));
    let commands = harness.place(important("equal", 2000, 10));
    assert_eq!(commands, ["Unschedulable equal, nominate for n1"]);
    assert_eq!((harness.nominated("p"), harness.nominated("equal")), (Some("n1"), Some("n1")));
}

#[test]
fn a_nomination_that_the_api_server_never_showed_wakes_others_when_it_ends() {
    let mut harness = preempting(&[("n1", 4000)]);
    harness.show(important("small", 1000, 5));
    harness.tell(gone("v"));
    harness.show(Pod { priority: 20, ..running("y", "n1", 3000) });
    let commands = harness.schedule();
    assert_eq!(
        commands[..3],
        [
            // The room is there, but it is kept free for the preemptor, which is backing off.
            "Unschedulable small, nominate for none",
            "Unschedulable p, nominate for none",
            "bind small to n1",
        ]
    );
}

#[test]
fn the_end_of_a_nomination_wakes_only_pods_of_equal_or_lower_priority() {
    let ends = [
        ("deleted", gone("p")),
        ("taken away", Change::Pod(Box::new(important("p", 4000, 10)))),
        ("assigned", Change::Pod(Box::new(Pod { priority: 10, ..running("p", "n2", 4000) }))),
    ];
    for (name, end) in ends {
        let mut harness = Harness::new(&[("n1", 4000), ("n2", 10)]);
        harness.script.post_filters.lock().insert("p".to_owned(), "no luck");
        harness.show(Pod { priority: 30, ..running("v", "n1", 2000) });
        harness.show(nominated(important("p", 4000, 10), "n1"));
        // The first two would fit beside v, were it not for the nomination.
        harness.show(important("low", 1000, 5));
        harness.show(important("equal", 1000, 10));
        harness.show(important("high", 3000, 20));
        harness.schedule();
        let waits = Some(QueueStage::Unschedulable);
        let stages = |harness: &Harness| ["low", "equal", "high"].map(|pod| harness.stage(pod));
        assert_eq!((stages(&harness), harness.nominated("p")), ([waits; 3], Some("n1")), "{name}");
        harness.tell(end);
        let woken = stages(&harness).map(|stage| stage != waits);
        assert_eq!((woken, harness.nominated("p")), ([true, true, false], None), "{name}");
    }
}

#[test]
fn at_most_eight_unshown_values_are_remembered() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.show(pending("p", 100));
    let pod = harness.find("p").unwrap();
    for number in 0..20 {
        harness.engine.nominations.write(pod, format!("n{number}").into());
    }
    // An old value is unknown by now: it counts as written by another component.
    harness.engine.observe_nomination(pod, &"n1".into(), None);
    assert_eq!(harness.nominated("p"), Some("n1"));
    for number in 0..8 {
        harness.engine.nominations.write(pod, format!("n{number}").into());
    }
    harness.engine.observe_nomination(pod, &"n3".into(), None);
    assert_eq!(harness.nominated("p"), Some("n1"), "a value that was written here changes nothing");
}

#[test]
fn a_pod_that_is_assumed_on_another_node_than_its_nominated_one_wakes_others() {
    let ssd = || labels(&[("disk", "ssd")]);
    let mut harness = Harness::new(&[("n2", 1500)]);
    harness.script.post_filters.lock().insert("p".to_owned(), "no luck");
    harness.set_node(Node { labels: ssd(), ..node_with("n1", 4000) });
    harness.show(Pod { priority: 30, ..running("v", "n1", 3000) });
    harness.show(nominated(important("p", 3000, 10), "n1"));
    let mut small = important("small", 800, 5);
    small.spec_mut().node_selector = Some(ssd());
    harness.show(small);
    assert_eq!(harness.schedule(), ["Unschedulable p", "Unschedulable small, nominate for none"]);
    // Only an event of the pod itself, so that nothing else wakes the other one.
    harness.show(nominated(important("p", 1500, 10), "n1"));
    assert_eq!(harness.schedule(), ["bind p to n2", "bind small to n1"]);
}

#[test]
fn a_pod_whose_gate_opened_without_an_update_is_nominated_when_it_is_tried() {
    let mut harness = Harness::new(&[("n1", 4000)]);
    harness.set_node(Node { labels: labels(&[("score", "90")]), ..node_with("n2", 4000) });
    let gates = ["later".into()].into();
    harness.show(Pod { gates, ..nominated(pending("p", 1000), "n1") });
    assert_eq!(harness.nominated("p"), None);
    // Another plugin in the place of Gate, which lets every pod in.
    harness.profile_mut().plugins.swap(0, 1);
    assert_eq!(
        harness.after(340 * SECOND),
        ["bind p to n1"],
        "not to the node with the best score"
    );
}
