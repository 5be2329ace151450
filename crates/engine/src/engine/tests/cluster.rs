//! Nodes, storage objects and other objects: the events that their changes cause.

use std::collections::BTreeMap;

use crate::change::Change;
use crate::engine::testing::*;
use crate::framework::{Extender, Point};
use crate::object::{
    ClusterObject, CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass, Digest, Namespace, Node,
    ObjectKind, PersistentVolume, PersistentVolumeClaim, StorageClass, Taint, TaintEffect,
    VolumeAttachment,
};
use crate::testing::labels;

/// A harness whose plugins subscribe to every event: extenders do.
fn harness() -> Harness {
    Harness::with_extenders(
        vec![Extender { filters: true, ..Extender::default() }],
        &[("n1", 1000)],
    )
}

/// Names of the events that a change caused.
fn events(harness: &mut Harness, change: Change) -> Vec<String> {
    let counts = |harness: &Harness| -> BTreeMap<String, u64> {
        let moves = harness.engine.queue.counters.moves.iter();
        moves.map(|(label, counts)| (label.to_string(), counts.events)).collect()
    };
    let before = counts(harness);
    harness.tell(change);
    let after = counts(harness);
    let raised = after.into_iter().flat_map(|(label, count)| {
        let more = count - before.get(&label).copied().unwrap_or(0);
        std::iter::repeat_n(label, more as usize)
    });
    raised.collect()
}

#[test]
fn each_changed_aspect_of_a_node_is_an_event_of_its_own() {
    let base = || node_with("n1", 1000);
    let taint = Taint { key: "k".into(), value: "".into(), effect: TaintEffect::NoSchedule };
    let cases: [(Node, &[&str]); 10] = [
        (base(), &[]),
        (Node { labels: labels(&[("a", "b")]), ..base() }, &["NodeUpdateNodeLabel"]),
        (Node { taints: [taint.clone()].into(), ..base() }, &["NodeUpdateNodeTaint"]),
        (node_with("n1", 2000), &["NodeUpdateNodeAllocatable"]),
        (Node { allowed_pods: 7, ..base() }, &["NodeUpdateNodeAllocatable"]),
        (Node { conditions: digest("x"), ..base() }, &["NodeUpdateNodeCondition"]),
        (Node { annotations_digest: digest("x"), ..base() }, &["NodeUpdateNodeAnnotation"]),
        (
            Node { declared_features: ["f".into()].into(), ..base() },
            &["NodeUpdateNodeDeclaredFeature"],
        ),
        // To cordon a node helps no pod.
        (Node { unschedulable: true, ..base() }, &[]),
        (
            Node { labels: labels(&[("a", "b")]), taints: [taint].into(), ..node_with("n1", 2000) },
            &["NodeUpdateNodeAllocatable", "NodeUpdateNodeLabel", "NodeUpdateNodeTaint"],
        ),
    ];
    for (node, want) in cases {
        let mut harness = harness();
        assert_eq!(events(&mut harness, Change::Node(node.into())), want);
    }
}

fn digest(text: &str) -> Digest {
    Digest::of([text])
}

#[test]
fn adding_uncordoning_and_removing_a_node_are_events() {
    let mut harness = harness();
    let cordoned = || Node { unschedulable: true, ..node_with("n2", 1000) };
    assert_eq!(events(&mut harness, Change::Node(cordoned().into())), ["NodeAdd"]);
    let uncordoned = Change::Node(node_with("n2", 1000).into());
    assert_eq!(events(&mut harness, uncordoned), ["NodeUpdateNodeTaint"]);
    assert_eq!(events(&mut harness, Change::NodeGone("n2".into())), ["NodeDelete"]);
    assert_eq!(events(&mut harness, Change::NodeGone("n2".into())), [""; 0], "it is gone already");
}

/// An object of each kind that has events.
fn objects() -> [ClusterObject; 8] {
    let name = || "x".into();
    [
        ClusterObject::PersistentVolume(
            PersistentVolume { name: name(), ..Default::default() }.into(),
        ),
        ClusterObject::PersistentVolumeClaim(
            PersistentVolumeClaim { name: name(), ..Default::default() }.into(),
        ),
        ClusterObject::StorageClass(StorageClass { name: name(), ..Default::default() }.into()),
        ClusterObject::CsiNode(CsiNode { name: name(), ..Default::default() }.into()),
        ClusterObject::CsiDriver(CsiDriver { name: name(), ..Default::default() }.into()),
        ClusterObject::CsiStorageCapacity(
            CsiStorageCapacity { name: name(), ..Default::default() }.into(),
        ),
        ClusterObject::VolumeAttachment(
            VolumeAttachment { name: name(), ..Default::default() }.into(),
        ),
        ClusterObject::DeviceClass(DeviceClass { name: name(), ..Default::default() }.into()),
    ]
}

