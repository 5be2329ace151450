//! Authentication and authorisation of requests.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::request::Parts;
use rustls::pki_types::CertificateDer;
use tracing::warn;

use super::client_authorities::ClientAuthorities;
use super::identity::RequestUser;
use super::paths::AllowedPaths;
use super::review::{AccessDecision, ReviewError, Reviews};
use super::review_cache::NoRandomNumbers;
use crate::api_error::Chain;

/// Why a request is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum AccessRefusal {
    /// The credential is invalid.
    Unauthorized,
    /// The right is missing; with the text for the user.
    Forbidden(String),
    /// The API server cannot be asked.
    Unavailable,
}

/// Decides which requests reach the routes.
pub(super) struct AccessControl {
    allowed: AllowedPaths,
    client_ca: Option<Arc<ClientAuthorities>>,
    reviews: Reviews,
}

impl AccessControl {
    pub(super) fn new(
        clients: [kube::Client; 2],
        allowed: AllowedPaths,
        client_ca: Option<Arc<ClientAuthorities>>,
    ) -> Result<Self, NoRandomNumbers> {
        Ok(Self { allowed, client_ca, reviews: Reviews::new(clients)? })
    }

    /// Checks a request. `served` says whether its path has a page.
    pub(super) async fn check(
        &self,
        request: &Parts,
        certificates: &[CertificateDer<'static>],
        served: bool,
    ) -> Result<(), AccessRefusal> {
        let path = request.uri.path();
        // Checked before the credential: health probes must not depend on the API server.
        if self.allowed.contains(path) {
            return Ok(());
        }
        let identity = self.identify(request, certificates).await?;
        let verb = request.method.as_str().to_lowercase();
        let forbidden = |reason: &str| {
            let text = format!("forbidden: User {:?} cannot {verb} path {path:?}", identity.user);
            Err(AccessRefusal::Forbidden(match reason {
                "" => text,
                reason => format!("{text}: {reason}"),
            }))
        };
        // Anonymous requests for unknown paths cause no reviews.
        if identity.is_anonymous() && !served {
            return forbidden("");
        }
        match self.reviews.access(&identity, &verb, path).await {
            Ok(AccessDecision::Allowed) => Ok(()),
            Ok(AccessDecision::Denied(reason)) => forbidden(&reason),
            Err(error) => Err(unavailable(&error)),
        }
    }

    async fn identify(
        &self,
        request: &Parts,
        certificates: &[CertificateDer<'static>],
    ) -> Result<RequestUser, AccessRefusal> {
        let mut has_certificate = false;
        if let (Some(client_ca), Some((first, rest))) =
            (&self.client_ca, certificates.split_first())
        {
            has_certificate = client_ca.has_any();
            if let Some(identity) = client_ca.proxied(first, rest, &request.headers) {
                return Ok(identity);
            }
            if client_ca.accepts_client(first, rest)
                && let Some(identity) = RequestUser::of_certificate(first)
            {
                return Ok(identity);
            }
        }
        match bearer(request)? {
            Some(token) => match self.reviews.token(token).await {
                Ok(identity) => identity.ok_or(AccessRefusal::Unauthorized),
                Err(error) => Err(unavailable(&error)),
            },
            None if has_certificate => Err(AccessRefusal::Unauthorized),
            None => Ok(RequestUser::anonymous()),
        }
    }
}

/// Returns the bearer token of a request. Other schemes are ignored, as upstream.
fn bearer(request: &Parts) -> Result<Option<&str>, AccessRefusal> {
    let Some(value) = request.headers.get(AUTHORIZATION) else { return Ok(None) };
    let value = value.to_str().map_err(|_| AccessRefusal::Unauthorized)?;
    let Some((scheme, token)) = value.trim().split_once(' ') else { return Ok(None) };
    let token = token.trim();
    Ok(Some(token).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()))
}

fn unavailable(error: &ReviewError) -> AccessRefusal {
    warn!(error = %Chain(error), "cannot ask the API server who may see this server's pages");
    AccessRefusal::Unavailable
}
