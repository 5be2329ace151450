//! The template for schedulers with plugins builds and tests outside of the workspace.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::shell::{root, say, target_folder};

/// Dependency of the template as it is committed.
const OWN_PATH: &str = "path = \"../../crates/jindou\"";

/// Files of the template, beside its manifest.
const FILES: [&str; 4] = ["README.md", "config.yaml", "src/main.rs", "src/my_plugin.rs"];

/// Time-out of the build and its tests; a first build on two cores takes some minutes.
const TIMEOUT: Duration = Duration::from_mins(40);

/// Copies the template to a temporary folder, and runs its tests there.
pub(crate) fn check() -> Result<()> {
    let copy = tempfile::tempdir().context("cannot make a temporary folder")?;
    let template = root().join("examples/plugin-template");
    fs::create_dir(copy.path().join("src"))?;
    for file in FILES {
        fs::copy(template.join(file), copy.path().join(file)).with_context(|| file.to_owned())?;
    }
    let manifest = fs::read_to_string(template.join("Cargo.toml"))?;
    let workspace = fs::read_to_string(root().join("Cargo.toml"))?;
    fs::write(copy.path().join("Cargo.toml"), outside(&manifest, &workspace, &root())?)?;
    // The same versions of dependencies as in the workspace.
    fs::copy(root().join("Cargo.lock"), copy.path().join("Cargo.lock"))?;
    let target = target_folder()?.join("template");
    say(&format!("$ cargo test (a copy of {})", template.display()));
    let mut tests = Command::new("cargo")
        .arg("test")
        .current_dir(copy.path())
        .env("CARGO_TARGET_DIR", target)
        .spawn()
        .context("cannot start cargo")?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = tests.try_wait()? {
            if !status.success() {
                bail!("the template does not pass its tests outside of the workspace: {status}");
            }
            return Ok(());
        }
        if Instant::now() > deadline {
            tests.kill()?;
            tests.wait()?;
            bail!("the tests of the template took more than {TIMEOUT:?}");
        }
        sleep(Duration::from_millis(100));
    }
}

/// Returns the template's manifest for another folder, with the profile of the workspace.
fn outside(manifest: &str, workspace: &str, root: &Path) -> Result<String> {
    if !manifest.contains(OWN_PATH) {
        bail!("examples/plugin-template/Cargo.toml has no {OWN_PATH}");
    }
    let path = format!("path = \"{}\"", root.join("crates/jindou").display());
    let profile = workspace.split_once("[profile.dev]").context("there is no [profile.dev]")?.1;
    let profile = profile.split("\n[").next().unwrap_or_default();
    Ok(format!("{}\n[profile.dev]{profile}\n", manifest.replace(OWN_PATH, &path)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_rewritten_for_another_folder() {
        let manifest = format!("[dependencies]\njindou = {{ {OWN_PATH} }}\n[workspace]\n");
        let workspace = "[a]\n[profile.dev]\nopt-level = 1\n\n[profile.release]\nlto = true\n";
        assert_eq!(
            outside(&manifest, workspace, Path::new("/w")).unwrap(),
            "[dependencies]\njindou = { path = \"/w/crates/jindou\" }\n[workspace]\n\n\
             [profile.dev]\nopt-level = 1\n\n"
        );
        assert!(outside("[dependencies]", workspace, Path::new("/w")).is_err());
    }

    #[test]
    fn every_file_of_the_template_is_copied() {
        let template = root().join("examples/plugin-template");
        let mut found = Vec::new();
        for folder in ["", "src"] {
            for entry in fs::read_dir(template.join(folder)).unwrap() {
                let entry = entry.unwrap();
                let name = Path::new(folder).join(entry.file_name());
                let name = name.to_str().unwrap().to_owned();
                // Cargo writes the others when the template is built in place.
                if !["Cargo.toml", "Cargo.lock", "src", "target"].contains(&&*name) {
                    found.push(name);
                }
            }
        }
        found.sort_unstable();
        assert_eq!(found, FILES);
    }
}
