//! Times at which rejections end without an event; see
//! [`Rejection::until`](crate::framework::Rejection::until).

use std::collections::BTreeSet;

use super::counters::EventLabel;
use super::entry::{NEVER, QueueStage, QueuedPod, Slot};
use super::{Queue, QueueContext};

/// Waiting pods by the time at which they are retried.
#[derive(Clone, Debug, Default)]
pub(super) struct Timers(BTreeSet<(i64, Slot)>);

impl Timers {
    /// Adds a pod that enters a stage, if it is to be retried from there.
    pub(super) fn enter(&mut self, slot: Slot, stage: QueueStage, info: &QueuedPod) {
        if is_timed(stage, info) {
            self.0.insert((info.retry_at, slot));
        }
    }

    /// Removes a pod that leaves a stage.
    pub(super) fn leave(&mut self, slot: Slot, stage: QueueStage, info: &QueuedPod) {
        if is_timed(stage, info) {
            self.0.remove(&(info.retry_at, slot));
        }
    }

    pub(super) fn next(&self) -> Option<i64> {
        self.0.first().map(|(time, _)| *time)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if a pod is present exactly if it is to be retried from its stage.
    pub(super) fn is_sound(&self, slot: Slot, stage: QueueStage, info: &QueuedPod) -> bool {
        self.0.contains(&(info.retry_at, slot)) == is_timed(stage, info)
    }
}

/// Returns `true` if a pod is to be retried from a stage.
pub(super) fn is_timed(stage: QueueStage, info: &QueuedPod) -> bool {
    let waits = matches!(
        stage,
        QueueStage::Backoff
            | QueueStage::ErrorBackoff
            | QueueStage::Unschedulable
            | QueueStage::Gated
    );
    waits && info.retry_at != NEVER
}

impl Queue {
    /// Sets the time at which a pod is retried. A time that has passed is ignored, since the pod
    /// would be retried without end.
    pub(super) fn set_retry(&mut self, slot: Slot, time: Option<i64>, now: i64) {
        let entry = self.entries.get_mut(slot);
        let time = time.filter(|time| *time > now).unwrap_or(NEVER);
        if let Some(stage) = entry.stage {
            self.timers.leave(slot, stage, &entry.info);
        }
        entry.info.retry_at = time;
        if let Some(stage) = entry.stage {
            self.timers.enter(slot, stage, &entry.info);
        }
        self.transfers += 1;
    }

    /// Makes a waiting pod active at a time regardless of its backoff, unless it is to be retried
    /// earlier.
    pub fn wake_at(&mut self, pod: crate::index::PodIdx, time: i64, now: i64) {
        let Some((slot, _)) = self.find(pod) else { return };
        let earlier = self.entries.get(slot).info.retry_at;
        if earlier == NEVER || time < earlier {
            self.set_retry(slot, Some(time), now);
        }
    }

    /// Makes pods active whose rejection has ended.
    pub(super) fn flush_timers(&mut self, context: &dyn QueueContext, now: i64) {
        if self.timers.next().is_none_or(|time| time > now) {
            return;
        }
        let due: Vec<Slot> =
            self.timers.0.range(..=(now, Slot(u32::MAX))).map(|(_, slot)| *slot).collect();
        for slot in due {
            self.set_retry(slot, None, now);
            self.enqueue_active(context, slot, EventLabel::RejectionExpired, now);
        }
    }
}
