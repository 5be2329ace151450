//! A scheduler inside a program that has a cluster of its own.

use std::sync::Arc;

use runtime::scheduler::Scheduler;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How the program hears that the scheduler is at work, and how it ends it.
#[derive(Clone, Default)]
pub(in crate::commands) struct Embedding {
    /// Notified once when the scheduler decides and has seen all objects.
    pub(in crate::commands) ready: Arc<Notify>,
    /// Ends the scheduler when it is cancelled.
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
