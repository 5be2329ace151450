//! Token reviews and access reviews by the API server, with a cache.

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use tokio::sync::{AcquireError, Semaphore};
use tokio::time::timeout;

use super::identity::RequestUser;
use super::review_cache::{KeyHasher, NoRandomNumbers, ReviewCache};

/// Lifetime of a cached review, and so of a token or right that was revoked.
const CACHE_TTL: Duration = Duration::from_secs(10);

/// Maximum number of cached reviews of each kind; there are only a few scrapers.
const CACHED_REVIEWS_MAX: usize = 1024;

/// Maximum number of reviews of each kind in flight, which protects the API server from a flood.
const REVIEWS_IN_FLIGHT_MAX: usize = 8;

/// Time limit of a review, including the wait for a permit.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a review has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewError {
    #[error("token review")]
    Token(#[source] ReviewRequestError),
    #[error("access review")]
    Access(#[source] ReviewRequestError),
}

/// Why the request of a review failed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReviewRequestError {
    #[error("no answer for {REVIEW_TIMEOUT:?}")]
    Timeout,
    #[error(transparent)]
    Permit(#[from] AcquireError),
    #[error(transparent)]
    Request(#[from] kube::Error),
}

/// Result of an access review.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AccessDecision {
    Allowed,
    /// Denied for this reason, which may be empty.
    Denied(String),
}

/// Requests reviews and caches their results.
pub(super) struct Reviews {
    token_client: kube::Client,
    access_client: kube::Client,
    hasher: KeyHasher,
    tokens: ReviewCache<Option<RequestUser>>,
    token_permits: Semaphore,
    decisions: ReviewCache<AccessDecision>,
    decision_permits: Semaphore,
}

impl Reviews {
    /// Creates reviews with a client for tokens and one for access.
    pub(super) fn new(clients: [kube::Client; 2]) -> Result<Self, NoRandomNumbers> {
        let [token_client, access_client] = clients;
        Ok(Self {
            token_client,
            access_client,
            hasher: KeyHasher::new()?,
            tokens: ReviewCache::new(CACHE_TTL, CACHED_REVIEWS_MAX),
            token_permits: Semaphore::new(REVIEWS_IN_FLIGHT_MAX),
            decisions: ReviewCache::new(CACHE_TTL, CACHED_REVIEWS_MAX),
            decision_permits: Semaphore::new(REVIEWS_IN_FLIGHT_MAX),
        })
    }

    /// Returns the user of a token, or `None` if the token is invalid.
    pub(super) async fn token(&self, token: &str) -> Result<Option<RequestUser>, ReviewError> {
        let key = self.hasher.key([token]);
        if let Some(identity) = self.tokens.get(&key) {
            return Ok(identity);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review = create_review(&self.token_client, &self.token_permits, &review)
            .await
            .map_err(ReviewError::Token)?;
        let status = review.status.unwrap_or_default();
        let accepted =
            status.authenticated == Some(true) && status.error.is_none_or(|error| error.is_empty());
        let identity = status.user.filter(|_| accepted).and_then(RequestUser::of_token);
        self.tokens.put(key, identity.clone());
        Ok(identity)
    }

    /// Returns whether a user may use a verb on a path.
    pub(super) async fn access(
        &self,
        identity: &RequestUser,
        verb: &str,
        path: &str,
    ) -> Result<AccessDecision, ReviewError> {
        let key = self.hasher.key(parts(identity, verb, path).iter().map(AsRef::as_ref));
        if let Some(decision) = self.decisions.get(&key) {
            return Ok(decision);
        }
        let attributes =
            NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
        let spec = SubjectAccessReviewSpec {
            user: Some(identity.user.clone()),
            uid: identity.uid.clone(),
            groups: Some(identity.groups.clone()),
            extra: Some(identity.extra.clone()).filter(|extra| !extra.is_empty()),
            non_resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let review = create_review(&self.access_client, &self.decision_permits, &review)
            .await
            .map_err(ReviewError::Access)?;
        let status = review.status.unwrap_or_default();
        let decision = if status.allowed && status.denied != Some(true) {
            AccessDecision::Allowed
        } else {
            AccessDecision::Denied(status.reason.unwrap_or_default())
        };
        self.decisions.put(key, decision.clone());
        Ok(decision)
    }
}

async fn create_review<K>(
    client: &kube::Client,
    permits: &Semaphore,
    review: &K,
) -> Result<K, ReviewRequestError>
where
    K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::all(client.clone());
    let response = timeout(REVIEW_TIMEOUT, async {
        let _permit = permits.acquire().await?;
        Ok(api.create(&PostParams::default(), review).await?)
    });
    response.await.unwrap_or(Err(ReviewRequestError::Timeout))
}

/// Returns everything that an access review depends on.
fn parts<'a>(
    identity: &'a RequestUser,
    verb: &'a str,
    path: &'a str,
) -> Vec<std::borrow::Cow<'a, str>> {
    let mut parts = vec![verb.into(), path.into(), identity.user.as_str().into()];
    parts.push(identity.uid.as_deref().unwrap_or_default().into());
    parts.push(identity.groups.len().to_string().into());
    parts.extend(identity.groups.iter().map(Into::into));
    for (key, values) in &identity.extra {
        parts.push(key.into());
        parts.push(values.len().to_string().into());
        parts.extend(values.iter().map(Into::into));
    }
    parts
}
