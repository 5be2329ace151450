//! Resident memory of processes, and of nodes, pods and classes in the engine.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// Resident bytes per object.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Footprint {
    /// Bytes of each pod on a node.
    pub(crate) bytes_per_pod: f64,
    /// Bytes of each class: its spec and labels, its cached evaluation, and state that it was the first to need.
    pub(crate) bytes_per_class: f64,
    /// Number of classes.
    pub(crate) classes: usize,
    /// Bytes of each node.
    pub(crate) bytes_per_node: f64,
}

impl Footprint {
    /// Computes bytes per object from the growth by all nodes, by all pods with their classes, and by as many pods
    /// without new classes.
    pub(crate) fn new(
        nodes: usize,
        classes: usize,
        pods: usize,
        by_nodes: u64,
        by_pods_and_classes: u64,
        by_pods: u64,
    ) -> Self {
        let per = |bytes: u64, count: usize| bytes as f64 / count.max(1) as f64;
        Self {
            bytes_per_pod: per(by_pods, pods),
            bytes_per_class: per(by_pods_and_classes.saturating_sub(by_pods), classes),
            classes,
            bytes_per_node: per(by_nodes, nodes),
        }
    }
}

/// Status file of this process.
const OWN: &str = "/proc/self/status";

/// Growth of the resident memory of this process, step by step.
pub(crate) struct Growth {
    seen: u64,
}

impl Growth {
    /// Starts from the current resident memory.
    pub(crate) fn begin() -> Result<Self> {
        Ok(Self { seen: resident_bytes(OWN)? })
    }

    /// Returns the bytes by which resident memory grew since the last step; 0 if it shrank.
    pub(crate) fn step(&mut self) -> Result<u64> {
        let before = std::mem::replace(&mut self.seen, resident_bytes(OWN)?);
        Ok(self.seen.saturating_sub(before))
    }
}

/// Returns the resident bytes of a process, read from its status file in /proc.
pub(crate) fn resident_bytes(status: &str) -> Result<u64> {
    let status =
        std::fs::read_to_string(status).with_context(|| format!("memory is read from {status}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmRSS")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_classes_is_what_twins_of_the_pods_do_not_add() {
        let footprint = Footprint::new(10, 4, 100, 5_000, 30_000, 20_000);
        assert_eq!((footprint.bytes_per_node, footprint.bytes_per_pod), (500.0, 200.0));
        assert_eq!((footprint.classes, footprint.bytes_per_class), (4, 2500.0));
        // Memory measurements are noisy: fewer bytes than the twins' are none.
        assert_eq!(Footprint::new(1, 1, 1, 0, 10, 20).bytes_per_class, 0.0);
    }

    #[test]
    fn this_process_has_resident_memory() {
        assert!(resident_bytes(OWN).unwrap() > 1 << 20);
        assert!(resident_bytes("/proc/none/status").is_err());
    }
}
