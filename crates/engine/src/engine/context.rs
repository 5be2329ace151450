//! The queue's access to the plugins.

use std::cmp::Ordering;

use crate::classes::Classes;
use crate::framework::profile::PluginPosition;
use crate::framework::{Event, Point, Profile, QueueKey};
use crate::index::{ClassIdx, PodIdx};
use crate::map::Map;
use crate::queue::QueueContext;
use crate::state::State;

use super::preemption::Preemption;

/// The parts of the engine that the queue reads.
pub(super) struct Context<'a> {
    pub(super) state: &'a State,
    pub(super) profiles: &'a [Profile],
    pub(super) classes: &'a Classes,
    pub(super) preemptions: &'a Map<PodIdx, Preemption>,
}

impl QueueContext for Context<'_> {
    fn pre_enqueue(
        &self,
        pod: PodIdx,
        profile: usize,
        first: Option<PluginPosition>,
    ) -> Result<(), PluginPosition> {
        if let Some(preemption) = self.preemptions.get(&pod) {
            return Err(preemption.plugin);
        }
        let profile = &self.profiles[profile];
        let others = profile.at(Point::PreEnqueue).iter().copied().filter(|p| Some(*p) != first);
        for plugin in first.into_iter().chain(others) {
            profile.plugins[plugin].pre_enqueue(self.state, pod).map_err(|_| plugin)?;
        }
        Ok(())
    }

    fn order(&self, a: &QueueKey, b: &QueueKey) -> Ordering {
        let Some(profile) = self.profiles.first() else { return Ordering::Equal };
        match profile.at(Point::QueueSort).first() {
            Some(plugin) => profile.plugins[*plugin].queue_order(a, b),
            None => Ordering::Equal,
        }
    }

    fn hint(&self, profile: usize, plugin: PluginPosition, class: ClassIdx, event: &Event) -> bool {
        let plugin = &self.profiles[profile].plugins[plugin];
        plugin.hint(self.state, self.classes.class(class), event)
    }
}
