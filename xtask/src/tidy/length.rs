//! Limits the length of Rust files, tests included.

use std::path::Path;

use super::Findings;

/// Lines that a file may have, unless it is listed below.
const LINES_MAX: usize = 500;

/// Tables, which may be longer because a row is not logic; each with what its rows are.
const TABLES: &[(&str, &str)] = &[(
    "crates/sandbox/src/kinds/table.rs",
    "one row per kind of the API; split, it would have to be searched in parts",
)];

/// Files that are still to be split, with the length that they must not exceed. Lengths in this list
/// only go down, and nothing is added.
const KNOWN_LONG: &[(&str, usize)] = &[
    ("crates/plugins/tests/properties/generators.rs", 505),
    ("crates/plugins/tests/properties/world.rs", 830),
];

/// Records a violation if a file is longer than it may be.
pub(super) fn check(file: &Path, lines: usize, findings: &mut Findings) {
    if TABLES.iter().any(|(table, _)| file == Path::new(table)) {
        return;
    }
    let known = KNOWN_LONG.iter().find(|(long, _)| file == Path::new(long));
    let lines_max = known.map_or(LINES_MAX, |(_, lines)| *lines);
    if lines > lines_max {
        let file = file.display();
        findings.problems.push(format!("{file}: {lines} lines, over {lines_max}; split it"));
    } else if known.is_some() && lines < lines_max {
        findings.notes.push(format!(
            "{}: {lines} lines; lower or remove its row in KNOWN_LONG ({lines_max})",
            file.display()
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(file: &str, lines: usize) -> usize {
        let mut findings = Findings::default();
        check(Path::new(file), lines, &mut findings);
        findings.problems.len()
    }

    #[test]
    fn files_are_limited_and_tables_are_not() {
        assert_eq!(problems("crates/a/src/tests.rs", LINES_MAX), 0);
        assert_eq!(problems("crates/a/src/tests.rs", LINES_MAX + 1), 1);
        assert_eq!(problems(TABLES[0].0, LINES_MAX + 1), 0);
    }

    #[test]
    fn a_known_long_file_may_only_shrink() {
        for (file, lines) in KNOWN_LONG {
            assert!(*lines > LINES_MAX, "{file} needs no row");
            assert_eq!((problems(file, *lines), problems(file, lines + 1)), (0, 1));
        }
    }
}
