//! Deployments.

use super::{Owner, Rollout, Selector, Stored, Text};

/// A Deployment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deployment {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// The owner reference with `controller: true`.
    pub owner: Option<Box<Owner>>,
    /// `spec.selector`.
    pub selector: Option<Selector>,
    /// `spec.paused`: changes of the template wait.
    pub paused: bool,
    /// Progress of its rollout.
    pub rollout: Rollout,
}

impl Stored for Deployment {
    fn key(&self) -> (Text, Text) {
        (self.namespace.clone(), self.name.clone())
    }
}
