//! The scheduling queue: pods that wait to be scheduled, and the events that move them.
//!
//! ```text
//!   add, update ──▶ PreEnqueue ──▶ Active ──pop──▶ InFlight ──done──▶ Binding ──▶ delete
//!                    │  ▲  ▲  │                     │    │               │
//!                    ▼  │  │  └──▶ Backoff ──pop──▶─┘    └─────┬─────────┘
//!                  Gated   │       ErrorBackoff          add_unschedulable
//!                          │             ▲ (1)                 │
//!                          │ event       └───── an error, or an event during the attempt
//!                          │                                   │
//!                     Unschedulable ◀──── rejected by plugins ─┘
//! ```
//!
//! (1) also through PreEnqueue, and straight to Active if the backoff is over. PreEnqueue does not
//! run again for pods that leave backoff, by time or because no pod is active.
//!
//! Behaves as upstream v1.36 (`pkg/scheduler/backend/queue`) with its default feature gates.
//! Intended differences: pods that QueueSort finds equal are ordered by arrival, queueing hints run
//! once per set of equal pods, and the number of events kept for in-flight pods is bounded.
//!
//! # Invariants
//!
//! - A pod has one [`QueueStage`] from [`Queue::add`] to [`Queue::delete`].
//! - The queue reads no clock. All times are nanoseconds since the epoch.

mod backoff;
mod check;
mod counters;
mod entry;
mod heap;
mod hints;
mod in_flight;
mod nominator;
mod plugin_set;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timers;
mod transitions;
mod unschedulable;
mod waking;

use std::cmp::Ordering;

use crate::framework::event::Object;
use crate::framework::profile::PluginPosition;
use crate::framework::{Event, QueueKey};
use crate::index::{ClassIdx, PodIdx};

pub use crate::limits::IN_FLIGHT_EVENTS_MAX;
pub use check::QueueCheck;
pub use counters::{EventLabel, QueueCounters, QueueCounts, SubQueue, WakeCounts};
pub use entry::{FailedAttempt, Gate, PendingPod, QueueStage, QueuedPod};
pub use hints::Subscriptions;
pub use in_flight::{OwnedObject, OwnedPod};
pub(crate) use nominator::NominationMark;
pub use nominator::Nominator;
pub use plugin_set::{PLUGINS_MAX, PluginSet};

use entry::{Entries, NEVER, Slot};
use heap::{Heap, Item};
use hints::{Interests, Strategy, WaitingSubject};
use in_flight::{InFlight, RecordedEvent};
use timers::Timers;
use transitions::{in_backoff_order, in_queue_order};
use unschedulable::UnschedulablePool;

/// Access of the queue to the plugins, through the engine.
pub trait QueueContext {
    /// Runs the PreEnqueue plugins, `first` before all others. Returns the gate if one rejects the
    /// pod.
    fn pre_enqueue(
        &self,
        pod: PodIdx,
        profile: usize,
        first: Option<PluginPosition>,
    ) -> Result<(), Gate>;

    /// Compares pods by QueueSort, which is the same for all profiles.
    fn order(&self, a: &QueueKey, b: &QueueKey) -> Ordering;

    /// Runs a queueing hint. Returns `true` if the event may make pods of the class schedulable
    /// that the plugin rejected.
    fn hint(&self, profile: usize, plugin: PluginPosition, class: ClassIdx, event: &Event) -> bool;

    /// Copies the object of an event for pods in flight. Implementations that hold it in an `Arc`
    /// can share it.
    fn to_owned_object(&self, object: &Object) -> OwnedObject {
        OwnedObject::of(object)
    }
}

/// Times of the queue, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// `podInitialBackoffSeconds`.
    pub initial_backoff: i64,
    /// `podMaxBackoffSeconds`; zero disables backoff.
    pub max_backoff: i64,
    /// `--pod-max-in-unschedulable-pods-duration`.
    pub max_in_unschedulable: i64,
}

impl Default for QueueConfig {
    fn default() -> Self {
        let second = 1_000_000_000;
        Self {
            initial_backoff: second,
            max_backoff: 10 * second,
            max_in_unschedulable: 300 * second,
        }
    }
}

/// The waiting pods that an event can move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeScope {
    /// All pods.
    All,
    /// Pods of at most this priority, since a nomination only kept those away.
    UpToPriority(i32),
    /// All pods but this one, whose failed binding caused the event.
    AllExcept(PodIdx),
}

