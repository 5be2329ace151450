//! Requests to the API server, many at a time.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use futures::{StreamExt as _, TryStreamExt as _};
use http::{Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use runtime::connect::{self, Target};
use serde_json::Value;

/// How long one request may take on a machine that is busy with schedulers.
const PATIENCE: Duration = Duration::from_mins(1);

/// How often a request is sent again that the API server is too busy for.
const ATTEMPTS_MAX: u32 = 8;

/// How long to wait before that.
const PAUSE: Duration = Duration::from_millis(250);

/// Workers that create and delete, as many as upstream's benchmark has.
pub(crate) const WORKERS: usize = 30;

/// Objects in one page of a list.
const PAGE: usize = 1000;

/// Lists this long are no longer those of a benchmark.
const PAGES_MAX: usize = 1000;

/// An answer that is no success.
#[derive(Debug)]
pub(crate) struct Refusal {
    what: String,
    /// The status that says why.
    pub(crate) status: StatusCode,
    message: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.what, self.status, self.message)
    }
}

impl std::error::Error for Refusal {}

/// One connection to the API server.
#[derive(Clone)]
pub(crate) struct Requests(kube::Client);

impl Requests {
    /// Connects by a kubeconfig.
    pub(crate) async fn connect(kubeconfig: &std::path::Path) -> Result<Self> {
        let target = Target { kubeconfig: Some(kubeconfig.to_owned()), ..Target::default() };
        Ok(Self(connect::client(&connect::config(&target).await?)?))
    }

    /// Uses a configuration that is read already.
    pub(crate) fn with(config: &kube::Config) -> Result<Self> {
        Ok(Self(connect::client(config)?))
    }

    /// The client beneath.
    pub(crate) fn client(&self) -> &kube::Client {
        &self.0
    }

    /// Sends one request; other answers than success and `fine` are errors.
    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        fine: &[StatusCode],
    ) -> Result<Vec<u8>> {
        let what = format!("{method} {path}");
        let body = body.map(Value::to_string).unwrap_or_default();
        // A patch that replaces what it names, and JSON for the rest.
        let is_patch = method == Method::PATCH;
        let form = if is_patch { "application/merge-patch+json" } else { "application/json" };
        for attempt in 1.. {
            let request = Request::builder().method(method.clone()).uri(path);
            let request = request.header("content-type", form).body(body.clone().into_bytes())?;
            let (status, answer) = self.answer(request).await.with_context(|| what.clone())?;
            if status.is_success() || fine.contains(&status) {
                return Ok(answer);
            }
            let busy = status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error();
            if !busy || attempt == ATTEMPTS_MAX {
                bail!(Refusal { what, status, message: message(&answer) });
            }
            tokio::time::sleep(PAUSE).await;
        }
        bail!("{what} was never sent")
    }

    async fn answer(&self, request: Request<Vec<u8>>) -> Result<(StatusCode, Vec<u8>)> {
        let answer = async {
            let response = self.0.send(request.map(Body::from)).await?;
            let status = response.status();
            let body = response.into_body().collect().await?.to_bytes();
            anyhow::Ok((status, body.to_vec()))
        };
        let answer = tokio::time::timeout(PATIENCE, answer).await;
        answer.map_err(|_| anyhow!("no answer after {} s", PATIENCE.as_secs()))?
    }

    /// Reads one object.
    pub(crate) async fn get(&self, path: &str) -> Result<Value> {
        Ok(serde_json::from_slice(&self.send(Method::GET, path, None, &[]).await?)?)
    }

    /// Reads a text.
    pub(crate) async fn get_text(&self, path: &str) -> Result<String> {
        let text = self.send(Method::GET, path, None, &[]).await?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// A list, page by page; `query` chooses some of its objects.
    pub(crate) async fn pages(&self, path: &str, query: &str) -> Result<Vec<Value>> {
        let mut pages = Vec::new();
        let mut next = String::new();
        while pages.len() < PAGES_MAX {
            let page = self.get(&format!("{path}?limit={PAGE}&continue={next}{query}")).await?;
            page["metadata"]["continue"].as_str().unwrap_or("").clone_into(&mut next);
            pages.push(page);
            if next.is_empty() {
                return Ok(pages);
            }
        }
        bail!("the list {path} has no end")
    }

    /// All objects of a list.
    pub(crate) async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let mut items = Vec::new();
        for mut page in self.pages(path, "").await? {
            if let Value::Array(some) = page["items"].take() {
                items.extend(some);
            }
        }
        Ok(items)
    }

    /// Creates an object and tells its uid; one that is there already is fine and has none.
    pub(crate) async fn create(&self, path: &str, object: &Value) -> Result<String> {
        let answer = self.send(Method::POST, path, Some(object), &[StatusCode::CONFLICT]).await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        Ok(answer["metadata"]["uid"].as_str().unwrap_or("").to_owned())
    }

    /// Deletes an object at once; one that is gone already is fine.
    pub(crate) async fn delete(&self, path: &str) -> Result<()> {
        let path = format!("{path}?gracePeriodSeconds=0");
        self.send(Method::DELETE, &path, None, &[StatusCode::NOT_FOUND]).await.map(|_| ())
    }
}

/// Does something with each of many, so many at a time; the first failure ends it.
pub(crate) async fn each<T, F: Future<Output = Result<()>>>(
    many: impl IntoIterator<Item = T>,
    at_once: usize,
    act: impl FnMut(T) -> F,
) -> Result<()> {
    let acts = futures::stream::iter(many).map(act);
    acts.buffer_unordered(at_once).try_for_each(|()| std::future::ready(Ok(()))).await
}

/// Path of the pods of a namespace.
pub(crate) fn pods_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/pods")
}

fn message(answer: &[u8]) -> String {
    let status = serde_json::from_slice::<Value>(answer).unwrap_or_default();
    let message = status["message"].as_str().map(str::to_owned);
    message.unwrap_or_else(|| String::from_utf8_lossy(answer).chars().take(200).collect())
}
