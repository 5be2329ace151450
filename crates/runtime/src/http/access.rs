//! Who may see what.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::request::Parts;
use rustls::pki_types::CertificateDer;
use tracing::warn;

use super::client_authorities::ClientAuthorities;
use super::identity::RequestUser;
use super::paths::AllowedPaths;
use super::review::{Decision, Reviews};

/// Why a request is not answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// A credential was shown and is not good.
    Unauthorized,
    /// The right is missing; this is the text for the user.
    Forbidden(String),
    /// The API server did not say.
    Unavailable,
}

/// The gate in front of the routes.
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
    ) -> anyhow::Result<Self> {
        Ok(Self { allowed, client_ca, reviews: Reviews::new(clients)? })
    }

    /// Lets a request pass or not. `served` says whether there is anything behind its path.
    pub(super) async fn check(
        &self,
        request: &Parts,
        certificates: &[CertificateDer<'static>],
        served: bool,
    ) -> Result<(), Refusal> {
        let path = request.uri.path();
        // Not even a bad credential may keep a probe away: health must not depend on the API server.
        if self.allowed.contains(path) {
            return Ok(());
        }
        let identity = self.identify(request, certificates).await?;
        let verb = request.method.as_str().to_lowercase();
        let forbidden = |reason: &str| {
            let text = format!("forbidden: User {:?} cannot {verb} path {path:?}", identity.user);
            Err(Refusal::Forbidden(match reason {
                "" => text,
                reason => format!("{text}: {reason}"),
            }))
        };
        // Strangers who make up paths cause no questions.
        if identity.is_anonymous() && !served {
            return forbidden("");
        }
        match self.reviews.access(&identity, &verb, path).await {
            Ok(Decision::Allowed) => Ok(()),
            Ok(Decision::Denied(reason)) => forbidden(&reason),
            Err(error) => Err(unavailable(&error)),
        }
    }

    async fn identify(
        &self,
        request: &Parts,
        certificates: &[CertificateDer<'static>],
    ) -> Result<RequestUser, Refusal> {
        let mut shown = false;
        if let (Some(client_ca), Some((first, rest))) =
            (&self.client_ca, certificates.split_first())
        {
            shown = client_ca.knows_any();
            if let Some(identity) = client_ca.proxied(first, rest, &request.headers) {
                return Ok(identity);
            }
            if client_ca.vouches_for(first, rest)
                && let Some(identity) = RequestUser::of_certificate(first)
            {
                return Ok(identity);
            }
        }
        match bearer(request)? {
            Some(token) => match self.reviews.token(token).await {
                Ok(identity) => identity.ok_or(Refusal::Unauthorized),
                Err(error) => Err(unavailable(&error)),
            },
            None if shown => Err(Refusal::Unauthorized),
            None => Ok(RequestUser::anonymous()),
        }
    }
}

/// The token of a request. Other schemes are ignored, as upstream does.
fn bearer(request: &Parts) -> Result<Option<&str>, Refusal> {
    let Some(value) = request.headers.get(AUTHORIZATION) else { return Ok(None) };
    let value = value.to_str().map_err(|_| Refusal::Unauthorized)?;
    let Some((scheme, token)) = value.trim().split_once(' ') else { return Ok(None) };
    let token = token.trim();
    Ok(Some(token).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()))
}

fn unavailable(error: &anyhow::Error) -> Refusal {
    warn!(error = %format_args!("{error:#}"), "cannot ask the API server who may see this server's pages");
    Refusal::Unavailable
}
