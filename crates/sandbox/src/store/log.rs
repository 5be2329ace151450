//! The latest changes of a collection, as many as its objects are worth remembering.
//!
//! Each entry keeps an object alive, and the one that it replaced. What both hold is counted once, so
//! the count is what would be freed if the log were emptied and no object were alive.

use std::collections::VecDeque;
use std::sync::Arc;

use super::collection::{Change, ChangeKind, Expired};
use super::object::Object;
use crate::limits::{
    LOG_BYTES_LEAST, LOG_BYTES_MAX, LOG_EVENTS_LEAST, LOG_EVENTS_MAX, LOG_SHARE_OF_LIVE,
};

/// What an entry takes beside its objects: itself, its counts, and its place.
const ENTRY_BYTES: usize = size_of::<Change>() + 3 * size_of::<usize>();

#[derive(Debug)]
pub(super) struct Log {
    /// Oldest first, versions rising.
    entries: VecDeque<Arc<Change>>,
    bytes: usize,
    /// The newest version that is not held any more.
    forgotten: u64,
    events_max: usize,
    /// Changes up to this version are too old when it is looked for old ones again.
    aging: u64,
}

impl Log {
    pub(super) fn new(version: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            forgotten: version,
            events_max: LOG_EVENTS_MAX,
            aging: version,
        }
    }

    /// Bytes that the entries hold.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a change and forgets old ones, as the bytes of all live objects demand. `is_live` tells
    /// whether an object is the current one of its key.
    pub(super) fn push(
        &mut self,
        change: Change,
        live_bytes: usize,
        is_live: impl Fn(&Object) -> bool,
    ) {
        self.bytes += ENTRY_BYTES + change.object.bytes;
        if let Some(previous) = &change.previous
            && previous.version <= self.forgotten
        {
            self.bytes += previous.bytes;
        }
        self.entries.push_back(Arc::new(change));
        let bytes_max = bytes_max(live_bytes);
        while self.entries.len() > self.events_max || self.bytes > bytes_max {
            self.forget_oldest(&is_live);
        }
        // A burst is over at some time, and its room is not needed any more.
        if self.entries.capacity() > 4 * self.entries.len().max(LOG_EVENTS_LEAST) {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }

    fn forget_oldest(&mut self, is_live: impl Fn(&Object) -> bool) {
        let Some(oldest) = self.entries.pop_front() else { return };
        self.forgotten = oldest.object.version;
        self.bytes -= ENTRY_BYTES + oldest.previous.as_ref().map_or(0, |previous| previous.bytes);
        // Otherwise the entry that replaced it holds it as the previous one.
        if oldest.kind == ChangeKind::Deleted || is_live(&oldest.object) {
            self.bytes -= oldest.object.bytes;
        }
    }

    /// Forgets what was there when this was called the last time, but for a few.
    pub(super) fn forget_old(&mut self, now: u64, is_live: impl Fn(&Object) -> bool) {
        let old = std::mem::replace(&mut self.aging, now);
        while self.entries.len() > LOG_EVENTS_LEAST
            && self.entries.front().is_some_and(|oldest| oldest.object.version <= old)
        {
            self.forget_oldest(&is_live);
        }
        self.entries.shrink_to(2 * self.entries.len());
    }

    /// Remembers no more than so many changes from now on.
    pub(super) fn shorten(&mut self, events_max: usize, is_live: impl Fn(&Object) -> bool) {
        self.events_max = events_max;
        while self.entries.len() > events_max {
            self.forget_oldest(&is_live);
        }
    }

    /// The oldest version from which it can be read.
    pub(super) fn oldest(&self) -> u64 {
        self.forgotten
    }

    /// Changes after a version.
    pub(super) fn after(
        &self,
        version: u64,
    ) -> Result<impl Iterator<Item = &Arc<Change>>, Expired> {
        if version < self.forgotten {
            return Err(Expired { oldest: self.forgotten });
        }
        let start = self.entries.partition_point(|change| change.object.version <= version);
        Ok(self.entries.range(start..))
    }

    /// What the entries hold, counted from scratch.
    #[cfg(test)]
    pub(super) fn bytes_counted_anew(&self) -> usize {
        let objects =
            self.entries.iter().flat_map(|one| [Some(&one.object), one.previous.as_ref()]);
        let distinct: std::collections::BTreeMap<u64, usize> =
            objects.flatten().map(|object| (object.version, object.bytes)).collect();
        distinct.values().sum::<usize>() + self.entries.len() * ENTRY_BYTES
    }
}

/// Bytes that a log may hold when all live objects have so many.
pub(super) fn bytes_max(live_bytes: usize) -> usize {
    LOG_BYTES_LEAST.saturating_add(live_bytes.saturating_mul(LOG_SHARE_OF_LIVE)).min(LOG_BYTES_MAX)
}
