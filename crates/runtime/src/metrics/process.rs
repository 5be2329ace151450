//! Metrics of this process, from `/proc`; on systems without it they stay zero.

use std::fs;

use prometheus::{Counter, Gauge};

/// Unit of times in `/proc`; `USER_HZ` is 100 on every Linux machine.
const TICKS_PER_SECOND: f64 = 100.0;

/// The metrics of Prometheus' own clients.
pub(super) struct Process {
    pub(super) cpu_seconds: Counter,
    pub(super) resident_bytes: Gauge,
    pub(super) start_seconds: Gauge,
    pub(super) open_files: Gauge,
}

impl Process {
    /// Updates all values.
    pub(super) fn refresh(&self) {
        if let Some(stat) = read("/proc/self/stat").as_deref().and_then(Stat::parse) {
            self.cpu_seconds.inc_by((stat.cpu_seconds - self.cpu_seconds.get()).max(0.0));
            // The boot time does not change, and its file is long on large machines.
            if self.start_seconds.get() == 0.0
                && let Some(boot) = read("/proc/stat").as_deref().and_then(boot_seconds)
            {
                self.start_seconds.set(boot + stat.start_seconds_after_boot);
            }
        }
        if let Some(bytes) = read("/proc/self/status").as_deref().and_then(resident_bytes) {
            self.resident_bytes.set(bytes);
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // One of them is the directory itself.
            self.open_files.set(files.count().saturating_sub(1) as f64);
        }
    }
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

#[derive(Debug, PartialEq)]
struct Stat {
    cpu_seconds: f64,
    start_seconds_after_boot: f64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field is the name in brackets, which may contain spaces and brackets.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
        // Fields are numbered from 1 in proc(5), and the first here is the third.
        let ticks = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
        Some(Self {
            cpu_seconds: (ticks(14)? + ticks(15)?) / TICKS_PER_SECOND,
            start_seconds_after_boot: ticks(22)? / TICKS_PER_SECOND,
        })
    }
}

fn boot_seconds(text: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn resident_bytes(text: &str) -> Option<f64> {
    let rest = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: f64 = rest.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let text = "7 (a) b (c)) S 1 7 7 0 -1 4194560 1 0 0 0 250 50 0 0 20 0 4 0 12345 1 1";
        let want = Stat { cpu_seconds: 3.0, start_seconds_after_boot: 123.45 };
        assert_eq!(Stat::parse(text), Some(want));
    }

    #[test]
    fn texts_that_are_cut_off_give_nothing() {
        assert_eq!(Stat::parse(""), None);
        assert_eq!(Stat::parse("7 (a) S 1 7"), None);
        assert_eq!(boot_seconds("cpu 1 2 3\n"), None);
        assert_eq!(resident_bytes("VmRSS:\t x kB\n"), None);
    }

    #[test]
    fn boot_and_memory_are_found_among_other_lines() {
        assert_eq!(boot_seconds("cpu 1\nbtime 1700000000\nprocesses 5\n"), Some(1_700_000_000.0));
        assert_eq!(resident_bytes("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2_097_152.0));
    }
}
