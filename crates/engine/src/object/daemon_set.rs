//! DaemonSets.

use super::{Owner, Rollout, Selector, Stored, Text};

/// A DaemonSet. Its replicas are the nodes that should run its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonSet {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// The owner reference with `controller: true`.
    pub owner: Option<Box<Owner>>,
    /// `spec.selector`.
    pub selector: Option<Selector>,
    /// Progress of its rollout.
    pub rollout: Rollout,
}

impl Stored for DaemonSet {
    fn key(&self) -> (Text, Text) {
        (self.namespace.clone(), self.name.clone())
    }
}
