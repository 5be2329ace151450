//! FailureBackoff that come again and again are told now and then.

use std::time::Duration;

use anyhow::Error;
use http::StatusCode;
use tokio::time::Instant;

use crate::api_error::status_code_of;
use crate::kinds::WatchedKind;

/// The same is not told again before this.
const REPEAT_INTERVAL: Duration = Duration::from_secs(30);

/// What was told last.
#[derive(Debug, Default)]
pub(super) struct ErrorLog(Option<(String, Instant)>);

impl ErrorLog {
    /// Whether this is to be told: it is news, or was told long ago.
    pub(super) fn should_log(&mut self, text: &str) -> bool {
        let told = self.0.as_ref();
        self.note(
            text,
            told.is_none_or(|(last, at)| last != text || at.elapsed() >= REPEAT_INTERVAL),
        )
    }

    /// Whether this is not what was told last.
    pub(super) fn should_log_if_new(&mut self, text: &str) -> bool {
        self.note(text, self.0.as_ref().is_none_or(|(last, _)| last != text))
    }

    fn note(&mut self, text: &str, told: bool) -> bool {
        if told {
            self.0 = Some((text.to_owned(), Instant::now()));
        }
        told
    }
}

/// What is wrong and, if it is known, what to do.
pub(super) fn explain(kind: &WatchedKind, verb: &str, error: &Error) -> String {
    let (group, resource) = names(kind.path);
    let what = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    match status_code_of(error) {
        Some(StatusCode::FORBIDDEN) => format!(
            "not allowed to {verb} {what}: give this identity the verbs \"list\" and \"watch\" on the resource \"{resource}\" of the API group \"{group}\", for all namespaces ({error})"
        ),
        Some(StatusCode::UNAUTHORIZED) => format!(
            "cannot {verb} {what}: the API server does not accept our credentials; look at the token or client certificate ({error})"
        ),
        _ => format!("cannot {verb} {what}: {error:#}"),
    }
}

/// API group and resource, as in `/apis/GROUP/VERSION/RESOURCE` or `/api/v1/RESOURCE`.
fn names(path: &str) -> (&str, &str) {
    let resource = path.rsplit('/').next().unwrap_or(path);
    let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
    (group.unwrap_or(""), resource)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api_error::ApiError;
    use crate::kinds::KINDS;

    #[test]
    fn a_missing_right_is_named() {
        let refused =
            |status, message: &str| Error::from(ApiError { status, message: message.to_owned() });
        let by_name = |name| KINDS.iter().find(|kind| kind.name == name).unwrap();
        let forbidden = refused(StatusCode::FORBIDDEN, "no");
        assert_eq!(
            explain(by_name("ReplicaSet"), "list", &forbidden),
            "not allowed to list replicasets.apps: give this identity the verbs \"list\" and \"watch\" on the resource \"replicasets\" of the API group \"apps\", for all namespaces (403 Forbidden: no)"
        );
        let unknown = refused(StatusCode::UNAUTHORIZED, "who?");
        let text = explain(by_name("Node"), "watch", &unknown);
        assert!(text.starts_with("cannot watch nodes: the API server does not accept"), "{text}");
        let other = Error::msg("inner").context("outer");
        assert_eq!(explain(by_name("Pod"), "watch", &other), "cannot watch pods: outer: inner");
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_is_told_every_half_minute_and_news_at_once() {
        let mut error_log = ErrorLog::default();
        let mut told = 0;
        for _ in 0..120 {
            told += u32::from(error_log.should_log("one"));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(told, 4);
        assert!(error_log.should_log("two"));
        assert!(!error_log.should_log("two"));
        tokio::time::advance(REPEAT_INTERVAL).await;
        assert!(!error_log.should_log_if_new("two"));
        assert!(error_log.should_log_if_new("three"));
    }
}
