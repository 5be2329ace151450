//! Random storage classes, claims, volumes and CSI objects.

use engine::object::{
    AccessModes, BindingMode, ClaimPhase, CsiDriver, CsiNode, CsiStorageCapacity, NodeDriver,
    NodeTerm, PersistentVolume, PersistentVolumeClaim, Pod, Selector, StorageClass, Text, Volume,
    VolumePhase, VolumeSource,
};
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use super::{NAMESPACES, NODES, ZONE, ZONES, is_in, node_name, node_term, selector, text};

pub(crate) const DRIVER: &str = "csi.example.com";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Storage classes: `Immediate`, `WaitForFirstConsumer`, and one that does not exist at the start.
const CLASSES: [&str; 3] = ["at-once", "when-used", "later"];
pub(super) const CLAIMS: [&str; 4] = ["c1", "c2", "c3", "c4"];
pub(crate) const VOLUMES: [&str; 4] = ["v1", "v2", "v3", "v4"];

pub(crate) fn storage_class() -> impl Strategy<Value = StorageClass> {
    (select(&CLASSES[..]), weighted(0.3, select(&ZONES[..]))).prop_map(|(name, zone)| {
        let mode = if name == "at-once" {
            BindingMode::Immediate
        } else {
            BindingMode::WaitForFirstConsumer
        };
        let allowed = |zone: &str| NodeTerm {
            expressions: [is_in(ZONE, &[zone.into()])].into(),
            fields: [].into(),
            malformed: false,
        };
        StorageClass {
            name: name.into(),
            provisioner: if name == "later" { NO_PROVISIONER } else { DRIVER }.into(),
            binding_mode: Some(mode),
            allowed_topologies: zone.map(allowed).into_iter().collect(),
        }
    })
}

/// A claim that is not bound.
pub(crate) fn claim() -> impl Strategy<Value = PersistentVolumeClaim> {
    let modes = select(vec![
        AccessModes::READ_WRITE_ONCE,
        AccessModes::READ_WRITE_ONCE,
        AccessModes::READ_WRITE_ONCE_POD,
    ]);
    (text(&NAMESPACES), text(&CLAIMS), text(&CLASSES), modes, 1..=3_i64).prop_map(
        |(namespace, name, class, access_modes, size)| PersistentVolumeClaim {
            uid: format!("{namespace}-{name}").into(),
            namespace,
            name,
            storage_class: Some(class),
            access_modes,
            request: Some(size),
            phase: ClaimPhase::Pending,
            ..PersistentVolumeClaim::default()
        },
    )
}

/// Names the claims of a pod's ephemeral volumes, once the pod has a name.
pub(crate) fn name_ephemeral_claims(pod: &mut Pod) {
    let claim = ephemeral_claim_name(&pod.name);
    for volume in &mut pod.spec_mut().volumes {
        if matches!(volume, Volume::Ephemeral { .. }) {
            *volume = Volume::Ephemeral { claim: claim.clone() };
        }
    }
}

fn ephemeral_claim_name(pod: &str) -> Text {
    format!("{pod}-scratch").into()
}

/// The claim that a controller makes for the ephemeral volume of a pod.
pub(crate) fn ephemeral_claim(pod: &Pod) -> PersistentVolumeClaim {
    let name = ephemeral_claim_name(&pod.name);
    PersistentVolumeClaim {
        namespace: pod.namespace.clone(),
        uid: format!("{name}-of-{}", pod.uid).into(),
        name,
        storage_class: Some("when-used".into()),
        access_modes: AccessModes::READ_WRITE_ONCE,
        request: Some(1),
        owner_uid: Some(pod.uid.clone()),
        ..PersistentVolumeClaim::default()
    }
}

/// A volume without a claim.
pub(crate) fn volume_object() -> impl Strategy<Value = PersistentVolume> {
    let modes = AccessModes::READ_WRITE_ONCE.with(AccessModes::READ_WRITE_ONCE_POD);
    let place = (weighted(0.3, select(&ZONES[..])), weighted(0.3, node_term()));
    (text(&VOLUMES), text(&CLASSES), 1..=3_i64, place, prop::bool::weighted(0.8)).prop_map(
        move |(name, class, capacity, (zone, term), csi)| PersistentVolume {
            labels: zone.map(|zone| (ZONE, zone)).into_iter().collect(),
            capacity,
            access_modes: modes,
            storage_class: class,
            node_affinity: term.map(|term| [term].into()),
            phase: VolumePhase::Available,
            source: if csi {
                VolumeSource::Csi { driver: DRIVER.into(), handle: name.clone() }
            } else {
                VolumeSource::Other
            },
            name,
            ..PersistentVolume::default()
        },
    )
}

/// The volume that a driver makes for a claim.
pub(crate) fn provisioned(claim: &PersistentVolumeClaim) -> PersistentVolume {
    let name: Text = format!("pv-{}-{}", claim.namespace, claim.name).into();
    PersistentVolume {
        capacity: claim.request.unwrap_or(0),
        access_modes: claim.access_modes,
        storage_class: claim.class().into(),
        source: VolumeSource::Csi { driver: DRIVER.into(), handle: name.clone() },
        name,
        ..PersistentVolume::default()
    }
}

pub(crate) fn csi_node() -> impl Strategy<Value = CsiNode> {
    (0..NODES, weighted(0.9, weighted(0.9, 0..=2_i32))).prop_map(|(node, driver)| {
        let registered =
            |limit| NodeDriver { name: DRIVER.into(), limit, topology_keys: [ZONE.into()].into() };
        CsiNode {
            name: node_name(node),
            drivers: driver.map(registered).into_iter().collect(),
            migrated_plugins: [].into(),
        }
    })
}

pub(crate) fn csi_driver() -> impl Strategy<Value = CsiDriver> {
    any::<bool>().prop_map(|storage_capacity| CsiDriver {
        name: DRIVER.into(),
        storage_capacity,
        attach_required: true,
        prevents_if_missing: false,
    })
}

pub(crate) fn capacity() -> impl Strategy<Value = CsiStorageCapacity> {
    (select(&ZONES[..]), 0..=3_i64, any::<bool>()).prop_map(|(zone, capacity, anywhere)| {
        CsiStorageCapacity {
            namespace: "a".into(),
            name: zone.into(),
            storage_class: "when-used".into(),
            node_topology: Some(if anywhere { Selector::default() } else { selector(ZONE, zone) }),
            capacity: Some(capacity),
            maximum_volume_size: None,
        }
    })
}
