//! A reader of typed fields of an object, which tracks the path and reports unknown fields.

use super::duration::Duration;
use super::problem::{ProblemSink, child, index, quoted};
use super::tree::{Tree, unique};
use super::version::Version;

/// An object being read.
///
/// A field that is absent, null or of the wrong type reads as `None`; a wrong type is reported.
/// [`Fields::finish`] reports the fields that were never read.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    /// Path of this object in the file.
    pub(super) path: String,
    /// Receives the problems.
    pub(super) sink: &'a ProblemSink,
    entries: Vec<(String, Tree)>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// Opens an object; any other value is reported and reads as an empty object.
    pub(super) fn open(tree: Tree, path: String, sink: &'a ProblemSink) -> Self {
        let entries = match tree {
            Tree::Map(entries) => unique(entries, &path, sink),
            Tree::Null => Vec::new(),
            other => {
                sink.report(&path, format!("expected an object, found {}", other.describe()));
                Vec::new()
            }
        };
        Self { path, sink, entries, known: Vec::new() }
    }

    /// Takes a field of any type.
    pub(super) fn any(&mut self, key: &'static str) -> Option<Tree> {
        self.known.push(key);
        let position = self.entries.iter().position(|(name, _)| name == key)?;
        let (_, tree) = self.entries.remove(position);
        (tree != Tree::Null).then_some(tree)
    }

    /// Takes a string.
    pub(super) fn text(&mut self, key: &'static str) -> Option<String> {
        let tree = self.any(key)?;
        self.expect_text(self.child(key), tree)
    }

    /// Takes a boolean.
    pub(super) fn flag(&mut self, key: &'static str) -> Option<bool> {
        match self.any(key)? {
            Tree::Flag(value) => Some(value),
            other => self.wrong(&self.child(key), "true or false", &other),
        }
    }

    /// Takes an integer of the width of `T`.
    pub(super) fn number<T: TryFrom<i128>>(&mut self, key: &'static str) -> Option<T> {
        let path = self.child(key);
        let value = match self.any(key)? {
            Tree::Number(value) => value,
            // Upstream also reads YAML's 1.0 as an integer; an integer that is too long is parsed
            // as a float.
            Tree::Float(value) if value.fract() == 0.0 => value as i128,
            other => return self.wrong(&path, "a whole number", &other),
        };
        let number = T::try_from(value).ok();
        if number.is_none() {
            let bits = 8 * size_of::<T>();
            self.sink.report(path, format!("{value} does not fit in a {bits}-bit integer"));
        }
        number
    }

    /// Takes a floating-point number.
    pub(super) fn float(&mut self, key: &'static str) -> Option<f32> {
        let path = self.child(key);
        let value = match self.any(key)? {
            Tree::Number(value) => value as f64,
            Tree::Float(value) => value,
            other => return self.wrong(&path, "a number", &other),
        };
        let number = value as f32;
        if !number.is_finite() {
            self.sink.report(path, format!("{value} does not fit in a 32-bit float"));
            return None;
        }
        Some(number)
    }

    /// Takes a duration in Go's syntax.
    pub(super) fn duration(&mut self, key: &'static str) -> Option<Duration> {
        let path = self.child(key);
        match self.any(key)? {
            Tree::Text(text) => {
                Duration::parse(&text).map_err(|error| self.sink.report(path, error)).ok()
            }
            other => self.wrong(&path, "a duration such as \"10s\"", &other),
        }
    }

    /// Takes an object.
    pub(super) fn object(&mut self, key: &'static str) -> Option<Fields<'a>> {
        let tree = self.any(key)?;
        Some(Fields::open(tree, self.child(key), self.sink))
    }

    /// Takes a list of objects. Wrong elements are reported and read as empty objects, so that the
    /// positions of the others are preserved.
    pub(super) fn objects(&mut self, key: &'static str) -> Option<Vec<Fields<'a>>> {
        let path = self.child(key);
        let list = self.list(key)?;
        let open = |(position, tree)| Fields::open(tree, index(&path, position), self.sink);
        Some(list.into_iter().enumerate().map(open).collect())
    }

    /// Takes a list of strings.
    pub(super) fn texts(&mut self, key: &'static str) -> Option<Vec<String>> {
        let path = self.child(key);
        let list = self.list(key)?;
        let text =
            |(position, tree)| self.expect_text(index(&path, position), tree).unwrap_or_default();
        Some(list.into_iter().enumerate().map(text).collect())
    }

    /// Reports a field that a later version of the configuration introduced.
    pub(super) fn introduced_later(&mut self, key: &'static str, version: Version, since: Version) {
        self.removed(
            key,
            &format!("unknown field in {}; it exists since {}", version.short(), since.short()),
        );
    }

    /// Reports a field with its own message, if it is present.
    pub(super) fn removed(&mut self, key: &'static str, message: &str) {
        if let Some(position) = self.entries.iter().position(|(name, _)| name == key) {
            self.entries.remove(position);
            self.sink.report(self.child(key), message);
        }
    }

    /// Reports every field that was not read.
    pub(super) fn finish(self) {
        for (key, _) in &self.entries {
            let hint = match nearest(key, self.known.iter().copied()) {
                Some(name) => format!("; did you mean {name:?}?"),
                None if self.known.is_empty() => "; this object has no fields".to_owned(),
                None => format!("; known fields: {}", self.known.join(", ")),
            };
            self.sink
                .report(child(&self.path, key), format!("unknown field {}{hint}", quoted(key)));
        }
    }

    /// Returns the path of a field of this object.
    pub(super) fn child(&self, key: &str) -> String {
        child(&self.path, key)
    }

    fn list(&mut self, key: &'static str) -> Option<Vec<Tree>> {
        match self.any(key)? {
            Tree::List(values) => Some(values),
            other => self.wrong(&self.child(key), "a list", &other),
        }
    }

    fn expect_text(&self, path: String, tree: Tree) -> Option<String> {
        match tree {
            Tree::Text(value) => Some(value),
            Tree::Flag(_) | Tree::Number(_) | Tree::Float(_) => {
                let found = tree.describe();
                self.sink
                    .report(path, format!("expected a string, found {found}; put it in quotes"));
                None
            }
            other => self.wrong(&path, "a string", &other),
        }
    }

    fn wrong<T>(&self, path: &str, expected: &str, found: &Tree) -> Option<T> {
        self.sink.report(path, format!("expected {expected}, found {}", found.describe()));
        None
    }
}

/// Returns the known name that is closest, if one is close enough to be a typo.
pub(super) fn nearest<'n>(found: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    if found.len() > 64 {
        return None;
    }
    let found = found.to_lowercase();
    names
        .map(|name| (distance(&found, &name.to_lowercase()), name))
        .filter(|(distance, name)| *distance <= 1.max(name.len() / 4))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Returns the edit distance of two short strings.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(left != *right);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
