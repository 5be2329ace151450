//! How much memory the process holds.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// Resident bytes per object.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Footprint {
    /// For each pod on a node.
    pub(crate) bytes_per_pod: f64,
    /// For each class: a spec with labels, what is kept to decide for it, and what was needed first by it.
    pub(crate) bytes_per_class: f64,
    /// How many classes there are.
    pub(crate) classes: usize,
    /// For each node.
    pub(crate) bytes_per_node: f64,
}

impl Footprint {
    /// Divides growth up: by the nodes, by all pods with their classes, and by as many pods without.
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

/// The status of this process.
const OWN: &str = "/proc/self/status";

/// How the process grows, step by step.
pub(crate) struct Growth {
    seen: u64,
}

impl Growth {
    /// Begins with what is there.
    pub(crate) fn begin() -> Result<Self> {
        Ok(Self { seen: resident_bytes(OWN)? })
    }

    /// Resident bytes that came since the last step.
    pub(crate) fn step(&mut self) -> Result<u64> {
        let before = std::mem::replace(&mut self.seen, resident_bytes(OWN)?);
        Ok(self.seen.saturating_sub(before))
    }
}

/// Resident bytes of a process, by the kernel's word: its status is a file.
pub(super) fn resident_bytes(status: &str) -> Result<u64> {
    let status =
        std::fs::read_to_string(status).with_context(|| format!("memory is read from {status}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmRSS")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}
