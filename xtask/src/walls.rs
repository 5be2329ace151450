//! The dependency walls: allow-lists of what each crate may depend on, and the bans of the pure crates.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::shell::{output, root};

/// Allowed dependencies of a crate.
struct Wall {
    name: &'static str,
    /// Crates of the workspace among its normal dependencies, direct or not.
    ours: &'static [&'static str],
    /// A pure crate does no I/O, reads no clock and starts no thread. Of external crates it may use
    /// those of [`EXTERNAL_CRATES`].
    pure: bool,
}

const WALLS: &[Wall] = &[
    Wall { name: "engine", ours: &[], pure: true },
    Wall { name: "api", ours: &["engine"], pure: true },
    Wall { name: "plugins", ours: &["api", "engine"], pure: true },
    Wall { name: "http2", ours: &[], pure: false },
    Wall { name: "controlplane", ours: &[], pure: false },
    Wall { name: "sandbox", ours: &[], pure: false },
    Wall { name: "runtime", ours: &["api", "engine", "http2", "plugins"], pure: false },
    // The product: nothing that only tests and benchmarks need.
    Wall {
        name: "cli",
        ours: &["api", "engine", "http2", "plugins", "runtime", "sandbox"],
        pure: false,
    },
    Wall {
        name: "jindou",
        ours: &["api", "cli", "engine", "http2", "plugins", "runtime", "sandbox"],
        pure: false,
    },
];

/// Programs and tests, which may depend on every crate of the workspace.
const WITHOUT_WALL: &[&str] = &["bench", "conformance", "custom-scheduler", "e2e", "xtask"];

/// An external crate that pure crates may depend on, and the crates that it depends on itself.
struct ExternalCrate {
    name: &'static str,
    brings: &'static [&'static str],
    /// The pure crate that uses it directly; those that may use this one may use it too.
    user: &'static str,
    purpose: &'static str,
}

/// All external crates in the normal dependency trees of the pure crates, without procedural macros,
/// which run only in the compiler.
const EXTERNAL_CRATES: &[ExternalCrate] = &[
    ExternalCrate {
        name: "fearless_simd",
        brings: &[],
        user: "engine",
        purpose: "vector instructions for scans of columns",
    },
    ExternalCrate {
        name: "hashbrown",
        brings: &["allocator-api2", "equivalent", "foldhash"],
        user: "engine",
        purpose: "hash tables of indexes into columns, which std's map cannot express",
    },
    ExternalCrate {
        name: "rustc-hash",
        brings: &[],
        user: "engine",
        purpose: "a fast hash without a random seed",
    },
    ExternalCrate {
        name: "smol_str",
        brings: &["serde_core"],
        user: "engine",
        purpose: "names of up to 23 bytes without an allocation",
    },
    ExternalCrate {
        name: "uuid",
        brings: &[],
        user: "engine",
        purpose: "uids in 16 bytes; without the features that make new ones",
    },
    ExternalCrate {
        name: "jiff",
        brings: &["jiff-core"],
        user: "api",
        purpose: "RFC 3339 times and durations; without time zones of the system",
    },
    ExternalCrate {
        name: "serde",
        brings: &["serde_core"],
        user: "api",
        purpose: "decoding of objects and configurations",
    },
    ExternalCrate {
        name: "serde_json",
        brings: &["itoa", "memchr", "serde_core", "zmij"],
        user: "api",
        purpose: "JSON",
    },
    ExternalCrate {
        name: "serde_path_to_error",
        brings: &["itoa", "serde_core"],
        user: "api",
        purpose: "field paths in errors",
    },
    ExternalCrate {
        name: "serde-saphyr",
        brings: &[
            "annotate-snippets",
            "anstyle",
            "arraydeque",
            "base64",
            "cfg-if",
            "core_detect",
            "encoding_rs",
            "encoding_rs_io",
            "granit-parser",
            "nohash-hasher",
            "num-traits",
            "scopeguard",
            "simdutf8",
            "smallvec",
            "unicode-width",
            "zmij",
        ],
        user: "api",
        purpose: "YAML",
    },
];

/// The bans that the `clippy.toml` of a pure crate must have: clocks, maps whose iteration order depends on
/// hashes, the environment, threads, and the ways to files and sockets.
const PURE_BANS: &[&str] = &[
    "hashbrown::HashMap",
    "hashbrown::HashSet",
    "jiff::Timestamp::now",
    "jiff::Zoned::now",
    "std::collections::HashMap",
    "std::collections::HashSet",
    "std::env::args",
    "std::env::var",
    "std::env::var_os",
    "std::env::vars",
    "std::fs::File",
    "std::fs::read",
    "std::fs::read_dir",
    "std::fs::read_to_string",
    "std::fs::write",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::UdpSocket",
    "std::process::Command",
    "std::thread::Builder::spawn",
    "std::thread::scope",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::time::Instant",
    "std::time::SystemTime",
];

