//! State of a watch that other tasks read, and their requests for a new list.

use tokio::sync::watch;

/// State of a watch, shared with other tasks.
#[derive(Debug, Default)]
pub struct WatchStatus {
    /// The first list is complete.
    synced: watch::Sender<bool>,
    /// Number of relists requested so far, which is the generation of the last one.
    requested: watch::Sender<u64>,
    /// Last generation for which a list that started after the request is complete.
    completed: watch::Sender<u64>,
}

impl WatchStatus {
    /// Returns `true` if the first list is complete.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until the first list is complete.
    pub async fn synced(&self) {
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Requests a relist and waits until it is complete.
    pub async fn relist(&self) {
        let mut generation = 0;
        self.requested.send_modify(|requested| {
            *requested += 1;
            generation = *requested;
        });
        let _ = self.completed.subscribe().wait_for(|completed| *completed >= generation).await;
    }

    /// Returns the generation of the last request.
    pub(super) fn relist_generation(&self) -> u64 {
        *self.requested.borrow()
    }

    /// Waits for a request after this generation.
    pub(super) async fn relist_requested_after(&self, generation: u64) {
        let _ = self.requested.subscribe().wait_for(|requested| *requested > generation).await;
    }

    /// Records that a list which started after this generation is complete. Returns `true` if it is the
    /// first list.
    pub(super) fn complete_list(&self, generation: u64) -> bool {
        self.completed.send_modify(|completed| *completed = generation.max(*completed));
        !self.synced.send_replace(true)
    }
}
