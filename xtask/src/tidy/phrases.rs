//! Bans phrases that stand for a mechanism instead of naming it.

use std::collections::BTreeMap;
use std::path::Path;

use super::Findings;

/// Phrases that are banned in Rust and Markdown files, whole words in any case. None has a use in a
/// technical text that a term does not serve better: name the limit, the caller, the thread, the event.
/// Written in two parts so that this file does not match.
const PHRASES: [&str; 10] = [
    concat!("so", " many"),
    concat!("who", "ever"),
    concat!("some", "body"),
    concat!("no", "body"),
    concat!("is not for", " nothing"),
    concat!("is", " told"),
    concat!("are", " told"),
    concat!("sees", " to it"),
    concat!("what there", " is"),
    concat!("comes to", " its end"),
];

/// Occurrences that are still to be rewritten, by area. Counts in this list only go down.
const KNOWN: &[(&str, usize)] = &[
    ("crates/api", 2),
    ("crates/cli", 1),
    ("crates/conformance", 1),
    ("crates/engine", 9),
    ("crates/plugins", 12),
    ("crates/sandbox", 6),
    ("xtask", 8),
];

/// Adds the occurrences in a file to the counts by area: a crate, or a folder at the root.
pub(super) fn count(file: &Path, text: &str, counts: &mut BTreeMap<String, usize>) {
    if !file.extension().is_some_and(|extension| extension == "rs" || extension == "md") {
        return;
    }
    let text = normalized(text);
    let found: usize =
        PHRASES.iter().map(|phrase| text.matches(&format!(" {phrase} ")).count()).sum();
    if found > 0 {
        *counts.entry(area(file)).or_default() += found;
    }
}

/// Records a violation for each area with more occurrences than are known.
pub(super) fn check(counts: &BTreeMap<String, usize>, findings: &mut Findings) {
    for (area, found) in counts {
        let known = KNOWN.iter().find(|(known, _)| known == area).map_or(0, |(_, count)| *count);
        if *found > known {
            findings.problems.push(format!(
                "{area}: {found} phrases of xtask/src/tidy/phrases.rs, over {known}; name the mechanism instead"
            ));
        }
    }
    for (area, known) in KNOWN {
        let found = counts.get(*area).copied().unwrap_or(0);
        if found < *known {
            findings.notes.push(format!("{area}: {found} banned phrases; lower its row ({known})"));
        }
    }
}

/// Returns the words of a text in lower case, with one space around each. Comment markers and
/// punctuation separate words too, so that a phrase is found across the end of a line.
fn normalized(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
    let mut normalized = String::with_capacity(text.len() + 2);
    for word in words.filter(|word| !word.is_empty()) {
        normalized.push(' ');
        normalized.push_str(&word.to_lowercase());
    }
    normalized.push(' ');
    normalized
}

fn area(file: &Path) -> String {
    let parts: Vec<_> = file.iter().map(|part| part.to_string_lossy()).collect();
    match parts.as_slice() {
        [outer, inner, _, ..] if outer == "crates" || outer == "examples" => {
            format!("{outer}/{inner}")
        }
        [outer, _, ..] => outer.to_string(),
        _ => ".".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_across_lines_and_in_any_case() {
        let mut counts = BTreeMap::new();
        let text = format!("/// {}\n/// {} pods.\n", "So", "many");
        count(Path::new("crates/a/src/b.rs"), &text, &mut counts);
        count(Path::new("crates/a/src/c.rs"), "// some bodies\n", &mut counts);
        count(Path::new("d.json"), PHRASES[1], &mut counts);
        assert_eq!(counts, BTreeMap::from([("crates/a".to_owned(), 1)]));
    }

    #[test]
    fn areas_are_crates_and_folders_at_the_root() {
        for (file, expected) in [
            ("crates/engine/src/lib.rs", "crates/engine"),
            ("examples/a/src/main.rs", "examples/a"),
            ("xtask/src/tidy.rs", "xtask"),
            ("README.md", "."),
        ] {
            assert_eq!(area(Path::new(file)), expected);
        }
    }

    #[test]
    fn an_area_without_a_row_must_be_free_of_phrases() {
        let mut findings = Findings::default();
        check(&BTreeMap::from([("new".to_owned(), 1)]), &mut findings);
        assert_eq!(findings.problems.len(), 1);
    }
}
