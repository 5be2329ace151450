//! Leader election on a Lease of `coordination.k8s.io/v1`, and the fence that keeps a leader from
//! sending writes that could land after another replica leads.
//!
//! ```text
//! Waiting ──lease free or expired, write accepted──► Leading ──stop──► Released
//!    │                                                  │
//!    └──stop──► Released                                └──not renewed in time, or taken──► Lost
//! ```
//!
//! # Guarantees
//!
//! Clocks of other machines do not matter: a lease has expired when its record has not changed for its
//! whole duration by this process' own monotonic clock. All writes carry the resourceVersion on which
//! they are based, so one of two candidates gets a conflict.
//!
//! # Caveats
//!
//! The caller must drain its own writes before it stops the election: the lease is released at once, and
//! the next leader starts without waiting.

mod fence;

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, debug, debug_span, info, warn};

use crate::api_error::BoxError;
use crate::connect::root_cause;
use fence::Moment;
pub use fence::{Fence, LeaseOverrun, MARGIN, REQUEST_TIMEOUT, SLACK};

/// Candidates wait for the retry period and up to this multiple of it more, so that their requests are
/// spread; client-go's value.
const JITTER_FACTOR: f64 = 1.2;

/// Time limit of releasing the lease. It spares the next leader the lease duration, but the exit must not
/// wait long for it.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// Role of this process in the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Another replica leads, or the leader is not known yet.
    Waiting,
    /// This process leads.
    Leading,
    /// This process led and could not renew the lease in time, or another replica took it. Final.
    Lost,
    /// The election was stopped, and the lease released if it was held. Final.
    Released,
}

/// Why settings of the election contradict each other.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LeaseSettingsError {
    /// The identity is empty.
    #[error("leaderElection: the identity is empty")]
    Identity,
    /// The retry period is zero.
    #[error("leaderElection.retryPeriod: must be greater than 0")]
    RetryPeriod,
    /// The renew deadline leaves no time for a retry.
    #[error(
        "leaderElection.renewDeadline: {renew_deadline:?} must be greater than retryPeriod * {JITTER_FACTOR} = {retries:?}"
    )]
    RenewDeadline {
        /// The renew deadline.
        renew_deadline: Duration,
        /// Longest time between two attempts.
        retries: Duration,
    },
    /// The lease can expire before the leader gives up.
    #[error(
        "leaderElection.leaseDuration: {lease_duration:?} must be greater than renewDeadline {renew_deadline:?}"
    )]
    LeaseDuration {
        /// The lease duration.
        lease_duration: Duration,
        /// The renew deadline.
        renew_deadline: Duration,
    },
    /// The fence would close before a renewal.
    #[error(
        "leaderElection.leaseDuration: {lease_duration:?} must be greater than {needed:?}, which is retryPeriod plus the time in which a request of an old leader may still land"
    )]
    LeaseMargin {
        /// The lease duration.
        lease_duration: Duration,
        /// The retry period and [`MARGIN`].
        needed: Duration,
    },
    /// The lease duration does not fit into the lease.
    #[error("leaderElection.leaseDuration: {lease_duration:?} is too long")]
    LeaseTooLong {
        /// The lease duration.
        lease_duration: Duration,
    },
}

/// Why an attempt to acquire or renew failed.
#[derive(Debug, thiserror::Error)]
enum LeaseError {
    #[error(transparent)]
    Request(BoxError),
    #[error("no answer from the API server for {0:?}")]
    NoResponse(Duration),
}

/// Settings of the election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Holder identity; must be different in each process.
    pub identity: String,
    /// Time without a change after which candidates may take the lease.
    pub lease_duration: Duration,
    /// Time after its last renewal at which the leader gives up.
    pub renew_deadline: Duration,
    /// Time between attempts to acquire or renew.
    pub retry_period: Duration,
}

impl LeaseSettings {
    /// Returns upstream's defaults (15 s, 10 s, 2 s) with a new identity.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            identity: new_identity(),
            lease_duration: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry_period: Duration::from_secs(2),
        }
    }

    /// Checks that the settings do not contradict each other.
    fn check(&self) -> Result<(), LeaseSettingsError> {
        let Self { lease_duration, renew_deadline, retry_period, .. } = self;
        if self.identity.is_empty() {
            return Err(LeaseSettingsError::Identity);
        }
        if retry_period.is_zero() {
            return Err(LeaseSettingsError::RetryPeriod);
        }
        let retries = retry_period.mul_f64(JITTER_FACTOR);
        if *renew_deadline <= retries {
            let renew_deadline = *renew_deadline;
            return Err(LeaseSettingsError::RenewDeadline { renew_deadline, retries });
        }
        let (lease_duration, renew_deadline) = (*lease_duration, *renew_deadline);
        if lease_duration <= renew_deadline {
            return Err(LeaseSettingsError::LeaseDuration { lease_duration, renew_deadline });
        }
        let needed = MARGIN + *retry_period;
        if self.lease_duration_in_whole_seconds() <= needed {
            return Err(LeaseSettingsError::LeaseMargin { lease_duration, needed });
        }
        if i32::try_from(lease_duration.as_secs()).is_err() {
            return Err(LeaseSettingsError::LeaseTooLong { lease_duration });
        }
        Ok(())
    }

    /// Returns the lease duration as the lease holds it, rounded down to seconds.
    fn lease_duration_in_whole_seconds(&self) -> Duration {
        Duration::from_secs(self.lease_duration.as_secs())
    }
}

