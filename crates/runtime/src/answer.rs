//! What the API server says when it does not do what it was asked.

use std::time::Duration;

use api::lower::Source;
use api::protobuf::{schema, wire};
use http::{Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use serde::Deserialize;
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
    let form = Form::of(&response);
    let body = http_body_util::Limited::new(response.into_body(), MESSAGE_BYTES_MAX);
    let bytes = timeout(MESSAGE_MAX, body.collect()).await;
    let bytes = bytes.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes);
    let said = bytes.and_then(|bytes| match form {
        Form::Json => serde_json::from_slice::<Said>(&bytes).ok(),
        Form::Protobuf => Said::read(Source::Protobuf(&schema::STATUS, wire::unwrap(&bytes).ok()?)),
    });
    Refused { status, message: said.unwrap_or_default().message() }.into()
}

/// Takes in what is left of an answer that matters no more: to break it off would cost both sides a
/// message.
pub(crate) async fn finish(response: Response<Body>) {
    let body = http_body_util::Limited::new(response.into_body(), MESSAGE_BYTES_MAX);
    let _ = timeout(MESSAGE_MAX, body.collect()).await;
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

/// The form that an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    Json,
    Protobuf,
}

impl Form {
    /// By the head of the answer.
    pub(crate) fn of(response: &Response<Body>) -> Self {
        let kind = response.headers().get(http::header::CONTENT_TYPE);
        match kind.and_then(|kind| kind.to_str().ok()) {
            Some(kind) if kind.starts_with("application/vnd.kubernetes.protobuf") => Self::Protobuf,
            _ => Self::Json,
        }
    }
}

/// A `Status` object.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Said {
    pub(crate) code: Option<u16>,
    pub(crate) reason: Option<String>,
    message: Option<String>,
}

impl Said {
    pub(crate) fn read(status: Source<'_>) -> Option<Self> {
        status.read().ok()
    }

    /// The sentence of it.
    pub(crate) fn message(self) -> String {
        self.message.unwrap_or_else(|| "(no message)".to_owned())
    }
}

/// How long the server wants to be left alone, if it says so.
pub(crate) fn retry_after(response: &Response<Body>) -> Option<Duration> {
    let header = response.headers().get("retry-after")?.to_str().ok()?;
    header.trim().parse().ok().map(Duration::from_secs)
}
