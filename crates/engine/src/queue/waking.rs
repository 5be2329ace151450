//! Wake-ups of waiting pods: by events, by plugins and by time.

use crate::framework::Event;
use crate::index::PodIdx;

use super::backoff::{backoff_end, is_backing_off};
use super::counters::EventLabel;
use super::entry::{QueueStage, QueuedPod, Slot};
use super::heap::Heap;
use super::hints::{self, Strategy};
use super::in_flight::{RecordedEvent, is_wildcard};
use super::{Queue, QueueContext, WakeScope};

/// Interval of the search for pods past the unschedulable time-out, in nanoseconds.
const FLUSH_INTERVAL: i64 = 30_000_000_000;

/// Maximum number of timed-out pods moved in one tick, which takes about 1 ms; the rest follows in
/// the next tick.
pub(super) const FLUSH_BATCH: usize = 2048;

impl Queue {
    /// Moves the pods that an event may help and returns their number. An update of several aspects
    /// is passed as several events.
    pub fn move_all(
        &mut self,
        context: &dyn QueueContext,
        event: &Event,
        scope: WakeScope,
        now: i64,
    ) -> usize {
        debug_assert!(!event.own, "changes of waiting pods go through update");
        let Some(woken) = self.pods_to_wake(context, event, scope) else { return 0 };
        let count = woken.len();
        self.move_pods(context, woken, event.into(), now);
        self.in_flight.record(|| RecordedEvent::new(context, event, None));
        count
    }

    /// Makes pods active regardless of their backoff, as plugins may request. For a pod in flight
    /// it is an event.
    pub fn activate(&mut self, context: &dyn QueueContext, pods: &[PodIdx], now: i64) {
        for pod in pods {
            let Some((slot, stage)) = self.find(*pod) else { continue };
            let label = EventLabel::ForceActivate;
            match stage {
                QueueStage::Unschedulable | QueueStage::Gated => {
                    self.enqueue_active(context, slot, label, now);
                }
                QueueStage::Backoff | QueueStage::ErrorBackoff => {
                    self.push_active(context, slot, label, now);
                }
                QueueStage::InFlight => {
                    self.in_flight.record(|| RecordedEvent::wildcard(label, Some(*pod)));
                }
                QueueStage::Active | QueueStage::Binding => {}
            }
        }
    }

    /// Opens the gate of a pod, which becomes active after its backoff. It is gated
    /// only because an event moved it, so an attempt may succeed.
    pub fn ungate_after_backoff(&mut self, context: &dyn QueueContext, pod: PodIdx, now: i64) {
        if let Some((slot, QueueStage::Gated)) = self.find(pod) {
            let label = EventLabel::ForceActivate;
            self.requeue(context, slot, Strategy::AfterBackoff, label, now);
        }
    }

    /// Returns the time of the next work for [`Queue::tick`]; a past time means now.
    pub fn next_deadline(&self) -> Option<i64> {
        let heads = [self.backoff.peek(), self.error_backoff.peek()];
        let backoff = heads.into_iter().flatten().map(|head| backoff_end(head.expiration)).min();
        let flush = self.pool.oldest().map(|since| self.flush_time(since));
        backoff.into_iter().chain(flush).chain(self.timers.next()).min()
    }

    /// Handles what is due: the ends of rejections, backoffs each second, and the unschedulable
    /// time-out every 30 s.
    pub fn tick(&mut self, context: &dyn QueueContext, now: i64) {
        self.flush_timers(context, now);
        self.flush_backoff(context, now);
        let last_look = now.div_euclid(FLUSH_INTERVAL) * FLUSH_INTERVAL;
        self.flush_waiting(context, last_look, now);
    }

    /// Makes pods active whose backoff is over.
    pub fn flush_backoff(&mut self, context: &dyn QueueContext, now: i64) {
        while let Some(slot) = first_over(&self.backoff, now) {
            self.push_active(context, slot, EventLabel::BackoffComplete, now);
        }
        while let Some(slot) = first_over(&self.error_backoff, now) {
            self.push_active(context, slot, EventLabel::BackoffComplete, now);
        }
    }

