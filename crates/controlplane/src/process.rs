//! Processes that outlive the one that started them, told apart from others that get the same number.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// How often waiting looks again.
pub const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How long a process may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// One process and no other: numbers are given again, but not with the same start in the same boot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Number of the process.
    pub pid: i32,
    /// When it was started, in clock ticks since the boot.
    start: u64,
    /// The boot that the ticks count from.
    boot: String,
}

impl ProcessIdentity {
    /// The process that has this number now, unless it has ended.
    pub fn of(pid: i32) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        let (state, start) = parse_stat(&stat)?;
        // What has ended but was not waited for keeps its number for a while.
        let ended = matches!(state, 'Z' | 'X');
        (!ended).then(|| Self { pid, start, boot: boot.trim().to_owned() })
    }

    /// This process itself.
    pub fn own() -> Result<Self> {
        Self::of(std::process::id().cast_signed())
            .context("cannot read /proc/self/stat; the control plane needs Linux")
    }

    /// Whether the process still runs.
    pub fn is_alive(&self) -> bool {
        Self::of(self.pid).as_ref() == Some(self)
    }

    /// Ends the process: asks first, then insists. Another process with the same number is left alone.
    pub fn end(&self) -> Result<()> {
        for signal in [Signal::TERM, Signal::KILL] {
            self.send(signal)?;
            let deadline = Instant::now() + PATIENCE;
            while self.is_alive() && Instant::now() < deadline {
                std::thread::sleep(POLL_INTERVAL);
            }
        }
        if self.is_alive() {
            bail!("process {} does not end, even when killed", self.pid);
        }
        Ok(())
    }

    /// Seconds of processor time that the process has used, all its threads together.
    pub fn cpu_seconds(&self) -> Option<f64> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid)).ok()?;
        let (user, system) = parse_times(&stat)?;
        Some((user + system) as f64 / rustix::param::clock_ticks_per_second() as f64)
    }

    /// The most bytes of memory that the process has had at once.
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
            Err(error) => Err(error).with_context(|| format!("cannot end process {}", self.pid)),
        }
    }
}

/// State and start of a process, from the text of `/proc/PID/stat`.
fn parse_stat(stat: &str) -> Option<(char, u64)> {
    // The second field is the program's name in brackets, which may hold blanks and brackets itself.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let start = fields.nth(18)?.parse().ok()?;
    Some((state, start))
}

/// User and system time of a process in clock ticks, from the same text.
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
    let output = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    Command::new(program)
        .args(arguments)
        // Etcd takes settings from the environment and kwok from the home folder: both get none.
        .env_clear()
        .env("HOME", home)
        .current_dir(home)
        .stdin(Stdio::null())
        .stderr(output.try_clone()?)
        .stdout(output)
        // A group of its own, so that Ctrl-C in the terminal does not reach it.
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))
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
