//! The command that `jindou up` runs on its cluster.

use std::ffi::{OsStr, OsString};
use std::io::{ErrorKind, IsTerminal as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::signals::Signals;
use crate::output::complain;

/// Time-out for the command to exit after SIGTERM, when the cluster ends first.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Exit codes of shells for commands that cannot be run.
const CANNOT_EXECUTE: u8 = 126;
const NOT_FOUND: u8 = 127;

/// Runs a command with the standard streams of this process, forwards signals to it, and returns its
/// exit code. If the cluster ends first, the command is terminated.
pub(super) async fn run(
    program: &OsStr,
    arguments: &[OsString],
    kubeconfig: &Path,
    signals: &mut Signals,
    stop: &CancellationToken,
) -> Result<ExitCode> {
    let mut command = Command::new(program);
    command.args(arguments).env("KUBECONFIG", kubeconfig).kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            complain(&format!("error: cannot run {}: {error}", program.display()));
            let code = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { CANNOT_EXECUTE };
            return Ok(code.into());
        }
    };
    // On a terminal, the kernel sends Ctrl-C to the command as well.
    let on_terminal = std::io::stdin().is_terminal() || std::io::stderr().is_terminal();
    loop {
        tokio::select! {
            status = child.wait() => return Ok(code(status.context("cannot wait for the command")?)),
            signal = signals.next() => {
                if !(on_terminal && signal == Signal::INT) {
                    send(&child, signal);
                }
            }
            () = stop.cancelled() => break,
        }
    }
    send(&child, Signal::TERM);
    if timeout(EXIT_TIMEOUT, child.wait()).await.is_err() {
        complain(&format!(
            "the command did not exit within {} s of SIGTERM and is killed",
            EXIT_TIMEOUT.as_secs()
        ));
        child.kill().await.context("cannot kill the command")?;
    }
    Ok(ExitCode::FAILURE)
}

/// Sends a signal to a child that was not waited for, so that its process id was not reused.
fn send(child: &Child, signal: Signal) {
    if let Some(pid) = child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
        // Fails only if the child has just exited.
        let _ = kill_process(pid, signal);
    }
}

fn code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from)
}
