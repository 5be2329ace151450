//! A scheduler inside a program that has a cluster of its own.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use runtime::scheduler::Scheduler;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How often the scheduler looks whether it has seen all objects.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// How the program hears that the scheduler is at work, and how it ends it.
#[derive(Clone, Default)]
pub(in crate::commands) struct Embedding {
    /// Notified once when the scheduler decides and has seen all objects.
    pub(in crate::commands) ready: Arc<Notify>,
    /// Ends the scheduler when it is cancelled.
    pub(in crate::commands) stop: CancellationToken,
}

impl Embedding {
    /// Notifies the program when all objects were seen, and returns when it asks for the end. Signals
    /// are the business of the program.
    pub(super) async fn asked(&self, scheduler: &Scheduler) -> Result<()> {
        let wait = async {
            while !scheduler.missing().is_empty() {
                tokio::time::sleep(LOOK_EVERY).await;
            }
            self.ready.notify_one();
            std::future::pending().await
        };
        self.stop.run_until_cancelled(wait).await.unwrap_or(Ok(()))
    }
}
