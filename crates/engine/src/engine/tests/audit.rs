//! The audit: each kind of drift that can be planted is reported, and corrected where that is possible.

use crate::change::Change;
use crate::engine::testing::*;
use crate::engine::{AuditPart, Engine};
use crate::framework::Point;
use crate::index::{NodeIdx, PodIdx, ResourceIdx};
use crate::object::{Node, Pod, Resources};
use crate::queue::QueueStage;
use crate::testing::labels;

/// The node `n1` with the pod `r`, which requests 1000m and 100 bytes, and the pending pod `p`.
fn harness() -> Harness {
    let mut harness = Harness::new(&[("n1", 4000)]);
    let mut resident = running("r", "n1", 1000);
    resident.spec_mut().requests_on_node =
        Resources { cpu: 1000, memory: 100, ..Resources::default() };
    harness.show(resident);
    harness.show(pending("p", 5000));
    harness
}

fn node(engine: &Engine) -> NodeIdx {
    engine.core.state.nodes.find("n1").unwrap()
}

fn pod(engine: &Engine, name: &str) -> PodIdx {
    engine.core.state.pods.find(&name.into()).unwrap()
}

/// Nominates a pod without a note of why.
fn nominate(engine: &mut Engine, pod: PodIdx, node: NodeIdx) {
    engine.core.nominator.nominate(pod, node);
    engine.core.state.set_nominated(pod, node);
}

/// Plants a drift and returns what the audit reports of it, then what the next audit reports.
fn audits(plant: impl FnOnce(&mut Engine)) -> (String, Result<(), String>) {
    let mut harness = harness();
    assert_eq!(harness.engine.audit(), Ok(()));
    plant(&mut harness.engine);
    let found = harness.engine.audit().expect_err("the drift is found");
    (found, harness.engine.audit())
}

#[test]
fn a_sum_that_drifted_is_reported_and_corrected() {
    let table = [
        (ResourceIdx::CPU, "cpu", 1000, -1000),
        (ResourceIdx::CPU, "cpu", 1000, 7),
        (ResourceIdx::CPU, "cpu", 1000, i64::MAX),
        (ResourceIdx::MEMORY, "memory", 100, 1),
    ];
    for (resource, name, sum, by) in table {
        let mut harness = harness();
        let engine = &mut harness.engine;
        let node = node(engine);
        let seen = engine.core.state.nodes.pod_changes().end();
        engine.core.state.nodes.corrupt(resource, node, by);
        let kept = i128::from(sum) + i128::from(by);
        let found = format!("requested {name} on node \"n1\": kept {kept}, sum of its pods {sum}");
        assert_eq!(engine.audit(), Err(format!("{found}: corrected")));
        assert_eq!(engine.core.state.nodes.requested_of(resource, node), sum);
        let changed = engine.core.state.nodes.pod_changes().since(seen);
        assert_eq!(changed.map(<[_]>::to_vec), Some(vec![node]), "classes look at it again");
        assert_eq!(engine.audit(), Ok(()));
    }
}

#[test]
fn a_lowest_priority_that_drifted_is_reported_and_corrected() {
    let (found, next) = audits(|engine| {
        let node = node(engine);
        engine.core.state.lowest_priorities.add(node, -5);
    });
    let text = "lowest priority on n1: kept (-5, 1), counted (0, 1): corrected";
    assert_eq!((&*found, next), (text, Ok(())));
}

#[test]
fn a_pod_that_is_not_listed_on_its_node_is_reported() {
    let (found, next) = audits(|engine| {
        let (pod, node) = (pod(engine, "p"), node(engine));
        engine.core.state.pods.get_mut(pod).node = node;
    });
    assert_eq!(found, "default/p is not listed under its node, label set and spec");
    assert_eq!(next, Err(found), "it is not known which of the two is right");
}

#[test]
fn nominations_that_drifted_are_reported() {
    type Plant = fn(&mut Engine, PodIdx, NodeIdx);
    let table: [(&str, Plant); 5] = [
        ("default/p is nominated for one node by its record and another by the nominator", {
            |engine, pod, node| engine.core.nominator.nominate(pod, node)
        }),
        ("default/p is nominated for one node by its record and another by the nominator", {
            |engine, pod, node| engine.core.state.set_nominated(pod, node)
        }),
        ("default/p is nominated for n1, not for None", {
            |engine, pod, node| nominate(engine, pod, node)
        }),
        ("default/p lost its nomination for n1", {
            |engine, pod, node| {
                engine.nominations.write(pod, engine.core.state.nodes.name(node).into());
            }
        }),
        ("default/p is nominated for n1, which does not exist", {
            |engine, pod, node| {
                engine.nominations.write(pod, "n1".into());
                nominate(engine, pod, node);
                engine.core.state.remove_node("n1");
            }
        }),
    ];
    for (text, plant) in table {
        let (found, next) = audits(|engine| {
            let (pod, node) = (pod(engine, "p"), node(engine));
            plant(engine, pod, node);
        });
        assert_eq!(found, text);
        assert_eq!(next, Err(found), "nominations are not corrected");
    }
}

