//! How pods go from place to place.

use std::cmp::Ordering;

use super::backoff::is_backing_off;
use super::counters::{EventLabel, SubQueue};
use super::entry::{Place, QueuedPod, Slot};
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
    ) -> Place {
        let expiration = self.entries.get(slot).info.backoff_expiration;
        match strategy {
            Strategy::Skip => self.arrive(context, slot, Place::Unschedulable, label),
            Strategy::AfterBackoff if is_backing_off(expiration, now) => {
                self.enqueue_backoff(context, slot, label)
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
    ) -> Place {
        if self.gate(context, slot) {
            return self.arrive(context, slot, Place::Gated, label);
        }
        self.let_in(context, slot, label, now)
    }

    fn enqueue_backoff(
        &mut self,
        context: &dyn QueueContext,
        slot: Slot,
        label: EventLabel,
    ) -> Place {
        let place = if self.gate(context, slot) {
            Place::Gated
        } else if self.entries.get(slot).info.blockers().is_empty() {
            Place::ErrorBackoff
        } else {
            Place::Backoff
        };
        self.arrive(context, slot, place, label)
    }

    /// Makes a pod active without asking PreEnqueue.
    pub(super) fn let_in(
        &mut self,
        context: &dyn QueueContext,
        slot: Slot,
        label: EventLabel,
        now: i64,
    ) -> Place {
        self.entries.get_mut(slot).info.activated(now);
        self.arrive(context, slot, Place::Active, label)
    }

    /// Asks PreEnqueue, and notes the plugin that does not let the pod in, if any.
    fn gate(&mut self, context: &dyn QueueContext, slot: Slot) -> bool {
        let info = &mut self.entries.get_mut(slot).info;
        let refused = context.pre_enqueue(info.pod, info.profile(), info.gating()).err();
        info.set_gating(refused);
        let Some(plugin) = refused else { return false };
        info.rejectors.insert(plugin);
        // Otherwise done when an attempt fails, but a gated pod has none.
        info.was_flushed = false;
        true
    }

    /// Brings a pod to a sub-queue. One that was waiting for events and still is does not count.
    fn arrive(
        &mut self,
        context: &dyn QueueContext,
        slot: Slot,
        place: Place,
        label: EventLabel,
    ) -> Place {
        let stays = place.is_pool() && self.entries.get(slot).place.is_some_and(Place::is_pool);
        self.transfer(context, slot, Some(place));
        if let Some(queue) = SubQueue::of(place).filter(|_| !stays) {
            self.counters.came(queue, label);
        }
        place
    }

    /// The one way from place to place. Nowhere is only for pods that go on at once or are forgotten.
    pub(super) fn transfer(&mut self, context: &dyn QueueContext, slot: Slot, to: Option<Place>) {
        self.transfers += 1;
        let entry = self.entries.get_mut(slot);
        let from = std::mem::replace(&mut entry.place, to);
        let info = entry.info;
        if let Some(from) = from {
            self.counts[from as usize] -= 1;
            self.leave(context, slot, from, &info);
        }
        if let Some(to) = to {
            self.counts[to as usize] += 1;
            self.enter(context, slot, to, &info);
            self.assert_sum();
        }
        self.recount_blocked(slot);
    }

    fn leave(&mut self, context: &dyn QueueContext, slot: Slot, from: Place, info: &QueuedPod) {
        match from {
            Place::Active => self.active.remove(slot, in_queue_order(context)),
            Place::Backoff => self.backoff.remove(slot, in_backoff_order(context)),
            Place::ErrorBackoff => self.error_backoff.remove(slot, in_error_order),
            Place::Unschedulable | Place::Gated => self.pool.remove(slot),
            Place::InFlight => self.in_flight.finish(info.pod),
            Place::Binding => {}
        }
    }

    fn enter(&mut self, context: &dyn QueueContext, slot: Slot, to: Place, info: &QueuedPod) {
        let item = Item::new(slot, info);
        match to {
            Place::Active => self.active.push(item, in_queue_order(context)),
            Place::Backoff => self.backoff.push(item, in_backoff_order(context)),
            Place::ErrorBackoff => self.error_backoff.push(item, in_error_order),
            Place::Unschedulable | Place::Gated => self.pool.insert(slot, info),
            Place::InFlight => self.in_flight.begin(info.pod),
            Place::Binding => {}
        }
    }

    /// Counts a pod for the plugins in its way while it is queued.
    fn recount_blocked(&mut self, slot: Slot) {
        let entry = self.entries.get_mut(slot);
        let queued = entry.place.is_some_and(Place::is_queued);
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
