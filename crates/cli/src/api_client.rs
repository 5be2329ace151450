//! A client of the API server for JSON objects of any kind.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use runtime::connect::{self, ConfigSource};
use serde_json::Value;

/// Longest wait for one response, on a machine that is busy with schedulers.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(1);

/// Maximum number of attempts of a request while the API server answers 429 or 5xx.
const ATTEMPTS_MAX: u32 = 8;

/// Delay between those attempts.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// Objects in one page of a list.
const PAGE_OBJECTS_MAX: usize = 1000;

/// Longest list; more pages mean that the server does not end it.
const PAGES_MAX: usize = 1000;

/// A response whose status is not success.
#[derive(Debug)]
pub struct UnexpectedStatus {
    request: String,
    /// The HTTP status.
    pub status: StatusCode,
    message: String,
}

impl fmt::Display for UnexpectedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.request, self.status, self.message)
    }
}

impl std::error::Error for UnexpectedStatus {}

/// A client with one connection to the API server.
#[derive(Clone)]
pub struct ApiClient(kube::Client);

impl ApiClient {
    /// Connects by the current context of a kubeconfig.
    pub async fn connect(kubeconfig: &Path) -> Result<Self> {
        let target =
            ConfigSource { kubeconfig: Some(kubeconfig.to_owned()), ..ConfigSource::default() };
        Self::with(&connect::load_config(&target).await?)
    }

    /// Connects by a configuration that was read before.
    pub fn with(config: &kube::Config) -> Result<Self> {
        Ok(Self(connect::client(config)?))
    }

    /// Returns the client beneath, for watches.
    pub fn client(&self) -> &kube::Client {
        &self.0
    }

    /// Sends a request and returns the response body.
    ///
    /// Statuses other than success and those of `accepted` are errors of type [`UnexpectedStatus`].
    /// 429 and server errors are retried before that.
    pub async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        accepted: &[StatusCode],
    ) -> Result<Vec<u8>> {
        let name = format!("{method} {path}");
        let body = body.map(Value::to_string).unwrap_or_default();
        let is_patch = method == Method::PATCH;
        let content_type =
            if is_patch { "application/merge-patch+json" } else { "application/json" };
        for attempt in 1.. {
            let request = Request::builder().method(method.clone()).uri(path);
            let request =
                request.header("content-type", content_type).body(body.clone().into_bytes())?;
            let (status, answer) = self.response(request).await.with_context(|| name.clone())?;
            if status.is_success() || accepted.contains(&status) {
                return Ok(answer);
            }
            let is_busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
            if !is_busy || attempt == ATTEMPTS_MAX {
                let message = error_message(&answer);
                bail!(UnexpectedStatus { request: name, status, message });
            }
            tokio::time::sleep(RETRY_DELAY).await;
        }
        bail!("{name} was never sent")
    }

    async fn response(&self, request: Request<Vec<u8>>) -> Result<(StatusCode, Vec<u8>)> {
        let response = async {
            let response = self.0.send(request.map(Body::from)).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            anyhow::Ok((status, body.to_vec()))
        };
        let response = tokio::time::timeout(RESPONSE_TIMEOUT, response).await;
        response.map_err(|_| anyhow!("no answer after {} s", RESPONSE_TIMEOUT.as_secs()))?
    }

    /// Reads one object.
    pub async fn get(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&self.send(Method::GET, path, None, &[]).await?)?)
    }

    /// Reads a page of text, such as metrics.
    pub async fn get_text(&self, path: &str) -> Result<String> {
        let text = self.send(Method::GET, path, None, &[]).await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Reads a list page by page and returns the pages. `query` is appended to the address, such as
    /// `&fieldSelector=…`.
    pub async fn pages(&self, path: &str, query: &str) -> Result<Vec<Value>> {
        let mut pages = Vec::new();
        let mut next = String::new();
        while pages.len() < PAGES_MAX {
            let page = self
                .get(&format!("{path}?limit={PAGE_OBJECTS_MAX}&continue={next}{query}"))
                .await?;
            page["metadata"]["continue"].as_str().unwrap_or("").clone_into(&mut next);
            pages.push(page);
            if next.is_empty() {
                return Ok(pages);
            }
        }
        bail!("the list {path} has no end")
    }

    /// Returns all objects of a list.
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let mut items = Vec::new();
        for mut page in self.pages(path, "").await? {
            if let Value::Array(some) = page["items"].take() {
                items.extend(some);
            }
        }
        Ok(items)
    }

    /// Creates an object and returns its uid, or an empty text if an object of this name exists.
    pub async fn create(&self, path: &str, object: &Value) -> Result<String> {
        let answer = self.send(Method::POST, path, Some(object), &[StatusCode::CONFLICT]).await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        Ok(answer["metadata"]["uid"].as_str().unwrap_or("").to_owned())
    }

    /// Deletes an object without a grace period. Succeeds if there is none.
    pub async fn delete(&self, path: &str) -> Result<()> {
        let path = format!("{path}?gracePeriodSeconds=0");
        self.send(Method::DELETE, &path, None, &[StatusCode::NOT_FOUND]).await.map(|_| ())
    }
}

/// Returns the path of the pods of a namespace.
pub fn pods_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

/// Returns the message of a `Status` object, or the start of any other body.
fn error_message(body: &[u8]) -> String {
    let status = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let message = status["message"].as_str().map(str::to_owned);
    message.unwrap_or_else(|| String::from_utf8_lossy(body).chars().take(200).collect())
}
