//! The connection to one extender.

use std::time::Duration;

use anyhow::{Context as _, Error, Result, anyhow};
use api::config::{Extender, ExtenderTls};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::Value;
use tokio::time::timeout;

#[cfg(test)]
mod tests;

/// Bytes of an answer: thousands of nodes, whole.
const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// One extender and how to reach it.
pub(super) struct ExtenderClient {
    pub(super) extender: Extender,
    client: kube::Client,
    limit: Duration,
}

impl ExtenderClient {
    pub(super) fn new(extender: &Extender) -> Result<Self> {
        let address = extender.url_prefix.trim_end_matches('/');
        let mut config = kube::Config::new(address.parse().context("urlPrefix")?);
        // An extender may have done what it was asked although it answers 503 or 504.
        config.default_retry = false;
        config.read_timeout = None;
        config.write_timeout = None;
        if extender.enable_https {
            let tls = extender.tls.clone().unwrap_or_default();
            let roots = roots(&tls)?;
            // As upstream: with nothing to verify it by, every certificate will do.
            config.accept_invalid_certs = tls.insecure || roots.is_empty();
            config.root_cert = (!roots.is_empty()).then_some(roots);
            config.tls_server_name = (!tls.server_name.is_empty()).then(|| tls.server_name.clone());
            let file = |path: &str| (!path.is_empty()).then(|| path.to_owned());
            config.auth_info.client_certificate = file(&tls.cert_file);
            config.auth_info.client_key = file(&tls.key_file);
            config.auth_info.client_certificate_data = encoded(&tls.cert_data)?;
            config.auth_info.client_key_data = encoded(&tls.key_data)?.map(Into::into);
        }
        let client = kube::Client::try_from(config).context("the connection cannot be set up")?;
        Ok(Self { extender: extender.clone(), client, limit: extender.http_timeout.to_std() })
    }

    #[cfg(test)]
    pub(super) fn over(extender: Extender, client: kube::Client) -> Self {
        let limit = extender.http_timeout.to_std();
        Self { extender, client, limit }
    }

    /// Asks for something and returns the answer.
    pub(super) async fn post(&self, verb: &str, arguments: &Value) -> Result<Value> {
        let exchange = timeout(self.limit, self.exchange(verb, arguments)).await;
        let limit = self.limit;
        exchange.unwrap_or_else(|_| Err(anyhow!("no answer within {limit:?}"))).with_context(|| {
            format!("failed {verb} with extender at URL {}", self.extender.url_prefix)
        })
    }

    async fn exchange(&self, verb: &str, arguments: &Value) -> Result<Value> {
        let request = Request::post(format!("/{verb}"))
            .header("content-type", "application/json")
            .body(Body::from(serde_json::to_vec(arguments)?))?;
        let response = self.client.send(request).await?;
        if response.status() != StatusCode::OK {
            return Err(anyhow!("code {}", response.status().as_u16()));
        }
        let body = http_body_util::Limited::new(response.into_body(), RESPONSE_BYTES_MAX);
        let bytes = body.collect().await.map_err(|error| anyhow!("{error}"))?.to_bytes();
        serde_json::from_slice(&bytes).context("the answer is not JSON")
    }

    /// An answer that makes no sense.
    pub(super) fn invalid_response(&self, what: &str) -> Error {
        anyhow!("the extender at URL {} answers wrongly: {what}", self.extender.url_prefix)
    }
}

/// The certificates by which to know an extender.
fn roots(tls: &ExtenderTls) -> Result<Vec<Vec<u8>>> {
    let pem = match (tls.ca_data.is_empty(), tls.ca_file.is_empty()) {
        (false, _) => tls.ca_data.bytes.clone(),
        (true, false) => std::fs::read(&tls.ca_file)
            .with_context(|| format!("tlsConfig.caFile {}", tls.ca_file))?,
        (true, true) => return Ok(Vec::new()),
    };
    let certificates = CertificateDer::pem_slice_iter(&pem).map(|read| Ok(read?.to_vec()));
    let certificates = certificates.collect::<Result<Vec<_>>>().context("tlsConfig: the CA")?;
    if certificates.is_empty() {
        return Err(anyhow!("tlsConfig: no certificate is in the CA"));
    }
    Ok(certificates)
}

/// Bytes as a kubeconfig holds them.
fn encoded(data: &api::config::Base64) -> Result<Option<String>> {
    if data.is_empty() {
        return Ok(None);
    }
    match serde_json::to_value(data)? {
        Value::String(text) => Ok(Some(text)),
        _ => Ok(None),
    }
}
