//! Files with the initial objects of the cluster of `jindou up`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use sandbox::cluster::Cluster;
use sandbox::import::{self, Manifest};
use serde_json::Value;

use super::Options;
use crate::output::complain;

/// Extensions of the files that are read from a directory.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Imports the snapshot into the cluster. Returns the nodes of the groups.
pub(super) fn fill(cluster: &Cluster, options: &Options) -> Result<Vec<Value>> {
    if let Some(path) = &options.snapshot {
        let imported = import::snapshot(cluster, &read(path)?)
            .with_context(|| format!("--snapshot {}", path.display()))?;
        if !imported.unknown.is_empty() {
            complain(&format!(
                "note: objects of these kinds are skipped, since the embedded API server does not serve them: {}",
                imported.unknown.join(", ")
            ));
        }
        if imported.without_owner > 0 {
            complain(&format!(
                "note: {} objects of the snapshot have owners that are not in it; no controller replaces them once deleted",
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

/// Returns the objects of files and directories, in the order of the arguments and of file names.
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
    for entry in fs::read_dir(folder).context("cannot read the directory")? {
        let path = entry.context("cannot read the directory")?.path();
        let ending = path.extension().and_then(|ending| ending.to_str());
        if ending.is_some_and(|ending| EXTENSIONS.contains(&ending)) && path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        bail!("the directory contains no .{} files", EXTENSIONS.join(", ."));
    }
    files.sort();
    Ok(files)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}
