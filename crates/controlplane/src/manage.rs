//! Control planes that run until they are ended by `down`.

use std::fs;
use std::path::Path;

use crate::build;
use crate::files::FileError;
use crate::start::{self, StartError, StartOptions};
use crate::state::{self, ControlPlane, StateError};
use crate::tools::say;

/// Starts a control plane, or returns the one that already runs with the same options.
pub fn up(options: &StartOptions) -> Result<ControlPlane, StartError> {
    start::sweep()?;
    let bin = build::build_programs()?;
    let held = state::hold(&options.folder)?;
    let prior = ControlPlane::load(&options.folder)?.filter(|plane| !plane.is_down());
    let Some(plane) = prior else {
        return Ok(start::start_held(options, &bin, &held)?.keep());
    };
    let name = &options.name;
    if !plane.is_up() {
        let missing = plane.describe_missing();
        return Err(StartError::RunsInPart { name: name.clone(), missing });
    }
    if (plane.scheduler, plane.kwok) != (options.scheduler, options.kwok) {
        return Err(StartError::RunsOtherwise(name.clone()));
    }
    say(&format!("{name} already runs"));
    Ok(plane)
}

/// Ends the control plane in a folder and removes its data. Returns `false` if there is no folder.
pub fn down(folder: &Path) -> Result<bool, StateError> {
    if !folder.exists() {
        return Ok(false);
    }
    let _held = state::hold(folder)?;
    if let Some(plane) = ControlPlane::load(folder)? {
        plane.end()?;
    }
    state::remove(folder)?;
    Ok(true)
}

/// Returns all control planes that were started by name, sorted.
pub fn load_all() -> Result<Vec<ControlPlane>, StartError> {
    let folder = start::state_folders()?;
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(Vec::new()) };
    let mut planes = Vec::new();
    for entry in entries {
        let entry = entry.map_err(FileError::at("read", &folder))?;
        planes.extend(ControlPlane::load(&entry.path())?);
    }
    planes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(planes)
}
