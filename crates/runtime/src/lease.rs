//! Leader election on a Lease of `coordination.k8s.io/v1`, and the fence that keeps a leader from
//! sending writes that could land after somebody else leads.
//!
//! ```text
//! Waiting ──lease free or expired, write accepted──► Leading ──stop──► Released
//!    │                                                  │
//!    └──stop──► Released                                └──not renewed in time, or taken──► Lost
//! ```
//!
//! # Guarantees
//!
//! Clocks of other machines are never looked at: a lease has expired when its record was seen not
//! to change for its whole duration by this process' own steady clock. All writes carry the
//! resourceVersion that they are based on, so of two candidates one gets a conflict.
//!
//! # Caveats
//!
//! Whoever stops the election must have drained its own writes first: the lease is given back at
//! once, and the next leader starts without waiting.

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
use tracing::{debug, info, warn};

use crate::connect::root_cause;
use fence::Moment;
pub use fence::{Fence, MARGIN, REQUEST_TIMEOUT, SLACK};

/// Candidates wait between once and this much more than the retry period, so that they do not all
/// ask at once.
const JITTER_FACTOR: f64 = 1.2;

/// Giving the lease back is a courtesy to the next leader, so it may not hold up the exit for long.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(2);

/// What this process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Somebody else leads, or it is not known yet who does.
    Waiting,
    /// This process leads.
    Leading,
    /// This process led and could not renew the lease in time, or somebody took it. The end.
    Lost,
    /// The election was stopped; the lease was given back if it was held. The end.
    Released,
}

/// Which lease, as whom, and how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Who holds it; must be different in each process.
    pub identity: String,
    /// How long others wait since they last saw the lease change.
    pub lease_duration: Duration,
    /// How long after its last renewal the leader gives up.
    pub renew_deadline: Duration,
    /// Time between tries.
    pub retry_period: Duration,
}

impl LeaseSettings {
    /// Upstream's defaults (15 s, 10 s, 2 s) and an identity of this process.
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

    /// What is wrong with the settings, if anything.
    fn check(&self) -> anyhow::Result<()> {
        let Self { lease_duration, renew_deadline, retry_period, .. } = self;
        anyhow::ensure!(!self.identity.is_empty(), "leaderElection: the identity is empty");
        anyhow::ensure!(
            !retry_period.is_zero(),
            "leaderElection.retryPeriod: must be greater than 0"
        );
        anyhow::ensure!(
            *renew_deadline > retry_period.mul_f64(JITTER_FACTOR),
            "leaderElection.renewDeadline: {renew_deadline:?} must be greater than retryPeriod * {JITTER_FACTOR} = {:?}",
            retry_period.mul_f64(JITTER_FACTOR),
        );
        anyhow::ensure!(
            lease_duration > renew_deadline,
            "leaderElection.leaseDuration: {lease_duration:?} must be greater than renewDeadline {renew_deadline:?}",
        );
        let needed = MARGIN + *retry_period;
        anyhow::ensure!(
            self.lease_duration_in_whole_seconds() > needed,
            "leaderElection.leaseDuration: {lease_duration:?} must be greater than {needed:?}, which is retryPeriod plus the time in which a request of an old leader may still land",
        );
        anyhow::ensure!(
            i32::try_from(lease_duration.as_secs()).is_ok(),
            "leaderElection.leaseDuration: {lease_duration:?} is too long",
        );
        Ok(())
    }

    /// The lease holds whole seconds, and others go by what it holds.
    fn lease_duration_in_whole_seconds(&self) -> Duration {
        Duration::from_secs(self.lease_duration.as_secs())
    }
}

/// A candidate.
pub struct Elector {
    api: Api<Lease>,
    settings: LeaseSettings,
    fence: Fence,
    leading: bool,
    /// The lease as last seen, and when its record was first seen so.
    observed: Option<(Lease, Instant)>,
}

/// What came of a try.
enum AttemptOutcome {
    /// The lease is ours; the write that made it so was started at this moment.
    Held(Moment),
    /// Somebody else has it.
    HeldByOther(String),
}

impl Elector {
    /// A candidate; fails when the settings contradict each other.
    pub fn new(client: kube::Client, settings: LeaseSettings) -> anyhow::Result<Self> {
        settings.check()?;
        let api = Api::namespaced(client, &settings.namespace);
        Ok(Self { api, settings, fence: Fence::never(), leading: false, observed: None })
    }

    /// The fence of this election, to be asked before each write.
    pub fn fence(&self) -> Fence {
        self.fence.clone()
    }

