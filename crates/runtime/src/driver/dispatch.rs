//! Dispatch of the engine's commands to the executor.

use engine::change::Change;
use engine::command::{Command, PodName};
use engine::index::PodIdx;
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;
use tokio::time::Instant;

use super::Driver;
use crate::execute::{PodCommand, PodVersion};

impl Driver {
    /// Sends the commands that the engine issued. `attempt` is the start of the attempt that issued
    /// them, if one did.
    pub(super) async fn dispatch(&mut self, attempt: Option<Instant>) {
        let mut victims = 0;
        while let Some(command) = self.next_command() {
            let pod = self.engine.state().pods.find(&pod_of(&command).uid);
            let mut command = self.with_context(command, pod);
            let preempts =
                matches!(command.command, Command::Evict { .. } | Command::ReportPreempted { .. });
            victims += usize::from(preempts);
            self.record_attempt(&mut command, pod, attempt);
            // The channel rarely is full; `try_send` avoids moving the command into a future.
            if let Err(refused) = self.executor.try_send(command)
                && !send_when_full(&self.executor, refused).await
            {
                // The executor has ended.
                self.stopped = true;
                return;
            }
        }
        if victims > 0 {
            self.metrics.observe_preemption_victims(victims);
        }
    }

    /// Returns the next command that may be sent. A bind waits while the window is full; without
    /// leadership it fails instead, so that no new write begins.
    pub(super) fn next_command(&mut self) -> Option<Command> {
        loop {
            self.outgoing.extend(self.commands.drain(..));
            let room = self.binds_in_flight < self.window.size() || !self.leading;
            let command = match self.binds_over_window.pop_front_if(|_| room) {
                Some(command) => command,
                None => self.outgoing.pop_front()?,
            };
            match command {
                Command::Bind { pod, .. } if !self.leading => {
                    let failure = Some("this process does not lead any more".into());
                    self.apply(Change::Bound { uid: pod.uid, failure }, Instant::now());
                }
                command @ Command::Bind { .. } if !room => {
                    self.binds_over_window.push_back(command);
                }
                command => return Some(command),
            }
        }
    }

    /// Adds to a command what the executor needs to know about its pod.
    fn with_context(&self, command: Command, pod: Option<PodIdx>) -> PodCommand {
        let state = self.engine.state();
        let version_of = |pod: PodIdx| {
            let record = state.pods.get(pod);
            PodVersion { generation: record.generation, version: record.resource_version }
        };
        let scheduler = pod.map(|pod| state.spec(pod).scheduler_name.clone());
        let victim_version = match &command {
            Command::Evict { victim, .. } | Command::ReportPreempted { victim, .. } => {
                state.pods.find(&victim.uid).map(version_of)
            }
            _ => None,
        };
        PodCommand {
            scheduler: scheduler.unwrap_or_default(),
            pod_version: pod.map(version_of).unwrap_or_default(),
            victim_version: victim_version.unwrap_or_default(),
            ready: None,
            trace: None,
            command,
        }
    }
}

/// Sends a message and waits while the channel is full. Returns `false` if the receiver is gone.
pub(crate) async fn send<T>(channel: &mpsc::Sender<T>, message: T) -> bool {
    match channel.try_send(message) {
        Ok(()) => true,
        Err(refused) => send_when_full(channel, refused).await,
    }
}

/// Sends a message that `try_send` refused. Returns `false` if the receiver is gone.
async fn send_when_full<T>(channel: &mpsc::Sender<T>, refused: TrySendError<T>) -> bool {
    match refused {
        TrySendError::Full(message) => channel.send(message).await.is_ok(),
        TrySendError::Closed(_) => false,
    }
}

/// Returns the pod that a command serves: the preemptor, for evictions.
pub(super) fn pod_of(command: &Command) -> &PodName {
    match command {
        Command::Bind { pod, .. }
        | Command::AskExtenders { pod, .. }
        | Command::AskExtendersAboutVictims { pod, .. }
        | Command::PrepareVolumes { pod, .. }
        | Command::Nominate { pod, .. }
        | Command::ReportFailure { pod, .. }
        | Command::Warn { pod, .. }
        | Command::Report { pod, .. }
        | Command::ReportScheduled { pod, .. } => pod,
        Command::Evict { preemptor, .. } | Command::ReportPreempted { preemptor, .. } => preemptor,
    }
}
