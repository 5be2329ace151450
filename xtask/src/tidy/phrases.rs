//! Bans phrases that stand for a mechanism instead of naming it.

use std::path::Path;

/// This file, which must write the phrases out.
const LIST: &str = "xtask/src/tidy/phrases.rs";

/// Phrases that are banned in Rust and Markdown files, as whole words in any case. A term says more in
/// a technical text: name the limit, the caller, the thread, the event.
const PHRASES: [&str; 10] = [
    "so many",
    "whoever",
    "somebody",
    "nobody",
    "is not for nothing",
    "is told",
    "are told",
    "sees to it",
    "what there is",
    "comes to its end",
];

/// Records a violation for each banned phrase in a file.
pub(super) fn check(file: &Path, text: &str, problems: &mut Vec<String>) {
    let has_prose =
        file.extension().is_some_and(|extension| extension == "rs" || extension == "md");
    if !has_prose || file == Path::new(LIST) {
        return;
    }
    let text = normalized(text);
    let found = PHRASES.iter().filter(|phrase| text.contains(&format!(" {phrase} ")));
    problems.extend(
        found.map(|phrase| format!("{}: name the mechanism instead of {phrase:?}", file.display())),
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phrases_are_found_across_lines_and_in_any_case() {
        for (file, text, count) in [
            ("crates/a/src/b.rs", "/// So\n/// many pods, and nobody.\n", 2),
            ("b.md", "Nobody, (somebody).", 2),
            ("crates/a/src/c.rs", "// some bodies, nobody_else\n", 0),
            ("d.json", "nobody", 0),
            (LIST, "nobody", 0),
        ] {
            let mut problems = Vec::new();
            check(Path::new(file), text, &mut problems);
            assert_eq!(problems.len(), count, "{file}: {problems:?}");
        }
    }
}
