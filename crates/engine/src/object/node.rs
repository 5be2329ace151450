//! Nodes, their taints and images.

use super::{Digest, Labels, Resources, Text};

/// Effect of a taint on pods that do not tolerate it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TaintEffect {
    /// New pods are not placed.
    NoSchedule,
    /// New pods are placed elsewhere if possible.
    PreferNoSchedule,
    /// New pods are not placed and running pods are evicted.
    NoExecute,
}

/// A taint of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Taint {
    /// Key.
    pub key: Text,
    /// Value, often empty.
    pub value: Text,
    /// Effect.
    pub effect: TaintEffect,
}

/// An image present on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// All names of the image.
    pub names: Box<[Text]>,
    /// Size in bytes.
    pub size: i64,
}

/// The fields of a node that scheduling reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.labels`.
    pub labels: Labels,
    /// The annotations that plugins declare to read.
    pub annotations: Labels,
    /// `metadata.annotations`: all of them.
    pub annotations_digest: Digest,
    /// `spec.taints`.
    pub taints: Box<[Taint]>,
    /// `spec.unschedulable`.
    pub unschedulable: bool,
    /// `status.allocatable` without `pods`.
    pub allocatable: Resources,
    /// `status.allocatable.pods`.
    pub allowed_pods: i64,
    /// `status.images`.
    pub images: Box<[Image]>,
    /// `status.conditions`: types and status.
    pub conditions: Digest,
    /// `status.declaredFeatures`, sorted.
    pub declared_features: Box<[Text]>,
}
