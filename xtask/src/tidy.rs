//! Rules that no linter knows.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::shell::{output, root};

/// Largest file that may be committed.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Longest file of logic; tables and tests may be longer.
const LINES_MAX: usize = 900;

/// Words that mark unfinished work. Split here so that this file does not find itself.
const UNFINISHED_MARKS: [&str; 4] =
    [concat!("FIX", "ME"), concat!("XX", "X:"), concat!("to", "do!("), concat!("#[ig", "nore")];

/// Checks every committed file.
pub(crate) fn check() -> Result<()> {
    let mut wrong = Vec::new();
    for file in files()? {
        let path = root().join(&file);
        let Ok(metadata) = path.metadata() else { continue };
        if metadata.len() > FILE_BYTES_MAX {
            wrong.push(format!("{}: larger than 1 MiB", file.display()));
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        check_text(&file, &text, &mut wrong);
    }
    if !wrong.is_empty() {
        bail!("{}", wrong.join("\n"));
    }
    Ok(())
}

fn files() -> Result<Vec<PathBuf>> {
    let listed = output("git", &["ls-files", "--cached", "--others", "--exclude-standard"])
        .context("tidy asks git for the files")?;
    Ok(listed.lines().map(PathBuf::from).collect())
}

fn check_text(file: &Path, text: &str, wrong: &mut Vec<String>) {
    if file.extension().is_none_or(|extension| extension != "rs") {
        return;
    }
    if !text.starts_with("//! ") {
        wrong.push(format!("{}: open the file with a line `//! …`", file.display()));
    }
    if text.lines().count() > LINES_MAX && !file.to_string_lossy().contains("test") {
        wrong.push(format!("{}: over {LINES_MAX} lines; split it", file.display()));
    }
    for (number, line) in text.lines().enumerate() {
        if UNFINISHED_MARKS.iter().any(|word| line.contains(word)) {
            wrong.push(format!("{}:{}: unfinished work", file.display(), number + 1));
        }
    }
}
