//! Paths of the programs that measurements start: this one, and Jindou.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

/// Returns the path of this program, which also runs as a child process of itself.
pub(crate) fn own() -> Result<PathBuf> {
    env::current_exe().context("cannot find the path of this program")
}

/// Returns the build of Jindou to measure: the given program, or `jindou` beside this program.
pub(crate) fn jindou(given: Option<&Path>) -> Result<PathBuf> {
    if let Some(program) = given {
        return Ok(program.to_owned());
    }
    let program = own()?.with_file_name("jindou");
    if !program.is_file() {
        let release = if cfg!(debug_assertions) { "" } else { " --release" };
        bail!(
            "there is no program {}; build it with `cargo build{release} -p cli`, or name another with --jindou",
            program.display()
        );
    }
    Ok(program)
}
