//! Pod classes: pods that no filter and no scorer can tell apart.

use std::sync::Arc;

use crate::object::{Labels, PodSpec, Text, Uid};

/// The pod properties that filters and scorers may read. Pods of equal classes share their
/// evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Class {
    /// Namespace.
    pub namespace: Text,
    /// Labels.
    pub labels: Labels,
    /// `spec.nodeName` of a pod that is explained although it has a node; else empty.
    pub node_name: Text,
    /// UID of the pod if the class has this pod only (ephemeral claims); else empty.
    pub uid: Uid,
    /// Spec.
    pub spec: Arc<PodSpec>,
}
