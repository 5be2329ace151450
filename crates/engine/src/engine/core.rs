//! The parts of the engine that the queue reads.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::classes::Classes;
use crate::framework::profile::PluginPosition;
use crate::framework::{Event, Point, Profile, QueueKey, Reservation};
use crate::index::{ClassIdx, NodeIdx, PodIdx};
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

    /// Copies what decisions depend on, without caches.
    pub(super) fn copy(&self) -> Self {
        Self {
            state: self.state.clone(),
            profiles: Arc::clone(&self.profiles),
            classes: Classes::default(),
            nominator: self.nominator.clone(),
            preemptions: Map::default(),
            now: self.now,
        }
    }

    /// Runs Reserve again for a pod that had its reservations before; rejections have no effect.
    pub(super) fn reserve(&mut self, profile: usize, pod: PodIdx, node: NodeIdx) {
        let profile = &self.profiles[profile];
        for plugin in profile.at(Point::Reserve) {
            let mut reservation = Reservation { state: &mut self.state, pod, node };
            let _ = profile.plugins[*plugin].reserve(&mut reservation);
        }
    }

    /// Runs Unreserve in reverse order.
    pub(super) fn unreserve(&mut self, profile: usize, pod: PodIdx, node: NodeIdx) {
        let profile = &self.profiles[profile];
        for plugin in profile.at(Point::Reserve).iter().rev() {
            let mut reservation = Reservation { state: &mut self.state, pod, node };
            profile.plugins[*plugin].unreserve(&mut reservation);
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
            profile.plugins[plugin].pre_enqueue(&self.state, pod).map_err(|_| plugin)?;
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
        plugin.hint(&self.state, self.classes.class(class), event)
    }
}
