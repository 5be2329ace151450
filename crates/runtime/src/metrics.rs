//! What the scheduler tells Prometheus: upstream's `scheduler_*` under upstream's names, labels
//! and buckets, and Jindou's own under `jindou_*`.
//!
//! Left out, since they could not have a true value here: times and numbers of evaluations of single
//! plugins at Filter and Score (what they say is kept, see [`crate::timing`]), waits for permits (no
//! plugin makes a pod wait), `goroutines` and `preemption_goroutines_*`, upstream's batching and
//! asynchronous calls, and those behind gates that are off.
//!
//! The crate `prometheus` writes the text. `prometheus-client` does not fit: it writes OpenMetrics,
//! where the TYPE line of a counter lacks `_total`, so that scrapers of the plain format take
//! counters for untyped.

mod families;
mod process;
mod slis;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use engine::queue::{EventLabel, QueueCounters};
use prometheus::{Histogram, IntCounter, Registry, TextEncoder};
use tokio::time::Instant;

use families::Families;
use slis::Slis;

/// The type of the text that [`Metrics::text`] gives.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics of one scheduler. Clones share the values.
///
/// An observation takes no lock but the short read lock of its family, and allocates only for a
/// combination of labels that was not seen before.
#[derive(Clone)]
pub struct Metrics(Arc<MetricsInner>);

struct MetricsInner {
    families: Families,
    /// Of what happens to nearly every pod.
    cached: CachedHandles,
    slis: Slis,
    lease: String,
}

/// Metrics that are not looked up by their labels each time, once they were.
#[derive(Default)]
struct CachedHandles {
    scheduled: ByProfile<(IntCounter, Histogram)>,
    bound: ByProfile<Histogram>,
    binds: OnceLock<IntCounter>,
    first_attempt: OnceLock<Histogram>,
}

/// Something of each profile; there are few.
struct ByProfile<T>(RwLock<Vec<(String, T)>>);

impl<T> Default for ByProfile<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> ByProfile<T> {
    /// Uses what is a profile's, which is made the first time.
    fn with(&self, profile: &str, make: impl FnOnce() -> T, put: impl FnOnce(&T)) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = known.iter().find(|(name, _)| name == profile) {
            return put(known);
        }
        drop(known);
        let new = make();
        put(&new);
        self.0.write().unwrap_or_else(PoisonError::into_inner).push((profile.to_owned(), new));
    }
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The pod was bound.
    Scheduled,
    /// No node fits.
    Unschedulable,
    /// Something went wrong.
    Error,
}

impl AttemptResult {
    /// As the label says it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        }
    }
}

/// What the API server said to a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindResult {
    /// The pod is on the node.
    Bound,
    /// It is certain that the request had no effect.
    Rejected,
    /// Nobody knows yet whether it had an effect.
    Ambiguous,
}

impl BindResult {
    fn name(self) -> &'static str {
        match self {
            Self::Bound => "bound",
            Self::Rejected => "rejected",
            Self::Ambiguous => "ambiguous",
        }
    }
}

/// Pods that wait, by sub-queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingPods {
    /// To be tried next.
    pub active: usize,
    /// In backoff.
    pub backoff: usize,
    /// Waiting for an event.
    pub unschedulable: usize,
    /// Not let in.
    pub gated: usize,
}

/// What the engine keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheSize {
    /// Nodes.
    pub nodes: usize,
    /// Pods on nodes, assumed ones included.
    pub pods: usize,
    /// Pods whose bind is not confirmed.
    pub assumed_pods: usize,
}

impl Metrics {
    /// Metrics that are all zero. `lease` is the name of the lease of the leader election.
    pub fn new(lease: &str) -> Self {
        let families = Families::new();
        let slis = Slis::new(families.process.start_seconds.clone());
        let cached = CachedHandles::default();
        Self(Arc::new(MetricsInner { families, cached, slis, lease: lease.to_owned() }))
    }

    /// The text that Prometheus reads.
    pub fn text(&self) -> String {
        let families = &self.0.families;
        families.watch_staleness.refresh(Instant::now());
        families.process.refresh();
        encode(&families.registry)
    }

