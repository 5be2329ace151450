//! Responses: content negotiation, bodies, status codes and warnings.

use std::convert::Infallible;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER, WARNING};
use http::{Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};

use crate::kinds::Kind;
use crate::protobuf;
use crate::status_error::StatusError;

/// The body of a response.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// Output format that a client accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputFormat {
    /// JSON.
    Json,
    /// A `meta.k8s.io/v1` Table.
    Table,
    /// PartialObjectMetadata.
    Metadata,
    /// Protobuf.
    Protobuf,
}

/// Returns the first format of an `Accept` header that is available for a kind.
pub(super) fn output_format(accept: &str, of: &Kind) -> Result<OutputFormat, StatusError> {
    if accept.trim().is_empty() {
        return Ok(OutputFormat::Json);
    }
    for one in accept.split(',') {
        let mut parts = one.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        if kind == protobuf::CONTENT_TYPE && !one.contains("as=") {
            if protobuf::has_form(&of.api_version(), &of.kind) {
                return Ok(OutputFormat::Protobuf);
            }
            continue;
        }
        if !["application/json", "application/*", "*/*", "text/plain"].contains(&kind) {
            continue;
        }
        let parameter = |name: &str| {
            one.split(';')
                .filter_map(|part| part.trim().split_once('='))
                .find(|(key, _)| *key == name)
        };
        match parameter("as").map(|(_, value)| value) {
            None => return Ok(OutputFormat::Json),
            Some("Table") => return Ok(OutputFormat::Table),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => {
                return Ok(OutputFormat::Metadata);
            }
            Some(_) => {}
        }
    }
    Err(StatusError::not_acceptable())
}

/// Responds with JSON bytes.
pub(super) fn json_bytes(code: u16, bytes: Bytes) -> Response<Body> {
    with_body(code, "application/json", Full::new(bytes).boxed_unsync())
}

/// Responds with a value as JSON.
pub(super) fn json_value(code: u16, value: &Value) -> Response<Body> {
    json_bytes(code, value.to_string().into())
}

/// Responds with a value as protobuf, or as JSON if its kind has no protobuf form.
pub(super) fn protobuf_value(code: u16, value: &Value) -> Response<Body> {
    match protobuf::encode(value) {
        Some(bytes) => {
            with_body(code, protobuf::CONTENT_TYPE, Full::new(bytes.into()).boxed_unsync())
        }
        None => json_value(code, value),
    }
}

/// Responds with plain text.
pub(super) fn text(code: u16, text: impl Into<Bytes>) -> Response<Body> {
    with_body(code, "text/plain; charset=utf-8", Full::new(text.into()).boxed_unsync())
}

/// Responds with a body of any content type.
pub(super) fn with_body(code: u16, kind: &'static str, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// Responds with an error as `Status`.
pub(super) fn error_response(failure: &StatusError) -> Response<Body> {
    let mut response = json_value(failure.code, &failure.to_json());
    if let Some(seconds) = failure.retry_after() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// Responds with a `Status` of success.
pub(super) fn success(code: u16, details: Option<Value>) -> Response<Body> {
    let mut status =
        json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"});
    match details {
        Some(details) => status["details"] = details,
        None => status["code"] = code.into(),
    }
    json_value(code, &status)
}

/// Maximum length of one warning and of all warnings of a response, in bytes, as upstream. Each field of
/// a request may cause a warning, so together they could exceed the size of a header block.
const WARNING_BYTES_MAX: usize = 256;
const WARNINGS_BYTES_MAX: usize = 4 << 10;

/// Maximum number of warnings of a response: some clients read at most 100 headers.
const WARNINGS_MAX: usize = 64;

/// Adds warnings to a response, within the limits.
pub(super) fn add_warnings(response: &mut Response<Body>, warnings: &[String]) {
    let mut left = WARNINGS_BYTES_MAX;
    for warning in warnings.iter().take(WARNINGS_MAX) {
        let shown = &warning[..warning.floor_char_boundary(WARNING_BYTES_MAX)];
        if shown.len() > left {
            return;
        }
        left -= shown.len();
        let quoted = shown.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{quoted}\"")) {
            response.headers_mut().append(WARNING, value);
        }
    }
}
