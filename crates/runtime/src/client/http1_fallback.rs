//! HTTP/1.1 by kube's client, for API servers without HTTP/2 or without TLS.

use std::sync::{Arc, Mutex, Once};

use http::Uri;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::{Body, ConfigExt as _};
use tokio::time::timeout;
use tower::{BoxError, Layer as _, ServiceExt as _};

use super::credentials::{Credentials, CredentialsError};
use super::dialer::Dialer;
use super::{ClientError, lock};
use crate::connect::CONNECT_TIMEOUT;

#[cfg(test)]
mod tests;

/// A client with the current credentials. It has no retry layer, unlike kube's own stack: a POST that
/// was answered with 503 or 504 may have been carried out.
#[derive(Default)]
pub(super) struct Http1Fallback(Mutex<Option<(Arc<Credentials>, kube::Client)>>);

impl Http1Fallback {
    /// Returns a client with these credentials.
    pub(super) fn client(
        &self,
        dialer: &Arc<Dialer>,
        credentials: &Arc<Credentials>,
    ) -> Result<kube::Client, CredentialsError> {
        let mut cached = lock(&self.0);
        if let Some((made_with, client)) = &*cached
            && Arc::ptr_eq(made_with, credentials)
        {
            return Ok(client.clone());
        }
        let client = build(Arc::clone(dialer), credentials.config())?;
        *cached = Some((Arc::clone(credentials), client.clone()));
        Ok(client)
    }
}

/// Logs once in this process why requests use HTTP/1.1.
pub(super) fn log_once(reason: &str) {
    static LOGGED: Once = Once::new();
    log(&LOGGED, reason);
}

fn log(logged: &Once, reason: &str) {
    logged.call_once(|| {
        tracing::warn!(
            "{reason}: requests use kube's client and HTTP/1.1, each on a connection of its own while it lasts"
        );
    });
}

fn build(dialer: Arc<Dialer>, config: &kube::Config) -> Result<kube::Client, CredentialsError> {
    let connector = tower::service_fn(move |_: Uri| {
        let dialer = Arc::clone(&dialer);
        async move { dialer.connect().await.map(TokioIo::new).map_err(BoxError::from) }
    });
    let connector = config
        .rustls_https_connector_with_connector(connector)
        .map_err(CredentialsError::tls)?
        .map_future(|connecting| {
            Box::pin(async {
                let connected = timeout(CONNECT_TIMEOUT, connecting).await;
                connected.map_err(|_| ClientError::ConnectTimeout)?
            })
        });
    let client = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let service = config.base_uri_layer().layer(client.map_err(BoxError::from));
    let credentials = config.auth_layer().map_err(CredentialsError::layers)?;
    let service = tower::util::option_layer(credentials).layer(service);
    let headers = config.extra_headers_layer().map_err(CredentialsError::layers)?;
    Ok(kube::Client::new(headers.layer(service), config.default_namespace.clone()))
}
