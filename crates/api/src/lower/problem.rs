//! Problems of an object, with their field paths.

use std::fmt;

use super::limits::{FOUND_CHARS_MAX, LIST_ENTRIES_MAX, PROBLEMS_MAX};

/// The severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The object works, but probably not as intended.
    Warning,
    /// The API server would have rejected the object.
    Error,
}

/// A problem of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How severe it is.
    pub severity: Severity,
    /// The object, such as `Pod default/web-1`, or the document.
    pub object: String,
    /// The field, such as `spec.containers[0].resources.requests.cpu`; empty for the object as a
    /// whole.
    pub path: String,
    /// The value found and the value expected.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.path {
            "" => write!(f, "{}: {}", self.object, self.message),
            path => write!(f, "{}: {path}: {}", self.object, self.message),
        }
    }
}

/// A field path within an object. It is a linked list on the stack, formatted only for a problem.
#[derive(Clone, Copy)]
pub(super) enum FieldPath<'a> {
    Root,
    Field(&'a FieldPath<'a>, &'static str),
    Key(&'a FieldPath<'a>, &'a str),
    Index(&'a FieldPath<'a>, usize),
}

impl<'a> FieldPath<'a> {
    pub(super) fn field(&'a self, name: &'static str) -> FieldPath<'a> {
        FieldPath::Field(self, name)
    }

    pub(super) fn key(&'a self, key: &'a str) -> FieldPath<'a> {
        FieldPath::Key(self, key)
    }

    pub(super) fn index(&'a self, index: usize) -> FieldPath<'a> {
        FieldPath::Index(self, index)
    }
}

impl fmt::Display for FieldPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FieldPath::Root => Ok(()),
            FieldPath::Field(FieldPath::Root, name) => f.write_str(name),
            FieldPath::Field(parent, name) => write!(f, "{parent}.{name}"),
            FieldPath::Key(parent, key) => write!(f, "{parent}.{}", clip(key)),
            FieldPath::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Collects the problems of one object while it is lowered.
#[derive(Default)]
pub(crate) struct ProblemReport {
    problems: Vec<Problem>,
    /// Number of problems beyond `PROBLEMS_MAX`.
    omitted: usize,
    /// Upstream could not have decoded the object.
    unusable: bool,
    /// The first list or map that exceeds its limit, with its size.
    too_large: Option<String>,
}

impl ProblemReport {
    /// Reports that the object works, but probably not as intended.
    pub(super) fn warning(&mut self, path: &FieldPath<'_>, message: impl Into<String>) {
        self.push(Severity::Warning, path.to_string(), message.into());
    }

    /// Reports that the API server would have rejected the object; the scheduler handles it.
    pub(super) fn error(&mut self, path: &FieldPath<'_>, message: impl Into<String>) {
        self.push(Severity::Error, path.to_string(), message.into());
    }

    /// Reports that the object cannot be used.
    pub(super) fn fatal(&mut self, path: &FieldPath<'_>, message: impl Into<String>) {
        self.fatal_at(path.to_string(), message.into());
    }

    /// Like [`ProblemReport::fatal`], with the path already formatted.
    pub(super) fn fatal_at(&mut self, path: String, message: String) {
        self.unusable = true;
        self.push(Severity::Error, path, message);
    }

    /// Returns `true` if a list has at most `LIST_ENTRIES_MAX` entries, and reports it otherwise.
    pub(super) fn check_entries<T>(&mut self, path: &FieldPath<'_>, list: &[T]) -> bool {
        self.check_limit(path, list.len(), LIST_ENTRIES_MAX, "entries")
    }

    /// Returns `true` if a size is within its limit, and reports it otherwise. The object stays
    /// usable, because its requests count towards its node.
    pub(super) fn check_limit(
        &mut self,
        path: &FieldPath<'_>,
        found: usize,
        most: usize,
        of_what: &str,
    ) -> bool {
        if found <= most {
            return true;
        }
        let message = format!("found {found} {of_what}, expected at most {most}");
        self.too_large.get_or_insert_with(|| format!("{path}: {message}"));
        self.error(path, message);
        false
    }

    /// Returns the first list or map that exceeds its limit, with its path.
    pub(super) fn too_large(&self) -> Option<&str> {
        self.too_large.as_deref()
    }

    /// Returns `true` if a fatal problem was reported.
    pub(super) fn is_unusable(&self) -> bool {
        self.unusable
    }

    /// Returns all problems, labelled with the name of the object.
    pub(super) fn finish(mut self, object: impl FnOnce() -> String) -> Vec<Problem> {
        if self.problems.is_empty() {
            return self.problems;
        }
        if self.omitted > 0 {
            let message = format!("{} more problems omitted", self.omitted);
            self.problems.push(Problem {
                severity: Severity::Error,
                object: String::new(),
                path: String::new(),
                message,
            });
        }
        let object = object();
        for problem in &mut self.problems {
            object.clone_into(&mut problem.object);
        }
        self.problems
    }

    fn push(&mut self, severity: Severity, path: String, message: String) {
        if self.problems.len() >= PROBLEMS_MAX {
            self.omitted += 1;
            return;
        }
        self.problems.push(Problem { severity, object: String::new(), path, message });
    }
}

/// Quotes the offending value, shortened to `FOUND_CHARS_MAX` characters.
pub(super) fn quoted(found: &str) -> String {
    format!("{:?}", clip(found))
}

/// Shortens a text to `FOUND_CHARS_MAX` characters and an ellipsis.
pub(super) fn clip(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(FOUND_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
