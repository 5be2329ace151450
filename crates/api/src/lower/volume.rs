//! Lowering of persistent volumes, volume claims, storage classes and CSI objects.

use engine::object::{
    AccessModes, BindingMode, ClaimPhase, ClaimRef, CsiDriver, CsiNode, CsiStorageCapacity,
    NodeDriver, PersistentVolume, PersistentVolumeClaim, StorageClass, Text, Uid, VolumeAttachment,
    VolumeMode, VolumePhase, VolumeSource,
};
use serde::Deserialize;

use super::Lower;
use super::problem::{FieldPath, ProblemReport, quoted};
use super::quantity::RawQuantity;
use super::raw::{List, Meta, Nullable, RawAmounts, Str, quantity};
use super::resources::RawResourceRequests;
use super::selector::{self, RawNodeSelector, RawSelector, RawTopologyTerm};

const BETA_CLASS: &str = "volume.beta.kubernetes.io/storage-class";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const MIGRATED_PLUGINS: &str = "storage.alpha.kubernetes.io/migrated-plugins";

/// `v1 PersistentVolume`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawPersistentVolume {
    metadata: Nullable<Meta>,
    spec: Nullable<RawPersistentVolumeSpec>,
    status: Nullable<RawPhase>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawPhase {
    phase: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPersistentVolumeSpec {
    access_modes: List<Str>,
    aws_elastic_block_store: Option<RawPersistentVolumeSource>,
    azure_disk: Option<RawPersistentVolumeSource>,
    capacity: RawAmounts,
    cinder: Option<RawPersistentVolumeSource>,
    claim_ref: Option<RawClaimRef>,
    csi: Option<RawPersistentVolumeSource>,
    gce_persistent_disk: Option<RawPersistentVolumeSource>,
    node_affinity: Nullable<RawVolumeAffinity>,
    portworx_volume: Option<RawPersistentVolumeSource>,
    storage_class_name: Str,
    volume_attributes_class_name: Str,
    volume_mode: Str,
}

/// The union of the fields of all volume sources; each source has a few of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPersistentVolumeSource {
    #[serde(rename = "diskURI")]
    disk_uri: Str,
    driver: Str,
    kind: Str,
    pd_name: Str,
    volume_handle: Str,
    #[serde(rename = "volumeID")]
    volume_id: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawClaimRef {
    namespace: Str,
    name: Str,
    uid: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawVolumeAffinity {
    required: Option<RawNodeSelector>,
}

/// `v1 PersistentVolumeClaim`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawPersistentVolumeClaim {
    metadata: Nullable<Meta>,
    spec: Nullable<RawPersistentVolumeClaimSpec>,
    status: Nullable<RawPhase>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPersistentVolumeClaimSpec {
    access_modes: List<Str>,
    resources: Nullable<RawResourceRequests>,
    selector: Option<RawSelector>,
    storage_class_name: Option<Text>,
    volume_attributes_class_name: Str,
    volume_mode: Str,
    volume_name: Str,
}

/// `storage.k8s.io/v1 StorageClass`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RawStorageClass {
    metadata: Nullable<Meta>,
    allowed_topologies: List<RawTopologyTerm>,
    provisioner: Str,
    volume_binding_mode: Option<Text>,
}

/// `storage.k8s.io/v1 CSINode`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawCsiNode {
    metadata: Nullable<Meta>,
    spec: Nullable<RawCsiNodeSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawCsiNodeSpec {
    drivers: List<RawCsiNodeDriver>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawCsiNodeDriver {
    name: Str,
    allocatable: Nullable<RawVolumeNodeResources>,
    topology_keys: List<Str>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawVolumeNodeResources {
    count: Option<i32>,
}

/// `storage.k8s.io/v1 CSIDriver`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawCsiDriver {
    metadata: Nullable<Meta>,
    spec: Nullable<RawCsiDriverSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawCsiDriverSpec {
    attach_required: Option<bool>,
    prevent_pod_scheduling_if_missing: Nullable<bool>,
    storage_capacity: Nullable<bool>,
}

/// `storage.k8s.io/v1 CSIStorageCapacity`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct RawCsiStorageCapacity {
    metadata: Nullable<Meta>,
    capacity: Option<RawQuantity>,
    maximum_volume_size: Option<RawQuantity>,
    node_topology: Option<RawSelector>,
    storage_class_name: Str,
}

/// `storage.k8s.io/v1 VolumeAttachment`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawVolumeAttachment {
    metadata: Nullable<Meta>,
    spec: Nullable<RawVolumeAttachmentSpec>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawVolumeAttachmentSpec {
    attacher: Str,
    node_name: Str,
    source: Nullable<RawVolumeAttachmentSource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawVolumeAttachmentSource {
    persistent_volume_name: Option<Text>,
}

impl Lower for RawPersistentVolume {
    type Object = PersistentVolume;
    const NAMESPACED: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, report: &mut ProblemReport) -> PersistentVolume {
        let (meta, spec) = (&self.metadata, &self.spec);
        let path = FieldPath::Root.field("spec");
        let affinity_path = path.field("nodeAffinity");
        let required = spec.node_affinity.required.as_ref();
        let node_affinity =
            required.map(|raw| selector::node_terms(&affinity_path.field("required"), raw, report));
        let phase = match &*self.status.phase.0 {
            "" | "Pending" => VolumePhase::Pending,
            "Available" => VolumePhase::Available,
            "Bound" => VolumePhase::Bound,
            "Released" => VolumePhase::Released,
            "Failed" => VolumePhase::Failed,
            found => {
                let expected = "expected Pending, Available, Bound, Released or Failed";
                phase_error(found, expected, report);
                VolumePhase::Pending
            }
        };
        PersistentVolume {
            name: meta.name.0.clone(),
            labels: meta.labels(),
            resource_version: meta.resource_version.0.clone(),
            capacity: storage(&path.field("capacity"), &spec.capacity, report).unwrap_or(0),
            access_modes: access_modes(&path, &spec.access_modes, report),
            storage_class: meta.annotation(BETA_CLASS).unwrap_or(&spec.storage_class_name).into(),
            volume_mode: volume_mode(&path, &spec.volume_mode, report),
            attributes_class: spec.volume_attributes_class_name.0.clone(),
            claim_ref: spec.claim_ref.as_ref().map(|claim| ClaimRef {
                namespace: claim.namespace.0.clone(),
                name: claim.name.0.clone(),
                uid: claim.uid.0.clone(),
            }),
            node_affinity,
            phase,
            deleting: meta.deletion_timestamp.is_some(),
            bound_by_controller: meta.annotation(BOUND_BY_CONTROLLER).is_some(),
            source: spec.source(),
        }
    }
}

impl RawPersistentVolumeSpec {
    fn source(&self) -> VolumeSource {
        let text = |text: &Str| text.0.clone();
        if let Some(source) = &self.csi {
            VolumeSource::Csi { driver: text(&source.driver), handle: text(&source.volume_handle) }
        } else if let Some(source) = &self.gce_persistent_disk {
            VolumeSource::GcePersistentDisk { name: text(&source.pd_name) }
        } else if let Some(source) = &self.aws_elastic_block_store {
            VolumeSource::AwsElasticBlockStore { id: text(&source.volume_id) }
        } else if let Some(source) = &self.azure_disk {
            let managed = matches!(&*source.kind.0, "" | "Managed");
            VolumeSource::AzureDisk { uri: text(&source.disk_uri), managed }
        } else if let Some(source) = &self.cinder {
            VolumeSource::Cinder { id: text(&source.volume_id) }
        } else if let Some(source) = &self.portworx_volume {
            VolumeSource::PortworxVolume { id: text(&source.volume_id) }
        } else {
            VolumeSource::Other
        }
    }
}

impl Lower for RawPersistentVolumeClaim {
    type Object = PersistentVolumeClaim;
    const NAMESPACED: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, report: &mut ProblemReport) -> PersistentVolumeClaim {
        let (meta, spec) = (&self.metadata, &self.spec);
        let path = FieldPath::Root.field("spec");
        let requests_path = path.field("resources");
        let requests_path = requests_path.field("requests");
        let phase = match &*self.status.phase.0 {
            "" | "Pending" => ClaimPhase::Pending,
            "Bound" => ClaimPhase::Bound,
            "Lost" => ClaimPhase::Lost,
            found => {
                phase_error(found, "expected Pending, Bound or Lost", report);
                ClaimPhase::Pending
            }
        };
        let selector = spec.selector.as_ref();
        let class = meta.annotation(BETA_CLASS).or(spec.storage_class_name.as_deref());
        PersistentVolumeClaim {
            namespace: meta.namespace(),
            name: meta.name.0.clone(),
            uid: meta.uid(),
            resource_version: meta.resource_version.0.clone(),
            volume_name: spec.volume_name.0.clone(),
            storage_class: class.map(Text::from),
            access_modes: access_modes(&path, &spec.access_modes, report),
            request: storage(&requests_path, &spec.resources.requests, report),
            selector: selector.and_then(|raw| raw.lower(&path.field("selector"), report)),
            volume_mode: volume_mode(&path, &spec.volume_mode, report),
            attributes_class: spec.volume_attributes_class_name.0.clone(),
            phase,
            deleting: meta.deletion_timestamp.is_some(),
            bind_completed: meta.annotation(BIND_COMPLETED).is_some(),
            bound_by_controller: meta.annotation(BOUND_BY_CONTROLLER).is_some(),
            selected_node: meta.annotation(SELECTED_NODE).map(Text::from),
            owner_uid: meta.controller().map(|owner| Uid::from(&**owner.uid)),
        }
    }
}

impl Lower for RawStorageClass {
    type Object = StorageClass;
    const NAMESPACED: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, report: &mut ProblemReport) -> StorageClass {
        let path = FieldPath::Root.field("allowedTopologies");
        report.check_entries(&path, &self.allowed_topologies);
        let terms = self.allowed_topologies.iter().enumerate();
        let allowed_topologies =
            terms.map(|(index, term)| term.lower(&path.index(index), report)).collect();
        let binding_mode = self.volume_binding_mode.as_deref().map(|text| match text {
            "Immediate" => BindingMode::Immediate,
            "WaitForFirstConsumer" => BindingMode::WaitForFirstConsumer,
            found => {
                let found = quoted(found);
                let path = FieldPath::Root.field("volumeBindingMode");
                let expected = "expected Immediate or WaitForFirstConsumer";
                report.error(&path, format!("found {found}, {expected}"));
                // Upstream delays binding for WaitForFirstConsumer only.
                BindingMode::Immediate
            }
        });
        StorageClass {
            name: self.metadata.name.0.clone(),
            provisioner: self.provisioner.0,
            binding_mode,
            allowed_topologies,
        }
    }
}

