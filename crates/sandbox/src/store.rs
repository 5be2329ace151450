//! Objects, versions and watch caches in memory. No HTTP, no clock, no kinds.
//!
//! ```text
//! Store ── one version counter ──► Collection (one per resource)
//!                                    ├─ objects, by "namespace/name"
//!                                    ├─ indexes: by owner, by one field
//!                                    └─ watch cache: recent changes, bounded by the bytes of the objects;
//!                                       each watch reads it at its own pace
//! ```
//!
//! A watch has no queue of its own. It remembers the last version that it has sent and reads on in the
//! watch cache; a watch that falls behind the oldest change gets 410 Expired, and its client relists.

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
    /// Number of objects in all collections.
    count: Arc<AtomicUsize>,
}

impl Store {
    /// Creates a store whose first version is `version + 1`.
    pub fn starting_at(version: u64) -> Self {
        Self { version: Arc::new(AtomicU64::new(version)), count: Arc::default() }
    }

    /// Creates an empty collection of objects with these selectable fields; the field at `indexed` has an
    /// index.
    pub fn collection(
        &self,
        fields: &'static [SelectableField],
        indexed: Option<usize>,
    ) -> Collection {
        Collection::new(Arc::clone(&self.version), Arc::clone(&self.count), fields, indexed)
    }

    /// Returns the number of objects in all collections.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }

    /// Returns the latest version.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests;
