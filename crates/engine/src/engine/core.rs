//! The parts of the engine that the queue reads.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::classes::Classes;
use crate::framework::profile::PluginPosition;
use crate::framework::{Event, Point, Profile, QueueKey};
use crate::index::{ClassIdx, PodIdx};
use crate::map::Map;
use crate::queue::{Nominator, QueueContext};
use crate::state::State;

use super::preemption::Preemption;

/// The parts of the engine that the queue reads, apart from the queue so that both can be borrowed.
pub(super) struct Core {
    pub(super) state: State,
    pub(super) profiles: Arc<[Profile]>,
    pub(super) classes: Classes,
    /// Nominated pods.
    pub(super) nominator: Nominator,
    /// Preemptors that wait for evictions.
    pub(super) preemptions: Map<PodIdx, Preemption>,
    /// Time of the change that is being applied, in nanoseconds since the epoch.
    pub(super) now: i64,
}

impl Core {
    /// Creates the core of an empty cluster.
    pub(super) fn new(profiles: Vec<Profile>) -> Self {
        Self {
            state: State::default(),
            profiles: profiles.into(),
            classes: Classes::default(),
            nominator: Nominator::default(),
            preemptions: Map::default(),
            now: 0,
        }
    }
}

impl QueueContext for Core {
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
            profile.pre_enqueue(plugin, &self.state, pod).map_err(|_| plugin)?;
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
        self.profiles[profile].hint(plugin, &self.state, self.classes.class(class), event)
    }
}