    /// Moves pods whose unschedulable time-out has passed, in case an event was missed. Returns
    /// `false` if more remain than one call moves.
    pub fn flush_unschedulable(&mut self, context: &dyn QueueContext, now: i64) -> bool {
        self.flush_waiting(context, now, now)
    }

    /// Moves the pods that were past their time-out at time `then`.
    fn flush_waiting(&mut self, context: &dyn QueueContext, then: i64, now: i64) -> bool {
        let moment = then.saturating_sub(self.config.max_in_unschedulable);
        let due = self.pool.waiting_since_before(moment).take(FLUSH_BATCH);
        let due: Vec<_> = due.map(|slot| (slot, Strategy::AfterBackoff)).collect();
        let count = due.len();
        if count == 0 {
            return true;
        }
        for (slot, _) in &due {
            let info = &mut self.entries.get_mut(*slot).info;
            info.was_flushed = true;
            info.flush_timestamp = now;
        }
        let label = EventLabel::UnschedulableTimeout;
        self.move_pods(context, due, label, now);
        self.in_flight.record(|| RecordedEvent::wildcard(label, None));
        let moves = self.counters.moves.entry(label).or_default();
        moves.events += 1;
        moves.pods_moved += count as u64;
        count < FLUSH_BATCH
    }

    /// Returns the pods that an event moves and their strategies; `None` if no plugin subscribes to
    /// it.
    fn pods_to_wake(
        &mut self,
        context: &dyn QueueContext,
        event: &Event,
        scope: WakeScope,
    ) -> Option<Vec<(Slot, Strategy)>> {
        let mut woken = Vec::new();
        let mut asked = 0;
        let entries = &self.entries;
        let mut wake = |members: &[Slot], strategy| {
            let in_scope = members.iter().filter(|slot| scope.contains(&entries.get(**slot).info));
            woken.extend(in_scope.map(|slot| (*slot, strategy)));
        };
        if is_wildcard(event.resource, event.action) {
            for set in self.pool.sets() {
                wake(self.pool.members(set), Strategy::AfterBackoff);
            }
        } else {
            let interests = self.interests.of(event.resource, event.action)?;
            for set in self.pool.concerned(interests) {
                asked += 1;
                let subject = self.pool.subject(set);
                let strategy = hints::strategy(context, interests, subject, event);
                if strategy != Strategy::Skip {
                    wake(self.pool.members(set), strategy);
                }
            }
        }
        let moves = self.counters.moves.entry(event.into()).or_default();
        moves.events += 1;
        moves.sets_asked += asked;
        moves.pods_moved += woken.len() as u64;
        Some(woken)
    }

    fn move_pods(
        &mut self,
        context: &dyn QueueContext,
        pods: Vec<(Slot, Strategy)>,
        label: EventLabel,
        now: i64,
    ) {
        for (slot, strategy) in pods {
            // Transferred out first, so that a pod that is gated again counts as incoming.
            self.transfer(context, slot, None);
            self.requeue(context, slot, strategy, label, now);
        }
    }

    /// Returns the time of the first search that finds a pod waiting since `since` timed out.
    fn flush_time(&self, since: i64) -> i64 {
        let due = since.saturating_add(self.config.max_in_unschedulable).saturating_add(1);
        let interval = due.div_euclid(FLUSH_INTERVAL) + i64::from(due % FLUSH_INTERVAL != 0);
        interval.saturating_mul(FLUSH_INTERVAL)
    }
}

impl WakeScope {
    fn contains(self, info: &QueuedPod) -> bool {
        match self {
            Self::All => true,
            Self::UpToPriority(priority) => info.priority <= priority,
            Self::AllExcept(pod) => info.pod != pod,
        }
    }
}

fn first_over(heap: &Heap, now: i64) -> Option<Slot> {
    let head = heap.peek()?;
    (!is_backing_off(head.expiration, now)).then_some(head.slot)
}
