//! Files that say what the cluster of `jindou up` begins with.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use sandbox::cluster::Cluster;
use sandbox::import::{self, Manifest};
use serde_json::Value;

use super::Options;
use crate::output::complain;

/// How names of files end that are read from a folder.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Takes the snapshot into the cluster. Returns the nodes of the groups.
pub(super) fn fill(cluster: &Cluster, options: &Options) -> Result<Vec<Value>> {
    if let Some(path) = &options.snapshot {
        let imported = import::snapshot(cluster, &read(path)?)
            .with_context(|| format!("--snapshot {}", path.display()))?;
        if !imported.unknown.is_empty() {
            complain(&format!(
                "left out of the snapshot, since these kinds are not served here: {}",
                imported.unknown.join(", ")
            ));
        }
        if imported.without_owner > 0 {
            complain(&format!(
                "objects of the snapshot whose owners are not in it: {}; they stay, and nothing replaces them",
                imported.without_owner
            ));
        }
    }
    match &options.node_groups {
        None => Ok(Vec::new()),
        Some(path) => import::node_groups(&read(path)?)
            .with_context(|| format!("--node-groups {}", path.display())),
    }
}

/// The objects of files and of the files in folders, in the order of the arguments and of names.
pub(super) fn manifests(paths: &[PathBuf]) -> Result<Vec<Manifest>> {
    let mut all = Vec::new();
    for path in paths {
        let about = || format!("--apply {}", path.display());
        let files =
            if path.is_dir() { files_in(path).with_context(about)? } else { vec![path.clone()] };
        for file in files {
            let text = read(&file).context("--apply")?;
            let shown = file.display().to_string();
            let manifests = Manifest::read(&shown, &text);
            all.extend(manifests.with_context(|| format!("--apply {shown}"))?);
        }
    }
    Ok(all)
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).context("cannot read the folder")? {
        let path = entry.context("cannot read the folder")?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if ending.is_some_and(|ending| ENDINGS.contains(&ending)) && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        bail!("the folder holds no files that end with .{}", ENDINGS.join(", ."));
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
