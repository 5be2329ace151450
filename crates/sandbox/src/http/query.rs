//! Query parameters of requests.

use std::time::Duration;

use crate::cluster::{FieldValidation, ListOptions, WriteOptions};
use crate::field_error::FieldError;
use crate::selector::Selector;
use crate::status_error::{ApiResult, StatusError};

/// The query of a URL.
#[derive(Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    pub(super) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
    }

    pub(super) fn truth(&self, name: &str) -> bool {
        ["true", "1", "t", "T", "TRUE", "True"].contains(&self.get(name))
    }

    fn number(&self, name: &str) -> ApiResult<Option<u64>> {
        match self.get(name) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                StatusError::bad_request(format!(
                    "strconv.ParseInt: parsing {text:?}: invalid syntax"
                ))
            }),
        }
    }

    pub(super) fn list(&self) -> ApiResult<ListOptions> {
        Ok(ListOptions {
            labels: Selector::labels(self.get("labelSelector"))?,
            fields: Selector::fields(self.get("fieldSelector"))?,
            limit: self.number("limit")?.unwrap_or(0) as usize,
            continue_token: self.get("continue").to_owned(),
            version: self.get("resourceVersion").to_owned(),
            version_match: self.get("resourceVersionMatch").to_owned(),
        })
    }

    pub(super) fn dry_run(&self) -> ApiResult<bool> {
        match self.get("dryRun") {
            "" => Ok(false),
            "All" => Ok(true),
            other => Err(StatusError::invalid(
                "meta.k8s.io",
                "CreateOptions",
                "",
                &[FieldError::not_supported("dryRun", other, &["All"])],
            )),
        }
    }

    pub(super) fn write(&self, agent: &str) -> ApiResult<WriteOptions> {
        let field_validation = match self.get("fieldValidation") {
            "" | "Warn" => FieldValidation::Warn,
            "Strict" => FieldValidation::Strict,
            "Ignore" => FieldValidation::Ignore,
            other => {
                return Err(StatusError::invalid(
                    "meta.k8s.io",
                    "CreateOptions",
                    "",
                    &[FieldError::not_supported(
                        "fieldValidation",
                        other,
                        &["Ignore", "Strict", "Warn"],
                    )],
                ));
            }
        };
        // The default field manager is the program name in the user agent, as upstream.
        let given = self.get("fieldManager");
        let program = agent.split('/').next().unwrap_or_default();
        let manager = if given.is_empty() { program } else { given };
        Ok(WriteOptions {
            dry_run: self.dry_run()?,
            field_validation,
            manager: manager.chars().take(128).collect(),
            force: self.truth("force"),
        })
    }

    /// Returns the requested duration of a watch.
    pub(super) fn watch_time(&self) -> ApiResult<Option<Duration>> {
        Ok(self
            .number("timeoutSeconds")?
            .filter(|seconds| *seconds > 0)
            .map(|seconds| Duration::from_secs(seconds.min(86_400))))
    }
}
