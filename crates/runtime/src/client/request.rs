//! Requests, and their conversion from and to those of kube's client.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request, Uri};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::time::Instant;

use super::ClientError;
use crate::api_error::JSON;

/// A request to the API server.
#[derive(Clone, Debug)]
pub struct ApiRequest {
    /// The method.
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// The accepted content types of the response.
    pub accept: Cow<'static, str>,
    /// The content type and the body.
    pub content: Option<(Cow<'static, str>, Bytes)>,
    /// If the response is successful (2xx), its headers and its body are discarded.
    pub status_only: bool,
    /// Time for the whole exchange, if [`super::ApiConnection::send`] is to limit it.
    pub timeout: Option<Duration>,
}

impl ApiRequest {
    /// Fails if the path cannot be sent.
    pub fn validate(&self) -> Result<(), ClientError> {
        let path = &self.path;
        if path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic()) {
            Ok(())
        } else {
            Err(ClientError::InvalidPath(path.clone()))
        }
    }

    /// Returns when the whole response must have arrived, for a request that is sent now.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.timeout.map(|timeout| Instant::now() + timeout)
    }

    /// Converts to a request of kube's client.
    pub(super) fn into_request(self) -> Result<Request<Body>, ClientError> {
        let header = |value: &str| {
            HeaderValue::try_from(value).map_err(|e| ClientError::ConvertRequest(e.into()))
        };
        let (content_type, body) = self.content.unzip();
        let mut request = Request::new(Body::from(body.unwrap_or_default()));
        *request.method_mut() = self.method;
        *request.uri_mut() =
            Uri::try_from(self.path).map_err(|e| ClientError::ConvertRequest(e.into()))?;
        let headers = request.headers_mut();
        headers.insert(ACCEPT, header(&self.accept)?);
        if let Some(content_type) = content_type {
            headers.insert(CONTENT_TYPE, header(&content_type)?);
        }
        Ok(request)
    }

    /// Converts from a request of kube's client, which sets no other headers than these two.
    pub(super) async fn from_request(request: Request<Body>) -> Result<Self, ClientError> {
        let (head, body) = request.into_parts();
        let header = |name| head.headers.get(name).and_then(|value| value.to_str().ok());
        let accept = header(ACCEPT).unwrap_or(JSON).to_owned().into();
        let content_type = header(CONTENT_TYPE).map(|value| Cow::from(value.to_owned()));
        let body = body.collect().await;
        let body = body.map_err(|error| ClientError::ReadRequestBody(Box::new(error)))?.to_bytes();
        let content = match content_type {
            None if body.is_empty() => None,
            content_type => Some((content_type.unwrap_or(JSON.into()), body)),
        };
        let path = head.uri.path_and_query().map_or("/", PathAndQuery::as_str).to_owned();
        Ok(Self { method: head.method, path, accept, content, status_only: false, timeout: None })
    }
}
