//! Tests of lowering volumes, claims, storage classes and CSI objects.

use engine::object::{AccessModes, BindingMode, ClaimPhase, VolumeMode, VolumePhase, VolumeSource};
use serde_json::json;

use super::*;

#[test]
fn volumes_and_claims_are_lowered() {
    let (volume, problems) = persistent_volume(&json!({
        "metadata": {
            "name": "pv", "labels": {"zone": "a"}, "deletionTimestamp": "2026-01-01T00:00:00Z",
            "annotations": {"volume.beta.kubernetes.io/storage-class": "beta"},
        },
        "spec": {
            "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
            "storageClassName": "slow", "volumeMode": "Block", "volumeAttributesClassName": "gold",
            "claimRef": {"namespace": "n", "name": "c", "uid": "u"},
            "csi": {"driver": "d", "volumeHandle": "h"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]},
            ]}},
        },
        "status": {"phase": "Available"},
    }));
    assert_eq!(texts(&problems), Vec::<String>::new());
    let volume = volume.unwrap();
    assert_eq!(
        (volume.capacity, &*volume.storage_class, volume.volume_mode),
        (10 << 30, "beta", VolumeMode::Block)
    );
    assert_eq!(volume.access_modes, AccessModes::READ_WRITE_ONCE.with(AccessModes::READ_ONLY_MANY));
    assert_eq!((volume.phase, volume.deleting), (VolumePhase::Available, true));
    assert_eq!(volume.source, VolumeSource::Csi { driver: "d".into(), handle: "h".into() });
    assert_eq!(volume.node_affinity.unwrap().len(), 1);
    assert_eq!(&*volume.claim_ref.unwrap().uid, "u");

    let (claim, problems) = persistent_volume_claim(&json!({
        "metadata": {
            "name": "c",
            "annotations": {"pv.kubernetes.io/bind-completed": "", "volume.kubernetes.io/selected-node": "n1"},
            "ownerReferences": [{"kind": "Pod", "name": "p", "uid": "pu", "controller": true}],
        },
        "spec": {
            "accessModes": ["ReadWriteOncePod", "Sometimes"], "storageClassName": "",
            "resources": {"requests": {"storage": "1.5"}}, "volumeName": "pv",
            "selector": {"matchLabels": {"a": "b"}},
        },
        "status": {"phase": "Lost"},
    }));
    assert_eq!(
        texts(&problems),
        ["PersistentVolumeClaim default/c: spec.accessModes[1]: found \"Sometimes\", \
          expected ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod"],
    );
    let claim = claim.unwrap();
    assert_eq!(
        (claim.request, claim.storage_class.as_deref(), claim.class()),
        (Some(2), Some(""), "")
    );
    assert_eq!(
        (claim.phase, claim.bind_completed, claim.bound_by_controller),
        (ClaimPhase::Lost, true, false)
    );
    assert_eq!((claim.selected_node.as_deref(), claim.owner_uid), (Some("n1"), Some("pu".into())));
    assert!(claim.access_modes.contains(AccessModes::READ_WRITE_ONCE_POD));
    assert_eq!(claim.selector.unwrap().requirements.len(), 1);
}

#[test]
fn classes_and_drivers_are_lowered() {
    let (class, problems) = storage_class(&json!({
        "metadata": {"name": "s"}, "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["b", "a"]}]}, {}],
    }));
    assert_eq!(texts(&problems), Vec::<String>::new());
    let class = class.unwrap();
    assert_eq!(class.binding_mode, Some(BindingMode::WaitForFirstConsumer));
    assert_eq!(
        *class.allowed_topologies[0].expressions,
        [requirement("zone", Operator::In, &["a", "b"])]
    );
    assert!(class.allowed_topologies[1].is_empty());
    assert_eq!(storage_class(&json!({"metadata": {"name": "s"}})).0.unwrap().binding_mode, None);

    let (node, _) = csi_node(&json!({
        "metadata": {
            "name": "n",
            "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": "kubernetes.io/gce-pd,kubernetes.io/aws-ebs"},
        },
        "spec": {"drivers": [{"name": "d", "allocatable": {"count": 5}, "topologyKeys": ["z"]}, {"name": "e", "allocatable": null}]},
    }));
    let node = node.unwrap();
    assert_eq!((node.drivers[0].limit, node.drivers[1].limit), (Some(5), None));
    assert_eq!(&*node.migrated_plugins[0], "kubernetes.io/aws-ebs");

    let driver = csi_driver(&json!({"metadata": {"name": "d"}, "spec": {"storageCapacity": true}}))
        .0
        .unwrap();
    assert!(driver.storage_capacity && driver.attach_required && !driver.prevents_if_missing);

    let (capacity, _) = csi_storage_capacity(&json!({
        "metadata": {"name": "c"}, "storageClassName": "s", "capacity": "1Gi",
        "nodeTopology": {"matchLabels": {"zone": "a"}},
    }));
    let capacity = capacity.unwrap();
    assert_eq!((capacity.capacity, capacity.maximum_volume_size), (Some(1 << 30), None));
    assert!(capacity.node_topology.is_some());

    let (attachment, _) = volume_attachment(&json!({
        "metadata": {"name": "x"},
        "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "pv"}},
    }));
    assert_eq!(attachment.unwrap().volume_name.as_deref(), Some("pv"));
    let (class, _) = device_class(
        &json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "a.com/gpu"}}),
    );
    assert_eq!(class.unwrap().extended_resource.as_deref(), Some("a.com/gpu"));
}