    /// The same for the page on health checks.
    pub fn slis(&self) -> String {
        self.0.families.process.refresh();
        encode(&self.0.slis.registry)
    }

    /// A health check was made for a page, such as `readyz`.
    pub fn record_health_check(&self, name: &str, page: &str, passed: bool) {
        let Slis { last, total, .. } = &self.0.slis;
        last.with_label_values(&[name, page]).set(i64::from(passed));
        let status = if passed { "success" } else { "error" };
        total.with_label_values(&[name, page, status]).inc();
    }

    /// An attempt ended. For a scheduled pod the time runs until the bind is done.
    pub fn observe_attempt(&self, profile: &str, result: AttemptResult, seconds: f64) {
        let families = &self.0.families;
        let labels = [result.name(), profile];
        let make = || {
            let attempts = families.attempts.with_label_values(&labels);
            (attempts, families.attempt_seconds.with_label_values(&labels))
        };
        let put = |(attempts, times): &(IntCounter, Histogram)| {
            attempts.inc();
            times.observe(seconds);
        };
        match result {
            AttemptResult::Scheduled => self.0.cached.scheduled.with(profile, make, put),
            AttemptResult::Unschedulable | AttemptResult::Error => put(&make()),
        }
    }

    /// A pod of a profile was bound after this time.
    pub fn observe_bind(&self, profile: &str, seconds: f64) {
        let labels = ["Bind", "Success", profile];
        let make = || self.0.families.point_seconds.with_label_values(&labels);
        self.0.cached.bound.with(profile, make, |times| times.observe(seconds));
    }

    /// The plugins of an extension point were run.
    pub fn observe_extension_point(&self, point: &str, status: &str, profile: &str, seconds: f64) {
        let labels = [point, status, profile];
        self.0.families.point_seconds.with_label_values(&labels).observe(seconds);
    }

    /// A plugin was run at an extension point.
    pub fn observe_plugin(&self, plugin: &str, point: &str, status: &str, seconds: f64) {
        let labels = [plugin, point, status];
        self.0.families.plugin_seconds.with_label_values(&labels).observe(seconds);
    }

    /// A plugin had something to say.
    pub fn count_plugin_evaluation(&self, plugin: &str, point: &str, profile: &str) {
        self.0.families.plugin_evaluations.with_label_values(&[plugin, point, profile]).inc();
    }

    /// A plugin said whether an event may help a pod.
    pub fn observe_hint(&self, plugin: &str, event: &str, hint: &str, seconds: f64) {
        self.0.families.hint_seconds.with_label_values(&[plugin, event, hint]).observe(seconds);
    }

    /// Where the times of handling an event are noted.
    pub fn event_handling_histogram(&self, event: &EventLabel) -> Histogram {
        self.0.families.event_seconds.with_label_values(&[&*event.to_string()])
    }

    /// How many events of each kind are kept for pods being tried now, and how many such pods there are.
    pub fn set_in_flight(&self, events: &BTreeMap<EventLabel, usize>, pods: usize) {
        let gauges = &self.0.families.in_flight_events;
        gauges.reset();
        gauges.with_label_values(&["PodPopped"]).set(pods as i64);
        for (event, count) in events {
            gauges.with_label_values(&[&*event.to_string()]).set(*count as i64);
        }
    }

    /// A node was looked for.
    pub fn observe_algorithm(&self, seconds: f64) {
        self.0.families.algorithm_seconds.observe(seconds);
    }

    /// A pod was bound, at the given attempt and so long after it could first be tried.
    pub fn observe_scheduled(&self, attempts: u32, sli_seconds: f64) {
        self.0.families.pod_attempts.observe(f64::from(attempts));
        let times =
            |attempts| self.0.families.sli_seconds.with_label_values(&[attempts_label(attempts)]);
        match attempts {
            1 => self.0.cached.first_attempt.get_or_init(|| times(1)).observe(sli_seconds),
            _ => times(attempts).observe(sli_seconds),
        }
    }

    /// A pod was bound that only the periodic flush had brought back: an event was missed.
    pub fn count_scheduled_after_flush(&self) {
        self.0.families.after_flush.inc();
    }

