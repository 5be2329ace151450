//! A scheduler inside a program with an embedded cluster.

use std::sync::Arc;

use runtime::scheduler::Scheduler;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// Signals between the program and its embedded scheduler.
#[derive(Clone, Default)]
pub(in crate::commands) struct Embedding {
    /// Notified once when the scheduler has seen all objects.
    pub(in crate::commands) ready: Arc<Notify>,
    /// Stops the scheduler when cancelled.
    pub(in crate::commands) stop: CancellationToken,
}

impl Embedding {
    /// Notifies the program when the scheduler has seen all objects. Does not return.
    pub(super) async fn announce(&self, scheduler: &Scheduler) {
        scheduler.synced().await;
        self.ready.notify_one();
        std::future::pending::<()>().await;
    }
}
