//! How much memory the process holds.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

/// Resident bytes per object.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Footprint {
    /// For each node.
    pub bytes_per_node: f64,
    /// For each pod on a node.
    pub bytes_per_pod: f64,
}

/// Resident bytes of this process, by the kernel's word.
pub fn resident_bytes() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")
        .context("memory is read from /proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")).context("no VmRSS")?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}
