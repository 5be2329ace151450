//! Kubernetes objects reduced to the fields that scheduling reads.
//!
//! `api::lower` makes them from JSON, YAML or protobuf and reports what is invalid, so the engine
//! needs no checks of its own.

pub mod annotations;
pub mod cluster;
pub mod daemon_set;
pub mod deployment;
pub mod digest;
pub mod job;
pub mod labels;
pub mod node;
pub mod pod;
pub mod resources;
pub mod selector;
pub mod uid;
pub mod volume;
pub mod workload;

pub use annotations::AnnotationKeys;
pub use cluster::{ClusterObject, ObjectKind, ObjectName, Stored};
pub use daemon_set::DaemonSet;
pub use deployment::Deployment;
pub use digest::Digest;
pub use job::Job;
pub use labels::Labels;
pub use node::{Image, Node, Taint, TaintEffect};
pub use pod::{
    HostPort, InlineDisk, NodeAffinity, Owner, Pod, PodAffinity, PodFacts, PodSpec, PodTerm,
    Protocol, QosClass, SpreadConstraint, Toleration, TolerationOperator, Volume,
    WhenUnsatisfiable,
};
pub use resources::{DeviceClass, Resources, is_extended_resource, is_scalar_resource};
pub use selector::{NodeTerm, Operator, Requirement, Selector};
pub use uid::Uid;
pub use volume::{
    AccessModes, BindingMode, ClaimPhase, ClaimRef, CsiDriver, CsiNode, CsiStorageCapacity,
    NodeDriver, PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment,
    VolumeMode, VolumePhase, VolumeSource,
};
pub use workload::{DisruptionBudget, Namespace, Rollout, Workload, WorkloadKind};

/// An immutable string. Names cross threads, so a clone never allocates: up to 23 bytes are stored
/// inline, longer texts are reference-counted.
pub type Text = smol_str::SmolStr;
