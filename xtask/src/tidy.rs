//! Rules about the committed files that no linter knows.

mod length;
mod phrases;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::shell::{output, root};

/// Largest file that may be committed.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Marks of unfinished work, in Rust files. Written in two parts so that this file does not match.
const UNFINISHED_MARKS: [&str; 4] =
    [concat!("FIX", "ME"), concat!("XX", "X:"), concat!("to", "do!("), concat!("#[ign", "ore")];

/// Checks every committed file. Fails with all violations.
pub(crate) fn check() -> Result<()> {
    let mut problems = Vec::new();
    for file in files()? {
        let path = root().join(&file);
        let Ok(metadata) = path.metadata() else { continue };
        if metadata.len() > FILE_BYTES_MAX {
            problems.push(format!("{}: larger than 1 MiB", file.display()));
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        check_text(&file, &text, &mut problems);
    }
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    Ok(())
}

/// Returns the files that git tracks or would add, relative to the root.
fn files() -> Result<Vec<PathBuf>> {
    let listed = output("git", &["ls-files", "--cached", "--others", "--exclude-standard"])
        .context("cannot list the files of the checkout")?;
    Ok(listed.lines().map(PathBuf::from).collect())
}

fn check_text(file: &Path, text: &str, problems: &mut Vec<String>) {
    phrases::check(file, text, problems);
    if file.extension().is_none_or(|extension| extension != "rs") {
        return;
    }
    if !text.starts_with("//! ") {
        problems.push(format!("{}: open the file with a line `//! …`", file.display()));
    }
    length::check(file, text.lines().count(), problems);
    for (number, line) in text.lines().enumerate() {
        if UNFINISHED_MARKS.iter().any(|mark| line.contains(mark)) {
            problems.push(format!("{}:{}: unfinished work", file.display(), number + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rust_files_begin_with_their_purpose() {
        let mut problems = Vec::new();
        check_text(Path::new("a.rs"), "use b;\n", &mut problems);
        check_text(Path::new("b.rs"), "//! Purpose.\n", &mut problems);
        assert_eq!(problems, ["a.rs: open the file with a line `//! …`"]);
    }
}
