//! What others may know and want of a watch.

use tokio::sync::watch;

/// What others may know of a watch.
#[derive(Debug, Default)]
pub struct WatchStatus {
    /// All objects were seen once.
    synced: watch::Sender<bool>,
    /// Calls for a list so far.
    requested: watch::Sender<u64>,
    /// The last generation that was answered by a list begun after it.
    completed: watch::Sender<u64>,
}

impl WatchStatus {
    /// Whether all objects were seen once.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Returns when all objects were seen once.
    pub async fn synced(&self) {
        let _ = self.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// Has everything listed anew, and returns when it was.
    pub async fn relist(&self) {
        let mut generation = 0;
        self.requested.send_modify(|generation_now| {
            *generation_now += 1;
            generation = *generation_now;
        });
        let _ = self.completed.subscribe().wait_for(|answered| *answered >= generation).await;
    }

    /// The last generation.
    pub(super) fn relist_generation(&self) -> u64 {
        *self.requested.borrow()
    }

    /// Returns when there is a generation after this one.
    pub(super) async fn relist_requested_after(&self, generation: u64) {
        let _ = self
            .requested
            .subscribe()
            .wait_for(|generation_now| *generation_now > generation)
            .await;
    }

    /// Takes over that a list which was begun after a generation is complete. Whether it is the first.
    pub(super) fn complete_list(&self, generation: u64) -> bool {
        self.completed.send_modify(|answered| *answered = generation.max(*answered));
        !self.synced.send_replace(true)
    }
}
