//! What the API server says when it does not do what it was asked.

use std::time::Duration;

use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde_json::Value;
use tokio::time::timeout;

/// How long the reason of a refusal may take; that it was refused is known before.
const MESSAGE_MAX: Duration = Duration::from_secs(1);

/// Bytes of such a reason.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The API server refused.
#[derive(Debug)]
pub(crate) struct Refused {
    /// The HTTP status.
    pub status: StatusCode,
    /// What it said.
    pub message: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}

impl std::error::Error for Refused {}

/// Why the API server refused, as an error.
pub(crate) async fn failure(response: Response<Body>) -> anyhow::Error {
    let status = response.status();
    let body = http_body_util::Limited::new(response.into_body(), MESSAGE_BYTES_MAX);
    let bytes = timeout(MESSAGE_MAX, body.collect()).await;
    let bytes = bytes.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes);
    let object = bytes.and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
    let message = object.as_ref().map_or_else(|| "(no message)".to_owned(), message_of);
    Refused { status, message }.into()
}

/// The status with which the API server refused, if it did.
pub(crate) fn refusal(error: &anyhow::Error) -> Option<StatusCode> {
    error.downcast_ref::<Refused>().map(|refused| refused.status)
}

/// Whether asking the same again may be answered differently.
pub(crate) fn may_pass(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

/// The message of a `Status` object.
pub(crate) fn message_of(status: &Value) -> String {
    status.get("message").and_then(Value::as_str).unwrap_or("(no message)").to_owned()
}

/// How long the server wants to be left alone, if it says so.
pub(crate) fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let header = response.headers().get("retry-after")?.to_str().ok()?;
    header.trim().parse().ok().map(Duration::from_secs)
}