#[test]
fn a_nomination_of_a_pod_on_a_node_is_reported() {
    let (found, _) = audits(|engine| {
        let (resident, node) = (pod(engine, "r"), node(engine));
        nominate(engine, resident, node);
    });
    assert_eq!(found, "default/r does not wait but is nominated for n1");
}

#[test]
fn a_queue_that_is_out_of_order_is_reported() {
    let mut harness = harness();
    for (name, priority) in [("a", 3), ("b", 2), ("c", 1)] {
        harness.show(important(name, 100, priority));
    }
    // Without QueueSort the pods would be in order of arrival, with `p` at the head.
    let points = std::mem::take(&mut harness.profile_mut().points);
    assert_eq!(harness.engine.audit(), Err("queue: wrong: active".to_owned()));
    harness.profile_mut().points = points;
    assert_eq!(harness.engine.audit(), Ok(()));
}

/// Four equal nodes, and pods of one class that were placed, so that its evaluation is kept.
fn with_kept_evaluation() -> Harness {
    let mut harness = Harness::new(&[("n1", 4000), ("n2", 4000)]);
    for name in ["a", "b", "c", "d"] {
        harness.show(pending(name, 100));
    }
    assert_eq!(harness.attempt(3).len(), 3);
    harness
}

#[test]
fn feasible_nodes_that_differ_from_scratch_are_reported_and_made_anew() {
    let mut harness = with_kept_evaluation();
    harness.script.closed.set(true);
    let found = "feasible nodes of a class: kept [\"n1\", \"n2\"], from scratch []";
    assert_eq!(harness.engine.audit(), Err(found.to_owned()));
    assert_eq!(harness.engine.audit(), Ok(()), "the evaluation is dropped");
    assert_eq!(harness.schedule(), ["Unschedulable d, nominate for none"]);
}

#[test]
fn totals_that_differ_from_scratch_are_reported_and_made_anew() {
    let mut harness = with_kept_evaluation();
    harness.set_node(Node { labels: labels(&[("score", "52")]), ..node_with("n2", 4000) });
    harness.show(pending("e", 100));
    harness.show(pending("f", 100));
    assert_eq!(harness.attempt(2), ["bind d to n2", "bind e to n2"]);
    harness.script.bonus.set(7);
    assert_eq!(harness.engine.audit(), Err("total of n1: kept 50, from scratch 57".to_owned()));
    assert_eq!(harness.engine.audit(), Ok(()));
    assert_eq!(harness.schedule(), ["bind f to n1"]);
}

#[test]
fn an_audit_continues_after_a_part_with_a_difference() {
    let mut harness = harness();
    let engine = &mut harness.engine;
    let node = node(engine);
    engine.core.state.nodes.corrupt(ResourceIdx::MEMORY, node, 1);
    let (mut part, mut differences) = (Some(AuditPart::default()), Vec::new());
    while let Some(next) = part {
        let found;
        (part, found) = engine.audit_part(next);
        differences.push(found.is_err());
    }
    // Nodes, pods, queue, the class of `p`, and the end of the classes.
    assert_eq!(differences, [true, false, false, false, false]);
}

#[test]
fn an_audit_of_many_nodes_is_made_in_parts() {
    let mut harness = Harness::new(&[]);
    for number in 0..600 {
        let node = node_with(&format!("n{number}"), 1000);
        harness.engine.apply(Change::Node(node.into()), 0, &mut Vec::new());
    }
    let last = harness.engine.core.state.nodes.find("n599").unwrap();
    harness.engine.core.state.nodes.corrupt(ResourceIdx::CPU, last, 1);
    let (mut part, mut parts, mut found_in) = (Some(AuditPart::default()), 0, None);
    while let Some(next) = part {
        let found;
        (part, found) = harness.engine.audit_part(next);
        if found.is_err() {
            found_in = Some(parts);
        }
        parts += 1;
    }
    // 256 nodes in each of three parts, then pods, queue and classes.
    assert_eq!((parts, found_in), (6, Some(2)));
}

