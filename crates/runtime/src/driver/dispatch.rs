//! Dispatch of the engine's commands to the executor.

use engine::change::Change;
use engine::command::Command;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

use super::Driver;
use crate::execute::TracedCommand;

impl Driver {
    /// Sends the commands that the engine issued, after the binds that have waited for room in the window.
    /// `attempt` is the start of the attempt that issued them, if one did.
    pub(super) async fn dispatch(&mut self, attempt: Option<Instant>) {
        if !self.leading {
            self.fail_binds();
        }
        while let Some(bind) = self.binds.pop_ready() {
            self.send_command(bind, None).await;
        }
        let mut commands = std::mem::take(&mut self.commands);
        let mut victims = 0;
        for command in commands.drain(..) {
            let admitted = match command {
                Command::Bind { .. } => self.binds.admit(command),
                other => Some(other),
            };
            let Some(command) = admitted else { continue };
            victims += usize::from(matches!(
                command,
                Command::DeleteVictim { .. } | Command::ReportPreempted { .. }
            ));
            self.send_command(command, attempt).await;
        }
        self.commands = commands;
        if victims > 0 {
            self.metrics.observe_preemption_victims(victims);
        }
        // The engine has no command for a failed bind of a pod that is deleted or on a node.
        for uid in self.answered.drain(..) {
            self.attempts.remove(&uid);
            self.spans.remove(&uid);
        }
    }

    /// Fails the binds that were not sent, since no write may begin without leadership.
    fn fail_binds(&mut self) {
        let mut binds = self.binds.take_waiting();
        binds.extend(
            self.commands.extract_if(.., |command| matches!(command, Command::Bind { .. })),
        );
        for bind in binds {
            if let Command::Bind { pod, .. } = bind {
                let failure = Some("this process does not lead any more".into());
                self.apply(Change::Bound { uid: pod.uid, failure }, Instant::now());
            }
        }
    }

    /// Records the progress of the attempt that a command reports and sends the command.
    async fn send_command(&mut self, command: Command, attempt: Option<Instant>) {
        let trace = self.record_attempt(&command, attempt);
        // If it is not sent, the executor has ended.
        self.stopped |= !send(&self.executor, TracedCommand { command, trace }).await;
    }
}

/// Sends a message and waits while the channel is full. Returns `false` if the receiver is gone.
pub(crate) async fn send<T>(channel: &mpsc::Sender<T>, message: T) -> bool {
    // The channel rarely is full; `try_send` avoids moving the message into a future.
    match channel.try_send(message) {
        Ok(()) => true,
        Err(TrySendError::Full(message)) => channel.send(message).await.is_ok(),
        Err(TrySendError::Closed(_)) => false,
    }
}
