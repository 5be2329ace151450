//! Checks the queue's invariants from scratch, in parts.

use std::ops::Range;

use super::entry::QueueStage;
use super::heap::Heap;
use super::plugin_set::PLUGINS_MAX;
use super::timers::is_timed;
use super::transitions::{in_backoff_order, in_error_order, in_queue_order};
use super::{Queue, QueueContext};

/// Slots of each table that one part checks, which takes about 0.1 ms.
const SLOTS_AT_ONCE: usize = 256;

/// A check that is made in parts. The queue may change between parts; each part compares the queue
/// as it is then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueCheck {
    /// First unchecked slot of every table.
    from: usize,
    /// [`Queue::transfers`] at the first part. Sums over all parts are compared only if it is
    /// unchanged.
    transfers: u64,
    /// Counted pods by [`QueueStage`].
    counts: [usize; QueueStage::COUNT],
    /// Counted queued pods by profile and blocking plugin.
    blocked: Vec<[usize; PLUGINS_MAX]>,
    /// Counted members of waiting sets.
    members: usize,
    /// Counted pods with a timer.
    timed: usize,
}

impl Queue {
    /// Checks the whole queue; for tests.
    pub fn check(&self, context: &dyn QueueContext) -> Result<(), String> {
        let mut check = QueueCheck::default();
        while self.check_part(context, &mut check)? {}
        Ok(())
    }

    /// Checks some slots. Returns `true` if slots remain.
    pub fn check_part(
        &self,
        context: &dyn QueueContext,
        check: &mut QueueCheck,
    ) -> Result<bool, String> {
        if check.from == 0 {
            let blocked = vec![[0; PLUGINS_MAX]; self.blocked.len()];
            *check = QueueCheck { blocked, transfers: self.transfers, ..QueueCheck::default() };
        }
        let slots = check.from..check.from + SLOTS_AT_ONCE;
        check.from = slots.end;
        self.check_entries(slots.clone(), check)?;
        let (active, backoff) = (in_queue_order(context), in_backoff_order(context));
        verdict(&[
            ("active", self.active.is_sound_within(slots.clone(), active)),
            ("backoff", self.backoff.is_sound_within(slots.clone(), backoff)),
            ("error backoff", self.error_backoff.is_sound_within(slots.clone(), in_error_order)),
            ("pool", self.pool.is_sound_within(slots.clone())),
        ])?;
        check.members += self.pool.members_within(slots);
        let heaps = [&self.active, &self.backoff, &self.error_backoff].map(Heap::slots);
        let tables = heaps.into_iter().chain([self.entries.slots(), self.pool.slots()]);
        if tables.max().is_some_and(|slots| check.from < slots) {
            return Ok(true);
        }
        self.check_sums(check)?;
        Ok(false)
    }

    /// Checks that the pods of these entries are in the table of their stage and in no other.
    fn check_entries(&self, slots: Range<usize>, check: &mut QueueCheck) -> Result<(), String> {
        for (slot, entry) in self.entries.iter_within(slots) {
            let info = &entry.info;
            let Some(stage) = entry.stage else { return Err(format!("{info:?} has no stage")) };
            check.counts[stage as usize] += 1;
            if stage.is_queued()
                && let Some(blocked) = check.blocked.get_mut(info.profile())
            {
                info.blockers().iter().for_each(|plugin| blocked[plugin] += 1);
            }
            check.timed += usize::from(is_timed(stage, info));
            let is_in = [
                (stage == QueueStage::Active, self.active.contains(slot)),
                (stage == QueueStage::Backoff, self.backoff.contains(slot)),
                (stage == QueueStage::ErrorBackoff, self.error_backoff.contains(slot)),
                (stage.waits_for_event(), self.pool.contains(slot)),
                (stage.waits_for_event(), self.pool.holds(slot, info)),
                (stage == QueueStage::InFlight, self.in_flight.contains(info.pod)),
                (stage == QueueStage::Gated, info.gating().is_some()),
                (true, self.timers.is_sound(slot, stage, info)),
            ];
            if is_in.iter().any(|(should, does)| should != does) {
                return Err(format!("{info:?} is not (only) in {stage:?}: {is_in:?}"));
            }
        }
        Ok(())
    }

