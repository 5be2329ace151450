//! Paths that need no identity.

use anyhow::ensure;

/// Exact paths and prefixes.
#[derive(Debug)]
pub(super) struct AllowedPaths {
    exact: Vec<String>,
    prefixes: Vec<String>,
}

impl AllowedPaths {
    /// Reads upstream's form: a path, or a path that ends in `*`.
    pub(super) fn new(paths: &[String]) -> anyhow::Result<Self> {
        let (mut exact, mut prefixes) = (Vec::new(), Vec::new());
        for path in paths {
            let bare = path.strip_prefix('/').unwrap_or(path);
            let (prefix, is_prefix) = match bare.strip_suffix('*') {
                Some(prefix) => (prefix, true),
                None => (bare, false),
            };
            ensure!(
                !prefix.contains('*'),
                "--authorization-always-allow-paths: {path:?} has a * that is not at its end"
            );
            ensure!(
                !is_prefix || prefix.is_empty() || prefix.ends_with('/'),
                "--authorization-always-allow-paths: {path:?} would also allow paths of other names; write {:?}",
                format!("/{prefix}/*")
            );
            if is_prefix { &mut prefixes } else { &mut exact }.push(format!("/{prefix}"));
        }
        Ok(Self { exact, prefixes })
    }

    /// Whether a path is on the list. Both this and the routes look at the path as it was sent, so
    /// no way of writing a path can mean one thing here and another there.
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
