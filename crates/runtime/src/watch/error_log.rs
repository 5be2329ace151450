//! Log lines about failures: what to do about them, and not the same line again and again.

use std::time::Duration;

use api::kinds::Kind;
use http::StatusCode;
use tokio::time::Instant;

use super::error::WatchError;
use crate::api_error::Chain;

/// Time before the same text is logged again.
const REPEAT_INTERVAL: Duration = Duration::from_secs(30);

/// The text that was logged last.
#[derive(Debug, Default)]
pub(super) struct ErrorLog(Option<(String, Instant)>);

impl ErrorLog {
    /// Returns `true` if the text is new or was logged more than [`REPEAT_INTERVAL`] ago.
    pub(super) fn should_log(&mut self, text: &str) -> bool {
        let logged = self.0.as_ref();
        self.record(
            text,
            logged.is_none_or(|(last, at)| last != text || at.elapsed() >= REPEAT_INTERVAL),
        )
    }

    /// Returns `true` if the text is not the one that was logged last.
    pub(super) fn should_log_if_new(&mut self, text: &str) -> bool {
        self.record(text, self.0.as_ref().is_none_or(|(last, _)| last != text))
    }

    fn record(&mut self, text: &str, logs: bool) -> bool {
        if logs {
            self.0 = Some((text.to_owned(), Instant::now()));
        }
        logs
    }
}

/// Describes a failure and, for missing rights and credentials, what to do about it.
pub(super) fn explain(kind: &Kind, verb: &str, error: &WatchError) -> String {
    let (group, resource) = names(kind.path);
    let what = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    match error.status() {
        Some(StatusCode::FORBIDDEN) => format!(
            "not allowed to {verb} {what}: give this identity the verbs \"list\" and \"watch\" on the resource \"{resource}\" of the API group \"{group}\", for all namespaces ({error})"
        ),
        Some(StatusCode::UNAUTHORIZED) => format!(
            "cannot {verb} {what}: the API server does not accept our credentials; look at the token or client certificate ({error})"
        ),
        _ => format!("cannot {verb} {what}: {}", Chain(error)),
    }
}

/// Returns API group and resource of a path such as `/apis/GROUP/VERSION/RESOURCE` or `/api/v1/RESOURCE`.
fn names(path: &str) -> (&str, &str) {
    let resource = path.rsplit('/').next().unwrap_or(path);
    let group = path.strip_prefix("/apis/").and_then(|rest| rest.split('/').next());
    (group.unwrap_or(""), resource)
}

#[cfg(test)]
mod tests {
    use super::super::decoder::DecodeError;
    use super::*;
    use crate::api_error::ApiError;
    use api::kinds::KINDS;

    #[test]
    fn a_missing_right_is_named() {
        let refused = |status, message: &str| {
            WatchError::from(ApiError { status, message: message.to_owned() })
        };
        let by_name = |name| KINDS.iter().find(|kind| kind.name == name).unwrap();
        let forbidden = refused(StatusCode::FORBIDDEN, "no");
        assert_eq!(
            explain(by_name("ReplicaSet"), "list", &forbidden),
            "not allowed to list replicasets.apps: give this identity the verbs \"list\" and \"watch\" on the resource \"replicasets\" of the API group \"apps\", for all namespaces (403 Forbidden: no)"
        );
        let unknown = refused(StatusCode::UNAUTHORIZED, "who?");
        let text = explain(by_name("Node"), "watch", &unknown);
        assert!(text.starts_with("cannot watch nodes: the API server does not accept"), "{text}");
        let other = WatchError::Page(DecodeError::Fields("inner".to_owned()));
        assert_eq!(
            explain(by_name("Pod"), "watch", &other),
            "cannot watch pods: a list cannot be read: inner"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn the_same_text_is_logged_every_30_s_and_a_new_one_at_once() {
        let mut error_log = ErrorLog::default();
        let mut logged = 0;
        for _ in 0..120 {
            logged += u32::from(error_log.should_log("one"));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(logged, 4);
        assert!(error_log.should_log("two"));
        assert!(!error_log.should_log("two"));
        tokio::time::advance(REPEAT_INTERVAL).await;
        assert!(!error_log.should_log_if_new("two"));
        assert!(error_log.should_log_if_new("three"));
    }
}