/// Fails with every dependency that a wall does not allow and every ban that is missing.
pub(crate) fn check() -> Result<()> {
    let members = members()?;
    let mut problems = Vec::new();
    let mut used = BTreeSet::new();
    for member in &members {
        let Some(wall) = WALLS.iter().find(|wall| wall.name == member) else {
            if !WITHOUT_WALL.contains(&member.as_str()) {
                problems.push(format!("{member} has no row in xtask/src/walls.rs"));
            }
            continue;
        };
        let edges = "normal,no-proc-macro";
        let tree = output("cargo", &["tree", "-p", member, "-e", edges, "--prefix", "none"])?;
        problems.extend(dependency_problems(wall, &tree, &members));
        if wall.pure {
            used.extend(names(&tree).map(str::to_owned));
            let path = format!("crates/{member}/clippy.toml");
            let text = std::fs::read_to_string(root().join(&path))
                .with_context(|| format!("cannot read {path}"))?;
            let missing = PURE_BANS.iter().filter(|path| !text.contains(&format!("\"{path}\"")));
            problems.extend(missing.map(|banned| format!("{path} does not ban {banned}")));
        }
    }
    for external in EXTERNAL_CRATES.iter().filter(|external| !used.contains(external.name)) {
        let ExternalCrate { name, purpose, .. } = external;
        problems.push(format!("no pure crate uses {name} ({purpose}); remove its row"));
    }
    if !problems.is_empty() {
        bail!("dependency walls are broken:\n{}", problems.join("\n"));
    }
    Ok(())
}

/// Returns the names of all crates of the workspace.
fn members() -> Result<BTreeSet<String>> {
    let text = output("cargo", &["metadata", "--no-deps", "--format-version", "1"])?;
    let metadata: Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("cargo names no packages")?;
    let names = packages.iter().filter_map(|package| package["name"].as_str());
    Ok(names.map(str::to_owned).collect())
}

/// Returns a line for each dependency in a tree of cargo that the wall does not allow.
fn dependency_problems(wall: &Wall, tree: &str, members: &BTreeSet<String>) -> BTreeSet<String> {
    let denied = names(tree).filter(|name| {
        if members.contains(*name) {
            !wall.ours.contains(name)
        } else {
            wall.pure && !is_allowed(wall, name)
        }
    });
    denied.map(|name| format!("{} must not depend on {name}", wall.name)).collect()
}

/// Returns the names of the dependencies in a tree of cargo, whose first line is the crate itself.
fn names(tree: &str) -> impl Iterator<Item = &str> {
    tree.lines().skip(1).filter_map(|line| line.split_whitespace().next())
}

fn is_allowed(wall: &Wall, name: &str) -> bool {
    EXTERNAL_CRATES.iter().any(|external| {
        let may_use = external.user == wall.name || wall.ours.contains(&external.user);
        may_use && (external.name == name || external.brings.contains(&name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pure_crate_may_use_listed_crates_only() {
        let members = WALLS.iter().map(|wall| wall.name.to_owned()).collect();
        let tree = "plugins v0.1.0 (/p)\napi v0.1.0 (/a)\nserde v1.0.0\nuuid v1.0.0 (*)\n\
                    tokio v1.0.0\nruntime v0.1.0 (/r)\n";
        let wall = |name| WALLS.iter().find(|wall| wall.name == name).unwrap();
        let problems = dependency_problems(wall("plugins"), tree, &members);
        let expected = ["runtime", "tokio"].map(|n| format!("plugins must not depend on {n}"));
        assert_eq!(problems, BTreeSet::from(expected));
        // The engine may not use what only `api` may use, and an I/O crate any external crate.
        assert!(dependency_problems(wall("engine"), "engine\nserde", &members).len() == 1);
        assert!(dependency_problems(wall("runtime"), "runtime\ntokio\napi", &members).is_empty());
    }

    #[test]
    fn every_external_crate_has_a_pure_user_and_a_purpose() {
        for external in EXTERNAL_CRATES {
            let user = WALLS.iter().find(|wall| wall.name == external.user);
            assert!(user.is_some_and(|wall| wall.pure), "{}", external.name);
            assert!(!external.purpose.is_empty(), "{}", external.name);
        }
    }
}