#[test]
fn objects_that_are_added_or_updated_are_events() {
    let names = [
        "PersistentVolume",
        "PersistentVolumeClaim",
        "storage.k8s.io/StorageClass",
        "storage.k8s.io/CSINode",
        "storage.k8s.io/CSIDriver",
        "storage.k8s.io/CSIStorageCapacity",
        "storage.k8s.io/VolumeAttachment",
        "resource.k8s.io/DeviceClass",
    ];
    let mut harness = harness();
    for (kind, object) in names.into_iter().zip(objects()) {
        for action in ["Add", "Update", "Update"] {
            let change = Change::Object(object.clone());
            assert_eq!(events(&mut harness, change), [format!("{kind}{action}")]);
        }
    }
}

#[test]
fn of_deleted_objects_only_an_attachment_is_an_event() {
    let mut harness = harness();
    for object in objects() {
        let name = object.name();
        let is_event = name.kind == ObjectKind::VolumeAttachment;
        let raised = events(&mut harness, Change::ObjectGone(name.clone()));
        let want = ["storage.k8s.io/VolumeAttachmentDelete"];
        assert_eq!(raised, want[..usize::from(is_event)], "{name:?}");
    }
}

#[test]
fn an_object_is_stored_replaced_and_removed() {
    let mut harness = harness();
    let class = |provisioner: &str| {
        let (name, provisioner) = ("fast".into(), provisioner.into());
        let class = StorageClass { name, provisioner, ..StorageClass::default() };
        ClusterObject::StorageClass(class.into())
    };
    let stored = |harness: &Harness| {
        let class = harness.engine.core.state.volumes.classes.get("fast");
        class.map(|class| class.provisioner.to_string())
    };
    for provisioner in ["one", "two"] {
        harness.tell(Change::Object(class(provisioner)));
        assert_eq!(stored(&harness).as_deref(), Some(provisioner));
    }
    harness.tell(Change::ObjectGone(class("").name()));
    assert_eq!(stored(&harness), None);
}

#[test]
fn device_classes_are_events_and_namespaces_are_not() {
    let mut harness = harness();
    let class = DeviceClass { name: "d".into(), extended_resource: Some("e/d".into()) };
    let class = ClusterObject::DeviceClass(class.into());
    assert_eq!(events(&mut harness, Change::Object(class.clone())).len(), 1);
    assert!(harness.engine.core.state.device_class_offers("e/d"));
    assert_eq!(events(&mut harness, Change::ObjectGone(class.name())), [""; 0]);
    assert!(!harness.engine.core.state.device_class_offers("e/d"));
    let namespace = Namespace { name: "ns".into(), labels: labels(&[("a", "b")]) };
    let namespace = ClusterObject::Namespace(namespace.into());
    assert_eq!(events(&mut harness, Change::Object(namespace.clone())), [""; 0]);
    assert_eq!(harness.engine.core.state.namespace_labels("ns").get("a"), Some("b"));
    harness.tell(Change::ObjectGone(namespace.name()));
    assert_eq!(harness.engine.core.state.namespace_labels("ns").get("a"), None);
}

#[test]
fn a_removed_node_takes_its_free_place_with_it() {
    let mut harness = Harness::new(&[("n1", 1000), ("n2", 1000)]);
    harness.remove_node("n1");
    assert_eq!(harness.place(pending("p", 600)), ["bind p to n2"]);
    assert_eq!(harness.place(pending("q", 600)), ["Unschedulable q, nominate for none"]);
    assert_eq!(harness.message(), "0/1 nodes are available: 1 Insufficient cpu. no victims");
}

#[test]
fn the_visit_of_nodes_starts_over_when_a_node_is_removed() {
    let nodes = [("n1", 4000), ("n2", 4000), ("n3", 4000), ("n4", 4000)];
    let mut harness = Harness::new(&nodes);
    // Without scorers the first feasible node is taken, and the next visit starts after it.
    harness.profile_mut().points.retain(|(point, _)| *point != Point::Score);
    assert_eq!(harness.place(pending("a", 100)), ["bind a to n1"]);
    assert_eq!(harness.place(pending("b", 100)), ["bind b to n2"]);
    harness.remove_node("n4");
    assert_eq!(harness.place(pending("c", 100)), ["bind c to n1"]);
}
