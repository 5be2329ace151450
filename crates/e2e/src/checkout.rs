//! The checkout that the scenarios read files from and build the program under test in.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Returns the root folder of the checkout.
pub(crate) fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.ancestors().nth(2).unwrap_or(manifest).to_owned()
}

/// Builds `jindou` with the `dev` profile and returns the path of the program.
pub fn build_jindou() -> Result<PathBuf> {
    let mut command = Command::new("cargo");
    // `cargo run` and `cargo test` set these for the program they start. Build scripts that read them
    // would run again.
    for (name, _) in std::env::vars_os() {
        let of_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if of_package {
            command.env_remove(&name);
        }
    }
    let output = command
        .args(["build", "--package", "cli", "--bin", "jindou"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(root())
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    ensure!(output.status.success(), "cargo build of jindou failed: {}", output.status);
    executable(&String::from_utf8_lossy(&output.stdout), "jindou")
        .context("cargo names no program jindou among the results of its build")
}

/// Returns the path of a program from the messages that `cargo build` prints as JSON, one per line.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut built = messages.filter(|message| message["target"]["name"] == name);
    built.find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_is_found_among_the_messages_of_cargo() {
        let messages = r#"{"reason":"compiler-artifact","target":{"name":"cli"},"executable":null}
{"reason":"compiler-artifact","target":{"name":"jindou"},"executable":"/t/debug/jindou"}
{"reason":"build-finished","success":true}
"#;
        assert_eq!(executable(messages, "jindou"), Some(PathBuf::from("/t/debug/jindou")));
        assert_eq!(executable(messages, "etcd"), None);
    }
}