/// A candidate of the election.
pub struct Elector {
    api: Api<Lease>,
    settings: LeaseSettings,
    fence: Fence,
    leading: bool,
    /// The lease as last seen, and when its record was first seen in this state.
    observed: Option<(Lease, Instant)>,
}

/// Result of an attempt to acquire or renew the lease.
enum LeaseOutcome {
    /// This process holds the lease; with the start of the last write.
    Held(Moment),
    /// Another candidate holds the lease.
    HeldByOther(String),
}

impl Elector {
    /// Creates a candidate.
    pub fn new(client: kube::Client, settings: LeaseSettings) -> Result<Self, LeaseSettingsError> {
        settings.check()?;
        let api = Api::namespaced(client, &settings.namespace);
        Ok(Self { api, settings, fence: Fence::never(), leading: false, observed: None })
    }

    /// Returns the fence of this election, to be checked before each write.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Runs until the lease is lost or `stop` is cancelled.
    pub async fn run(self, on_change: watch::Sender<Role>, stop: CancellationToken) {
        let LeaseSettings { namespace, name, identity, .. } = &self.settings;
        let span = debug_span!("election", lease = %format_args!("{namespace}/{name}"), %identity);
        self.run_in_span(on_change, stop).instrument(span).await;
    }

    async fn run_in_span(mut self, on_change: watch::Sender<Role>, stop: CancellationToken) {
        on_change.send_replace(Role::Waiting);
        let Some(acquired) = stop.run_until_cancelled(self.acquire()).await else {
            // A write may have landed although its response was not awaited.
            return self.release(&on_change).await;
        };
        on_change.send_replace(Role::Leading);
        if stop.run_until_cancelled(self.renew(acquired)).await.is_none() {
            return self.release(&on_change).await;
        }
        self.fence.close();
        on_change.send_replace(Role::Lost);
    }

    /// Tries to acquire the lease until this succeeds.
    async fn acquire(&mut self) -> Moment {
        let LeaseSettings { namespace, name, identity, .. } = self.settings.clone();
        let mut holder_last = None;
        loop {
            match self.acquire_or_renew_within(self.attempt_timeout()).await {
                Ok(LeaseOutcome::Held(start)) => {
                    self.record_renewal(start);
                    info!(lease = %format_args!("{namespace}/{name}"), %identity, "became the leader");
                    return start;
                }
                Ok(LeaseOutcome::HeldByOther(holder)) => {
                    if holder_last.as_ref() != Some(&holder) {
                        info!(lease = %format_args!("{namespace}/{name}"), %holder, "another replica leads");
                        holder_last = Some(holder);
                    }
                }
                Err(error) => {
                    warn!(lease = %format_args!("{namespace}/{name}"), error = %root_cause(&error), "cannot get the lease; will try again");
                }
            }
            sleep(jittered(self.settings.retry_period)).await;
        }
    }

