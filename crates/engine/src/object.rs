//! Kubernetes objects as the engine takes them: typed, checked, reduced to what scheduling reads.
//!
//! The border (`api::lower`) makes these from JSON, YAML or protobuf.
//! Whatever is invalid was reported there, so nothing here can fail.

pub mod digest;
pub mod labels;
pub mod node;
pub mod pod;
pub mod resources;
pub mod selector;
pub mod uid;
pub mod volume;
pub mod workload;

pub use digest::Digest;
pub use labels::Labels;
pub use node::{Image, Node, Taint, TaintEffect};
pub use pod::{
    HostPort, InlineDisk, NodeAffinity, Owner, Pod, PodAffinity, PodSpec, PodTerm, Protocol,
    SpreadConstraint, Toleration, TolerationOperator, Volume, WhenUnsatisfiable,
};
pub use resources::{
    DeviceClass, ResourceClaim, Resources, is_extended_resource, is_scalar_resource,
};
pub use selector::{NodeTerm, Operator, Requirement, Selector};
pub use uid::Uid;
pub use volume::{
    AccessModes, BindingMode, ClaimPhase, ClaimRef, CsiDriver, CsiNode, CsiStorageCapacity,
    NodeDriver, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
    VolumeMode, VolumePhase, VolumeSource,
};
pub use workload::{DisruptionBudget, Namespace, Workload, WorkloadKind};

/// A string that never changes. Names are handed from thread to thread and back, so a clone allocates
/// nothing: up to 23 bytes are in the value itself, more are shared.
pub type Text = smol_str::SmolStr;
