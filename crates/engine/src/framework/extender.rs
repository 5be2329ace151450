//! Extenders: HTTP services that filter, score, preempt or bind, as in upstream.

use crate::object::{ObjectKind, PodSpec, Text};
use crate::state::State;

use super::class::Class;
use super::event::{Action, Resource, Subscription};
use super::plugin::{KeyPart, Plugin, Point};

/// The settings of an extender that decisions depend on; the runtime has its address and the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "one per verb of an extender")]
pub struct Extender {
    /// Extended resources that it manages; if empty, it is called for every pod.
    pub managed: Vec<Text>,
    /// Set if it filters nodes.
    pub filters: bool,
    /// Set if it scores nodes.
    pub scores: bool,
    /// Set if it selects victims of preemption.
    pub preempts: bool,
    /// Set if it binds pods.
    pub binds: bool,
}

impl Extender {
    /// Returns `true` if the extender is called for pods of this spec.
    pub fn is_interested_in(&self, spec: &PodSpec) -> bool {
        let asks_for = |name: &Text| spec.requests.scalars.iter().any(|(other, _)| other == name);
        self.managed.is_empty() || self.managed.iter().any(asks_for)
    }
}

/// Pseudo-plugin that rejections by extenders are attributed to. It runs at no extension point.
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

    /// Any event may help: what an extender depends on is unknown.
    fn subscriptions(&self) -> Vec<Subscription> {
        let kinds = ObjectKind::ALL.iter().filter(|kind| kind.events() != Action::NONE);
        [Resource::Pod, Resource::Node, Resource::ResourceClaim, Resource::ResourceSlice]
            .into_iter()
            .chain(kinds.map(|kind| kind.resource()))
            .map(|resource| Subscription { resource, action: Action::ALL })
            .collect()
    }
}
