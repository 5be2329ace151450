//! What others may know and want of a watch.

use tokio::sync::watch;

/// What others may know of a watch.
#[derive(Debug, Default)]
pub struct WatchStatus {
    /// All objects were seen once.
    synced: watch::Sender<bool>,
    /// Calls for a list so far.
    calls: watch::Sender<u64>,
    /// The last call that was answered by a list begun after it.
    answered: watch::Sender<u64>,
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
    pub async fn list_again(&self) {
        let mut call = 0;
        self.calls.send_modify(|calls| {
            *calls += 1;
            call = *calls;
        });
        let _ = self.answered.subscribe().wait_for(|answered| *answered >= call).await;
    }

    /// The last call.
    pub(super) fn call(&self) -> u64 {
        *self.calls.borrow()
    }

    /// Returns when there is a call after this one.
    pub(super) async fn called_after(&self, call: u64) {
        let _ = self.calls.subscribe().wait_for(|calls| *calls > call).await;
    }

    /// Takes over that a list which was begun after a call is complete. Whether it is the first.
    pub(super) fn listed(&self, call: u64) -> bool {
        self.answered.send_modify(|answered| *answered = call.max(*answered));
        !self.synced.send_replace(true)
    }
}
