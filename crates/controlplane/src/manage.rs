//! Control planes that run until somebody ends them.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use super::start::{self, StartOptions};
use super::state::{self, ControlPlane};
use super::{build, tools::say};

/// Starts one, or finds that it already runs.
pub fn up(options: &StartOptions) -> Result<ControlPlane> {
    start::sweep()?;
    let bin = build::build_programs()?;
    let held = state::hold(&options.folder)?;
    let prior = ControlPlane::load(&options.folder)?.filter(|plane| !plane.is_down());
    let Some(plane) = prior else {
        return Ok(start::start_held(options, &bin, &held)?.keep());
    };
    let name = &options.name;
    if !plane.is_up() {
        bail!(
            "{name} runs only in part, without {}; end it with `down` first",
            plane.describe_missing()
        );
    }
    if (plane.scheduler, plane.kwok) != (options.scheduler, options.kwok) {
        bail!("{name} already runs with another scheduler or kwok; end it with `down` first");
    }
    say(&format!("{name} already runs"));
    Ok(plane)
}

/// Ends the one in a folder and removes its data. Tells whether there was one.
pub fn down(folder: &Path) -> Result<bool> {
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

/// All that were not given a folder, by name.
pub fn load_all() -> Result<Vec<ControlPlane>> {
    let Ok(entries) = fs::read_dir(start::state_folders()?) else { return Ok(Vec::new()) };
    let mut planes = Vec::new();
    for entry in entries {
        planes.extend(ControlPlane::load(&entry?.path())?);
    }
    planes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(planes)
}
