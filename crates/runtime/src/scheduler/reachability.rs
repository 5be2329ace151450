//! Waiting for an API server that cannot be reached yet.
//!
//! All programs of a control plane start at the same time, and API servers are replaced, so temporary
//! errors are retried without limit, as in kube-scheduler. Only an error that a restart would meet again
//! ends the process.

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Response, StatusCode};
use rustls::CertificateError;
use serde::Deserialize;
use tokio::time::{Instant, sleep};

use crate::api_error::{ApiError, BoxError, Chain, JSON};
use crate::client::{ApiConnection, ApiRequest};
use crate::connect::root_cause;

#[cfg(test)]
mod tests;

/// Time limit of a request after the connection is made, which has its own.
const ATTEMPT_TIMEOUT: Duration = Duration::from_secs(10);

/// First delay between requests; it doubles with each request.
const RETRY_DELAY_INITIAL: Duration = Duration::from_millis(250);

/// Longest delay between requests, and so the longest delay after the API server is back.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(2);

/// First time between log lines; it doubles with each line.
const LOG_INTERVAL_INITIAL: Duration = Duration::from_secs(10);

/// Longest time between log lines.
const LOG_INTERVAL_MAX: Duration = Duration::from_mins(5);

/// Why the API server can never be reached.
#[derive(Debug, thiserror::Error)]
pub enum UnreachableError {
    /// The connection cannot be configured.
    #[error(transparent)]
    Connection(BoxError),
    /// Requests fail for a permanent reason.
    #[error("cannot talk to the API server at {address}")]
    Permanent {
        /// URL of the API server.
        address: http::Uri,
        /// The reason.
        #[source]
        error: VersionError,
    },
}

/// Why the API server did not return its version.
#[derive(Debug, thiserror::Error)]
pub enum VersionError {
    /// No response arrived in time.
    #[error("the API server did not answer")]
    NoResponse,
    /// The request failed; with the root cause alone, since the client repeats it in each message.
    #[error("{0}")]
    Request(String),
    /// The response is an error.
    #[error(transparent)]
    Refused(ApiError),
    /// The response is not a version.
    #[error("the answer to GET /version is not a version")]
    Malformed(#[source] serde_json::Error),
}

/// An error, and whether a later request may succeed.
#[derive(Debug)]
enum VersionFailure {
    Temporary(VersionError),
    Permanent(VersionError),
}

/// Waits until the API server returns its version. Fails only for a permanent reason: the server's
/// certificate is for another name or of an unknown authority, or the server is ready and does not
/// accept the credentials.
pub async fn wait_until_reachable(config: &kube::Config) -> Result<String, UnreachableError> {
    let connection = ApiConnection::new(config);
    let connection = connection.map_err(|error| UnreachableError::Connection(error.into()))?;
    wait_until_reachable_over(&connection, &config.cluster_url).await
}

async fn wait_until_reachable_over(
    connection: &ApiConnection,
    address: &http::Uri,
) -> Result<String, UnreachableError> {
    let begun = Instant::now();
    let (mut delay, mut log_interval) = (RETRY_DELAY_INITIAL, LOG_INTERVAL_INITIAL);
    let mut log_at = begun;
    loop {
        let error = match version(connection).await {
            Ok(version) => return Ok(version),
            Err(VersionFailure::Permanent(error)) => {
                return Err(UnreachableError::Permanent { address: address.clone(), error });
            }
            Err(VersionFailure::Temporary(error)) => error,
        };
        if Instant::now() >= log_at {
            tracing::warn!(
                "cannot talk to the API server at {address}, will try again: {}; waiting for {} s so far",
                Chain(&error),
                begun.elapsed().as_secs()
            );
            log_at = Instant::now() + log_interval;
            log_interval = (log_interval * 2).min(LOG_INTERVAL_MAX);
        }
        sleep(delay).await;
        delay = (delay * 2).min(RETRY_DELAY_MAX);
    }
}

/// Requests the version once.
async fn version(connection: &ApiConnection) -> Result<String, VersionFailure> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        git_version: String,
    }
    let is_refusal = |status| matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let mut response = get(connection, "/version").await?;
    let refused_by_ready = is_refusal(response.status()) && is_ready(connection).await;
    if refused_by_ready {
        // The server may have become ready only after it refused.
        response = get(connection, "/version").await?;
    }
    match response.status() {
        StatusCode::OK => {
            let version = serde_json::from_slice::<Version>(response.body());
            let version =
                version.map_err(|error| VersionFailure::Temporary(VersionError::Malformed(error)));
            Ok(version?.git_version)
        }
        status if refused_by_ready && is_refusal(status) => Err(VersionFailure::Permanent(
            VersionError::Refused(ApiError::from_response(&response)),
        )),
        _ => Err(VersionFailure::Temporary(VersionError::Refused(ApiError::from_response(
            &response,
        )))),
    }
}

/// Returns `true` if the API server is ready to authenticate and authorise, or refuses to say that it is
/// not.
async fn is_ready(connection: &ApiConnection) -> bool {
    match get(connection, "/readyz").await {
        Ok(response) => !response.status().is_server_error(),
        Err(_) => false,
    }
}

async fn get(connection: &ApiConnection, path: &str) -> Result<Response<Bytes>, VersionFailure> {
    let request = ApiRequest {
        method: Method::GET,
        path: path.to_owned(),
        accept: JSON.into(),
        content: None,
        status_only: false,
        timeout: None,
    };
    let response = tokio::time::timeout(
        ATTEMPT_TIMEOUT + crate::connect::CONNECT_TIMEOUT,
        connection.send(request),
    );
    let response =
        response.await.map_err(|_| VersionFailure::Temporary(VersionError::NoResponse))?;
    response.map_err(|error| classify(&error))
}

/// Classifies a request's error as temporary or permanent.
fn classify(error: &(dyn Error + 'static)) -> VersionFailure {
    let mut cause = Some(error);
    let mut tls = None;
    while let (Some(present), None) = (cause, tls) {
        let inner = present.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        cause = present.source();
    }
    let is_permanent = match tls {
        // The clock may be corrected, and the server may get another certificate.
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        )) => false,
        Some(rustls::Error::InvalidCertificate(_)) => true,
        _ => false,
    };
    let error = VersionError::Request(root_cause(error).to_string());
    if is_permanent { VersionFailure::Permanent(error) } else { VersionFailure::Temporary(error) }
}
