//! Dispatch of requests to their handlers.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use hyper::body::Body as Sent;
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::guard::catch_panic;
use super::query::Query;
use super::response::{Body, error_response, json_bytes, json_value, text};
use super::{ServerState, discovery, openapi, read, reviews, write};
use crate::faults::{self, Fault};
use crate::kinds::{Resource, Verbs};
use crate::limits::BODY_BYTES_MAX;
use crate::status_error::{ApiResult, StatusError};

/// Error of a request body.
type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The resource that a path names.
#[derive(Debug)]
pub(super) struct RequestInfo {
    pub(super) resource: Arc<Resource>,
    /// `None` for all namespaces, and for cluster-scoped kinds.
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: String,
}

impl RequestInfo {
    /// Returns the namespace, or an empty text for cluster-scoped kinds.
    pub(super) fn namespace_or_empty(&self) -> &str {
        self.namespace.as_deref().unwrap_or_default()
    }
}

/// A request without its body.
pub(super) struct RequestHead {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) query: Query,
    headers: HeaderMap,
    /// Injected fault of this request.
    pub(super) fault: Option<Fault>,
}

impl RequestHead {
    pub(super) fn header(&self, name: http::header::HeaderName) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    pub(super) fn accept(&self) -> &str {
        self.header(ACCEPT)
    }

    pub(super) fn agent(&self) -> &str {
        self.header(USER_AGENT)
    }

    /// Returns the content type without parameters.
    pub(super) fn content_type(&self) -> &str {
        self.header(CONTENT_TYPE).split(';').next().unwrap_or_default().trim()
    }
}

/// Answers a request. All requests are dispatched here, so a panic of any handler is caught here and
/// fails one request.
pub(super) async fn answer<B>(shared: &Arc<ServerState>, request: Request<B>) -> Response<Body>
where
    B: Sent<Data = Bytes, Error: Into<BoxError>>,
{
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let handled = catch_panic(&method, &path, handle(shared, request)).await;
    handled.unwrap_or_else(|| {
        error_response(&StatusError::internal(
            "the request handler panicked; see the log of the server",
        ))
    })
}

async fn handle<B>(shared: &Arc<ServerState>, request: Request<B>) -> Response<Body>
where
    B: Sent<Data = Bytes, Error: Into<BoxError>>,
{
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let query = Query::parse(head.uri.query().unwrap_or_default());
    let fault = shared.faults.meet(&head.method, &head.uri);
    let head = RequestHead { method: head.method, path, query, headers: head.headers, fault };
    let failure = match &head.fault {
        Some(Fault::Fail(code)) => Some(faults::failure(*code)),
        Some(Fault::DropRequest(time)) => {
            tokio::time::sleep(*time).await;
            Some(faults::failure(504))
        }
        Some(Fault::Reset) => {
            let mut answer = error_response(&faults::failure(503));
            answer.extensions_mut().insert(faults::Reset);
            return answer;
        }
        Some(Fault::Delay(time)) => {
            tokio::time::sleep(*time).await;
            None
        }
        Some(Fault::Panic) => panic!("injected panic"),
        _ => None,
    };
    let answer = match failure {
        Some(failure) => Err(failure),
        None => dispatch(shared, &head, body).await,
    };
    if let Some(Fault::DropResponse(time)) = head.fault {
        tokio::time::sleep(time).await;
        return error_response(&faults::failure(504));
    }
    answer.unwrap_or_else(|failure| error_response(&failure))
}

