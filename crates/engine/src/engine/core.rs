//! The parts of the engine that the queue reads.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;

use crate::classes::Classes;
use crate::framework::profile::PluginPosition;
use crate::framework::{Effects, Event, Plugin, Point, Profile, QueueKey, Rejection, Reservation};
use crate::index::{ClassIdx, NodeIdx, PodIdx};
use crate::map::Map;
use crate::queue::{Gate, Nominator, PendingPod, QueueContext};
use crate::state::State;

use super::effects::PluginEffect;
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
    /// Requested effects, in order. In a cell, since queueing hints request some while the queue is
    /// being changed.
    pub(super) effects: RefCell<VecDeque<PluginEffect>>,
}

impl Core {
    /// Creates the core of an empty cluster.
    pub(super) fn new(profiles: Vec<Profile>) -> Self {
        let mut state = State::default();
        for plugin in profiles.iter().flat_map(|profile| &profile.plugins) {
            if let Some(initial) = plugin.initial_state() {
                state.plugin_states.add(initial);
            }
        }
        Self {
            state,
            profiles: profiles.into(),
            classes: Classes::default(),
            nominator: Nominator::default(),
            preemptions: Map::default(),
            effects: RefCell::default(),
        }
    }

    /// Returns what the queue needs to know about a pending pod.
    pub(super) fn pending_pod(&self, pod: PodIdx, profile: usize, class: ClassIdx) -> PendingPod {
        let priority = self.state.pods.get(pod).priority;
        let traits = self.queue_sort().map(|plugin| plugin.queue_traits(&self.state, pod));
        PendingPod { pod, profile, class, priority, traits: traits.unwrap_or_default() }
    }

    /// Returns the QueueSort plugin, which is the same for all profiles.
    fn queue_sort(&self) -> Option<&dyn Plugin> {
        let profile = self.profiles.first()?;
        Some(&*profile.plugins[*profile.at(Point::QueueSort).first()?])
    }

    /// Copies what decisions depend on, without caches.
    pub(super) fn copy(&self) -> Self {
        Self {
            state: self.state.clone(),
            profiles: Arc::clone(&self.profiles),
            classes: Classes::default(),
            nominator: self.nominator.clone(),
            preemptions: Map::default(),
            effects: RefCell::default(),
        }
    }

    /// Runs one Reserve plugin and returns its effects, too.
    pub(super) fn reserve_by(
        &mut self,
        profile: usize,
        plugin: PluginPosition,
        pod: PodIdx,
        node: NodeIdx,
    ) -> (Result<(), Rejection>, Effects) {
        let mut effects = Effects::default();
        let state = &mut self.state;
        let mut reservation = Reservation { state, pod, node, effects: &mut effects };
        let reserved = self.profiles[profile].reserve(plugin, &mut reservation);
        (reserved, effects)
    }

    /// Runs Reserve again for a pod that had its reservations before; rejections and effects are
    /// ignored.
    pub(super) fn reserve(&mut self, profile: usize, pod: PodIdx, node: NodeIdx) {
        let profiles = Arc::clone(&self.profiles);
        for plugin in profiles[profile].at(Point::Reserve) {
            let _ = self.reserve_by(profile, *plugin, pod, node);
        }
    }

    /// Runs Unreserve in reverse order and passes the effects of each plugin to `request`.
    pub(super) fn unreserve(
        &mut self,
        profile: usize,
        pod: PodIdx,
        node: NodeIdx,
        request: impl Fn(&Self, PluginPosition, Effects),
    ) {
        let profiles = Arc::clone(&self.profiles);
        for plugin in profiles[profile].at(Point::Reserve).iter().rev() {
            let mut effects = Effects::default();
            let state = &mut self.state;
            let mut reservation = Reservation { state, pod, node, effects: &mut effects };
            profiles[profile].unreserve(*plugin, &mut reservation);
            request(self, *plugin, effects);
        }
    }
}

impl QueueContext for Core {
    fn pre_enqueue(
        &self,
        pod: PodIdx,
        profile: usize,
        first: Option<PluginPosition>,
    ) -> Result<(), Gate> {
        if let Some(preemption) = self.preemptions.get(&pod) {
            return Err(Gate::of(preemption.plugin));
        }
        let profile = &self.profiles[profile];
        let others = profile.at(Point::PreEnqueue).iter().copied().filter(|p| Some(*p) != first);
        for plugin in first.into_iter().chain(others) {
            let admitted = profile.pre_enqueue(plugin, &self.state, pod);
            admitted.map_err(|rejection| Gate { plugin, retry_at: rejection.until })?;
        }
        Ok(())
    }

    fn order(&self, a: &QueueKey, b: &QueueKey) -> Ordering {
        self.queue_sort().map_or(Ordering::Equal, |plugin| plugin.queue_order(a, b))
    }

    fn hint(&self, profile: usize, plugin: PluginPosition, class: ClassIdx, event: &Event) -> bool {
        let mut effects = Effects::default();
        let (class, state) = (self.classes.class(class), &self.state);
        let helps = self.profiles[profile].hint(plugin, state, class, event, &mut effects);
        self.request(profile, plugin, effects);
        helps
    }
}
