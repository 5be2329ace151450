//! The dependency walls: what each crate may and may not depend on.

use anyhow::{Result, bail};

use crate::shell::output;

/// Crates that do no I/O, each with those of ours that it may use.
const PURE_CRATES: &[(&str, &[&str])] =
    &[("engine", &[]), ("api", &["engine"]), ("plugins", &["api", "engine"])];

/// Crates that do I/O, each with those of ours that it may use.
const IO_CRATES: &[(&str, &[&str])] =
    &[("runtime", &["engine", "api", "plugins"]), ("controlplane", &[]), ("sandbox", &[])];

/// All crates of ours.
const WORKSPACE_CRATES: &[&str] = &[
    "engine",
    "api",
    "plugins",
    "runtime",
    "sandbox",
    "controlplane",
    "cli",
    "bench",
    "conformance",
    "xtask",
];

/// Crates that do I/O or read a clock, by how their names begin.
const IO_DEPENDENCIES: &[&str] = &[
    "async-std",
    "axum",
    "chrono",
    "getrandom",
    "h2",
    "hyper",
    "kube",
    "mio",
    "rand",
    "reqwest",
    "rustls",
    "signal-hook",
    "socket2",
    "time",
    "tokio",
    "tracing",
    "ureq",
];

/// Checks that no crate depends on what it must not know.
pub(crate) fn check() -> Result<()> {
    let mut broken = Vec::new();
    let pure = PURE_CRATES.iter().map(|crate_| (crate_, true));
    for ((name, allowed), pure) in pure.chain(IO_CRATES.iter().map(|crate_| (crate_, false))) {
        let tree = output("cargo", &["tree", "-p", name, "-e", "normal", "--prefix", "none"])?;
        for line in tree.lines().skip(1) {
            let Some(dependency) = line.split_whitespace().next() else { continue };
            let ours = WORKSPACE_CRATES.contains(&dependency) && !allowed.contains(&dependency);
            let impure = IO_DEPENDENCIES.iter().any(|bad| {
                dependency == *bad
                    || dependency.strip_prefix(bad).is_some_and(|r| r.starts_with('-'))
            });
            if ours || (pure && impure) {
                broken.push(format!("{name} must not depend on {dependency}"));
            }
        }
    }
    broken.sort();
    broken.dedup();
    if !broken.is_empty() {
        bail!("dependency walls are broken:\n{}", broken.join("\n"));
    }
    Ok(())
}