/// The scheduling queue.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Counters for metrics.
    pub counters: QueueCounters,
    config: QueueConfig,
    interests: Interests,
    entries: Entries,
    active: Heap,
    backoff: Heap,
    error_backoff: Heap,
    pool: UnschedulablePool,
    timers: Timers,
    in_flight: InFlight,
    /// Number of pods by [`QueueStage`].
    counts: [usize; QueueStage::COUNT],
    /// Number of queued pods by profile and blocking plugin.
    blocked: Vec<[usize; PLUGINS_MAX]>,
    /// Sequence number of the last arrival.
    sequence: u64,
    /// Number of transfers between stages.
    transfers: u64,
}

impl Queue {
    /// Creates an empty queue.
    ///
    /// # Panics
    ///
    /// Panics if a profile has more than [`PLUGINS_MAX`] plugins.
    pub fn new(config: QueueConfig, subscriptions: Subscriptions) -> Self {
        Self {
            counters: QueueCounters::default(),
            config,
            blocked: vec![[0; PLUGINS_MAX]; subscriptions.profiles.len()],
            interests: Interests::new(subscriptions),
            entries: Entries::default(),
            active: Heap::default(),
            backoff: Heap::default(),
            error_backoff: Heap::default(),
            pool: UnschedulablePool::default(),
            timers: Timers::default(),
            in_flight: InFlight::default(),
            counts: [0; QueueStage::COUNT],
            sequence: 0,
            transfers: 0,
        }
    }

    /// Adds a new pod. A known pod stays in its stage.
    pub fn add(&mut self, context: &dyn QueueContext, pod: &PendingPod, now: i64) -> QueueStage {
        match self.stage(pod.pod) {
            Some(stage) => stage,
            None => self.insert_new(context, pod, EventLabel::POD_ADD, now),
        }
    }

    /// Applies an update of a pod, whose new class is in `pod`.
    ///
    /// `events` has one event for each changed aspect, or a plain update if none changed; all have
    /// [`Event::own`] set.
    pub fn update(
        &mut self,
        context: &dyn QueueContext,
        pod: &PendingPod,
        events: &[Event],
        now: i64,
    ) -> QueueStage {
        debug_assert!(events.iter().all(|event| event.own));
        let Some((slot, stage)) = self.find(pod.pod) else {
            return self.insert_new(context, pod, EventLabel::POD_UPDATE, now);
        };
        if stage == QueueStage::Binding {
            // The engine updates only pods that are no longer assumed; as upstream, start afresh.
            self.delete(context, pod.pod);
            return self.insert_new(context, pod, EventLabel::POD_UPDATE, now);
        }
        let info = &mut self.entries.get_mut(slot).info;
        let class_changed = info.class != pod.class;
        info.class = pod.class;
        info.priority = pod.priority;
        info.traits = pod.traits;
        if stage == QueueStage::InFlight {
            self.record_own(context, pod.pod, events);
            return stage;
        }
        match stage {
            QueueStage::Active => {
                let item = Item::new(slot, &self.entries.get(slot).info);
                self.active.update(item, in_queue_order(context));
            }
            QueueStage::Backoff => {
                let item = Item::new(slot, &self.entries.get(slot).info);
                self.backoff.update(item, in_backoff_order(context));
            }
            QueueStage::Unschedulable | QueueStage::Gated => {
                if class_changed {
                    self.transfer(context, slot, Some(stage));
                }
                return self.update_waiting(context, slot, stage, events, now);
            }
            // The order of errors does not depend on what changed.
            QueueStage::ErrorBackoff | QueueStage::InFlight | QueueStage::Binding => {}
        }
        stage
    }

    /// Sets the class of a pod that changed during its attempt or binding.
    pub fn set_class(&mut self, pod: PodIdx, class: ClassIdx) {
        let Some((slot, stage)) = self.find(pod) else { return };
        debug_assert!(!stage.is_queued(), "changes of waiting pods go through update");
        self.entries.get_mut(slot).info.class = class;
    }

    /// Removes a pod that was deleted or assigned, in any stage. Returns `true` if it was known.
    pub fn delete(&mut self, context: &dyn QueueContext, pod: PodIdx) -> bool {
        let Some((slot, _)) = self.find(pod) else { return false };
        self.transfer(context, slot, None);
        self.entries.remove(slot);
        self.assert_sum();
        true
    }

