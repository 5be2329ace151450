//! Pods that wait to be scheduled, and what wakes them.
//!
//! ```text
//!   add, update ──▶ PreEnqueue ──▶ Active ──pop──▶ InFlight ──done──▶ Binding ──▶ delete
//!                    │  ▲  ▲  │                     │    │               │
//!                    ▼  │  │  └──▶ Backoff ──pop──▶─┘    └─────┬─────────┘
//!                  Gated   │       ErrorBackoff          add_unschedulable
//!                          │             ▲ (1)                 │
//!                          │ event       └───── something went wrong, or an event came meanwhile
//!                          │                                   │
//!                     Unschedulable ◀── plugins turned it down ┘
//! ```
//!
//! (1) by way of PreEnqueue as well, and straight to Active when no backoff is left. What leaves
//! backoff, by time or by pop when nobody else is left, is not asked about again.
//!
//! Behaves as upstream v1.36 (`pkg/scheduler/backend/queue`) with its default feature gates. On
//! purpose different: pods that QueueSort finds equal go in order of arrival, events are judged once
//! per set of equal pods, and only a bounded number of events is kept for pods in flight.
//!
//! # Invariants
//!
//! - A pod is in one [`Place`] from [`Queue::add`] to [`Queue::delete`].
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
mod transitions;
mod unschedulable;
mod waking;

use std::cmp::Ordering;

use crate::framework::event::Object;
use crate::framework::profile::PluginPosition;
use crate::framework::{Event, QueueKey};
use crate::index::{ClassIdx, PodIdx};

pub use check::QueueCheck;
pub use counters::{EventLabel, QueueCounters, QueueCounts, SubQueue, WakeCounts};
pub use entry::{PendingPod, QueueStage, QueuedPod};
pub use hints::Subscriptions;
pub use in_flight::{IN_FLIGHT_EVENTS_MAX, OwnedObject, OwnedPod};
pub use nominator::Nominator;
pub use plugin_set::{PLUGINS_MAX, PluginSet};

use entry::{Entries, NEVER, Slot};
use heap::{Heap, Item};
use hints::{Interests, Strategy, WaitingSubject};
use in_flight::{InFlight, RecordedEvent};
use transitions::{in_backoff_order, in_queue_order};
use unschedulable::UnschedulablePool;

/// What the queue asks the plugins, by way of the engine.
pub trait QueueContext {
    /// Whether PreEnqueue lets a pod in, or which plugin does not. `first` is asked before all others.
    fn pre_enqueue(
        &self,
        pod: PodIdx,
        profile: usize,
        first: Option<PluginPosition>,
    ) -> Result<(), PluginPosition>;

    /// QueueSort, the same for all profiles.
    fn order(&self, a: &QueueKey, b: &QueueKey) -> Ordering;

    /// Whether an event may make pods of a class fit that a plugin turned down.
    fn hint(&self, profile: usize, plugin: PluginPosition, class: ClassIdx, event: &Event) -> bool;

    /// Keeps the object of an event for pods in flight. Whoever has it in an `Arc` need not copy it.
    fn to_owned_object(&self, object: &Object) -> OwnedObject {
        OwnedObject::of(object)
    }
}

/// Times of the queue, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// `podInitialBackoffSeconds`.
    pub initial_backoff: i64,
    /// `podMaxBackoffSeconds`; zero switches backoff off.
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

/// Which of the waiting pods an event can move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeScope {
    /// All.
    All,
    /// Those of at most this priority: a nominated pod only kept these away.
    UpToPriority(i32),
    /// All but the pod whose own failed binding is the event.
    AllExcept(PodIdx),
}

/// Pods that wait to be scheduled.
#[derive(Clone, Debug)]
pub struct Queue {
    /// Pods that are nominated for nodes, as the engine says.
    pub nominator: Nominator,
    /// What was done so far.
    pub counters: QueueCounters,
    config: QueueConfig,
    interests: Interests,
    entries: Entries,
    active: Heap,
    backoff: Heap,
    error_backoff: Heap,
    pool: UnschedulablePool,
    in_flight: InFlight,
    /// Pods by [`Place`].
    counts: [usize; QueueStage::COUNT],
    /// Queued pods by profile and plugin that stands in their way.
    blocked: Vec<[usize; PLUGINS_MAX]>,
    /// Number of the last arrival.
    sequence: u64,
    /// How often pods went from place to place.
    transfers: u64,
}

/// Coming and going.
impl Queue {
    /// An empty queue.
    ///
    /// # Panics
    ///
    /// When a profile has more than [`PLUGINS_MAX`] plugins.
    pub fn new(config: QueueConfig, subscriptions: Subscriptions) -> Self {
        Self {
            nominator: Nominator::default(),
            counters: QueueCounters::default(),
            config,
            blocked: vec![[0; PLUGINS_MAX]; subscriptions.profiles.len()],
            interests: Interests::new(subscriptions),
            entries: Entries::default(),
            active: Heap::default(),
            backoff: Heap::default(),
            error_backoff: Heap::default(),
            pool: UnschedulablePool::default(),
            in_flight: InFlight::default(),
            counts: [0; QueueStage::COUNT],
            sequence: 0,
            transfers: 0,
        }
    }

