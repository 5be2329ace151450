//! Signals that stop `jindou up`.

use std::fs;
use std::io;

use rustix::process::Signal;
use tokio::signal::unix::{SignalKind, signal};

/// Signal streams. Signals before [`Signals::next`] are not lost.
pub(super) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    /// `None` if SIGHUP is ignored, as under `nohup`.
    hangup: Option<tokio::signal::unix::Signal>,
}

impl Signals {
    /// Catches the signals from now on, which then no longer end the process.
    pub(super) fn listen() -> io::Result<Self> {
        let hangup = !is_ignored(Signal::HUP);
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: hangup.then(|| signal(SignalKind::hangup())).transpose()?,
        })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) -> Signal {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => Signal::INT,
            _ = self.terminate.recv() => Signal::TERM,
            _ = hangup => Signal::HUP,
        }
    }
}

/// Returns the exit code that shells report for a process ended by a signal.
pub(super) fn code(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(1)
}

/// Returns `true` if a signal was ignored when this process started, by Linux's `SigIgn` mask.
fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (signal.as_raw() - 1) & 1 == 1
}
