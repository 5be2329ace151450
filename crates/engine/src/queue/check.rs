//! Whether the queue is what it should be, worked out from scratch.

use super::entry::Place;
use super::plugin_set::PLUGINS_MAX;
use super::transitions::{in_backoff_order, in_error_order, in_queue_order};
use super::{Queue, QueueContext};

impl Queue {
    /// Works everything out anew and compares: for tests.
    pub fn check(&self, context: &dyn QueueContext) -> Result<(), String> {
        let mut counts = [0; Place::COUNT];
        let mut blocked = vec![[0; PLUGINS_MAX]; self.blocked.len()];
        for (slot, entry) in self.entries.iter() {
            let info = &entry.info;
            let Some(place) = entry.place else { return Err(format!("{info:?} is nowhere")) };
            counts[place as usize] += 1;
            if place.is_queued() {
                info.blockers().iter().for_each(|plugin| blocked[info.profile()][plugin] += 1);
            }
            let is_in = [
                (place == Place::Active, self.active.contains(slot)),
                (place == Place::Backoff, self.backoff.contains(slot)),
                (place == Place::ErrorBackoff, self.error_backoff.contains(slot)),
                (place.is_pool(), self.pool.contains(slot)),
                (place.is_pool(), self.pool.holds(slot, info)),
                (place == Place::InFlight, self.in_flight.contains(info.pod)),
                (place == Place::Gated, info.gating().is_some()),
            ];
            if is_in.iter().any(|(should, does)| should != does) {
                return Err(format!("{info:?} is not (only) in {place:?}: {is_in:?}"));
            }
        }
        let sound = [
            ("counts", counts == self.counts),
            ("sum", self.counts().total() == self.entries.len()),
            ("blocked", blocked == self.blocked),
            ("active", self.active.is_sound(in_queue_order(context))),
            ("backoff", self.backoff.is_sound(in_backoff_order(context))),
            ("error backoff", self.error_backoff.is_sound(in_error_order)),
            ("size of active", self.active.len() == counts[Place::Active as usize]),
            ("size of backoff", self.backoff.len() == counts[Place::Backoff as usize]),
            ("size of errors", self.error_backoff.len() == counts[Place::ErrorBackoff as usize]),
            ("size of in flight", self.in_flight.len() == counts[Place::InFlight as usize]),
            ("in flight", self.in_flight.is_sound()),
            (
                "pool",
                self.pool.is_sound(
                    counts[Place::Unschedulable as usize] + counts[Place::Gated as usize],
                ),
            ),
            ("nominator", self.nominator.is_sound()),
        ];
        let wrong: Vec<_> =
            sound.iter().filter(|(_, sound)| !sound).map(|(name, _)| *name).collect();
        if wrong.is_empty() { Ok(()) } else { Err(format!("wrong: {}", wrong.join(", "))) }
    }
}
