//! Error responses of the API server, and the parts of a response that all modules read.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use api::lower::Source;
use api::protobuf::{schema, wire};
use bytes::Bytes;
use http::{Response, StatusCode};
use serde::Deserialize;
use tokio::time::timeout;

use crate::client::ResponseBody;

/// Media type of JSON.
pub(crate) const JSON: &str = "application/json";

/// Media types of responses in order of preference: protobuf costs both sides less CPU.
pub(crate) const PROTOBUF_OR_JSON: &str = "application/vnd.kubernetes.protobuf,application/json";

/// Time limit for the body of an error response; its status code is known before.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum length of the body of an error response, in bytes.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// An error of a client or a library, whose type does not matter to the modules that pass it on.
pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A response of the API server that is no success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}: {message}")]
pub struct ApiError {
    /// The HTTP status.
    pub status: StatusCode,
    /// `message` of the `Status` object.
    pub message: String,
}

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

/// Reads the error of a response whose body has not arrived yet.
pub(crate) async fn read_error(response: Response<impl Into<ResponseBody>>) -> ApiError {
    ApiError::from_response(&read_error_body(response).await)
}

/// Reads the body of an error response, as far as it arrives in time; otherwise it is empty.
pub(crate) async fn read_error_body(
    response: Response<impl Into<ResponseBody>>,
) -> Response<Bytes> {
    let (head, body) = response.into_parts();
    let body = timeout(MESSAGE_TIMEOUT, body.into().whole(MESSAGE_BYTES_MAX)).await;
    Response::from_parts(head, body.ok().and_then(Result::ok).unwrap_or_default())
}

/// Returns `true` if the same request may succeed later.
pub(crate) fn is_retryable(status: StatusCode) -> bool {
    status.is_server_error()
        || matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::REQUEST_TIMEOUT)
}

/// Shows an error with all its sources, separated by colons.
pub(crate) struct Chain<'a>(pub &'a dyn Error);

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)?;
        let mut source = self.0.source();
        while let Some(error) = source {
            write!(f, ": {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

/// Encoding of a response body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Encoding {
    Json,
    Protobuf,
}

impl Encoding {
    /// Returns the encoding that the response's `Content-Type` names.
    pub(crate) fn of<B>(response: &Response<B>) -> Self {
        let kind = response.headers().get(http::header::CONTENT_TYPE);
        match kind.and_then(|kind| kind.to_str().ok()) {
            Some(kind) if kind.starts_with("application/vnd.kubernetes.protobuf") => Self::Protobuf,
            _ => Self::Json,
        }
    }
}

/// The fields of a `Status` object that are read.
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

    /// Returns the message, or a placeholder if there is none.
    pub(crate) fn message(self) -> String {
        self.message.unwrap_or_else(|| "(no message)".to_owned())
    }
}

/// Returns the delay of the `Retry-After` header, if there is one.
pub(crate) fn retry_after<B>(response: &Response<B>) -> Option<Duration> {
    let header = response.headers().get("retry-after")?.to_str().ok()?;
    header.trim().parse().ok().map(Duration::from_secs)
}