    /// Renews until this fails for too long or another candidate holds the lease.
    async fn renew(&mut self, mut renewed: Moment) {
        loop {
            let deadline = renewed.steady + self.settings.renew_deadline;
            sleep_until(deadline.min(Instant::now() + self.settings.retry_period)).await;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                warn!(identity = %self.settings.identity, "the lease could not be renewed in time");
                return;
            }
            match self.acquire_or_renew_within(left.min(self.attempt_timeout())).await {
                Ok(LeaseOutcome::Held(start)) => {
                    self.record_renewal(start);
                    renewed = start;
                }
                Ok(LeaseOutcome::HeldByOther(holder)) => {
                    warn!(identity = %self.settings.identity, %holder, "the lease was taken");
                    return;
                }
                Err(error) => debug!(%error, "cannot renew the lease; will try again"),
            }
        }
    }

    /// Releases the lease if this process holds it.
    async fn release(mut self, on_change: &watch::Sender<Role>) {
        self.fence.close();
        match timeout(RELEASE_TIMEOUT, self.release_lease()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                warn!(error = %root_cause(&error), "cannot give the lease back; it will expire");
            }
            Err(_) => warn!("cannot give the lease back in time; it will expire"),
        }
        on_change.send_replace(Role::Released);
    }

    async fn release_lease(&mut self) -> Result<(), kube::Error> {
        let Some(mut lease) = self.api.get_opt(&self.settings.name).await? else { return Ok(()) };
        if holder(&lease) != self.settings.identity {
            return Ok(());
        }
        let now = MicroTime(Timestamp::now());
        let spec = lease.spec.get_or_insert_default();
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        spec.acquire_time = Some(now.clone());
        spec.renew_time = Some(now);
        self.api.replace(&self.settings.name, &PostParams::default(), &lease).await?;
        Ok(())
    }

    fn record_renewal(&mut self, start: Moment) {
        self.leading = true;
        self.fence.open(start, self.settings.lease_duration_in_whole_seconds());
    }

    /// Returns half of the renew deadline, so that a request that hangs leaves time for another.
    fn attempt_timeout(&self) -> Duration {
        self.settings.renew_deadline / 2
    }

    async fn acquire_or_renew_within(
        &mut self,
        limit: Duration,
    ) -> Result<LeaseOutcome, LeaseError> {
        match timeout(limit, self.acquire_or_renew()).await {
            Ok(outcome) => outcome.map_err(|error| LeaseError::Request(error.into())),
            Err(_) => Err(LeaseError::NoResponse(limit)),
        }
    }

    async fn acquire_or_renew(&mut self) -> Result<LeaseOutcome, kube::Error> {
        // Normally no other candidate has written, and one request is enough.
        if self.leading
            && let Some((lease, _)) = &self.observed
        {
            match self.write(lease.clone()).await {
                Ok(start) => return Ok(LeaseOutcome::Held(start)),
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let Some(lease) = self.api.get_opt(&self.settings.name).await? else {
            return self.create().await.map(LeaseOutcome::Held);
        };
        self.observe(lease.clone());
        let holder = holder(&lease);
        if holder == self.settings.identity {
            return self.write(lease).await.map(LeaseOutcome::Held);
        }
        // A leader whose identity was removed from the lease cannot know whether another one led since.
        if self.leading || (!holder.is_empty() && !self.is_expired(Instant::now())) {
            return Ok(LeaseOutcome::HeldByOther(holder.to_owned()));
        }
        self.write(lease).await.map(LeaseOutcome::Held)
    }

    async fn create(&mut self) -> Result<Moment, kube::Error> {
        let metadata = ObjectMeta {
            namespace: Some(self.settings.namespace.clone()),
            name: Some(self.settings.name.clone()),
            ..ObjectMeta::default()
        };
        let lease = self.with_own_record(Lease { metadata, spec: None });
        let start = Moment::now();
        let lease = self.api.create(&PostParams::default(), &lease).await?;
        self.observe(lease);
        Ok(start)
    }

    /// Writes this process into a lease, provided that the lease has not changed.
    async fn write(&mut self, lease: Lease) -> Result<Moment, kube::Error> {
        let lease = self.with_own_record(lease);
        let start = Moment::now();
        let lease = self.api.replace(&self.settings.name, &PostParams::default(), &lease).await?;
        self.observe(lease);
        Ok(start)
    }

    /// Returns the lease with this process as its holder. Other fields stay.
    fn with_own_record(&self, mut lease: Lease) -> Lease {
        let now = MicroTime(Timestamp::now());
        let already = holder(&lease) == self.settings.identity;
        let new = lease.spec.is_none();
        let spec: &mut LeaseSpec = lease.spec.get_or_insert_default();
        if !already {
            let transitions = spec.lease_transitions.unwrap_or(0);
            spec.lease_transitions = Some(if new { 0 } else { transitions.saturating_add(1) });
            spec.acquire_time = Some(now.clone());
        }
        spec.holder_identity = Some(self.settings.identity.clone());
        spec.lease_duration_seconds = Some(self.settings.lease_duration.as_secs() as i32);
        spec.renew_time = Some(now);
        lease
    }

    /// Records the present lease; the time stays if the record did not change.
    fn observe(&mut self, lease: Lease) {
        let now = Instant::now();
        let at = match &self.observed {
            Some((old, at)) if old.spec == lease.spec => *at,
            _ => now,
        };
        self.observed = Some((lease, at));
    }

    fn is_expired(&self, now: Instant) -> bool {
        let Some((lease, at)) = &self.observed else { return false };
        let seconds = lease.spec.as_ref().and_then(|spec| spec.lease_duration_seconds);
        let duration = match seconds {
            Some(seconds) => Duration::from_secs(u64::try_from(seconds).unwrap_or(0)),
            None => self.settings.lease_duration,
        };
        now.saturating_duration_since(*at) >= duration
    }
}

fn holder(lease: &Lease) -> &str {
    lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref()).unwrap_or_default()
}

/// Returns the host name with a random suffix, as upstream.
fn new_identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|host| host.trim().to_owned())
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "localhost".to_owned());
    format!("{host}_{}", uuid::Uuid::new_v4())
}

/// Adds jitter to a period. The seeds of hash maps are random enough for this.
fn jittered(period: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
    period.mul_f64(1.0 + JITTER_FACTOR * random)
}

#[cfg(test)]
mod tests;