#[test]
fn a_decision_that_differs_from_scratch_is_reported() {
    let mut harness = with_kept_evaluation();
    assert_eq!(harness.engine.audit_decisions(), Ok(()));
    harness.script.closed.set(true);
    let found = harness.engine.audit_decisions().unwrap_err();
    assert_eq!(found, "default/d: n1 of 2 chosen, but 0 are feasible from scratch");
    harness.script.closed.set(false);
    harness.script.bonus.set(-7);
    let found = harness.engine.audit_decisions().unwrap_err();
    let text = "default/d: n1 of 2 chosen, but its total is 43 of [43, 50] from scratch";
    assert_eq!(found, text);
    assert_eq!(harness.stage("d"), Some(QueueStage::Active), "nothing is carried out");
}

#[test]
fn a_pod_that_waits_although_it_fits_is_reported() {
    let mut harness = Harness::new(&[("n1", 50)]);
    harness.place(pending("p", 100));
    assert_eq!(harness.engine.audit_waiting(), Ok(()));
    harness.script.deaf.set(true);
    harness.set_node(node_with("n1", 4000));
    let found = "default/p fits on n1 but waits for an event";
    assert_eq!(harness.engine.audit_waiting(), Err(found.to_owned()));
    // A node with nominated pods does not count as fitting.
    harness.show(Pod { nominated_node: "n1".into(), ..important("q", 4000, 10) });
    assert_eq!(harness.engine.audit_waiting(), Ok(()));
}

#[test]
fn audits_do_not_change_the_next_decisions() {
    let placements = |audited: bool| {
        let settings = crate::engine::Settings { seed: Some(3), ..Default::default() };
        let nodes = [("n1", 800), ("n2", 800), ("n3", 800), ("n4", 800)];
        let mut harness = Harness::with(Vec::new(), settings, &nodes);
        let mut bound = Vec::new();
        for number in 0..30 {
            harness.show(pending(&format!("p{number}"), 100));
            let mut commands = Vec::new();
            harness.engine.schedule(harness.now, &mut commands);
            bound.push(format!("{commands:?}"));
            if audited {
                harness.engine.audit().unwrap();
                harness.engine.audit_decisions().unwrap();
                harness.engine.audit_waiting().unwrap();
            }
        }
        bound
    };
    assert_eq!(placements(true), placements(false));
}

#[test]
fn a_pod_on_an_unknown_node_in_the_65th_slot_is_no_difference() {
    // Sets of nodes have a word for 64 slots: the new slot needs another one.
    for nodes in [0, 64] {
        let mut harness = Harness::new(&[]);
        for number in 0..nodes {
            harness.add_node(&format!("n{number}"), 1000);
        }
        for number in 0..6 {
            harness.show(pending(&format!("p{number}"), 100));
        }
        harness.attempt(3);
        harness.show(running("x", "unknown", 100));
        assert_eq!(harness.engine.state().nodes.slots(), nodes + 1);
        assert_eq!(harness.schedule().len(), 3);
        harness.add_node("unknown", 150);
        harness.show(pending("last", 1000));
        harness.after(2 * SECOND);
        assert_eq!(harness.node_of("last").is_some(), nodes > 0);
    }
}

#[test]
fn every_class_is_audited() {
    let mut harness = Harness::new(&[("n1", 4000), ("n2", 4000)]);
    for cpu in [100, 200, 300] {
        for number in 0..3 {
            harness.show(pending(&format!("p{cpu}-{number}"), cpu));
        }
    }
    assert_eq!(harness.schedule().len(), 9);
    harness.script.closed.set(true);
    let (mut part, mut differences) = (Some(AuditPart::default()), 0);
    while let Some(next) = part {
        let found;
        (part, found) = harness.engine.audit_part(next);
        differences += usize::from(found.is_err());
    }
    assert_eq!(differences, 3);
}

#[test]
fn evaluations_of_a_profile_without_scorers_are_no_difference() {
    let mut harness = Harness::new(&[("n1", 4000), ("n2", 4000)]);
    harness.profile_mut().points.retain(|(point, _)| *point != Point::Score);
    for name in ["a", "b", "c"] {
        harness.show(pending(name, 100));
    }
    assert_eq!(harness.attempt(2), ["bind a to n1", "bind b to n2"]);
    assert_eq!(harness.engine.audit(), Ok(()));
}
