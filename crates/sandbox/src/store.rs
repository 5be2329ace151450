//! Objects, versions and the watch log, in memory. No HTTP, no clock, no kinds.
//!
//! ```text
//! Store ── one version counter ──► Collection (one per resource)
//!                                    ├─ objects, by "namespace/name"
//!                                    ├─ indexes: by owner, by one field
//!                                    └─ log of changes, bounded by the bytes of the objects: watches
//!                                       read it, each at its own pace
//! ```
//!
//! A watch has no queue of its own. It remembers the last version it has sent and reads on from the
//! log; who falls behind the log's beginning is told that the version expired and lists again.

mod collection;
mod object;
mod watch_cache;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub use collection::{Batch, Change, ChangeKind, Collection, Expired, Listing, StoreError};
pub(crate) use object::frame;
pub use object::{Draft, Object, Owner, SelectableField, key_of};

/// All collections of a cluster, which share one version counter.
#[derive(Clone, Debug, Default)]
pub struct Store {
    version: Arc<AtomicU64>,
    /// How many objects all collections hold.
    count: Arc<AtomicUsize>,
}

impl Store {
    /// A store whose first version comes after the given one.
    pub fn starting_at(version: u64) -> Self {
        Self { version: Arc::new(AtomicU64::new(version)), count: Arc::default() }
    }

    /// A new and empty collection of objects with these selectable fields; the field at `indexed` is
    /// looked up quickly.
    pub fn collection(
        &self,
        fields: &'static [SelectableField],
        indexed: Option<usize>,
    ) -> Collection {
        Collection::new(Arc::clone(&self.version), Arc::clone(&self.count), fields, indexed)
    }

    /// How many objects all collections hold.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// The latest version.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests;
