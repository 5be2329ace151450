//! Processes that outlive the one that started them, identified beyond their reusable pid.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

use crate::files::FileError;

/// A process could not be started, identified or ended.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("cannot read /proc/self/stat; the control plane needs Linux")]
    NoProcFolder,
    #[error("cannot start {}", program.display())]
    Spawn { program: PathBuf, source: std::io::Error },
    #[error("cannot end process {pid}")]
    Signal { pid: i32, source: rustix::io::Errno },
    #[error("process {0} does not end, even when killed")]
    Survives(i32),
}

type Result<T> = std::result::Result<T, ProcessError>;

/// Interval between two checks of a condition that is waited for.
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time that a process gets to end after a signal.
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Identity of one process: a pid is reused, but not with the same start time in the same boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Process id.
    pub pid: i32,
    /// Start time, in clock ticks since the boot.
    start: u64,
    /// Id of the boot.
    boot: String,
}

impl ProcessIdentity {
    /// Returns the process that has this pid now, or `None` if it has ended.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let (state, start) = parse_stat(&stat)?;
        // A zombie keeps its pid until its parent waits for it.
        let ended = matches!(state, 'Z' | 'X');
        (!ended).then(|| Self { pid, start, boot: boot.trim().to_owned() })
    }

    /// Returns the identity of this process.
    pub fn own() -> Result<Self> {
        Self::of(std::process::id().cast_signed()).ok_or(ProcessError::NoProcFolder)
    }

    /// Returns `true` if the process still runs.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Ends the process by SIGTERM, and by SIGKILL after 5 s. Another process with the same pid gets no signal.
    pub fn end(&self) -> Result<()> {
        for signal in [Signal::TERM, Signal::KILL] {
            self.send(signal)?;
            let deadline = Instant::now() + EXIT_TIMEOUT;
            while self.is_alive() && Instant::now() < deadline {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        if self.is_alive() {
            return Err(ProcessError::Survives(self.pid));
        }
        Ok(())
    }

    /// Returns the CPU time of all threads, in seconds.
    pub fn cpu_seconds(&self) -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let (user, system) = parse_times(&stat)?;
        Some((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// Returns the peak resident memory, in bytes.
    pub fn memory_bytes_max(&self) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
        let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kibibytes << 10)
    }

    fn send(&self, signal: Signal) -> Result<()> {
        let Some(pid) = Pid::from_raw(self.pid) else { return Ok(()) };
        if !self.is_alive() {
            return Ok(());
        }
        match kill_process(pid, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(source) => Err(ProcessError::Signal { pid: self.pid, source }),
        }
    }
}

/// Returns state and start time of a process, from the text of `/proc/PID/stat`.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    // The second field is the name of the program in brackets, which may contain blanks and brackets.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

/// Returns user and system time of a process in clock ticks, from the same text.
fn parse_times(stat: &str) -> Option<(u64, u64)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let user = fields.nth(11)?.parse().ok()?;
    let system = fields.next()?.parse().ok()?;
    Some((user, system))
}

/// Starts a program that keeps running when this one ends, with its output in a file.
pub(crate) fn spawn(
    program: &Path,
    arguments: &[String],
    home: &Path,
    log: &Path,
) -> Result<Child> {
    use std::os::unix::process::CommandExt as _;
    let output = File::create(log).map_err(FileError::at("write", log))?;
    let errors = output.try_clone().map_err(FileError::at("write", log))?;
    Command::new(program)
        .args(arguments)
        // Etcd reads settings from the environment, and kwok from the home folder.
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .stdin(Stdio::null())
        .stderr(errors)
        .stdout(output)
        // A group of its own, so that Ctrl-C in the terminal does not reach it.
        .process_group(0)
        .spawn()
        .map_err(|source| ProcessError::Spawn { program: program.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_do_not_shift_the_fields() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4242 20";
        assert_eq!(parse_stat(&format!("7 (a b) c) {rest}")), Some(('S', 4242)));
        assert_eq!(parse_times(&format!("7 (a b) c) {rest}")), Some((11, 12)));
        assert_eq!(parse_stat("7 (a) S 1 2"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn this_process_uses_time_and_memory() {
        let own = ProcessIdentity::own().unwrap();
        assert!(own.cpu_seconds().is_some());
        assert!(own.memory_bytes_max().unwrap() > 1 << 20);
    }

    #[test]
    fn another_process_with_the_same_number_is_not_ended() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let real = ProcessIdentity::of(child.id().cast_signed()).unwrap();
        let former = ProcessIdentity { start: real.start - 1, ..real.clone() };
        assert!(real.is_alive() && !former.is_alive());
        former.end().unwrap();
        assert!(real.is_alive());
        real.end().unwrap();
        assert!(!real.is_alive());
        child.wait().unwrap();
    }
}
