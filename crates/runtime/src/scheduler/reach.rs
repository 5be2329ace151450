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

use crate::answer::{JSON, refused};
use crate::connect::innermost;
use crate::link::{Ask, Link};

#[cfg(test)]
mod tests;

/// How long one try may take after the connection is made, which has a limit of its own.
const TRY_MAX: Duration = Duration::from_secs(10);

/// The wait between tries: so long at first, twice as long each time, and never longer than this.
/// Work goes on this long after the API server is back.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Time from one line of the log to the next: so long at first, twice as long each time, and never
/// longer than this.
const TOLD_FIRST: Duration = Duration::from_secs(10);
const TOLD_MAX: Duration = Duration::from_mins(5);

/// Why an API server is not talked to.
#[derive(Debug)]
enum Unreachable {
    /// It may be talked to later.
    MayPass(anyhow::Error),
    /// Another try would meet the same.
    Final(anyhow::Error),
}

/// Waits until the API server says which version it has. Fails only for a reason that cannot pass:
/// the server's certificate is for another name or by an authority that is not ours, or the server is
/// ready and does not accept our credentials.
pub async fn reach(config: &kube::Config) -> Result<String> {
    reach_over(&Link::new(config)?, &config.cluster_url).await
}

async fn reach_over(link: &Link, address: &http::Uri) -> Result<String> {
    let begun = Instant::now();
    let (mut pause, mut told_after) = (PAUSE_FIRST, TOLD_FIRST);
    let mut tell_at = begun;
    loop {
        let why = match version(link).await {
            Ok(version) => return Ok(version),
            Err(Unreachable::Final(error)) => {
                return Err(error)
                    .with_context(|| format!("cannot talk to the API server at {address}"));
            }
            Err(Unreachable::MayPass(error)) => error,
        };
        if Instant::now() >= tell_at {
            tracing::warn!(
                "cannot talk to the API server at {address}, will try again: {why:#}; waiting for {} s so far",
                begun.elapsed().as_secs()
            );
            tell_at = Instant::now() + told_after;
            told_after = (told_after * 2).min(TOLD_MAX);
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Asks for the version once.
async fn version(link: &Link) -> Result<String, Unreachable> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Version {
        git_version: String,
    }
    let is_refusal = |status| matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
    let mut response = get(link, "/version").await.map_err(|error| judge(&error))?;
    let refused_by_ready = is_refusal(response.status()) && is_ready(link).await;
    if refused_by_ready {
        // It may have become ready only after it refused.
        response = get(link, "/version").await.map_err(|error| judge(&error))?;
    }
    match response.status() {
        StatusCode::OK => {
            let version = serde_json::from_slice::<Version>(response.body());
            let version = version.context("the answer to GET /version is not a version");
            Ok(version.map_err(Unreachable::MayPass)?.git_version)
        }
        status if refused_by_ready && is_refusal(status) => {
            Err(Unreachable::Final(refused(&response).into()))
        }
        _ => Err(Unreachable::MayPass(refused(&response).into())),
    }
}

/// Whether the API server has everything that it needs to know users and their rights. One that does
/// not know us cannot say that it is not ready.
async fn is_ready(link: &Link) -> bool {
    match get(link, "/readyz").await {
        Ok(response) => !response.status().is_server_error(),
        Err(_) => false,
    }
}

async fn get(link: &Link, path: &str) -> Result<Response<Bytes>> {
    let ask = Ask {
        method: Method::GET,
        path: path.to_owned(),
        accept: JSON.into(),
        content: None,
        brief: false,
        within: None,
    };
    let answer = tokio::time::timeout(TRY_MAX + crate::connect::CONNECT_TIMEOUT, link.send(ask));
    answer.await.map_err(|_| anyhow!("the API server did not answer"))?
}

/// Whether the reason why no answer came may pass.
fn judge(error: &anyhow::Error) -> Unreachable {
    let tls = error.chain().find_map(|cause| {
        let inner = cause.downcast_ref::<std::io::Error>()?.get_ref()?;
        inner.downcast_ref::<rustls::Error>()
    });
    let is_final = match tls {
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
    let error = anyhow!("{}", innermost(error.as_ref()));
    if is_final { Unreachable::Final(error) } else { Unreachable::MayPass(error) }
}