async fn dispatch<B>(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    body: B,
) -> ApiResult<Response<Body>>
where
    B: Sent<Data = Bytes, Error: Into<BoxError>>,
{
    let segments: Vec<Cow<'_, str>> = head
        .path
        .split('/')
        .filter(|segment| !segment.is_empty())
        .map(|segment| percent_decode_str(segment).decode_utf8_lossy())
        .collect();
    let segments: Vec<&str> = segments.iter().map(|segment| &**segment).collect();
    // A wrong token is rejected even where none is required.
    let is_anonymous = head.header(AUTHORIZATION).is_empty();
    if !is_anonymous && !authorized(shared, head) {
        return Err(StatusError::unauthorized());
    }
    if let Some(response) = open_to_all(head, &segments) {
        return Ok(response);
    }
    if is_anonymous {
        return Err(StatusError::unauthorized());
    }
    match *segments {
        [] => Ok(json_value(200, &discovery::paths(&shared.cluster))),
        ["api", "v1", ref rest @ ..] if !rest.is_empty() => {
            resource(shared, head, body, ("", "v1"), rest).await
        }
        ["apis", group, version, ref rest @ ..] if !rest.is_empty() => {
            resource(shared, head, body, (group, version), rest).await
        }
        ["api" | "apis", ..] if head.method == Method::GET => {
            discovery::answer(shared, head, &segments)
        }
        ["openapi", ref rest @ ..] if head.method == Method::GET => {
            openapi::answer(&shared.cluster, head.accept(), rest)
        }
        ["metrics"] => Ok(text(200, read::metrics(shared))),
        _ => Err(StatusError::no_such_path()),
    }
}

/// Answers health and version requests, which need no token.
fn open_to_all(head: &RequestHead, segments: &[&str]) -> Option<Response<Body>> {
    if head.method != Method::GET {
        return None;
    }
    match segments {
        ["healthz" | "livez" | "readyz", ..] => Some(text(200, "ok")),
        ["version"] => Some(json_bytes(200, discovery::version().into())),
        _ => None,
    }
}

fn authorized(shared: &ServerState, head: &RequestHead) -> bool {
    let Some(given) = head.header(AUTHORIZATION).strip_prefix("Bearer ") else { return false };
    let (given, token) = (given.trim().as_bytes(), shared.token.as_bytes());
    // Compares all bytes, so that the time does not reveal a matching prefix.
    let difference = given.iter().zip(token).fold(0, |sum, (a, b)| sum | (a ^ b));
    given.len() == token.len() && difference == 0
}

async fn resource<B>(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    body: B,
    group: (&str, &str),
    rest: &[&str],
) -> ApiResult<Response<Body>>
where
    B: Sent<Data = Bytes, Error: Into<BoxError>>,
{
    let info = request_info(shared, group, rest)?;
    let answer = serve_resource(shared, head, body, &info).await;
    let code = answer.as_ref().map_or_else(|failure| failure.code, |ok| ok.status().as_u16());
    shared.counts.add(head, &info, code);
    answer
}

/// Reads or writes the resource of a path.
async fn serve_resource<B>(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    body: B,
    info: &RequestInfo,
) -> ApiResult<Response<Body>>
where
    B: Sent<Data = Bytes, Error: Into<BoxError>>,
{
    match info.resource.kind.strategy.verbs {
        Verbs::All => {}
        Verbs::Create if head.method == Method::POST => {
            let object = read_body(head, body).await?;
            return reviews::answer(shared, info, &object);
        }
        Verbs::Read if head.method == Method::GET => return Ok(read::usage(shared, head, info)),
        Verbs::Create | Verbs::Read => return Err(StatusError::method_not_allowed()),
    }
    match head.method {
        Method::GET | Method::HEAD => read::answer(shared, head, info),
        Method::POST | Method::PUT | Method::PATCH | Method::DELETE => {
            let object = read_body(head, body).await?;
            write::answer(shared, head, info, object)
        }
        _ => Err(StatusError::method_not_allowed()),
    }
}

