//! Rules about the committed files that no linter knows.

mod length;
mod phrases;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::shell::{output, root, say};

/// Largest file that may be committed.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Marks of unfinished work, in Rust files. Written in two parts so that this file does not match.
const UNFINISHED_MARKS: [&str; 4] =
    [concat!("FIX", "ME"), concat!("XX", "X:"), concat!("to", "do!("), concat!("#[ign", "ore")];

/// Documents for readers, and the placeholders that must not be left in them.
const DOCUMENTS: [&str; 3] = ["ARCHITECTURE.md", "README.md", "README.zh-CN.md"];
const PLACEHOLDERS: [&str; 2] = ["HTTP2-PARAGRAPH", "<!-- live-table"];

/// What the rules found.
#[derive(Default)]
struct Findings {
    /// Violations: one line each.
    problems: Vec<String>,
    /// Limits of the ratchets that can be lowered.
    notes: Vec<String>,
}

/// Checks every committed file. Fails with all violations; prints which ratchets can be lowered.
pub(crate) fn check() -> Result<()> {
    let mut findings = Findings::default();
    let mut phrases = BTreeMap::new();
    for file in files()? {
        let path = root().join(&file);
        let Ok(metadata) = path.metadata() else { continue };
        if metadata.len() > FILE_BYTES_MAX {
            findings.problems.push(format!("{}: larger than 1 MiB", file.display()));
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        check_text(&file, &text, &mut findings);
        phrases::count(&file, &text, &mut phrases);
    }
    phrases::check(&phrases, &mut findings);
    for note in &findings.notes {
        say(note);
    }
    if !findings.problems.is_empty() {
        bail!("{}", findings.problems.join("\n"));
    }
    Ok(())
}

/// Returns the files that git tracks or would add, relative to the root.
fn files() -> Result<Vec<PathBuf>> {
    let listed = output("git", &["ls-files", "--cached", "--others", "--exclude-standard"])
        .context("cannot list the files of the checkout")?;
    Ok(listed.lines().map(PathBuf::from).collect())
}

fn check_text(file: &Path, text: &str, findings: &mut Findings) {
    if DOCUMENTS.iter().any(|document| file == Path::new(document)) {
        let left = PLACEHOLDERS.iter().filter(|placeholder| text.contains(**placeholder));
        let left = left.map(|name| format!("{}: the placeholder {name} is left", file.display()));
        findings.problems.extend(left);
    }
    if file.extension().is_none_or(|extension| extension != "rs") {
        return;
    }
    if !text.starts_with("//! ") {
        findings.problems.push(format!("{}: open the file with a line `//! …`", file.display()));
    }
    length::check(file, text.lines().count(), findings);
    for (number, line) in text.lines().enumerate() {
        if UNFINISHED_MARKS.iter().any(|mark| line.contains(mark)) {
            findings.problems.push(format!("{}:{}: unfinished work", file.display(), number + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_violations_in_documents_only() {
        for (file, count) in [("README.md", 1), ("docs/glossary.md", 0)] {
            let mut findings = Findings::default();
            check_text(Path::new(file), "a\n<!-- live-table -->\n", &mut findings);
            assert_eq!(findings.problems.len(), count, "{file}");
        }
    }

    #[test]
    fn rust_files_begin_with_their_purpose() {
        let mut findings = Findings::default();
        check_text(Path::new("a.rs"), "use b;\n", &mut findings);
        check_text(Path::new("b.rs"), "//! Purpose.\n", &mut findings);
        assert_eq!(findings.problems, ["a.rs: open the file with a line `//! …`"]);
    }
}
