//! Pod classes: pods that no filter and no scorer can tell apart.

use std::sync::Arc;

use crate::object::{Labels, PodSpec, Text, Uid};

/// What filters and scorers may know of a pod. Pods with equal classes share all work.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// Namespace.
    pub namespace: Text,
    /// Labels.
    pub labels: Labels,
    /// `spec.nodeName` of a pod that is asked about although it is already on a node; else empty.
    pub node_name: Text,
    /// Uid of the pod, only where it matters (claims made for one pod); else empty.
    pub uid: Uid,
    /// Spec.
    pub spec: Arc<PodSpec>,
}
