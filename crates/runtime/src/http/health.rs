//! Health checks in the form of Kubernetes components.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use tracing::{info, warn};

use crate::metrics::Metrics;

/// One check of a health page.
#[derive(Clone)]
pub struct HealthCheck {
    /// Name, which is part of a path.
    pub name: &'static str,
    /// Runs the check; an error is the reason why it fails. Must not block.
    pub run: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl HealthCheck {
    /// Creates a check.
    pub fn new(
        name: &'static str,
        run: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { name, run: Arc::new(run) }
    }

    /// Returns a check that always passes.
    pub fn ping() -> Self {
        Self::new("ping", || Ok(()))
    }
}

/// The checks of one page.
pub(super) struct Health {
    name: &'static str,
    /// Checks, each with its last result.
    checks: Vec<(HealthCheck, AtomicBool)>,
    metrics: Metrics,
}

impl Health {
    pub(super) fn new(name: &'static str, mut checks: Vec<HealthCheck>, metrics: Metrics) -> Self {
        if checks.is_empty() {
            checks.push(HealthCheck::ping());
        }
        let checks = checks.into_iter().map(|check| (check, AtomicBool::new(true))).collect();
        Self { name, checks, metrics }
    }

    /// Returns the path without its slash.
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Returns `true` if there is a check of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.checks.iter().any(|(check, _)| check.name == name)
    }

    /// Runs all checks that the query does not exclude. Returns status and text of the page.
    pub(super) fn all(&self, query: &str) -> (StatusCode, String) {
        let mut verbose = false;
        let mut excluded: Vec<String> = Vec::new();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*key {
                "verbose" => verbose = true,
                "exclude" => excluded.push(value.into_owned()),
                _ => {}
            }
        }
        let (passed, mut text) = self.report(&mut excluded);
        if !excluded.is_empty() {
            excluded.sort_unstable();
            excluded.dedup();
            let names: Vec<String> = excluded.iter().map(|name| format!("{name:?}")).collect();
            let names = names.join(",");
            line(
                &mut text,
                format_args!("warn: some health checks cannot be excluded: no matches for {names}"),
            );
        }
        if !passed {
            line(&mut text, format_args!("{} check failed", self.name));
            return (StatusCode::INTERNAL_SERVER_ERROR, text);
        }
        if !verbose {
            return (StatusCode::OK, "ok".to_owned());
        }
        line(&mut text, format_args!("{} check passed", self.name));
        (StatusCode::OK, text)
    }

    /// Runs one check. Returns `None` if there is none of this name.
    pub(super) fn one(&self, name: &str) -> Option<(StatusCode, String)> {
        let (check, _) = self.checks.iter().find(|(check, _)| check.name == name)?;
        Some(match (check.run)() {
            Ok(()) => (StatusCode::OK, "ok".to_owned()),
            Err(reason) => {
                (StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n"))
            }
        })
    }

    /// Runs the checks and returns a line for each. Removes the names of checks from `excluded`.
    fn report(&self, excluded: &mut Vec<String>) -> (bool, String) {
        let (mut passed, mut text) = (true, String::new());
        let requested = excluded.clone();
        for (check, had_passed) in &self.checks {
            if requested.iter().any(|name| name == check.name) {
                excluded.retain(|name| name != check.name);
                line(&mut text, format_args!("[+]{} excluded: ok", check.name));
                continue;
            }
            let result = (check.run)();
            self.log(check.name, &result, had_passed);
            self.metrics.record_health_check(check.name, self.name, result.is_ok());
            if result.is_ok() {
                line(&mut text, format_args!("[+]{} ok", check.name));
                continue;
            }
            // This page needs no credential, so the reason is only in the log and on the check's page.
            line(&mut text, format_args!("[-]{} failed: reason withheld", check.name));
            passed = false;
        }
        (passed, text)
    }

    /// Logs changes of the result only, since requests need no credential.
    fn log(&self, name: &str, result: &Result<(), String>, had_passed: &AtomicBool) {
        let passes = result.is_ok();
        if had_passed.swap(passes, Ordering::Relaxed) == passes {
            return;
        }
        match result {
            Ok(()) => info!(page = self.name, check = name, "check passes again"),
            Err(reason) => warn!(page = self.name, check = name, %reason, "check fails"),
        }
    }
}

fn line(text: &mut String, line: std::fmt::Arguments) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health() -> Health {
        let bad =
            HealthCheck::new("sync", || Err("handlers are not fully synchronized".to_owned()));
        let checks = vec![HealthCheck::ping(), bad, HealthCheck::new("lease", || Ok(()))];
        Health::new("readyz", checks, Metrics::new("x"))
    }

    #[test]
    fn pages_have_the_texts_of_kubernetes() {
        let good = Health::new("healthz", Vec::new(), Metrics::new("x"));
        let table = [
            (&good, "", 200, "ok"),
            (&good, "verbose", 200, "[+]ping ok\nhealthz check passed\n"),
            (&good, "verbose=0&x=1", 200, "[+]ping ok\nhealthz check passed\n"),
            (&good, "exclude=ping&verbose", 200, "[+]ping excluded: ok\nhealthz check passed\n"),
            (
                &good,
                "verbose&exclude=b&exclude=a&exclude=a",
                200,
                "[+]ping ok\nwarn: some health checks cannot be excluded: no matches for \"a\",\"b\"\nhealthz check passed\n",
            ),
            (
                &health(),
                "",
                500,
                "[+]ping ok\n[-]sync failed: reason withheld\n[+]lease ok\nreadyz check failed\n",
            ),
            (&health(), "exclude=sync", 200, "ok"),
            (&health(), "exclude=%73ync", 200, "ok"),
        ];
        for (health, query, status, want) in table {
            let (got_status, got) = health.all(query);
            assert_eq!((got_status.as_u16(), got.as_str()), (status, want), "?{query}");
        }
    }

    #[test]
    fn the_page_of_a_check_shows_its_reason() {
        let (status, text) = health().one("sync").unwrap();
        assert_eq!(status, 500);
        assert_eq!(text, "internal server error: handlers are not fully synchronized\n");
        assert_eq!(health().one("ping").unwrap(), (StatusCode::OK, "ok".to_owned()));
        assert_eq!(health().one("none"), None);
        assert_eq!(health().one(""), None);
    }
}