    /// Checks the sums over all pods.
    fn check_sums(&self, check: &QueueCheck) -> Result<(), String> {
        let count = |stage: QueueStage| self.counts[stage as usize];
        let waiting = count(QueueStage::Unschedulable) + count(QueueStage::Gated);
        verdict(&[
            ("sum", self.counts().total() == self.entries.len()),
            ("size of active", self.active.len() == count(QueueStage::Active)),
            ("size of backoff", self.backoff.len() == count(QueueStage::Backoff)),
            ("size of errors", self.error_backoff.len() == count(QueueStage::ErrorBackoff)),
            ("size of in flight", self.in_flight.len() == count(QueueStage::InFlight)),
            ("in flight", self.in_flight.is_sound()),
            ("size of pool", self.pool.is_of_size(waiting)),
        ])?;
        if check.transfers != self.transfers {
            return Ok(());
        }
        verdict(&[
            ("counts", check.counts == self.counts),
            ("blocked", check.blocked == self.blocked),
            ("members of sets", check.members == waiting),
            ("timers", check.timed == self.timers.len()),
        ])
    }
}

/// Returns the names of the failed checks as an error.
fn verdict(sound: &[(&str, bool)]) -> Result<(), String> {
    let wrong: Vec<_> = sound.iter().filter(|(_, sound)| !sound).map(|(name, _)| *name).collect();
    if wrong.is_empty() { Ok(()) } else { Err(format!("wrong: {}", wrong.join(", "))) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Bench, FIT, pending};
    use super::*;
    use crate::index::ClassIdx;
    use crate::queue::{FailedAttempt, PendingPod, PluginSet};

    /// Pods that wait for events, each of a class of its own.
    fn waiting(pods: u32) -> Bench {
        let mut bench = Bench::new();
        let Bench { queue, plugins, .. } = &mut bench;
        for pod in 0..pods {
            let pod = PendingPod { class: ClassIdx(pod), ..pending(pod) };
            queue.add(plugins, &pod, 0);
        }
        while let Some(popped) = queue.pop(plugins) {
            let failed =
                FailedAttempt { rejectors: PluginSet::one(FIT), ..FailedAttempt::default() };
            queue.add_unschedulable(plugins, popped.pod, failed, 0);
        }
        bench
    }

    #[test]
    fn a_check_of_many_groups_is_made_in_parts_of_so_many_slots() {
        let Bench { queue, plugins, .. } = waiting(5000);
        assert_eq!(queue.pool.set_count(), 5000);
        let (mut check, mut parts) = (QueueCheck::default(), 1);
        while queue.check_part(&plugins, &mut check).unwrap() {
            assert_eq!(check.counts[QueueStage::Unschedulable as usize], parts * SLOTS_AT_ONCE);
            parts += 1;
        }
        assert_eq!(parts, 5000_usize.div_ceil(SLOTS_AT_ONCE));
        assert_eq!(check.members, 5000);
    }

    #[test]
    fn pods_may_come_and_go_between_the_parts_of_a_check() {
        let Bench { mut queue, plugins, .. } = waiting(3000);
        let mut check = QueueCheck::default();
        let mut pod = 0;
        while queue.check_part(&plugins, &mut check).unwrap() {
            queue.delete(&plugins, pending(pod).pod);
            queue.add(&plugins, &pending(10_000 + pod), 0);
            pod += 1;
        }
        queue.check(&plugins).unwrap();
    }

    #[test]
    fn a_count_that_drifted_is_found() {
        let Bench { mut queue, plugins, .. } = waiting(3000);
        queue.blocked[0][FIT] += 1;
        assert_eq!(queue.check(&plugins), Err("wrong: blocked".to_owned()));
    }
}
