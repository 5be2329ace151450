//! Paths that need no identity.

/// Why a list of paths cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AllowedPathError {
    /// A path has a star in the middle.
    #[error("--authorization-always-allow-paths: {0:?} has a * that is not at its end")]
    Star(String),
    /// A prefix does not end at a slash.
    #[error(
        "--authorization-always-allow-paths: {path:?} would also allow paths of other names; write {suggestion:?}"
    )]
    Prefix {
        /// The path.
        path: String,
        /// A prefix that ends at a slash.
        suggestion: String,
    },
}

/// A list of exact paths and prefixes.
#[derive(Debug)]
pub(super) struct AllowedPaths {
    exact: Vec<String>,
    prefixes: Vec<String>,
}

impl AllowedPaths {
    /// Parses upstream's form: a path, or a path that ends in `*`.
    pub(super) fn new(paths: &[String]) -> Result<Self, AllowedPathError> {
        let (mut exact, mut prefixes) = (Vec::new(), Vec::new());
        for path in paths {
            let bare = path.strip_prefix('/').unwrap_or(path);
            let (prefix, is_prefix) = match bare.strip_suffix('*') {
                Some(prefix) => (prefix, true),
                None => (bare, false),
            };
            if prefix.contains('*') {
                return Err(AllowedPathError::Star(path.clone()));
            }
            if is_prefix && !prefix.is_empty() && !prefix.ends_with('/') {
                let suggestion = format!("/{prefix}/*");
                return Err(AllowedPathError::Prefix { path: path.clone(), suggestion });
            }
            if is_prefix { &mut prefixes } else { &mut exact }.push(format!("/{prefix}"));
        }
        Ok(Self { exact, prefixes })
    }

    /// Returns `true` if a path is on the list. The routes also compare the path as it was sent, so no
    /// encoding of a path can pass here and mean another page there.
    pub(super) fn contains(&self, path: &str) -> bool {
        self.exact.iter().any(|exact| exact == path)
            || self.prefixes.iter().any(|prefix| path.starts_with(prefix.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(paths: &[&str]) -> AllowedPaths {
        let paths: Vec<String> = paths.iter().map(|&path| path.to_owned()).collect();
        AllowedPaths::new(&paths).unwrap()
    }

    #[test]
    fn paths_are_exact_unless_they_end_in_a_star() {
        let table = [
            ("/healthz", "/healthz", true),
            ("healthz", "/healthz", true),
            ("/healthz", "/healthz/ping", false),
            ("/healthz", "/healthzz", false),
            ("/healthz", "/healthz/", false),
            ("/healthz", "/metrics", false),
            ("/healthz/*", "/healthz/ping", true),
            ("/healthz/*", "/healthz/", true),
            ("/healthz/*", "/healthz", false),
            ("/healthz", "//healthz", false),
            ("/healthz", "/x/../healthz", false),
            ("/healthz", "/%68ealthz", false),
            ("/*", "/metrics", true),
        ];
        for (list, path, want) in table {
            assert_eq!(allowed(&[list]).contains(path), want, "{list} {path}");
        }
        assert!(!allowed(&[]).contains("/healthz"));
    }

    #[test]
    fn stars_elsewhere_are_refused() {
        for path in ["/a*b", "/*/a", "/a/**", "/metr*"] {
            let error = AllowedPaths::new(&[path.to_owned()]).unwrap_err().to_string();
            assert!(error.contains(path), "{error}");
        }
    }
}
