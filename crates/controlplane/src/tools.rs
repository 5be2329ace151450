//! The cache folder, the Go tool, and lines on standard error.

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

/// Neither environment variable says where the cache is.
#[derive(Debug, thiserror::Error)]
#[error("set XDG_CACHE_HOME or HOME: tools are cached there")]
pub struct NoCacheFolder;

/// Returns the folder that holds tools and built programs between runs.
pub fn cache_folder() -> Result<PathBuf, NoCacheFolder> {
    let base = std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty());
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let base = base.map(PathBuf::from).or_else(home);
    Ok(base.ok_or(NoCacheFolder)?.join("jindou"))
}

/// Returns the program `go`: that of the path, or the one in its default place.
pub fn go() -> Option<PathBuf> {
    let default = PathBuf::from("/usr/local/go/bin/go");
    let on_path = Command::new("go").arg("version").output().is_ok_and(|o| o.status.success());
    if on_path { Some(PathBuf::from("go")) } else { default.exists().then_some(default) }
}

/// Writes a line to standard error.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Returns an error and its causes as one line.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}
