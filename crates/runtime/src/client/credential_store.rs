//! The current credentials and the request headers made of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow};
use bytes::Bytes;
use http::Request;
use http2::write_secret;
use kube::client::Body;
use tokio::time::Instant;
use tower::ServiceExt as _;

use super::credentials::Credentials;
use super::lock;
use crate::connect::client_certificate_problem;

#[cfg(test)]
mod tests;

/// How long headers are used before the files are checked for changes (one `stat` each).
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The least time between two runs of an exec plugin whose credentials are refused or ended.
const PLUGIN_RUN_INTERVAL_MIN: Duration = Duration::from_secs(30);

/// Loads credentials again when files change, and when those of a plugin end or are refused.
pub(super) struct CredentialStore {
    /// With paths, and the plugin.
    given: kube::Config,
    now: Mutex<Now>,
    /// The API server answered 401.
    refused: AtomicBool,
    /// Held while they are loaded.
    loading: tokio::sync::Mutex<()>,
}

struct Now {
    credentials: Arc<Credentials>,
    /// As they were last written, and when.
    headers: Option<(Instant, Bytes)>,
    /// When they were last loaded, or that was tried.
    loaded: Instant,
    /// Why that failed the last time, which is logged once.
    failure: String,
}

impl CredentialStore {
    pub(super) fn new(config: &kube::Config) -> Result<Self> {
        let now = Now {
            credentials: Arc::new(Credentials::load(config)?),
            headers: None,
            loaded: Instant::now(),
            failure: String::new(),
        };
        Ok(Self {
            given: config.clone(),
            now: Mutex::new(now),
            refused: AtomicBool::new(false),
            loading: tokio::sync::Mutex::default(),
        })
    }

    /// The credentials as they were last loaded.
    pub(super) fn credentials(&self) -> Arc<Credentials> {
        Arc::clone(&lock(&self.now).credentials)
    }

    /// The number of the credentials that connections must have been made with, and headers, unless it
    /// is time to look again.
    pub(super) fn fresh(&self) -> Option<(u64, Bytes)> {
        let now = lock(&self.now);
        let (since, headers) = now.headers.as_ref()?;
        (since.elapsed() < FILE_CHECK_INTERVAL)
            .then(|| (now.credentials.generation, headers.clone()))
    }

    /// The same after a look.
    pub(super) async fn look(&self) -> Result<(u64, Bytes)> {
        self.renew().await;
        let credentials = self.credentials();
        let echoed = credentials.echo.clone().oneshot(Request::new(Body::empty())).await;
        let echoed = echoed.map_err(|error| anyhow!("no credentials: {error}"))?;
        let mut written = Vec::new();
        for (name, value) in echoed.headers() {
            write_secret(name, value, &mut written);
        }
        let written = Bytes::from(written);
        lock(&self.now).headers = Some((Instant::now(), written.clone()));
        Ok((credentials.generation, written))
    }

    /// Loads credentials again if something changed. If that fails, the old ones go on to count: files
    /// may be half written, or removed on purpose.
    async fn renew(&self) {
        let _turn = self.loading.lock().await;
        let (credentials, loaded) = {
            let now = lock(&self.now);
            (Arc::clone(&now.credentials), now.loaded)
        };
        let refused = self.refused.swap(false, Ordering::Relaxed);
        let is_time = if credentials.from_exec_plugin {
            (refused || credentials.is_stale()) && loaded.elapsed() >= PLUGIN_RUN_INTERVAL_MIN
        } else {
            credentials.is_stale()
        };
        if !is_time {
            return;
        }
        let given = self.given.clone();
        let next = tokio::task::spawn_blocking(move || Credentials::load(&given)).await;
        let next = next.context("the thread that loads them").flatten();
        let mut now = lock(&self.now);
        now.loaded = Instant::now();
        match next {
            Ok(next) => {
                tracing::debug!("credentials for the API server were loaded again");
                now.credentials = Arc::new(credentials.replaced_by(next));
                now.failure.clear();
            }
            Err(error) => {
                let failure = format!("{error:#}");
                if now.failure != failure {
                    tracing::warn!("new credentials cannot be used, the old ones stay: {failure}");
                    now.failure = failure;
                }
            }
        }
    }

    /// The API server answered 401: the next request looks again.
    pub(super) fn refused(&self) {
        if self.refused.swap(true, Ordering::Relaxed) {
            return;
        }
        let why = self.outdated();
        let mut now = lock(&self.now);
        now.headers = None;
        if let Some(why) = why.filter(|why| *why != now.failure) {
            tracing::warn!("the API server does not accept our credentials: {why}");
            now.failure = why;
        }
    }

    /// An error with what is wrong with the credentials, if that can be seen from here.
    pub(super) fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        match self.outdated() {
            Some(why) => error.context(why),
            None => error,
        }
    }

    fn outdated(&self) -> Option<String> {
        let now = SystemTime::now();
        // The file says more than its contents.
        client_certificate_problem(&self.given, now)
            .or_else(|| client_certificate_problem(self.credentials().config(), now))
    }
}
