//! Limits the length of Rust files, tests included.

use std::path::Path;

/// Lines that a file may have, unless it is listed below.
const LINES_MAX: usize = 500;

/// Tables, which may be longer because a row is not logic; each with what its rows are.
const TABLES: &[(&str, &str)] = &[(
    "crates/sandbox/src/kinds/table.rs",
    "one row per kind of the API; split, it would have to be searched in parts",
)];

/// Records a violation if a file is longer than it may be.
pub(super) fn check(file: &Path, lines: usize, problems: &mut Vec<String>) {
    if TABLES.iter().any(|(table, _)| file == Path::new(table)) {
        return;
    }
    if lines > LINES_MAX {
        problems.push(format!("{}: {lines} lines, over {LINES_MAX}; split it", file.display()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(file: &str, lines: usize) -> usize {
        let mut problems = Vec::new();
        check(Path::new(file), lines, &mut problems);
        problems.len()
    }

    #[test]
    fn files_are_limited_and_tables_are_not() {
        assert_eq!(problems("crates/a/src/tests.rs", LINES_MAX), 0);
        assert_eq!(problems("crates/a/src/tests.rs", LINES_MAX + 1), 1);
        assert_eq!(problems(TABLES[0].0, LINES_MAX + 1), 0);
    }
}