    /// Runs until the lease is lost or `stop` is cancelled.
    pub async fn run(mut self, on_change: watch::Sender<Role>, stop: CancellationToken) {
        on_change.send_replace(Role::Waiting);
        let Some(acquired) = stop.run_until_cancelled(self.acquire()).await else {
            // A write may have landed although its answer was not waited for.
            return self.release(&on_change).await;
        };
        on_change.send_replace(Role::Leading);
        if stop.run_until_cancelled(self.renew(acquired)).await.is_none() {
            return self.release(&on_change).await;
        }
        self.fence.close();
        on_change.send_replace(Role::Lost);
    }

    /// Tries until the lease is ours.
    async fn acquire(&mut self) -> Moment {
        let LeaseSettings { namespace, name, identity, .. } = self.settings.clone();
        let mut holder_last = None;
        loop {
            match self.acquire_or_renew_within(self.attempt_timeout()).await {
                Ok(AttemptOutcome::Held(start)) => {
                    self.record_renewal(start);
                    info!(lease = %format_args!("{namespace}/{name}"), %identity, "became the leader");
                    return start;
                }
                Ok(AttemptOutcome::HeldByOther(holder)) => {
                    if holder_last.as_ref() != Some(&holder) {
                        info!(lease = %format_args!("{namespace}/{name}"), %holder, "somebody else leads");
                        holder_last = Some(holder);
                    }
                }
                Err(error) => {
                    warn!(lease = %format_args!("{namespace}/{name}"), error = %error.root_cause(), "cannot get the lease; will try again");
                }
            }
            sleep(jittered(self.settings.retry_period)).await;
        }
    }

    /// Renews until that fails for too long, or somebody else has the lease.
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
                Ok(AttemptOutcome::Held(start)) => {
                    self.record_renewal(start);
                    renewed = start;
                }
                Ok(AttemptOutcome::HeldByOther(holder)) => {
                    warn!(identity = %self.settings.identity, %holder, "the lease was taken");
                    return;
                }
                Err(error) => debug!(%error, "cannot renew the lease; will try again"),
            }
        }
    }

    /// Gives the lease back if it is ours.
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

    /// Half of the deadline, so that a request that hangs leaves time for another.
    fn attempt_timeout(&self) -> Duration {
        self.settings.renew_deadline / 2
    }

    async fn acquire_or_renew_within(&mut self, limit: Duration) -> anyhow::Result<AttemptOutcome> {
        match timeout(limit, self.acquire_or_renew()).await {
            Ok(outcome) => Ok(outcome?),
            Err(_) => anyhow::bail!("no answer from the API server for {limit:?}"),
        }
    }

    async fn acquire_or_renew(&mut self) -> Result<AttemptOutcome, kube::Error> {
        // Normally nobody else has written, and one request is enough.
        if self.leading
            && let Some((lease, _)) = &self.observed
        {
            match self.write(lease.clone()).await {
                Ok(start) => return Ok(AttemptOutcome::Held(start)),
                Err(kube::Error::Api(status)) if status.is_conflict() || status.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        let Some(lease) = self.api.get_opt(&self.settings.name).await? else {
            return self.create().await.map(AttemptOutcome::Held);
        };
        self.observe(lease.clone());
        let holder = holder(&lease);
        if holder == self.settings.identity {
            return self.write(lease).await.map(AttemptOutcome::Held);
        }
        // A leader whose name is gone from the lease cannot know who led in between.
        if self.leading || (!holder.is_empty() && !self.is_expired(Instant::now())) {
            return Ok(AttemptOutcome::HeldByOther(holder.to_owned()));
        }
        self.write(lease).await.map(AttemptOutcome::Held)
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

    /// Writes ourselves into a lease, provided that it has not changed.
    async fn write(&mut self, lease: Lease) -> Result<Moment, kube::Error> {
        let lease = self.with_own_record(lease);
        let start = Moment::now();
        let lease = self.api.replace(&self.settings.name, &PostParams::default(), &lease).await?;
        self.observe(lease);
        Ok(start)
    }

    /// The lease with us as its holder. Fields that other versions know stay.
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

    /// Notes what the lease is now; the time stays when its record did not change.
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

/// Host name and a random part, as upstream makes it.
fn new_identity() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .ok()
        .or_else(|| std::env::var("HOSTNAME").ok())
        .map(|host| host.trim().to_owned())
        .filter(|host| !host.is_empty())
        .unwrap_or_else(|| "localhost".to_owned());
    format!("{host}_{}", uuid::Uuid::new_v4())
}

/// The period and a random part of it. The seeds that hash maps get are random enough for this.
fn jittered(period: Duration) -> Duration {
    let random = RandomState::new().hash_one(0) as f64 / u64::MAX as f64;
    period.mul_f64(1.0 + JITTER_FACTOR * random)
}

#[cfg(test)]
mod tests;
