//! HTTP/1.1 by the client of `kube`, for API servers that do not speak HTTP/2 over TLS.

use std::sync::{Arc, Mutex, Once};

use anyhow::{Context as _, Result, anyhow};
use http::Uri;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioIo};
use kube::client::{Body, ConfigExt as _};
use tokio::time::timeout;
use tower::{BoxError, Layer as _, ServiceExt as _};

use super::credentials::Credentials;
use super::dialer::Dialer;
use super::lock;
use crate::connect::CONNECT_TIMEOUT;

/// A client, built again for new credentials. It repeats no request, whatever the answer: a POST that
/// was answered 503 or 504 may have been carried out.
#[derive(Default)]
pub(super) struct Http1Fallback(Mutex<Option<(Arc<Credentials>, kube::Client)>>);

impl Http1Fallback {
    /// A client with these credentials.
    pub(super) fn client(
        &self,
        dial: &Arc<Dialer>,
        credentials: &Arc<Credentials>,
    ) -> Result<kube::Client> {
        let mut made = lock(&self.0);
        if let Some((with, client)) = &*made
            && Arc::ptr_eq(with, credentials)
        {
            return Ok(client.clone());
        }
        let client = build(Arc::clone(dial), credentials.config())?;
        *made = Some((Arc::clone(credentials), client.clone()));
        Ok(client)
    }
}

/// Logs once in this process why requests go by HTTP/1.1.
pub(super) fn say(why: &str) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        tracing::warn!(
            "{why}: requests go by HTTP/1.1, each on a connection of its own while it lasts"
        );
    });
}

fn build(dial: Arc<Dialer>, config: &kube::Config) -> Result<kube::Client> {
    let connector = tower::service_fn(move |_: Uri| {
        let dial = Arc::clone(&dial);
        async move { dial.connect().await.map(TokioIo::new).map_err(BoxError::from) }
    });
    let connector = config
        .rustls_https_connector_with_connector(connector)
        .context("cannot set up TLS for the API server")?
        .map_future(|connecting| {
            Box::pin(async {
                let connected = timeout(CONNECT_TIMEOUT, connecting).await;
                let late = |_| anyhow!("the API server did not answer for {CONNECT_TIMEOUT:?}");
                connected.map_err(late)?
            })
        });
    let client = legacy::Client::builder(TokioExecutor::new()).build::<_, Body>(connector);
    let service = config.base_uri_layer().layer(client.map_err(BoxError::from));
    let credentials = config.auth_layer().context("cannot set up the credentials")?;
    let service = tower::util::option_layer(credentials).layer(service);
    let headers = config.extra_headers_layer().context("cannot set up the credentials")?;
    Ok(kube::Client::new(headers.layer(service), config.default_namespace.clone()))
}
