//! The queue's record of a pod, and the table of records.

use std::ops::Range;

use crate::framework::profile::PluginPosition;
use crate::framework::{QueueKey, QueueTraits};
use crate::index::{ClassIdx, PodIdx};
use crate::slab::Slab;

use super::plugin_set::PluginSet;

/// Stage of a pod in the queue; a pod has exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueStage {
    /// Waits for its next attempt.
    Active,
    /// Waits for the end of its backoff after a rejection; popped earlier if no pod is active.
    Backoff,
    /// Waits for the end of its backoff after an error.
    ErrorBackoff,
    /// Rejected by plugins; waits for an event that may help.
    Unschedulable,
    /// Gated by a PreEnqueue plugin; waits for an event of that plugin.
    Gated,
    /// In a scheduling attempt.
    InFlight,
    /// Decided; stays known until the watch confirms the binding or it fails.
    Binding,
}

impl QueueStage {
    pub(super) const COUNT: usize = Self::Binding as usize + 1;

    /// Returns `true` if the pod waits for an event.
    pub(super) fn waits_for_event(self) -> bool {
        matches!(self, Self::Unschedulable | Self::Gated)
    }

    /// Returns `true` if the pod is queued, not in an attempt or in binding.
    pub(super) fn is_queued(self) -> bool {
        !matches!(self, Self::InFlight | Self::Binding)
    }
}

/// Properties of a pending pod that the queue needs.
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
    /// What else QueueSort orders by.
    pub traits: QueueTraits,
}

/// A failed attempt, as the queue needs to know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailedAttempt {
    /// Plugins that rejected the pod. Without `pending` ones, none after an error, which includes
    /// every failure after Permit.
    pub rejectors: PluginSet,
    /// Plugins that returned `Pending`.
    pub pending: PluginSet,
    /// Time at which the pod is retried if no event helps before.
    pub retry_at: Option<i64>,
}

/// A rejection by a PreEnqueue plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// The plugin.
    pub plugin: PluginPosition,
    /// Time at which the plugin is asked again if no event helps before.
    pub retry_at: Option<i64>,
}

impl Gate {
    /// Creates a gate that only an event opens.
    pub fn of(plugin: PluginPosition) -> Self {
        Self { plugin, retry_at: None }
    }
}

/// Sentinel for an unset time.
pub(super) const NEVER: i64 = i64::MIN;

/// A pod's record in the queue. Times are in nanoseconds since the epoch.
///
/// Kept small, since there may be a million: absent times are a sentinel instead of
/// `Option`s.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedPod {
    /// The pod.
    pub pod: PodIdx,
    profile: u32,
    /// Its class.
    pub class: ClassIdx,
    /// Its priority.
    pub priority: i32,
    /// What else QueueSort orders by.
    pub traits: QueueTraits,
    /// Time of arrival or of the last failure.
    pub timestamp: i64,
    /// Orders pods of the same timestamp; renewed together with it.
    pub sequence: u64,
    /// Number of pops.
    pub attempts: u32,
    /// Number of attempts that ended with a rejection.
    pub unschedulable_count: u32,
    /// Number of consecutive attempts that ended with an error.
    pub consecutive_errors: u32,
    /// Last second of the backoff, inclusive; [`NEVER`] if there is none.
    pub(super) backoff_expiration: i64,
    /// Time of the first activation.
    initial_attempt: i64,
    /// Plugins that rejected the pod in its last failed attempt.
    pub rejectors: PluginSet,
    /// Plugins that returned `Pending`: their events make the pod active at once, without backoff.
    pub pending: PluginSet,
    gating: Option<u8>,
    /// Set if the pod was last moved by the unschedulable time-out instead of an event.
    pub was_flushed: bool,
    /// Time of that move.
    pub(super) flush_timestamp: i64,
    /// Time at which the pod is retried if no event helps before; [`NEVER`] if there is none.
    pub(super) retry_at: i64,
}

impl QueuedPod {
    pub(super) fn new(pod: &PendingPod, now: i64, sequence: u64) -> Self {
        Self {
            pod: pod.pod,
            profile: pod.profile as u32,
            class: pod.class,
            priority: pod.priority,
            traits: pod.traits,
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
            retry_at: NEVER,
        }
    }

    /// Position of its profile.
    pub fn profile(&self) -> usize {
        self.profile as usize
    }

    /// Returns the time of the first activation.
    pub fn initial_attempt(&self) -> Option<i64> {
        (self.initial_attempt != NEVER).then_some(self.initial_attempt)
    }

    /// Records the first activation.
    pub(super) fn activated(&mut self, now: i64) {
        if self.initial_attempt == NEVER {
            self.initial_attempt = now;
        }
    }

    /// Returns the PreEnqueue plugin that gates the pod.
    pub fn gating(&self) -> Option<PluginPosition> {
        self.gating.map(PluginPosition::from)
    }

    pub(super) fn set_gating(&mut self, plugin: Option<PluginPosition>) {
        self.gating = plugin.map(|plugin| plugin as u8);
    }

    /// Returns all plugins that rejected the pod.
    pub fn blockers(&self) -> PluginSet {
        self.rejectors.with(self.pending)
    }

    /// Returns the fields that QueueSort compares.
    pub fn key(&self) -> QueueKey {
        QueueKey { priority: self.priority, timestamp: self.timestamp, traits: self.traits }
    }

    /// Returns the time since which the pod waits without an attempt.
    pub(super) fn waiting_since(&self) -> i64 {
        self.timestamp.max(self.flush_timestamp)
    }
}

/// Slot of the entry table: dense over the queued pods, unlike [`PodIdx`].
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
    /// `None` only during a transfer.
    pub(super) stage: Option<QueueStage>,
    /// Plugins for which the pod is counted in [`Queue::blocked_by`](super::Queue::blocked_by).
    pub(super) counted: PluginSet,
}

/// All records.
#[derive(Clone, Debug, Default)]
pub(super) struct Entries {
    slots: Slab<Entry>,
    /// Slot by pod; [`NO_SLOT`] for unknown pods.
    by_pod: Vec<u32>,
}

const NO_SLOT: u32 = u32::MAX;

impl Entries {
    pub(super) fn find(&self, pod: PodIdx) -> Option<Slot> {
        let slot = *self.by_pod.get(pod.at())?;
        (slot != NO_SLOT).then_some(Slot(slot))
    }

    pub(super) fn get(&self, slot: Slot) -> &Entry {
        self.slots.get(slot.at()).expect("slots belong to known pods")
    }

    pub(super) fn get_mut(&mut self, slot: Slot) -> &mut Entry {
        self.slots.get_mut(slot.at()).expect("slots belong to known pods")
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

    /// Iterates over the records in a range of slots.
    pub(super) fn iter_within(&self, slots: Range<usize>) -> impl Iterator<Item = (Slot, &Entry)> {
        let entries = self.slots.iter_within(slots);
        entries.map(|(slot, entry)| (Slot(slot as u32), entry))
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Slot, &Entry)> {
        self.slots.iter().map(|(slot, entry)| (Slot(slot as u32), entry))
    }
}
