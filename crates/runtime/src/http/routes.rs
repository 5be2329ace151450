//! The pages of the server.

use bytes::Bytes;
use futures::TryStreamExt as _;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderValue, Method, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};

use crate::metrics::{CONTENT_TYPE as METRICS_TYPE, Metrics};
use crate::resources::{PodResources, ResourcesError};

use super::access::AccessRefusal;
use super::health::{Health, HealthCheck};

const TEXT: &str = "text/plain; charset=utf-8";
const JSON: &str = "application/json";

/// Response with a page or an error.
pub(super) type PageResponse = Response<PageBody>;

type PageBody = UnsyncBoxBody<Bytes, ResourcesError>;

/// All pages.
pub(super) struct Routes {
    metrics: Metrics,
    resources: Option<PodResources>,
    configuration: String,
    health: [Health; 3],
}

enum ServedPage<'a> {
    Health(&'a Health),
    HealthCheck(&'a Health, &'a str),
    Metrics,
    Slis,
    Resources(&'a PodResources),
    Configuration,
}

impl Routes {
    pub(super) fn new(
        metrics: Metrics,
        resources: Option<PodResources>,
        configuration: &Value,
        [health, live, ready]: [Vec<HealthCheck>; 3],
    ) -> Self {
        let configuration = json!({ "componentconfig": configuration }).to_string();
        let health = [
            Health::new("healthz", health, metrics.clone()),
            Health::new("livez", live, metrics.clone()),
            Health::new("readyz", ready, metrics.clone()),
        ];
        Self { metrics, resources, configuration, health }
    }

    /// Returns `true` if a method and path have a page.
    pub(super) fn serves(&self, method: &Method, path: &str) -> bool {
        matches!(*method, Method::GET | Method::HEAD) && self.page(path).is_some()
    }

    /// Answers an authorised request.
    pub(super) fn answer(&self, method: &Method, path: &str, query: &str) -> PageResponse {
        let Some(page) = self.page(path) else {
            return answer(StatusCode::NOT_FOUND, TEXT, "404 page not found\n".to_owned());
        };
        if !matches!(*method, Method::GET | Method::HEAD) {
            return with(
                answer(StatusCode::METHOD_NOT_ALLOWED, TEXT, "405 use GET or HEAD\n".to_owned()),
                ALLOW,
                "GET, HEAD",
            );
        }
        match page {
            ServedPage::Health(health) => {
                let (status, text) = health.all(query);
                answer(status, TEXT, text)
            }
            ServedPage::HealthCheck(health, name) => {
                let missing = || (StatusCode::NOT_FOUND, "404 no such check\n".to_owned());
                let (status, text) = health.one(name).unwrap_or_else(missing);
                answer(status, TEXT, text)
            }
            ServedPage::Metrics => answer(StatusCode::OK, METRICS_TYPE, self.metrics.text()),
            ServedPage::Slis => answer(StatusCode::OK, METRICS_TYPE, self.metrics.slis()),
            ServedPage::Resources(resources) => stream(resources),
            ServedPage::Configuration => answer(StatusCode::OK, JSON, self.configuration.clone()),
        }
    }

    fn page<'a>(&'a self, path: &'a str) -> Option<ServedPage<'a>> {
        match path {
            "/metrics" => return Some(ServedPage::Metrics),
            "/metrics/slis" => return Some(ServedPage::Slis),
            "/metrics/resources" => return self.resources.as_ref().map(ServedPage::Resources),
            "/configz" => return Some(ServedPage::Configuration),
            _ => {}
        }
        let path = path.strip_prefix('/')?;
        let (name, check) = match path.split_once('/') {
            Some((name, check)) => (name, Some(check)),
            None => (path, None),
        };
        let health = self.health.iter().find(|health| health.name() == name)?;
        match check {
            None => Some(ServedPage::Health(health)),
            Some(check) if health.has(check) => Some(ServedPage::HealthCheck(health, check)),
            Some(_) => None,
        }
    }
}

/// Returns the response to a refused request, with Kubernetes' texts.
pub(super) fn refuse(refusal: AccessRefusal) -> PageResponse {
    match refusal {
        AccessRefusal::Unauthorized => with(
            failure(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized"),
            WWW_AUTHENTICATE,
            "Bearer",
        ),
        AccessRefusal::Forbidden(text) => failure(StatusCode::FORBIDDEN, "Forbidden", &text),
        AccessRefusal::Unavailable => with(
            failure(
                StatusCode::SERVICE_UNAVAILABLE,
                "ServiceUnavailable",
                "the API server cannot be asked for identity and rights; try again later",
            ),
            RETRY_AFTER,
            "5",
        ),
    }
}

/// Returns a failure as a Kubernetes `Status`.
pub(super) fn failure(code: StatusCode, reason: &str, message: &str) -> PageResponse {
    let status = json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "code": code.as_u16(),
    });
    answer(code, JSON, status.to_string())
}

/// Removes the body of a response to HEAD; `Content-Length` stays.
pub(super) fn without_body(answer: PageResponse) -> PageResponse {
    answer.map(|_| Empty::new().map_err(|never| match never {}).boxed_unsync())
}

/// Returns the requests of pods as a stream, or an error if there are too many readers.
fn stream(resources: &PodResources) -> PageResponse {
    let Some(pieces) = resources.text() else {
        let text = "others read this page; try again later";
        let refused = failure(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", text);
        return with(refused, RETRY_AFTER, "5");
    };
    let body = StreamBody::new(pieces.map_ok(Frame::data)).boxed_unsync();
    with_head(StatusCode::OK, METRICS_TYPE, body)
}

fn answer(status: StatusCode, kind: &'static str, text: String) -> PageResponse {
    let length = HeaderValue::from(text.len());
    let body = Full::new(Bytes::from(text)).map_err(|never| match never {}).boxed_unsync();
    let mut answer = with_head(status, kind, body);
    answer.headers_mut().insert(CONTENT_LENGTH, length);
    answer
}

fn with_head(status: StatusCode, kind: &'static str, body: PageBody) -> PageResponse {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-store, private"));
    answer
}

fn with(mut answer: PageResponse, name: http::HeaderName, value: &'static str) -> PageResponse {
    answer.headers_mut().insert(name, HeaderValue::from_static(value));
    answer
}
