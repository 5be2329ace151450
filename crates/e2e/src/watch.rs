//! Lists and watches, decoded line by line.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use runtime::connect::{self, ConfigSource};
use serde_json::Value;
use tokio::time::timeout;

use crate::test_env::{TIMEOUT, TestEnv};

/// Idle time after which a watch is requested again.
const IDLE_TIMEOUT: Duration = Duration::from_mins(1);

/// Returns a runtime with one thread, and a client with the administrator's access.
pub(crate) fn client(env: &TestEnv) -> Result<(tokio::runtime::Runtime, kube::Client)> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .context("cannot start a thread")?;
    let target =
        ConfigSource { kubeconfig: Some(env.plane.kubeconfig.clone()), ..ConfigSource::default() };
    let client = runtime.block_on(async {
        let config = connect::load_config(&target).await?;
        connect::client(&config)
    })?;
    Ok((runtime, client))
}

/// Returns the list at a path.
pub(crate) async fn list(client: &kube::Client, path: &str) -> Result<Value> {
    let request = Request::get(path).body(Vec::new())?;
    let answer = timeout(TIMEOUT, client.request::<Value>(request));
    Ok(answer.await.context("the list does not come")??)
}

/// Calls a function with every event of a watch until the watch ends. The query names the version.
pub(crate) async fn stream(
    client: &kube::Client,
    query: &str,
    mut handle: impl FnMut(Value),
) -> Result<()> {
    let response = client.send(Request::get(query).body(Body::empty())?).await?;
    if !response.status().is_success() {
        bail!("{}", response.status());
    }
    let mut body = response.into_body();
    let mut bytes = Vec::new();
    while let Some(frame) = timeout(IDLE_TIMEOUT, body.frame()).await? {
        bytes.extend_from_slice(&frame?.into_data().unwrap_or_default());
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = bytes.drain(..=end).collect();
            let event: Value = serde_json::from_slice(&line)?;
            if event["type"] == "ERROR" {
                bail!("{event}");
            }
            handle(event);
        }
    }
    Ok(())
}