    /// How many pods wait now.
    pub fn set_pending_pods(&self, pods: PendingPods) {
        let PendingPods { active, backoff, unschedulable, gated } = pods;
        let rows = [
            ("active", active),
            ("backoff", backoff),
            ("unschedulable", unschedulable),
            ("gated", gated),
        ];
        for (queue, count) in rows {
            self.0.families.pending.with_label_values(&[queue]).set(count as i64);
        }
    }

    /// Takes over the queue's own count of pods that came in.
    pub fn set_incoming_totals(&self, counters: &QueueCounters) {
        for ((queue, event), &total) in &counters.incoming {
            let labels = [queue.name(), &event.to_string()];
            advance(&self.0.families.incoming.with_label_values(&labels), total);
        }
    }

    /// How many pods of a profile a plugin keeps waiting now.
    pub fn set_unschedulable_pods(&self, plugin: &str, profile: &str, pods: usize) {
        self.0.families.unschedulable.with_label_values(&[plugin, profile]).set(pods as i64);
    }

    /// What the engine keeps now.
    pub fn set_cache_size(&self, size: CacheSize) {
        let CacheSize { nodes, pods, assumed_pods } = size;
        for (kind, count) in [("nodes", nodes), ("pods", pods), ("assumed_pods", assumed_pods)] {
            self.0.families.cache_size.with_label_values(&[kind]).set(count as i64);
        }
    }

    /// Room for a pod was looked for by preemption.
    pub fn count_preemption_attempt(&self) {
        self.0.families.preemption_attempts.inc();
    }

    /// So many victims were chosen for a pod.
    pub fn observe_preemption_victims(&self, victims: usize) {
        self.0.families.preemption_victims.observe(victims as f64);
    }

    /// Volumes of a pod could not be bound. Upstream's other steps, `predicate` and `assume`, only
    /// read what is in memory and do not fail here.
    pub fn count_volume_bind_failure(&self) {
        self.0.families.volume_errors.with_label_values(&["bind"]).inc();
    }

    /// A watch proved that what is known of a kind was current at this time. The age of the last
    /// proof is computed when the metrics are read, so a watch that hangs is seen.
    pub fn note_watch_activity(&self, kind: &'static str, at: Instant) {
        self.0.families.watch_staleness.set(kind, at);
    }

    /// A kind had to be listed again.
    pub fn count_relist(&self, kind: &'static str, reason: &'static str) {
        self.0.families.relists.with_label_values(&[kind, reason]).inc();
    }

    /// A bind was answered, or not.
    pub fn count_bind(&self, result: BindResult) {
        let binds = || self.0.families.binds.with_label_values(&[result.name()]);
        match result {
            BindResult::Bound => self.0.cached.binds.get_or_init(binds).inc(),
            BindResult::Rejected | BindResult::Ambiguous => binds().inc(),
        }
    }

    /// How many binds are under way now.
    pub fn set_binds_in_flight(&self, binds: usize) {
        self.0.families.binds_in_flight.set(binds as i64);
    }

    /// A Kubernetes event was not written.
    pub fn count_dropped_event(&self) {
        self.0.families.events_dropped.inc();
    }

    /// A check of the engine's state failed.
    pub fn count_invariant_violation(&self) {
        self.0.families.invariant_violations.inc();
    }

    /// An audit of the engine's state ended, with or without a finding.
    pub fn count_audit(&self, passed: bool) {
        let result = if passed { "passed" } else { "failed" };
        self.0.families.audits.with_label_values(&[result]).inc();
    }

    /// Whether this process leads.
    pub fn set_leading(&self, leads: bool) {
        self.0.families.master_status.with_label_values(&[&self.0.lease]).set(i64::from(leads));
    }
}

fn encode(registry: &Registry) -> String {
    TextEncoder::new()
        .encode_to_string(&registry.gather())
        .expect("families without samples are not gathered, and a string takes any text")
}

/// Sets a counter to a total that was counted elsewhere. Totals never fall.
fn advance(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

/// Upstream keeps the number of attempts apart up to 14.
fn attempts_label(attempts: u32) -> &'static str {
    const LABELS: [&str; 15] =
        ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14"];
    LABELS.get(attempts as usize).copied().unwrap_or("15+")
}

#[cfg(test)]
mod tests;