impl Lower for RawCsiNode {
    type Object = CsiNode;
    const NAMESPACED: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, report: &mut ProblemReport) -> CsiNode {
        let path = FieldPath::Root.field("spec");
        report.check_entries(&path.field("drivers"), &self.spec.drivers);
        let drivers = self.spec.drivers.iter().map(|driver| NodeDriver {
            name: driver.name.0.clone(),
            limit: driver.allocatable.count,
            topology_keys: driver.topology_keys.iter().map(|key| key.0.clone()).collect(),
        });
        let plugins = self.metadata.annotation(MIGRATED_PLUGINS).unwrap_or("");
        let mut migrated_plugins: Vec<Text> =
            plugins.split(',').filter(|name| !name.is_empty()).map(Text::from).collect();
        migrated_plugins.sort_unstable();
        migrated_plugins.dedup();
        CsiNode {
            name: self.metadata.name.0.clone(),
            drivers: drivers.collect(),
            migrated_plugins: migrated_plugins.into(),
        }
    }
}

impl Lower for RawCsiDriver {
    type Object = CsiDriver;
    const NAMESPACED: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, _: &mut ProblemReport) -> CsiDriver {
        CsiDriver {
            name: self.metadata.name.0.clone(),
            storage_capacity: self.spec.storage_capacity.0,
            attach_required: self.spec.attach_required.unwrap_or(true),
            prevents_if_missing: self.spec.prevent_pod_scheduling_if_missing.0,
        }
    }
}

