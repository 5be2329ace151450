//! Questions to the API server: whose token is this, and may they do that?

use std::time::Duration;

use anyhow::Context;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::Api;
use kube::api::PostParams;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::identity::RequestUser;
use super::review_cache::{KeyHasher, ReviewCache};

/// How long an answer counts: a token or a right that was taken away works no longer than this.
const CACHE_TTL: Duration = Duration::from_secs(10);
/// Answers kept of each kind. Scrapers are few; more is a flood.
const CACHED_REVIEWS_MAX: usize = 1024;
/// Questions of each kind under way, so that a flood of requests here is none at the API server.
const REVIEWS_IN_FLIGHT_MAX: usize = 8;
/// How long to wait for an answer, time in the queue included.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);

/// What the API server says about a right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Allowed,
    /// With the reason, which may be empty.
    Denied(String),
}

/// Asks, and remembers answers.
pub(super) struct Reviews {
    token_client: kube::Client,
    access_client: kube::Client,
    hasher: KeyHasher,
    tokens: ReviewCache<Option<RequestUser>>,
    token_permits: Semaphore,
    decisions: ReviewCache<Decision>,
    decision_permits: Semaphore,
}

impl Reviews {
    /// Asks with the first client whose token it is, and with the second who may do what.
    pub(super) fn new(clients: [kube::Client; 2]) -> anyhow::Result<Self> {
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

    /// Whose token it is; `None` if it is nobody's. An error means that nobody knows.
    pub(super) async fn token(&self, token: &str) -> anyhow::Result<Option<RequestUser>> {
        let key = self.hasher.key([token]);
        if let Some(identity) = self.tokens.get(&key) {
            return Ok(identity);
        }
        let spec = TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() };
        let review = TokenReview { spec, ..TokenReview::default() };
        let review = create_review(&self.token_client, &self.token_permits, &review)
            .await
            .context("token review")?;
        let status = review.status.unwrap_or_default();
        let accepted =
            status.authenticated == Some(true) && status.error.is_none_or(|error| error.is_empty());
        let identity = status.user.filter(|_| accepted).and_then(RequestUser::of_token);
        self.tokens.put(key, identity.clone());
        Ok(identity)
    }

    /// Whether somebody may do something. An error means that nobody knows.
    pub(super) async fn access(
        &self,
        identity: &RequestUser,
        verb: &str,
        path: &str,
    ) -> anyhow::Result<Decision> {
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
            .context("access review")?;
        let status = review.status.unwrap_or_default();
        let decision = if status.allowed && status.denied != Some(true) {
            Decision::Allowed
        } else {
            Decision::Denied(status.reason.unwrap_or_default())
        };
        self.decisions.put(key, decision.clone());
        Ok(decision)
    }
}

async fn create_review<K>(client: &kube::Client, asked: &Semaphore, review: &K) -> anyhow::Result<K>
where
    K: kube::Resource<Scope = k8s_openapi::ClusterResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::Serialize
        + serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::all(client.clone());
    let answer = timeout(REVIEW_TIMEOUT, async {
        let _permit = asked.acquire().await?;
        anyhow::Ok(api.create(&PostParams::default(), review).await?)
    });
    answer.await.with_context(|| format!("no answer for {REVIEW_TIMEOUT:?}"))?
}

/// Everything that an answer depends on.
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
