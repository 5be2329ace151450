//! Waiting for an API server that cannot be reached yet.
//!
//! All programs of a control plane start at the same time, and API servers are replaced: what may
//! pass is waited for as long as it takes, as kube-scheduler does. Only what another start would meet
//! again ends the process.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use http::{Method, Response, StatusCode};
use rustls::CertificateError;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::api_error::{ApiError, JSON};
use crate::client::{ApiConnection, ApiRequest};
use crate::connect::root_cause;

#[cfg(test)]
mod tests;

/// How long one try may take after the connection is made, which has a limit of its own.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// The wait between tries: so long at first, twice as long each time, and never longer than this.
/// Work goes on this long after the API server is back.
const RETRY_DELAY_INITIAL: Duration = Duration::from_millis(250);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(2);

/// Time from one line of the log to the next: so long at first, twice as long each time, and never
/// longer than this.
const LOG_INTERVAL_INITIAL: Duration = Duration::from_secs(10);
const LOG_INTERVAL_MAX: Duration = Duration::from_mins(5);

/// Why an API server is not talked to.
#[derive(Debug)]
enum Unreachable {
    /// It may be talked to later.
    Temporary(anyhow::Error),
    /// Another try would meet the same.
    Permanent(anyhow::Error),
}

/// Waits until the API server says which version it has. Fails only for a reason that cannot pass:
/// the server's certificate is for another name or by an authority that is not ours, or the server is
/// ready and does not accept our credentials.
pub async fn wait_until_reachable(config: &kube::Config) -> Result<String> {
    wait_until_reachable_over(&ApiConnection::new(config)?, &config.cluster_url).await
}

async fn wait_until_reachable_over(
    connection: &ApiConnection,
    address: &http::Uri,
) -> Result<String> {
    let begun = Instant::now();
    let (mut delay, mut log_interval) = (RETRY_DELAY_INITIAL, LOG_INTERVAL_INITIAL);
    let mut log_at = begun;
    loop {
        let why = match version(connection).await {
            Ok(version) => return Ok(version),
            Err(Unreachable::Permanent(error)) => {
                return Err(error)
                    .with_context(|| format!("cannot talk to the API server at {address}"));
            }
            Err(Unreachable::Temporary(error)) => error,
        };
        if Instant::now() >= log_at {
            tracing::warn!(
                "cannot talk to the API server at {address}, will try again: {why:#}; waiting for {} s so far",
                begun.elapsed().as_secs()
            );
            log_at = Instant::now() + log_interval;
            log_interval = (log_interval * 2).min(LOG_INTERVAL_MAX);
        }
        sleep(delay).await;
        delay = (delay * 2).min(RETRY_DELAY_MAX);
    }
}

/// Asks for the version once.
async fn version(connection: &ApiConnection) -> Result<String, Unreachable> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        git_version: String,
    }
    let is_refusal = |status| matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let mut response = get(connection, "/version").await.map_err(|error| classify(&error))?;
    let refused_by_ready = is_refusal(response.status()) && is_ready(connection).await;
    if refused_by_ready {
        // It may have become ready only after it refused.
        response = get(connection, "/version").await.map_err(|error| classify(&error))?;
    }
    match response.status() {
        StatusCode::OK => {
            let version = serde_json::from_slice::<Version>(response.body());
            let version = version.context("the answer to GET /version is not a version");
            Ok(version.map_err(Unreachable::Temporary)?.git_version)
        }
        status if refused_by_ready && is_refusal(status) => {
            Err(Unreachable::Permanent(ApiError::from_response(&response).into()))
        }
        _ => Err(Unreachable::Temporary(ApiError::from_response(&response).into())),
    }
}

/// Whether the API server has everything that it needs to know users and their rights. One that does
/// not know us cannot say that it is not ready.
async fn is_ready(connection: &ApiConnection) -> bool {
    match get(connection, "/readyz").await {
        Ok(response) => !response.status().is_server_error(),
        Err(_) => false,
    }
}

async fn get(connection: &ApiConnection, path: &str) -> Result<Response<Bytes>> {
    let ask = ApiRequest {
        method: Method::GET,
        path: path.to_owned(),
        accept: JSON.into(),
        content: None,
        status_only: false,
        timeout: None,
    };
    let answer = tokio::time::timeout(
        ATTEMPT_TIMEOUT + crate::connect::CONNECT_TIMEOUT,
        connection.send(ask),
    );
    Ok(answer.await.map_err(|_| anyhow!("the API server did not answer"))??)
}

/// Whether the reason why no answer came may pass.
fn classify(error: &anyhow::Error) -> Unreachable {
    let tls = error.chain().find_map(|cause| {
        let inner = cause.downcast_ref::<std::io::Error>()?.get_ref()?;
        inner.downcast_ref::<rustls::Error>()
    });
    let is_permanent = match tls {
        // The clock may be set, and the server may get another certificate.
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        )) => false,
        Some(rustls::Error::InvalidCertificate(_)) => true,
        _ => false,
    };
    let error = anyhow!("{}", root_cause(error.as_ref()));
    if is_permanent { Unreachable::Permanent(error) } else { Unreachable::Temporary(error) }
}
