//! Transitions of pods between stages.

use std::cmp::Ordering;

use super::backoff::is_backing_off;
use super::counters::{EventLabel, SubQueue};
use super::entry::{QueueStage, QueuedPod, Slot};
use super::heap::Item;
use super::hints::Strategy;
use super::plugin_set::PluginSet;
use super::{Queue, QueueContext};

impl Queue {
    pub(super) fn requeue(
        &mut self,
        context: &dyn QueueContext,
        slot: Slot,
        strategy: Strategy,
        label: EventLabel,
        now: i64,
    ) -> QueueStage {
        let expiration = self.entries.get(slot).info.backoff_expiration;
        match strategy {
            Strategy::Skip => self.move_to(context, slot, QueueStage::Unschedulable, label),
            Strategy::AfterBackoff if is_backing_off(expiration, now) => {
                self.enqueue_backoff(context, slot, label, now)
            }
            _ => self.enqueue_active(context, slot, label, now),
        }
    }

    pub(super) fn enqueue_active(
        &mut self,
        context: &dyn QueueContext,
        slot: Slot,
        label: EventLabel,
        now: i64,
    ) -> QueueStage {
        if self.gate(context, slot, now) {
            return self.move_to(context, slot, QueueStage::Gated, label);
        }
        self.push_active(context, slot, label, now)
    }

    fn enqueue_backoff(
        &mut self,
        context: &dyn QueueContext,
        slot: Slot,
        label: EventLabel,
        now: i64,
    ) -> QueueStage {
        let stage = if self.gate(context, slot, now) {
            QueueStage::Gated
        } else if self.entries.get(slot).info.blockers().is_empty() {
            QueueStage::ErrorBackoff
        } else {
            QueueStage::Backoff
        };
        self.move_to(context, slot, stage, label)
    }

    /// Makes a pod active without running PreEnqueue.
    pub(super) fn push_active(
        &mut self,
        context: &dyn QueueContext,
        slot: Slot,
        label: EventLabel,
        now: i64,
    ) -> QueueStage {
        self.entries.get_mut(slot).info.activated(now);
        self.move_to(context, slot, QueueStage::Active, label)
    }

    /// Runs PreEnqueue and records the gating plugin. Returns `true` if the pod is gated.
    fn gate(&mut self, context: &dyn QueueContext, slot: Slot, now: i64) -> bool {
        let info = &mut self.entries.get_mut(slot).info;
        let was_gated = info.gating().is_some();
        let gate = context.pre_enqueue(info.pod, info.profile(), info.gating()).err();
        info.set_gating(gate.map(|gate| gate.plugin));
        if gate.is_some() || was_gated {
            self.set_retry(slot, gate.and_then(|gate| gate.retry_at), now);
        }
        let Some(gate) = gate else { return false };
        let info = &mut self.entries.get_mut(slot).info;
        info.rejectors.insert(gate.plugin);
        // A failed attempt resets this, but a gated pod has none.
        info.was_flushed = false;
        true
    }

    /// Moves a pod to a sub-queue. Moves between Unschedulable and Gated do not count as incoming.
    fn move_to(
        &mut self,
        context: &dyn QueueContext,
        slot: Slot,
        stage: QueueStage,
        label: EventLabel,
    ) -> QueueStage {
        let stays = stage.waits_for_event()
            && self.entries.get(slot).stage.is_some_and(QueueStage::waits_for_event);
        self.transfer(context, slot, Some(stage));
        if let Some(queue) = SubQueue::of(stage).filter(|_| !stays) {
            self.counters.count_incoming(queue, label);
        }
        stage
    }

    /// The only way to change a stage. `to` is `None` only for pods that move on at once or are
    /// removed.
    pub(super) fn transfer(
        &mut self,
        context: &dyn QueueContext,
        slot: Slot,
        to: Option<QueueStage>,
    ) {
        self.transfers += 1;
        let entry = self.entries.get_mut(slot);
        let from = std::mem::replace(&mut entry.stage, to);
        let info = entry.info;
        if let Some(from) = from {
            self.counts[from as usize] -= 1;
            self.timers.leave(slot, from, &info);
            self.remove_from(context, slot, from, &info);
        }
        if let Some(to) = to {
            self.counts[to as usize] += 1;
            self.timers.enter(slot, to, &info);
            self.insert_into(context, slot, to, &info);
            self.assert_sum();
        }
        self.recount_blocked(slot);
    }

    fn remove_from(
        &mut self,
        context: &dyn QueueContext,
        slot: Slot,
        from: QueueStage,
        info: &QueuedPod,
    ) {
        match from {
            QueueStage::Active => self.active.remove(slot, in_queue_order(context)),
            QueueStage::Backoff => self.backoff.remove(slot, in_backoff_order(context)),
            QueueStage::ErrorBackoff => self.error_backoff.remove(slot, in_error_order),
            QueueStage::Unschedulable | QueueStage::Gated => self.pool.remove(slot),
            QueueStage::InFlight => self.in_flight.finish(info.pod),
            QueueStage::Binding => {}
        }
    }

    fn insert_into(
        &mut self,
        context: &dyn QueueContext,
        slot: Slot,
        to: QueueStage,
        info: &QueuedPod,
    ) {
        let item = Item::new(slot, info);
        match to {
            QueueStage::Active => self.active.push(item, in_queue_order(context)),
            QueueStage::Backoff => self.backoff.push(item, in_backoff_order(context)),
            QueueStage::ErrorBackoff => self.error_backoff.push(item, in_error_order),
            QueueStage::Unschedulable | QueueStage::Gated => self.pool.insert(slot, info),
            QueueStage::InFlight => self.in_flight.begin(info.pod),
            QueueStage::Binding => {}
        }
    }

    /// Updates the counts by plugin, which cover queued pods only.
    fn recount_blocked(&mut self, slot: Slot) {
        let entry = self.entries.get_mut(slot);
        let queued = entry.stage.is_some_and(QueueStage::is_queued);
        let now = if queued { entry.info.blockers() } else { PluginSet::EMPTY };
        let before = std::mem::replace(&mut entry.counted, now);
        let counts = &mut self.blocked[entry.info.profile()];
        for plugin in before.without(now).iter() {
            counts[plugin] -= 1;
        }
        for plugin in now.without(before).iter() {
            counts[plugin] += 1;
        }
    }
}

pub(super) fn in_queue_order(context: &dyn QueueContext) -> impl Fn(&Item, &Item) -> Ordering {
    |a, b| context.order(&a.key, &b.key).then_with(|| a.by_arrival(b))
}

pub(super) fn in_backoff_order(context: &dyn QueueContext) -> impl Fn(&Item, &Item) -> Ordering {
    let then = in_queue_order(context);
    move |a, b| a.expiration.cmp(&b.expiration).then_with(|| then(a, b))
}

pub(super) fn in_error_order(a: &Item, b: &Item) -> Ordering {
    a.expiration.cmp(&b.expiration).then_with(|| a.by_arrival(b))
}