impl Lower for RawCsiStorageCapacity {
    type Object = CsiStorageCapacity;
    const NAMESPACED: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, report: &mut ProblemReport) -> CsiStorageCapacity {
        let mut bytes = |name, raw: &Option<RawQuantity>| {
            raw.as_ref().map(|raw| quantity(&FieldPath::Root.field(name), raw, report).value())
        };
        let capacity = bytes("capacity", &self.capacity);
        let maximum_volume_size = bytes("maximumVolumeSize", &self.maximum_volume_size);
        let topology = self.node_topology.as_ref();
        CsiStorageCapacity {
            namespace: self.metadata.namespace(),
            name: self.metadata.name.0.clone(),
            storage_class: self.storage_class_name.0.clone(),
            node_topology: topology
                .and_then(|raw| raw.lower(&FieldPath::Root.field("nodeTopology"), report)),
            capacity,
            maximum_volume_size,
        }
    }
}

impl Lower for RawVolumeAttachment {
    type Object = VolumeAttachment;
    const NAMESPACED: bool = false;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn lower(self, _: &mut ProblemReport) -> VolumeAttachment {
        let spec = self.spec.0;
        VolumeAttachment {
            name: self.metadata.name.0.clone(),
            attacher: spec.attacher.0,
            node: spec.node_name.0,
            volume_name: spec.source.0.persistent_volume_name,
        }
    }
}

