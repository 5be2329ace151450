//! The current credentials, loaded again when they change.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use http2::NeverIndexedFields;
use tokio::time::Instant;

use super::credentials::{Credentials, CredentialsError};
use super::{ClientError, lock};
use crate::api_error::Chain;
use crate::connect::client_certificate_problem;

#[cfg(test)]
mod tests;

/// Time between two checks of the files for changes (one `stat` each).
const FILE_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Shortest time between two runs of an exec plugin whose credentials were refused or expired.
const PLUGIN_RUN_INTERVAL_MIN: Duration = Duration::from_secs(30);

/// Loads credentials again when files change, when those of an exec plugin expire, and when the API
/// server refuses them.
pub(super) struct CredentialStore {
    /// The configuration with paths and exec plugin.
    given: kube::Config,
    current: Mutex<Current>,
    /// The API server answered 401 since the last check.
    refused: AtomicBool,
    /// Held while credentials are loaded.
    loading: tokio::sync::Mutex<()>,
}

struct Current {
    credentials: Arc<Credentials>,
    /// The encoded headers, and when the files were checked.
    fields: Option<(Instant, NeverIndexedFields)>,
    /// When credentials were last loaded, or that was tried.
    loaded: Instant,
    /// The last failure that was logged; each is logged once.
    failure: String,
}

impl CredentialStore {
    pub(super) fn new(config: &kube::Config) -> Result<Self, CredentialsError> {
        let current = Current {
            credentials: Arc::new(Credentials::load(config)?),
            fields: None,
            loaded: Instant::now(),
            failure: String::new(),
        };
        Ok(Self {
            given: config.clone(),
            current: Mutex::new(current),
            refused: AtomicBool::new(false),
            loading: tokio::sync::Mutex::default(),
        })
    }

    /// Returns the credentials as they were last loaded.
    pub(super) fn credentials(&self) -> Arc<Credentials> {
        Arc::clone(&lock(&self.current).credentials)
    }

    /// Returns the generation that connections must have and the encoded headers; `None` if a check is
    /// due.
    pub(super) fn fresh(&self) -> Option<(u64, NeverIndexedFields)> {
        let current = lock(&self.current);
        let (checked, fields) = current.fields.as_ref()?;
        (checked.elapsed() < FILE_CHECK_INTERVAL)
            .then(|| (current.credentials.generation, fields.clone()))
    }

    /// Checks the credentials and returns the same as [`Self::fresh`].
    pub(super) async fn refresh(&self) -> Result<(u64, NeverIndexedFields), CredentialsError> {
        self.load_if_stale().await;
        let credentials = self.credentials();
        let fields = NeverIndexedFields::from(&credentials.headers().await?);
        lock(&self.current).fields = Some((Instant::now(), fields.clone()));
        Ok((credentials.generation, fields))
    }

    /// Loads credentials again if they are stale. After a failure the old ones are kept: files may be
    /// half written, or removed on purpose.
    async fn load_if_stale(&self) {
        let _turn = self.loading.lock().await;
        let (credentials, loaded) = {
            let current = lock(&self.current);
            (Arc::clone(&current.credentials), current.loaded)
        };
        let refused = self.refused.swap(false, Ordering::Relaxed);
        let is_due = if credentials.from_exec_plugin {
            (refused || credentials.is_stale()) && loaded.elapsed() >= PLUGIN_RUN_INTERVAL_MIN
        } else {
            credentials.is_stale()
        };
        if !is_due {
            return;
        }
        let given = self.given.clone();
        let next = tokio::task::spawn_blocking(move || Credentials::load(&given)).await;
        let next = next.map_err(CredentialsError::LoadTask).flatten();
        let mut current = lock(&self.current);
        current.loaded = Instant::now();
        match next {
            Ok(next) => {
                tracing::debug!("credentials for the API server were loaded again");
                current.credentials = Arc::new(credentials.replaced_by(next));
                current.failure.clear();
            }
            Err(error) => {
                let failure = Chain(&error).to_string();
                if current.failure != failure {
                    tracing::warn!("cannot load new credentials, keeping the old ones: {failure}");
                    current.failure = failure;
                }
            }
        }
    }

    /// Notes that the API server answered 401: the next request checks the credentials.
    pub(super) fn refused(&self) {
        if self.refused.swap(true, Ordering::Relaxed) {
            return;
        }
        let problem = self.certificate_problem();
        let mut current = lock(&self.current);
        current.fields = None;
        if let Some(problem) = problem.filter(|problem| *problem != current.failure) {
            tracing::warn!("the API server does not accept our credentials: {problem}");
            current.failure = problem;
        }
    }

    /// Adds the problem of the client certificate to an error, if there is one.
    pub(super) fn explain(&self, error: ClientError) -> ClientError {
        match self.certificate_problem() {
            Some(problem) => ClientError::ClientCertificate { problem, source: Box::new(error) },
            None => error,
        }
    }

    fn certificate_problem(&self) -> Option<String> {
        let now = SystemTime::now();
        // The configuration with paths names the file.
        client_certificate_problem(&self.given, now)
            .or_else(|| client_certificate_problem(self.credentials().config(), now))
    }
}
