//! Checks by programs that cargo installs, once, into the cache.

use anyhow::{Context as _, Result};

use crate::shell::{cache_folder, output, run, say};

/// A program on crates.io.
struct Tool {
    package: &'static str,
    version: &'static str,
    program: &'static str,
}

const DENY: Tool = Tool { package: "cargo-deny", version: "0.20.2", program: "cargo-deny" };
// Later versions need a newer Rust than that of `rust-toolchain.toml`.
const SHEAR: Tool = Tool { package: "cargo-shear", version: "1.13.4", program: "cargo-shear" };
const TYPOS: Tool = Tool { package: "typos-cli", version: "1.52.0", program: "typos" };

/// Checks licences, duplicate versions and sources with cargo-deny.
pub(super) fn deny() -> Result<()> {
    let program = install(&DENY)?;
    // It reads the crates of every platform, and without the network.
    run("cargo", &["fetch", "--locked"])?;
    run(&program, &["--offline", "check", "bans", "licenses", "sources"])
}

/// Finds dependencies that no code uses, and files that no module includes, with cargo-shear.
pub(super) fn shear() -> Result<()> {
    run(&install(&SHEAR)?, &["--deny-warnings"])
}

/// Finds misspelt words. `_typos.toml` has our words and the files that hold foreign data.
pub(super) fn typos() -> Result<()> {
    run(&install(&TYPOS)?, &["--format", "brief"])
}

/// Returns the path of a program, after installing it if this version of it is absent.
fn install(tool: &Tool) -> Result<String> {
    let Tool { package, version, program } = tool;
    let tools = cache_folder()?.join("tools");
    let path = tools.join("bin").join(program);
    let path = path.to_str().context("the cache folder has a name that is not UTF-8")?.to_owned();
    let installed = output(&path, &["--version"]).unwrap_or_default();
    if installed.split_whitespace().all(|word| word.trim_start_matches('v') != *version) {
        say(&format!("installing {package} {version}, once"));
        let tools = tools.to_string_lossy();
        run("cargo", &["install", package, "--version", version, "--locked", "--root", &*tools])?;
    }
    Ok(path)
}
