//! What the API server says when it does not do what it was asked.

use std::time::Duration;

use api::lower::Source;
use api::protobuf::{schema, wire};
use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Deserialize;
use tokio::time::timeout;

use crate::client::ResponseBody;

/// The forms of answers that are asked for; protobuf costs both sides less.
pub(crate) const JSON: &str = "application/json";
pub(crate) const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf,application/json";

/// How long the reason of a refusal may take; that it was refused is known before.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// Bytes of such a reason.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// The API server refused.
#[derive(Debug)]
pub(crate) struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// What it said.
    pub message: String,
}

impl std::fmt::Display for ApiError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status, self.message)
    }
}

impl std::error::Error for ApiError {}

impl ApiError {
    /// Reads the error from a response whose body has arrived.
    pub(crate) fn from_response(response: &Response<Bytes>) -> Self {
        let body = response.body();
        let status = match Encoding::of(response) {
            Encoding::Json => serde_json::from_slice::<ApiStatus>(body).ok(),
            Encoding::Protobuf => wire::strip_envelope(body)
                .ok()
                .and_then(|object| ApiStatus::read(Source::Protobuf(&schema::STATUS, object))),
        };
        Self { status: response.status(), message: status.unwrap_or_default().message() }
    }
}

/// Why the API server refused, as an error.
pub(crate) async fn read_error(response: Response<impl Into<ResponseBody>>) -> anyhow::Error {
    let (head, body) = response.into_parts();
    let body = timeout(MESSAGE_TIMEOUT, body.into().whole(MESSAGE_BYTES_MAX)).await;
    let body = body.ok().and_then(Result::ok).unwrap_or_default();
    ApiError::from_response(&Response::from_parts(head, body)).into()
}
/// The status with which the API server refused, if it did.
pub(crate) fn status_code_of(error: &anyhow::Error) -> Option<StatusCode> {
    error.downcast_ref::<ApiError>().map(|error| error.status)
}

/// Whether asking the same again may be answered differently.
pub(crate) fn is_retryable(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

/// The form that an answer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    /// By the head of the answer.
    pub(crate) fn of<B>(response: &Response<B>) -> Self {
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
pub(crate) struct ApiStatus {
    pub(crate) code: Option<u16>,
    pub(crate) reason: Option<String>,
    message: Option<String>,
}

impl ApiStatus {
    pub(crate) fn read(status: Source<'_>) -> Option<Self> {
        status.read().ok()
    }

    /// The sentence of it.
    pub(crate) fn message(self) -> String {
        self.message.unwrap_or_else(|| "(no message)".to_owned())
    }
}

/// How long the server wants to be left alone, if it says so.
pub(crate) fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let header = response.headers().get("retry-after")?.to_str().ok()?;
    header.trim().parse().ok().map(Duration::from_secs)
}
