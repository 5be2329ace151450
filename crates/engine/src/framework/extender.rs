//! Advisers outside of the process who have a say in decisions: upstream's HTTP extenders.

use crate::object::{PodSpec, Text};
use crate::state::State;

use super::class::Class;
use super::event::{Action, Resource, Subscription};
use super::plugin::{KeyPart, Plugin, Point};

/// An extender, as far as deciding depends on it. Whoever carries commands out knows the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one for each verb that it may have")]
pub struct Extender {
    /// Extended resources it manages; without any it has a say about every pod.
    pub managed: Vec<Text>,
    /// It filters nodes.
    pub filters: bool,
    /// It scores nodes.
    pub scores: bool,
    /// It picks victims of preemption.
    pub preempts: bool,
    /// It binds pods.
    pub binds: bool,
}

impl Extender {
    /// Whether it has a say about pods like this.
    pub fn is_interested_in(&self, spec: &PodSpec) -> bool {
        let asks_for = |name: &Text| spec.requests.scalars.iter().any(|(other, _)| other == name);
        self.managed.is_empty() || self.managed.iter().any(asks_for)
    }
}

/// Stands for all extenders where a plugin is named that turned a pod down. It has no part in any
/// extension point.
pub(crate) struct Extenders;

impl Plugin for Extenders {
    fn name(&self) -> &'static str {
        "Extender"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Filter]
    }

    fn evaluation_key(&self, _class: &Class, _state: &State) -> KeyPart {
        KeyPart::NOTHING
    }

    /// Nobody knows what an extender depends on: anything may help.
    fn subscriptions(&self) -> Vec<Subscription> {
        let resources = [
            Resource::Pod,
            Resource::Node,
            Resource::PersistentVolume,
            Resource::PersistentVolumeClaim,
            Resource::StorageClass,
            Resource::CsiNode,
            Resource::CsiDriver,
            Resource::CsiStorageCapacity,
            Resource::VolumeAttachment,
            Resource::ResourceClaim,
            Resource::ResourceSlice,
            Resource::DeviceClass,
        ];
        resources.map(|resource| Subscription { resource, action: Action::ALL }).into()
    }
}
