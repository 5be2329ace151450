//! What is wrong with an object, and where.

use std::fmt;

use super::limits::{FOUND_CHARS_MAX, LIST_ENTRIES_MAX, PROBLEMS_MAX};

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// The object works, but probably not as meant.
    Warning,
    /// A cluster would not have taken the object.
    Error,
}

/// Something wrong with an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// Which object, as `Pod default/web-1`, or which document.
    pub object: String,
    /// Which field, as `spec.containers[0].resources.requests.cpu`; empty when it is the whole object.
    pub path: String,
    /// What was found and what was expected.
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

/// Where in an object we are; turned into text only when there is something to say.
#[derive(Clone, Copy)]
pub(super) enum Path<'a> {
    Root,
    Field(&'a Path<'a>, &'static str),
    Key(&'a Path<'a>, &'a str),
    Index(&'a Path<'a>, usize),
}

impl<'a> Path<'a> {
    pub(super) fn field(&'a self, name: &'static str) -> Path<'a> {
        Path::Field(self, name)
    }

    pub(super) fn key(&'a self, key: &'a str) -> Path<'a> {
        Path::Key(self, key)
    }

    pub(super) fn index(&'a self, index: usize) -> Path<'a> {
        Path::Index(self, index)
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root => Ok(()),
            Path::Field(Path::Root, name) => f.write_str(name),
            Path::Field(parent, name) => write!(f, "{parent}.{name}"),
            Path::Key(parent, key) => write!(f, "{parent}.{}", clip(key)),
            Path::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Problems of one object while it is being lowered.
#[derive(Default)]
pub(super) struct Report {
    problems: Vec<Problem>,
    /// Problems beyond the limit.
    left_out: usize,
    /// Upstream could not even have decoded the object.
    unusable: bool,
    /// The first list or map that is larger than any is worked with, and its size.
    too_large: Option<String>,
}

impl Report {
    /// The object works, but probably not as meant.
    pub(super) fn warning(&mut self, path: &Path<'_>, message: impl Into<String>) {
        self.push(Severity::Warning, path.to_string(), message.into());
    }

    /// A cluster would not have taken the object, though scheduling knows what to do with it.
    pub(super) fn error(&mut self, path: &Path<'_>, message: impl Into<String>) {
        self.push(Severity::Error, path.to_string(), message.into());
    }

    /// The object cannot be used at all.
    pub(super) fn fatal(&mut self, path: &Path<'_>, message: impl Into<String>) {
        self.fatal_at(path.to_string(), message.into());
    }

    /// As `fatal`, with the path as text.
    pub(super) fn fatal_at(&mut self, path: String, message: String) {
        self.unusable = true;
        self.push(Severity::Error, path, message);
    }

    /// Whether a list is short enough; says so if not.
    pub(super) fn bounded<T>(&mut self, path: &Path<'_>, list: &[T]) -> bool {
        self.within(path, list.len(), LIST_ENTRIES_MAX, "entries")
    }

    /// Returns whether a size is within its limit, and reports it if not. The object stays usable: what
    /// it holds on its node counts.
    pub(super) fn within(
        &mut self,
        path: &Path<'_>,
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

    /// What is too large, with its path, if anything is.
    pub(super) fn too_large(&self) -> Option<&str> {
        self.too_large.as_deref()
    }

    /// Whether the object cannot be used at all.
    pub(super) fn is_unusable(&self) -> bool {
        self.unusable
    }

    /// All problems, now that the object's name is known.
    pub(super) fn finish(mut self, object: impl FnOnce() -> String) -> Vec<Problem> {
        if self.problems.is_empty() {
            return self.problems;
        }
        if self.left_out > 0 {
            let message = format!("{} more problems are left out", self.left_out);
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
            self.left_out += 1;
            return;
        }
        self.problems.push(Problem { severity, object: String::new(), path, message });
    }
}

/// Quotes what was found, shortened.
pub(super) fn quoted(found: &str) -> String {
    format!("{:?}", clip(found))
}

/// The beginning of a long text.
pub(super) fn clip(text: &str) -> std::borrow::Cow<'_, str> {
    match text.char_indices().nth(FOUND_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}