    fn insert_new(
        &mut self,
        context: &dyn QueueContext,
        pod: &PendingPod,
        label: EventLabel,
        now: i64,
    ) -> QueueStage {
        let info = QueuedPod::new(pod, now, self.next_sequence());
        let slot = self.entries.insert(info);
        self.enqueue_active(context, slot, label, now)
    }

    /// Applies an update of a waiting pod; the update itself may be the event that moves it.
    fn update_waiting(
        &mut self,
        context: &dyn QueueContext,
        slot: Slot,
        mut stage: QueueStage,
        events: &[Event],
        now: i64,
    ) -> QueueStage {
        for event in events {
            let subject = WaitingSubject::of(&self.entries.get(slot).info);
            let strategy = strategy_for(context, &mut self.interests, &subject, event);
            if strategy == Strategy::Skip {
                continue;
            }
            stage = self.requeue(context, slot, strategy, event.into(), now);
            if !stage.waits_for_event() {
                break;
            }
        }
        stage
    }

    fn record_own(&mut self, context: &dyn QueueContext, pod: PodIdx, events: &[Event]) {
        for event in events {
            if self.interests.of(event.resource, event.action).is_some() {
                self.in_flight.record(|| RecordedEvent::new(context, event, Some(pod)));
            }
        }
    }

    fn next_sequence(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }
}

impl Queue {
    /// Pops the next pod for an attempt, which ends with [`Queue::done`],
    /// [`Queue::add_unschedulable`] or [`Queue::delete`].
    pub fn pop(&mut self, context: &dyn QueueContext) -> Option<QueuedPod> {
        let slot = if let Some(head) = self.active.peek() {
            head.slot
        } else {
            let head = self.backoff.peek()?;
            self.counters.count_incoming(SubQueue::Active, EventLabel::PopFromBackoffQ);
            head.slot
        };
        Some(self.begin_attempt(context, slot))
    }

    /// Takes a pod out for an attempt, as [`Queue::pop`] takes the next one; `None` if it is gated or
    /// not queued.
    pub fn take(&mut self, context: &dyn QueueContext, pod: PodIdx) -> Option<QueuedPod> {
        let (slot, stage) = self.find(pod)?;
        let is_ready = stage.is_queued() && stage != QueueStage::Gated;
        is_ready.then(|| self.begin_attempt(context, slot))
    }

    fn begin_attempt(&mut self, context: &dyn QueueContext, slot: Slot) -> QueuedPod {
        self.counters.pops += 1;
        self.entries.get_mut(slot).info.attempts += 1;
        self.transfer(context, slot, Some(QueueStage::InFlight));
        self.entries.get(slot).info
    }

    /// Ends an attempt that needs no more events: the pod is about to be bound or will not be
    /// retried. It stays in the queue as `Binding` until it is deleted.
    pub fn done(&mut self, context: &dyn QueueContext, pod: PodIdx) {
        if let Some((slot, QueueStage::InFlight)) = self.find(pod) {
            self.transfer(context, slot, Some(QueueStage::Binding));
        }
    }

    /// Returns a pod to the queue after a failed attempt; `None` if the pod is unknown.
    pub fn add_unschedulable(
        &mut self,
        context: &dyn QueueContext,
        pod: PodIdx,
        failed: FailedAttempt,
        now: i64,
    ) -> Option<QueueStage> {
        let (slot, stage) = self.find(pod)?;
        if stage.is_queued() {
            return Some(stage);
        }
        let sequence = self.next_sequence();
        self.set_retry(slot, failed.retry_at, now);
        let info = &mut self.entries.get_mut(slot).info;
        info.rejectors = failed.rejectors;
        info.pending = failed.pending;
        info.set_gating(None);
        if info.blockers().is_empty() {
            info.consecutive_errors += 1;
        } else {
            info.unschedulable_count += 1;
            info.consecutive_errors = 0;
        }
        info.timestamp = now;
        info.sequence = sequence;
        info.backoff_expiration = self.config.backoff_expiration(info);
        info.was_flushed = false;
        info.flush_timestamp = NEVER;
        let strategy = self.replay(context, slot);
        Some(self.requeue(context, slot, strategy, EventLabel::ScheduleAttemptFailure, now))
    }

