//! What building and starting need of this machine.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

/// Where tools and built programs are kept between runs.
pub fn cache() -> Result<PathBuf> {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = base.map(PathBuf::from).or_else(home);
    Ok(base.context("set XDG_CACHE_HOME or HOME: tools are cached there")?.join("jindou"))
}

/// Finds Go: on the path, or where it is usually put.
pub fn go() -> Option<PathBuf> {
    let usual = PathBuf::from("/usr/local/go/bin/go");
    let on_path = Command::new("go").arg("version").output().is_ok_and(|o| o.status.success());
    if on_path { Some(PathBuf::from("go")) } else { usual.exists().then_some(usual) }
}

/// Says something on standard error.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}