    /// Takes a new pod in. A pod that is known already stays where it is.
    pub fn add(&mut self, context: &dyn QueueContext, pod: &PendingPod, now: i64) -> QueueStage {
        match self.stage(pod.pod) {
            Some(stage) => stage,
            None => self.insert_new(context, pod, EventLabel::POD_ADD, now),
        }
    }

    /// Takes over a change of a pod.
    ///
    /// `events` has one event for each aspect that changed, or a plain update when none did; all are
    /// [`Event::own`]. The class is the new one.
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
            // Not assumed any more, or the engine would not tell: upstream starts afresh.
            self.delete(context, pod.pod);
            return self.insert_new(context, pod, EventLabel::POD_UPDATE, now);
        }
        let info = &mut self.entries.get_mut(slot).info;
        let class_changed = info.class != pod.class;
        info.class = pod.class;
        info.priority = pod.priority;
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
            // What changed plays no part in the order of errors.
            QueueStage::ErrorBackoff | QueueStage::InFlight | QueueStage::Binding => {}
        }
        stage
    }

    /// Takes over the class of a pod that changed while it was tried or bound.
    pub fn set_class(&mut self, pod: PodIdx, class: ClassIdx) {
        let Some((slot, stage)) = self.find(pod) else { return };
        debug_assert!(!stage.is_queued(), "changes of waiting pods go through update");
        self.entries.get_mut(slot).info.class = class;
    }

    /// Forgets a pod that is gone or assigned, wherever it is. Whether it was known.
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

    /// Follows a change of a pod that waits for events: it may be the very one.
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

/// Attempts.
impl Queue {
    /// Takes out the pod to be tried next. Its attempt ends with [`Queue::done`],
    /// [`Queue::add_unschedulable`] or [`Queue::delete`].
    pub fn pop(&mut self, context: &dyn QueueContext) -> Option<QueuedPod> {
        let slot = if let Some(head) = self.active.peek() {
            head.slot
        } else {
            let head = self.backoff.peek()?;
            self.counters.count_incoming(SubQueue::Active, EventLabel::PopFromBackoffQ);
            head.slot
        };
        self.counters.pops += 1;
        self.entries.get_mut(slot).info.attempts += 1;
        self.transfer(context, slot, Some(QueueStage::InFlight));
        Some(self.entries.get(slot).info)
    }

    /// Ends an attempt that needs no events any more: the pod is about to be bound, or is not to be
    /// tried again. It stays known until it is deleted.
    pub fn done(&mut self, context: &dyn QueueContext, pod: PodIdx) {
        if let Some((slot, QueueStage::InFlight)) = self.find(pod) {
            self.transfer(context, slot, Some(QueueStage::Binding));
        }
    }

    /// Takes a pod back whose attempt failed; `None` when it is not known (any more).
    ///
    /// `rejectors` and `pending` are the plugins that turned it down. None at all means that
    /// something went wrong, which is so for every failure after Permit.
    pub fn add_unschedulable(
        &mut self,
        context: &dyn QueueContext,
        pod: PodIdx,
        rejectors: PluginSet,
        pending: PluginSet,
        now: i64,
    ) -> Option<QueueStage> {
        let (slot, stage) = self.find(pod)?;
        if stage.is_queued() {
            return Some(stage);
        }
        let sequence = self.next_sequence();
        let info = &mut self.entries.get_mut(slot).info;
        info.rejectors = rejectors;
        info.pending = pending;
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

    /// What the events mean that came while the pod was tried.
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

/// Reading.
impl Queue {
    /// Where a pod is.
    pub fn stage(&self, pod: PodIdx) -> Option<QueueStage> {
        Some(self.find(pod)?.1)
    }

    /// A pod with its history.
    pub fn get(&self, pod: PodIdx) -> Option<&QueuedPod> {
        Some(&self.entries.get(self.entries.find(pod)?).info)
    }

    /// All pods, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = (&QueuedPod, QueueStage)> {
        self.entries.iter().filter_map(|(_, entry)| Some((&entry.info, entry.stage?)))
    }

    /// Whether [`Queue::pop`] would find a pod.
    pub fn has_next(&self) -> bool {
        self.active.len() + self.backoff.len() > 0
    }

    /// How many pods are where.
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

    /// `scheduler_unschedulable_pods`: queued pods that a plugin stands in the way of.
    ///
    /// Upstream forgets to count pods down that are deleted while active or in backoff.
    pub fn blocked_by(&self, profile: usize, plugin: PluginPosition) -> usize {
        self.blocked.get(profile).map_or(0, |counts| counts[plugin])
    }

    /// `scheduler_inflight_events`: events kept for pods in flight. Upstream's `PodPopped` is
    /// [`QueueCounts::in_flight`].
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

/// What an event that is not a wildcard means for one pod.
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

/// The best that events can do for a pod: nothing comes after it.
fn best_strategy(info: &QueuedPod) -> Strategy {
    if info.pending.is_empty() { Strategy::AfterBackoff } else { Strategy::Immediately }
}