/// Parses the rest of a path.
fn request_info(
    shared: &ServerState,
    (group, version): (&str, &str),
    rest: &[&str],
) -> ApiResult<RequestInfo> {
    let known = |plural: &str| shared.cluster.kinds.get(group, version, plural);
    let found = |resource: Arc<Resource>,
                 namespace: Option<&str>,
                 name: Option<&&str>,
                 sub: Option<&&str>| RequestInfo {
        resource,
        namespace: namespace.map(str::to_owned),
        name: name.map(|&name| name.to_owned()),
        subresource: sub.map_or("", |sub| *sub).to_owned(),
    };
    let info = match rest {
        // The namespace itself, not a resource in it.
        ["namespaces", _, "status" | "finalize"] | ["namespaces", _] | ["namespaces"]
            if group.is_empty() =>
        {
            let resource = known("namespaces").ok_or_else(StatusError::no_such_path)?;
            found(resource, None, rest.get(1), rest.get(2))
        }
        // The legacy form of a binding.
        ["namespaces", namespace, "bindings"] if group.is_empty() => {
            let resource = known("pods").ok_or_else(StatusError::no_such_path)?;
            found(resource, Some(namespace), None, Some(&"binding"))
        }
        ["namespaces", namespace, plural, rest @ ..] if rest.len() <= 2 => {
            let resource = known(plural)
                .filter(|one| one.kind.namespaced)
                .ok_or_else(StatusError::no_such_path)?;
            found(resource, Some(namespace), rest.first(), rest.get(1))
        }
        // All namespaces, or a cluster-scoped kind.
        [plural, rest @ ..] if rest.len() <= 2 => {
            let resource = known(plural).ok_or_else(StatusError::no_such_path)?;
            if resource.kind.namespaced && !rest.is_empty() {
                return Err(StatusError::no_such_path());
            }
            found(resource, None, rest.first(), rest.get(1))
        }
        _ => return Err(StatusError::no_such_path()),
    };
    let kind = &info.resource.kind;
    let sub = &*info.subresource;
    let served = match sub {
        "" => true,
        "status" => kind.status,
        "scale" => kind.scale.is_some(),
        other => kind.strategy.subresources.contains(&other),
    };
    if served { Ok(info) } else { Err(StatusError::no_such_path()) }
}

/// Reads and parses the body of a request; null if it is empty.
async fn read_body<B>(head: &RequestHead, body: B) -> ApiResult<Value>
where
    B: Sent<Data = Bytes, Error: Into<BoxError>>,
{
    let bytes = match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => collected.to_bytes(),
        Err(error) if error.downcast_ref::<LengthLimitError>().is_some() => {
            return Err(StatusError::too_large(BODY_BYTES_MAX));
        }
        Err(_) => return Err(StatusError::bad_request("the request body is incomplete")),
    };
    parse_body(head, &bytes)
}

fn parse_body(head: &RequestHead, bytes: &Bytes) -> ApiResult<Value> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Value::Null);
    }
    let wrong = |why: String| {
        StatusError::bad_request(format!(
            "the object provided is unrecognized (must be of type JSON or YAML): {why}"
        ))
    };
    let kind = head.content_type();
    let accepted = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    if head.method == Method::PATCH && crate::patch::PatchType::of(kind).is_none() {
        return Err(StatusError::unsupported_media_type(
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml, application/strategic-merge-patch+json",
        ));
    }
    match kind {
        "application/yaml" | "application/apply-patch+yaml" => {
            if let Ok(value) = serde_json::from_slice(bytes) {
                Ok(value)
            } else {
                let text = std::str::from_utf8(bytes).map_err(|error| wrong(error.to_string()))?;
                serde_saphyr::from_str(text).map_err(|error| wrong(error.to_string()))
            }
        }
        crate::protobuf::CONTENT_TYPE => crate::protobuf::decode(bytes).map_err(wrong),
        "" | "application/json" => {
            serde_json::from_slice(bytes).map_err(|error| wrong(error.to_string()))
        }
        kind if crate::patch::PatchType::of(kind).is_some() => serde_json::from_slice(bytes)
            .map_err(|error| {
                if error.is_eof() {
                    StatusError::bad_request("unexpected end of JSON input")
                } else {
                    StatusError::bad_request(format!("error decoding patch: {error}"))
                }
            }),
        _ => Err(StatusError::unsupported_media_type(accepted)),
    }
}
