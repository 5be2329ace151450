//! The connection to one extender.

use std::time::Duration;

use api::config::{Extender, ExtenderTls};
use http::{Request, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};
use serde_json::Value;
use tokio::time::timeout;
use tracing::{Instrument as _, debug_span};

use super::ExtenderError;
use crate::api_error::BoxError;

#[cfg(test)]
mod tests;

/// Maximum length of a response, in bytes: thousands of whole nodes.
const RESPONSE_BYTES_MAX: usize = 256 << 20;

/// Why the configuration of an extender cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ExtenderConfigError {
    /// `urlPrefix` is not a URL.
    #[error("urlPrefix")]
    UrlPrefix(#[source] http::uri::InvalidUri),
    /// The file of the CA cannot be read.
    #[error("tlsConfig.caFile {path}")]
    CaFile {
        /// Path of the file.
        path: String,
        /// Why it cannot be read.
        #[source]
        error: std::io::Error,
    },
    /// The CA is not PEM.
    #[error("tlsConfig: the CA")]
    CaPem(#[source] pem::Error),
    /// The CA holds no certificate.
    #[error("tlsConfig: no certificate is in the CA")]
    CaEmpty,
    /// A certificate or key cannot be encoded for the client.
    #[error(transparent)]
    Encode(#[from] serde_json::Error),
    /// The client refuses the configuration.
    #[error("the connection cannot be set up")]
    Client(#[source] kube::Error),
}

/// Why a call got no response that can be read.
#[derive(Debug, thiserror::Error)]
pub enum ExtenderCallError {
    /// No response arrived in time.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The request failed.
    #[error(transparent)]
    Request(BoxError),
    /// The status of the response is not 200.
    #[error("code {}", .0.as_u16())]
    Status(StatusCode),
    /// The body of the response is not JSON.
    #[error("the answer is not JSON")]
    Json(#[source] serde_json::Error),
}

/// The client of one extender.
pub(super) struct ExtenderClient {
    pub(super) extender: Extender,
    client: kube::Client,
    limit: Duration,
}

impl ExtenderClient {
    pub(super) fn new(extender: &Extender) -> Result<Self, ExtenderConfigError> {
        let address = extender.url_prefix.trim_end_matches('/');
        let mut config =
            kube::Config::new(address.parse().map_err(ExtenderConfigError::UrlPrefix)?);
        // No retries: an extender may have handled a request that it answers with 503 or 504.
        config.default_retry = false;
        config.read_timeout = None;
        config.write_timeout = None;
        if extender.enable_https {
            let tls = extender.tls.clone().unwrap_or_default();
            let roots = roots(&tls)?;
            // As upstream: without a CA every certificate is accepted.
            config.accept_invalid_certs = tls.insecure || roots.is_empty();
            config.root_cert = (!roots.is_empty()).then_some(roots);
            config.tls_server_name = (!tls.server_name.is_empty()).then(|| tls.server_name.clone());
            let file = |path: &str| (!path.is_empty()).then(|| path.to_owned());
            config.auth_info.client_certificate = file(&tls.cert_file);
            config.auth_info.client_key = file(&tls.key_file);
            config.auth_info.client_certificate_data = encoded(&tls.cert_data)?;
            config.auth_info.client_key_data = encoded(&tls.key_data)?.map(Into::into);
        }
        let client = kube::Client::try_from(config).map_err(ExtenderConfigError::Client)?;
        Ok(Self { extender: extender.clone(), client, limit: extender.http_timeout.to_std() })
    }

    #[cfg(test)]
    pub(super) fn over(extender: Extender, client: kube::Client) -> Self {
        let limit = extender.http_timeout.to_std();
        Self { extender, client, limit }
    }

    /// Calls a verb and returns the response.
    pub(super) async fn post(&self, verb: &str, arguments: &Value) -> Result<Value, ExtenderError> {
        let url = &self.extender.url_prefix;
        let span = debug_span!("extender_call", url, verb);
        let exchange = self.exchange(verb, arguments).instrument(span);
        let response = timeout(self.limit, exchange).await;
        let response = response.unwrap_or(Err(ExtenderCallError::Timeout(self.limit)));
        response.map_err(|error| ExtenderError::Call {
            verb: verb.to_owned(),
            url: url.clone(),
            error,
        })
    }

    async fn exchange(&self, verb: &str, arguments: &Value) -> Result<Value, ExtenderCallError> {
        let arguments = serde_json::to_vec(arguments);
        let arguments = arguments.map_err(|error| ExtenderCallError::Request(error.into()))?;
        let request = Request::post(format!("/{verb}"))
            .header("content-type", "application/json")
            .body(Body::from(arguments));
        let request = request.map_err(|error| ExtenderCallError::Request(error.into()))?;
        let response = self.client.send(request).await;
        let response = response.map_err(|error| ExtenderCallError::Request(error.into()))?;
        if response.status() != StatusCode::OK {
            return Err(ExtenderCallError::Status(response.status()));
        }
        let body = http_body_util::Limited::new(response.into_body(), RESPONSE_BYTES_MAX);
        let bytes = body.collect().await.map_err(ExtenderCallError::Request)?.to_bytes();
        serde_json::from_slice(&bytes).map_err(ExtenderCallError::Json)
    }

    /// Returns the error for a response that does not have the form of the protocol.
    pub(super) fn invalid_response(&self, problem: &str) -> ExtenderError {
        let (url, problem) = (self.extender.url_prefix.clone(), problem.to_owned());
        ExtenderError::InvalidResponse { url, problem }
    }
}

/// Returns the certificates of the CA; none if no CA is configured.
fn roots(tls: &ExtenderTls) -> Result<Vec<Vec<u8>>, ExtenderConfigError> {
    let pem = match (tls.ca_data.is_empty(), tls.ca_file.is_empty()) {
        (false, _) => tls.ca_data.bytes.clone(),
        (true, false) => std::fs::read(&tls.ca_file)
            .map_err(|error| ExtenderConfigError::CaFile { path: tls.ca_file.clone(), error })?,
        (true, true) => return Ok(Vec::new()),
    };
    let certificates = CertificateDer::pem_slice_iter(&pem).map(|read| Ok(read?.to_vec()));
    let certificates = certificates.collect::<Result<Vec<_>, _>>();
    let certificates = certificates.map_err(ExtenderConfigError::CaPem)?;
    if certificates.is_empty() { Err(ExtenderConfigError::CaEmpty) } else { Ok(certificates) }
}

/// Encodes bytes in Base64, as a kubeconfig holds them.
fn encoded(data: &api::config::Base64) -> Result<Option<String>, serde_json::Error> {
    if data.is_empty() {
        return Ok(None);
    }
    match serde_json::to_value(data)? {
        Value::String(text) => Ok(Some(text)),
        _ => Ok(None),
    }
}
