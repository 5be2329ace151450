//! A pod in the queue, and the table of all of them.

use std::ops::Range;

use crate::framework::QueueKey;
use crate::framework::profile::PluginPosition;
use crate::index::{ClassIdx, PodIdx};
use crate::slab::Slab;

use super::plugin_set::PluginSet;

/// Where a pod is. It is in one place only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueStage {
    /// To be tried next.
    Active,
    /// Turned down by plugins and to be tried again later, or at once if nobody else is left.
    Backoff,
    /// To be tried again later because something went wrong.
    ErrorBackoff,
    /// Turned down by plugins; waits for an event that may help.
    Unschedulable,
    /// Not let in by a plugin; waits for an event of that plugin.
    Gated,
    /// Being tried.
    InFlight,
    /// Tried with success; known until the API server confirms it or binding fails.
    Binding,
}

impl QueueStage {
    pub(super) const COUNT: usize = Self::Binding as usize + 1;

    /// Whether the pod waits for events.
    pub(super) fn waits_for_event(self) -> bool {
        matches!(self, Self::Unschedulable | Self::Gated)
    }

    /// Whether the pod is in a queue, not in somebody's hands.
    pub(super) fn is_queued(self) -> bool {
        !matches!(self, Self::InFlight | Self::Binding)
    }
}

/// What the queue is told of a pod that waits to be scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PendingPod {
    /// The pod.
    pub pod: PodIdx,
    /// Position of its profile.
    pub profile: usize,
    /// Its class.
    pub class: ClassIdx,
    /// Its priority.
    pub priority: i32,
}

/// The time of what has not happened.
pub(super) const NEVER: i64 = i64::MIN;

/// A pod with its history in the queue. Times are in nanoseconds since the epoch.
///
/// There may be a million, so what is rarely set takes no room of its own to say that it is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedPod {
    /// The pod.
    pub pod: PodIdx,
    profile: u32,
    /// Its class.
    pub class: ClassIdx,
    /// Its priority.
    pub priority: i32,
    /// When it came or last failed.
    pub timestamp: i64,
    /// Orders pods of one timestamp; renewed with it.
    pub sequence: u64,
    /// How often it was popped.
    pub attempts: u32,
    /// How often plugins turned it down.
    pub unschedulable_count: u32,
    /// How often in a row something went wrong.
    pub consecutive_errors: u32,
    /// When its backoff ends: a whole second, which is still part of it. [`NEVER`]: no backoff.
    pub(super) backoff_expiration: i64,
    /// When it first became active.
    initial_attempt: i64,
    /// Plugins that turned it down, kept until the next failure.
    pub rejectors: PluginSet,
    /// Plugins that wait for something and then want it tried at once.
    pub pending: PluginSet,
    gating: Option<u8>,
    /// It was last moved because it had waited too long, not because of an event.
    pub was_flushed: bool,
    /// When that was.
    pub(super) flush_timestamp: i64,
}

impl QueuedPod {
    pub(super) fn new(pod: &PendingPod, now: i64, sequence: u64) -> Self {
        Self {
            pod: pod.pod,
            profile: pod.profile as u32,
            class: pod.class,
            priority: pod.priority,
            timestamp: now,
            sequence,
            attempts: 0,
            unschedulable_count: 0,
            consecutive_errors: 0,
            backoff_expiration: NEVER,
            initial_attempt: NEVER,
            rejectors: PluginSet::EMPTY,
            pending: PluginSet::EMPTY,
            gating: None,
            was_flushed: false,
            flush_timestamp: NEVER,
        }
    }

    /// Position of its profile.
    pub fn profile(&self) -> usize {
        self.profile as usize
    }

    /// When it first became active.
    pub fn initial_attempt(&self) -> Option<i64> {
        (self.initial_attempt != NEVER).then_some(self.initial_attempt)
    }

    /// Notes that it becomes active.
    pub(super) fn activated(&mut self, now: i64) {
        if self.initial_attempt == NEVER {
            self.initial_attempt = now;
        }
    }

    /// The plugin that does not let it in.
    pub fn gating(&self) -> Option<PluginPosition> {
        self.gating.map(PluginPosition::from)
    }

    pub(super) fn set_gating(&mut self, plugin: Option<PluginPosition>) {
        self.gating = plugin.map(|plugin| plugin as u8);
    }

    /// Every plugin that stands in its way.
    pub fn blockers(&self) -> PluginSet {
        self.rejectors.with(self.pending)
    }

    /// What QueueSort sees of it.
    pub fn key(&self) -> QueueKey {
        QueueKey { priority: self.priority, timestamp: self.timestamp }
    }

    /// Since when it has been waiting without another try.
    pub(super) fn waiting_since(&self) -> i64 {
        self.timestamp.max(self.flush_timestamp)
    }
}

/// A slot of the table: dense over the pods that the queue knows, unlike [`PodIdx`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Slot(pub(super) u32);

impl Slot {
    pub(super) fn at(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) info: QueuedPod,
    /// `None` only while it goes from one place to another.
    pub(super) stage: Option<QueueStage>,
    /// Plugins for which it counts as unschedulable.
    pub(super) counted: PluginSet,
}

/// All pods that the queue knows.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    slots: Slab<Entry>,
    /// Slot by pod, [`NO_SLOT`] for pods not known.
    by_pod: Vec<u32>,
}

const NO_SLOT: u32 = u32::MAX;

impl Entries {
    pub(super) fn find(&self, pod: PodIdx) -> Option<Slot> {
        let slot = *self.by_pod.get(pod.at())?;
        (slot != NO_SLOT).then_some(Slot(slot))
    }

    pub(super) fn get(&self, slot: Slot) -> &Entry {
        self.slots.get(slot.at()).expect("slots are held only for pods that are known")
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Entry {
        self.slots.get_mut(slot.at()).expect("slots are held only for pods that are known")
    }

    pub(super) fn insert(&mut self, info: QueuedPod) -> Slot {
        debug_assert!(self.find(info.pod).is_none());
        let pod = info.pod.at();
        let entry = Entry { info, stage: None, counted: PluginSet::EMPTY };
        let slot = Slot(self.slots.insert(entry) as u32);
        if self.by_pod.len() <= pod {
            self.by_pod.resize(pod + 1, NO_SLOT);
        }
        self.by_pod[pod] = slot.0;
        slot
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        let Some(entry) = self.slots.remove(slot.at()) else { return };
        self.by_pod[entry.info.pod.at()] = NO_SLOT;
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn slots(&self) -> usize {
        self.slots.slots()
    }

    /// The pods in these slots.
    pub(super) fn iter_within(&self, slots: Range<usize>) -> impl Iterator<Item = (Slot, &Entry)> {
        let entries = self.slots.iter_within(slots);
        entries.map(|(slot, entry)| (Slot(slot as u32), entry))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &Entry)> {
        self.slots.iter().map(|(slot, entry)| (Slot(slot as u32), entry))
    }
}