    /// Returns the strategy that the events during the attempt demand.
    fn replay(&mut self, context: &dyn QueueContext, slot: Slot) -> Strategy {
        let info = &self.entries.get(slot).info;
        let subject = WaitingSubject::of(info);
        if info.blockers().is_empty() {
            return Strategy::AfterBackoff;
        }
        let Some((complete, events)) = self.in_flight.since_popped(info.pod) else {
            return Strategy::AfterBackoff;
        };
        let best = best_strategy(info);
        let mut strategy = if complete { Strategy::Skip } else { Strategy::AfterBackoff };
        for event in events {
            if strategy >= best {
                break;
            }
            let found = if event.is_wildcard() {
                match event.about {
                    Some(other) if other != info.pod => Strategy::Skip,
                    _ => Strategy::AfterBackoff,
                }
            } else {
                strategy_for(context, &mut self.interests, &subject, &event.view_for(info.pod))
            };
            strategy = strategy.max(found);
        }
        strategy
    }
}

impl Queue {
    /// Returns the stage of a pod.
    pub fn stage(&self, pod: PodIdx) -> Option<QueueStage> {
        Some(self.find(pod)?.1)
    }

    /// Returns the queue's record of a pod.
    pub fn get(&self, pod: PodIdx) -> Option<&QueuedPod> {
        Some(&self.entries.get(self.entries.find(pod)?).info)
    }

    /// Iterates over all pods, unordered.
    pub fn iter(&self) -> impl Iterator<Item = (&QueuedPod, QueueStage)> {
        self.entries.iter().filter_map(|(_, entry)| Some((&entry.info, entry.stage?)))
    }

    /// Returns `true` if [`Queue::pop`] would return a pod.
    pub fn has_next(&self) -> bool {
        self.active.len() + self.backoff.len() > 0
    }

    /// Returns the number of pods by stage.
    pub fn counts(&self) -> QueueCounts {
        let count = |stage: QueueStage| self.counts[stage as usize];
        QueueCounts {
            active: count(QueueStage::Active),
            backoff: count(QueueStage::Backoff) + count(QueueStage::ErrorBackoff),
            unschedulable: count(QueueStage::Unschedulable),
            gated: count(QueueStage::Gated),
            in_flight: count(QueueStage::InFlight),
            binding: count(QueueStage::Binding),
        }
    }

    /// Returns the number of queued pods that a plugin rejected (metric
    /// `scheduler_unschedulable_pods`).
    ///
    /// Upstream does not decrement it for pods deleted while active or in backoff.
    pub fn blocked_by(&self, profile: usize, plugin: PluginPosition) -> usize {
        self.blocked.get(profile).map_or(0, |counts| counts[plugin])
    }

    /// Iterates over the events kept for in-flight pods (metric `scheduler_inflight_events`).
    /// Upstream's `PodPopped` is [`QueueCounts::in_flight`].
    pub fn in_flight_events(&self) -> impl Iterator<Item = EventLabel> {
        self.in_flight.events().map(|event| event.label)
    }

    fn find(&self, pod: PodIdx) -> Option<(Slot, QueueStage)> {
        let slot = self.entries.find(pod)?;
        Some((slot, self.entries.get(slot).stage?))
    }

    fn assert_sum(&self) {
        debug_assert_eq!(self.counts.iter().sum::<usize>(), self.entries.len());
    }
}

impl WaitingSubject {
    fn of(info: &QueuedPod) -> Self {
        let QueuedPod { class, rejectors, pending, .. } = *info;
        Self { profile: info.profile(), class, rejectors, pending }
    }
}

impl RecordedEvent {
    fn new(context: &dyn QueueContext, event: &Event, about: Option<PodIdx>) -> Self {
        let Event { resource, action, .. } = *event;
        let object = context.to_owned_object(&event.object);
        Self { label: event.into(), resource, action, about, object }
    }
}

/// Returns what a non-wildcard event means for one pod.
fn strategy_for(
    context: &dyn QueueContext,
    interests: &mut Interests,
    subject: &WaitingSubject,
    event: &Event,
) -> Strategy {
    match interests.of(event.resource, event.action) {
        Some(interests) => hints::strategy(context, interests, subject, event),
        None => Strategy::Skip,
    }
}

/// Returns the highest strategy that events can have for a pod.
fn best_strategy(info: &QueuedPod) -> Strategy {
    if info.pending.is_empty() { Strategy::AfterBackoff } else { Strategy::Immediately }
}
