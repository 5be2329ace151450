//! What wakes pods: events, plugins that ask for it, and time.

use crate::framework::Event;
use crate::index::PodIdx;

use super::backoff::{backoff_end, is_backing_off};
use super::counters::EventLabel;
use super::entry::{QueueStage, QueuedPod, Slot};
use super::heap::Heap;
use super::hints::{self, Strategy};
use super::in_flight::{RecordedEvent, is_wildcard};
use super::{Queue, QueueContext, WakeScope};

/// How often pods that waited too long are looked for.
const FLUSH_INTERVAL: i64 = 30_000_000_000;

/// Pods that waited too long moved at once; the rest follow in the next tick. About a millisecond.
pub(super) const FLUSH_BATCH: usize = 2048;

impl Queue {
    /// Lets an event wake pods and tells how many it moved. An update with several aspects is as many
    /// events.
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

    /// Makes pods active whatever their backoff, as plugins may ask for. For one that is in flight
    /// this is an event.
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

    /// Lets a pod in whose gate opened: an event since then may help it, or it would not be at the gate.
    /// It is tried after its backoff.
    pub fn ungate_after_backoff(&mut self, context: &dyn QueueContext, pod: PodIdx, now: i64) {
        if let Some((slot, QueueStage::Gated)) = self.find(pod) {
            let label = EventLabel::ForceActivate;
            self.requeue(context, slot, Strategy::AfterBackoff, label, now);
        }
    }

    /// When [`Queue::tick`] has something to do; a time that has passed means now.
    pub fn next_deadline(&self) -> Option<i64> {
        let heads = [self.backoff.peek(), self.error_backoff.peek()];
        let backoff = heads.into_iter().flatten().map(|head| backoff_end(head.expiration)).min();
        let flush = self.pool.oldest().map(|since| self.flush_time(since));
        backoff.into_iter().chain(flush).min()
    }

    /// Does what is due: every whole second for backoffs, every 30 seconds for pods that wait too long.
    pub fn tick(&mut self, context: &dyn QueueContext, now: i64) {
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

    /// WakeCounts pods that by now waited too long without an event, in case one was missed. Whether that
    /// was all of them: so many are moved at once, and no more.
    pub fn flush_unschedulable(&mut self, context: &dyn QueueContext, now: i64) -> bool {
        self.flush_waiting(context, now, now)
    }

    /// WakeCounts pods that had waited too long at an earlier moment.
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

    /// Pods that an event moves, and how; `None` when no plugin is interested.
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
            let meant = members.iter().filter(|slot| scope.contains(&entries.get(**slot).info));
            woken.extend(meant.map(|slot| (*slot, strategy)));
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
            // Out first, so that a pod that is gated again counts as one that came.
            self.transfer(context, slot, None);
            self.requeue(context, slot, strategy, label, now);
        }
    }

    /// The first look for pods that wait too long which finds one that waits since then.
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