/// Returns the bytes of the `storage` resource, if it is set.
fn storage(path: &FieldPath<'_>, raw: &RawAmounts, report: &mut ProblemReport) -> Option<i64> {
    let raw = raw.get("storage")?;
    Some(quantity(&path.field("storage"), raw, report).value())
}

fn access_modes(path: &FieldPath<'_>, raw: &[Str], report: &mut ProblemReport) -> AccessModes {
    let path = path.field("accessModes");
    report.check_entries(&path, raw);
    let mut modes = AccessModes::NONE;
    for (index, text) in raw.iter().enumerate() {
        modes = modes.with(match &*text.0 {
            "ReadWriteOnce" => AccessModes::READ_WRITE_ONCE,
            "ReadOnlyMany" => AccessModes::READ_ONLY_MANY,
            "ReadWriteMany" => AccessModes::READ_WRITE_MANY,
            "ReadWriteOncePod" => AccessModes::READ_WRITE_ONCE_POD,
            found => {
                let found = quoted(found);
                let expected =
                    "expected ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod";
                report.error(&path.index(index), format!("found {found}, {expected}"));
                AccessModes::NONE
            }
        });
    }
    modes
}

fn volume_mode(path: &FieldPath<'_>, text: &str, report: &mut ProblemReport) -> VolumeMode {
    match text {
        "" | "Filesystem" => VolumeMode::Filesystem,
        "Block" => VolumeMode::Block,
        found => {
            let found = quoted(found);
            let path = path.field("volumeMode");
            report.error(&path, format!("found {found}, expected Filesystem or Block"));
            VolumeMode::Filesystem
        }
    }
}

fn phase_error(found: &str, expected: &str, report: &mut ProblemReport) {
    let path = FieldPath::Root.field("status");
    report.error(&path.field("phase"), format!("found {}, {expected}", quoted(found)));
}
