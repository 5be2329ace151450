//! Problems of a configuration with their field paths, in upstream's wording.

use std::cell::RefCell;
use std::fmt;

use serde::Serialize;

/// A problem of a configuration file.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct ConfigProblem {
    /// The field, such as `profiles[0].plugins.score.enabled[1]`; empty for the file as a whole.
    pub path: String,
    /// The value found, and how to correct it.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Collects problems and notes while a file is read.
#[derive(Debug, Default)]
pub(super) struct ProblemSink {
    problems: RefCell<Vec<ConfigProblem>>,
    notes: RefCell<Vec<String>>,
}

impl ProblemSink {
    /// Adds a problem.
    pub(super) fn report(&self, path: impl Into<String>, message: impl Into<String>) {
        self.problems
            .borrow_mut()
            .push(ConfigProblem { path: path.into(), message: message.into() });
    }

    /// Adds a note.
    pub(super) fn note(&self, note: impl Into<String>) {
        self.notes.borrow_mut().push(note.into());
    }

    /// Returns the number of problems so far.
    pub(super) fn count(&self) -> usize {
        self.problems.borrow().len()
    }

    /// Returns the problems and the notes.
    pub(super) fn into_parts(self) -> (Vec<ConfigProblem>, Vec<String>) {
        (self.problems.into_inner(), self.notes.into_inner())
    }
}

/// Formats the message for a value that is out of range or malformed.
pub(super) fn invalid(value: impl fmt::Display, detail: &str) -> String {
    format!("Invalid value: {value}: {detail}")
}

/// Formats the message for a string that is out of range or malformed.
pub(super) fn invalid_text(value: &str, detail: &str) -> String {
    format!("Invalid value: {}: {detail}", quoted(value))
}

/// Formats the message for a missing required field.
pub(super) fn required(detail: &str) -> String {
    if detail.is_empty() {
        "Required value".to_owned()
    } else {
        format!("Required value: {detail}")
    }
}

/// Formats the message for a field that must not be set.
pub(super) fn forbidden(detail: &str) -> String {
    format!("Forbidden: {detail}")
}

/// Formats the message for a duplicate value.
pub(super) fn duplicate(value: &str) -> String {
    format!("Duplicate value: {}", quoted(value))
}

/// Formats the message for a string outside a fixed set.
pub(super) fn unsupported(value: &str, supported: &[&str]) -> String {
    let supported: Vec<String> = supported.iter().map(|name| format!("{name:?}")).collect();
    format!("Unsupported value: {}: supported values: {}", quoted(value), supported.join(", "))
}

/// Quotes a string, truncated to 120 characters.
pub(super) fn quoted(value: &str) -> String {
    const SHOWN_MAX: usize = 120;
    match value.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{:?}…", &value[..end]),
        None => format!("{value:?}"),
    }
}

/// Returns the path of a field of an object.
pub(super) fn child(path: &str, key: &str) -> String {
    let plain = key.len() <= 64
        && !key.is_empty()
        && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '/' | '.' | '$'));
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[{}]", quoted(key)),
    }
}

/// Returns the path of an element of a list.
pub(super) fn index(path: &str, position: usize) -> String {
    format!("{path}[{position}]")
}
