//! Running other programs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

pub(crate) use ::controlplane::tools::{cache_folder, go, say};

/// Returns the root folder of the checkout.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_owned()
}

/// Runs a program in the checkout with its output shown; fails if it exits with an error.
pub(crate) fn run(program: &str, arguments: &[&str]) -> Result<()> {
    run_command(&root(), program, arguments, &[])
}

/// Runs a program in a folder with its output shown; fails if it exits with an error.
pub(crate) fn run_in(folder: &Path, program: &str, arguments: &[&str]) -> Result<()> {
    run_command(folder, program, arguments, &[])
}

/// Runs a program in the checkout with more environment variables.
pub(crate) fn run_with(program: &str, arguments: &[&str], env: &[(&str, &str)]) -> Result<()> {
    run_command(&root(), program, arguments, env)
}

fn run_command(
    folder: &Path,
    program: &str,
    arguments: &[&str],
    env: &[(&str, &str)],
) -> Result<()> {
    say(&format!("$ {program} {}", arguments.join(" ")));
    let mut command = Command::new(program);
    // `cargo run` sets these for xtask. Build scripts that read them would run again in a build that
    // xtask starts, and everything that depends on them would be compiled again.
    for (name, _) in std::env::vars_os() {
        let of_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if of_package {
            command.env_remove(&name);
        }
    }
    let status = command
        .args(arguments)
        .envs(env.iter().copied())
        .current_dir(folder)
        .status()
        .with_context(|| format!("cannot start {program}"))?;
    if !status.success() {
        bail!("{program} {} failed: {status}", arguments.join(" "));
    }
    Ok(())
}

/// Runs a program in the checkout and returns its standard output.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Result<String> {
    output_in(&root(), program, arguments)
}

/// Runs a program in a folder and returns its standard output.
pub(crate) fn output_in(folder: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        bail!("{program} {} failed: {errors}", arguments.join(" "));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the folder that cargo builds in, which environment and configuration files can change.
pub(crate) fn target_folder() -> Result<PathBuf> {
    let text = output("cargo", &["metadata", "--no-deps", "--format-version", "1"])?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    let folder = metadata["target_directory"].as_str();
    Ok(folder.context("cargo names no target folder")?.into())
}
