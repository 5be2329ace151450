//! Problems with their field path, in upstream's wording.

use std::cell::RefCell;
use std::fmt;

use serde::Serialize;

/// Something wrong with a configuration file.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub struct Problem {
    /// The field, such as `profiles[0].plugins.score.enabled[1]`; empty for the file as a whole.
    pub path: String,
    /// What was found, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return f.write_str(&self.message);
        }
        write!(f, "{}: {}", self.path, self.message)
    }
}

/// Collects problems and notes while a file is read.
#[derive(Debug, Default)]
pub(super) struct Sink {
    problems: RefCell<Vec<Problem>>,
    notes: RefCell<Vec<String>>,
}

impl Sink {
    /// Adds a problem.
    pub(super) fn report(&self, path: impl Into<String>, message: impl Into<String>) {
        self.problems.borrow_mut().push(Problem { path: path.into(), message: message.into() });
    }

    /// Adds a note.
    pub(super) fn note(&self, note: impl Into<String>) {
        self.notes.borrow_mut().push(note.into());
    }

    /// How many problems there are so far.
    pub(super) fn count(&self) -> usize {
        self.problems.borrow().len()
    }

    /// Ends the collection.
    pub(super) fn into_parts(self) -> (Vec<Problem>, Vec<String>) {
        (self.problems.into_inner(), self.notes.into_inner())
    }
}

/// The message for a value that is out of range or malformed.
pub(super) fn invalid(value: impl fmt::Display, detail: &str) -> String {
    format!("Invalid value: {value}: {detail}")
}

/// The message for a string that is out of range or malformed.
pub(super) fn invalid_text(value: &str, detail: &str) -> String {
    format!("Invalid value: {}: {detail}", quoted(value))
}

/// The message for a field that must be set.
pub(super) fn required(detail: &str) -> String {
    if detail.is_empty() {
        "Required value".to_owned()
    } else {
        format!("Required value: {detail}")
    }
}

/// The message for a field that must not be set.
pub(super) fn forbidden(detail: &str) -> String {
    format!("Forbidden: {detail}")
}

/// The message for a value given twice.
pub(super) fn duplicate(value: &str) -> String {
    format!("Duplicate value: {}", quoted(value))
}

/// The message for a string that is not one of a fixed set.
pub(super) fn unsupported(value: &str, supported: &[&str]) -> String {
    let supported: Vec<String> = supported.iter().map(|name| format!("{name:?}")).collect();
    format!("Unsupported value: {}: supported values: {}", quoted(value), supported.join(", "))
}

/// A string in quotes, cut where it is too long for a message.
pub(super) fn quoted(value: &str) -> String {
    const SHOWN_MAX: usize = 120;
    match value.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{:?}…", &value[..end]),
        None => format!("{value:?}"),
    }
}

/// The path of a field of an object.
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

/// The path of an element of a list.
pub(super) fn index(path: &str, position: usize) -> String {
    format!("{path}[{position}]")
}
