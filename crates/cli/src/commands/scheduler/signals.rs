//! Signal handling of `jindou scheduler`.

use anyhow::{Context as _, Result};
use runtime::scheduler::Scheduler;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// Signals, caught from construction on: the first process of a container ignores signals that it does not
/// handle. An embedded scheduler is stopped by its program instead.
pub(super) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    audit: Signal,
    program: Option<CancellationToken>,
}

impl Signals {
    /// Catches signals; with a `program`, only its token ends the scheduler.
    pub(super) fn catch(program: Option<CancellationToken>) -> Result<Self> {
        let catch = |kind| signal(kind).context("cannot handle signals");
        Ok(Self {
            terminate: catch(SignalKind::terminate())?,
            interrupt: catch(SignalKind::interrupt())?,
            audit: catch(SignalKind::user_defined2())?,
            program,
        })
    }

    /// Returns on SIGTERM or SIGINT. SIGUSR2 starts an audit.
    pub(super) async fn stop(&mut self, scheduler: Option<&Scheduler>) {
        let program = self.program.clone();
        let embedded = program.is_some();
        let program = program.unwrap_or_default();
        loop {
            tokio::select! {
                _ = self.terminate.recv(), if !embedded => return,
                _ = self.interrupt.recv(), if !embedded => return,
                () = program.cancelled(), if embedded => return,
                _ = self.audit.recv() => if let Some(scheduler) = scheduler {
                    scheduler.audit().await;
                }
            }
        }
    }
}
