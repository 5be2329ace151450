//! The latest changes of a collection, as many as its objects are worth remembering.
//!
//! Each entry keeps an object alive, and the one that it replaced. What both hold is counted once, so
//! the count is what would be freed if the log were emptied and no object were alive.

use std::collections::VecDeque;
use std::sync::Arc;

use super::collection::{Change, ChangeKind, Expired};
use super::object::Object;
use crate::limits::{
    WATCH_CACHE_BYTES_MAX, WATCH_CACHE_BYTES_MIN, WATCH_CACHE_BYTES_PER_LIVE_BYTE,
    WATCH_CACHE_EVENTS_MAX, WATCH_CACHE_EVENTS_MIN,
};

/// What an entry takes beside its objects: itself, its counts, and its place.
const ENTRY_BYTES: usize = size_of::<Change>() + 3 * size_of::<usize>();

#[derive(Debug)]
pub(super) struct WatchCache {
    /// Oldest first, versions rising.
    entries: VecDeque<Arc<Change>>,
    bytes: usize,
    /// The newest version that is not held any more.
    compacted: u64,
    events_max: usize,
    /// Changes up to this version are too old when it is looked for old ones again.
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
            && previous.version <= self.compacted
        {
            self.bytes += previous.bytes;
        }
        self.entries.push_back(Arc::new(change));
        let bytes_max = bytes_max(live_bytes);
        while self.entries.len() > self.events_max || self.bytes > bytes_max {
            self.drop_oldest(&is_live);
        }
        // A burst is over at some time, and its room is not needed any more.
        if self.entries.capacity() > 4 * self.entries.len().max(WATCH_CACHE_EVENTS_MIN) {
            self.entries.shrink_to(2 * self.entries.len());
        }
    }

    fn drop_oldest(&mut self, is_live: impl Fn(&Object) -> bool) {
        let Some(oldest) = self.entries.pop_front() else { return };
        self.compacted = oldest.object.version;
        self.bytes -= ENTRY_BYTES + oldest.previous.as_ref().map_or(0, |previous| previous.bytes);
        // Otherwise the entry that replaced it holds it as the previous one.
        if oldest.kind == ChangeKind::Deleted || is_live(&oldest.object) {
            self.bytes -= oldest.object.bytes;
        }
    }

    /// Forgets what was there when this was called the last time, but for a few.
    pub(super) fn compact(&mut self, now: u64, is_live: impl Fn(&Object) -> bool) {
        let old = std::mem::replace(&mut self.aging, now);
        while self.entries.len() > WATCH_CACHE_EVENTS_MIN
            && self.entries.front().is_some_and(|oldest| oldest.object.version <= old)
        {
            self.drop_oldest(&is_live);
        }
        self.entries.shrink_to(2 * self.entries.len());
    }

    /// Remembers no more than so many changes from now on.
    pub(super) fn limit(&mut self, events_max: usize, is_live: impl Fn(&Object) -> bool) {
        self.events_max = events_max;
        while self.entries.len() > events_max {
            self.drop_oldest(&is_live);
        }
    }

    /// The oldest version from which it can be read.
    pub(super) fn oldest(&self) -> u64 {
        self.compacted
    }

    /// Changes after a version.
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
    WATCH_CACHE_BYTES_MIN
        .saturating_add(live_bytes.saturating_mul(WATCH_CACHE_BYTES_PER_LIVE_BYTE))
        .min(WATCH_CACHE_BYTES_MAX)
}
