//! The watch cache of a collection: its recent changes, bounded by number, age and bytes.
//!
//! Each entry keeps two objects alive: the new version and the one that it replaced. Objects in two entries
//! are counted once, so `bytes` is what emptying the cache would free if no object were live.

use std::collections::VecDeque;
use std::sync::Arc;

use super::collection::{Change, ChangeKind, Expired};
use super::object::Object;
use crate::limits::{
    WATCH_CACHE_BYTES_MAX, WATCH_CACHE_BYTES_MIN, WATCH_CACHE_BYTES_PER_LIVE_BYTE,
    WATCH_CACHE_EVENTS_MAX, WATCH_CACHE_EVENTS_MIN,
};

/// Memory of an entry without its objects: the entry, its reference counts, and its slot.
const ENTRY_BYTES: usize = size_of::<Change>() + 3 * size_of::<usize>();

#[derive(Debug)]
pub(super) struct WatchCache {
    /// Ordered by version, oldest first.
    entries: VecDeque<Arc<Change>>,
    bytes: usize,
    /// The newest version that was removed.
    compacted: u64,
    events_max: usize,
    /// Changes up to this version are removed at the next compaction.
    aging: u64,
}

impl WatchCache {
    pub(super) fn new(version: u64) -> Self {
        Self {
            entries: VecDeque::new(),
            bytes: 0,
            compacted: version,
            events_max: WATCH_CACHE_EVENTS_MAX,
            aging: version,
        }
    }

    /// Returns the memory of the entries in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a change, and removes old ones beyond the limits, which depend on the bytes of all live objects.
    /// `is_live` returns `true` if an object is the stored version of its key.
    pub(super) fn push(
        &mut self,
        change: Change,
        live_bytes: usize,
        is_live: impl Fn(&Object) -> bool,
    ) {
        self.bytes += ENTRY_BYTES + change.object.bytes;
        if let Some(previous) = &change.previous
            && previous.version <= self.compacted
        {
            self.bytes += previous.bytes;
        }
        self.entries.push_back(Arc::new(change));
        let bytes_max = bytes_max(live_bytes);
        while self.entries.len() > self.events_max || self.bytes > bytes_max {
            self.drop_oldest(&is_live);
        }
        // Releases the capacity that a burst of changes left.
        if self.entries.capacity() > 4 * self.entries.len().max(WATCH_CACHE_EVENTS_MIN) {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }

    fn drop_oldest(&mut self, is_live: impl Fn(&Object) -> bool) {
        let Some(oldest) = self.entries.pop_front() else { return };
        self.compacted = oldest.object.version;
        self.bytes -= ENTRY_BYTES + oldest.previous.as_ref().map_or(0, |previous| previous.bytes);
        // Otherwise it stays alive as the previous object of a later entry.
        if oldest.kind == ChangeKind::Deleted || is_live(&oldest.object) {
            self.bytes -= oldest.object.bytes;
        }
    }

    /// Removes the changes that existed at the previous call, except for the newest ones.
    pub(super) fn compact(&mut self, now: u64, is_live: impl Fn(&Object) -> bool) {
        let old = std::mem::replace(&mut self.aging, now);
        while self.entries.len() > WATCH_CACHE_EVENTS_MIN
            && self.entries.front().is_some_and(|oldest| oldest.object.version <= old)
        {
            self.drop_oldest(&is_live);
        }
        self.entries.shrink_to(2 * self.entries.len());
    }

    /// Limits the number of changes.
    pub(super) fn limit(&mut self, events_max: usize, is_live: impl Fn(&Object) -> bool) {
        self.events_max = events_max;
        while self.entries.len() > events_max {
            self.drop_oldest(&is_live);
        }
    }

    /// Returns the oldest version from which changes can be read.
    pub(super) fn oldest(&self) -> u64 {
        self.compacted
    }

    /// Returns the changes after a version.
    pub(super) fn after(
        &self,
        version: u64,
    ) -> Result<impl Iterator<Item = &Arc<Change>>, Expired> {
        if version < self.compacted {
            return Err(Expired { oldest: self.compacted });
        }
        let start = self.entries.partition_point(|change| change.object.version <= version);
        Ok(self.entries.range(start..))
    }

    /// Counts the memory of the entries from scratch.
    #[cfg(test)]
    pub(super) fn bytes_counted_anew(&self) -> usize {
        let objects =
            self.entries.iter().flat_map(|one| [Some(&one.object), one.previous.as_ref()]);
        let distinct: std::collections::BTreeMap<u64, usize> =
            objects.flatten().map(|object| (object.version, object.bytes)).collect();
        distinct.values().sum::<usize>() + self.entries.len() * ENTRY_BYTES
    }
}

/// Returns the maximum memory of a watch cache, in bytes, for a number of live bytes.
pub(super) fn bytes_max(live_bytes: usize) -> usize {
    WATCH_CACHE_BYTES_MIN
        .saturating_add(live_bytes.saturating_mul(WATCH_CACHE_BYTES_PER_LIVE_BYTE))
        .min(WATCH_CACHE_BYTES_MAX)
}
