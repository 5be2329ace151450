//! Prometheus metrics: upstream's `scheduler_*` with upstream's names, labels and buckets, and Jindou's
//! own as `jindou_*`.
//!
//! Upstream metrics without a meaningful value here are left out: durations and evaluations of single
//! plugins at Filter and Score (see [`crate::timing`]), waits for permits (no plugin makes a pod wait),
//! `goroutines` and `preemption_goroutines_*`, batching and asynchronous calls, and metrics behind
//! feature gates that are off.
//!
//! The crate `prometheus` encodes the text. `prometheus-client` does not fit: it encodes OpenMetrics,
//! where the TYPE line of a counter lacks `_total`, so scrapers of the plain format would read counters
//! as untyped.

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

/// Media type of [`Metrics::text`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// All metrics of one scheduler. Clones share the values.
///
/// An observation takes only the read lock of its family, and allocates only for a new combination of
/// labels.
#[derive(Clone)]
pub struct Metrics(Arc<MetricsInner>);

struct MetricsInner {
    families: Families,
    /// Metrics that are updated for nearly every pod.
    cached: CachedHandles,
    slis: Slis,
    lease: String,
}

/// Metrics that are looked up by their labels once.
#[derive(Default)]
struct CachedHandles {
    scheduled: ByProfile<(IntCounter, Histogram)>,
    bound: ByProfile<Histogram>,
    binds: OnceLock<IntCounter>,
    first_attempt: OnceLock<Histogram>,
}

/// A value per profile; there are few profiles.
struct ByProfile<T>(RwLock<Vec<(String, T)>>);

impl<T> Default for ByProfile<T> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<T> ByProfile<T> {
    /// Calls `update` with the value of a profile, which `make` creates on first use.
    fn with(&self, profile: &str, make: impl FnOnce() -> T, update: impl FnOnce(&T)) {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = known.iter().find(|(name, _)| name == profile) {
            return update(known);
        }
        drop(known);
        let new = make();
        update(&new);
        self.0.write().unwrap_or_else(PoisonError::into_inner).push((profile.to_owned(), new));
    }
}

/// Result of a scheduling attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptResult {
    /// The pod was bound.
    Scheduled,
    /// No node is feasible.
    Unschedulable,
    /// An error occurred.
    Error,
}

impl AttemptResult {
    /// Returns the value of the label.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Scheduled => "scheduled",
            Self::Unschedulable => "unschedulable",
            Self::Error => "error",
        }
    }
}

/// Result of a bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BindResult {
    /// The pod is on the node.
    Bound,
    /// The bind certainly had no effect.
    Rejected,
    /// The outcome of a request is not known yet.
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

/// Numbers of pending pods by sub-queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingPods {
    /// Pods that can be tried.
    pub active: usize,
    /// Pods in backoff.
    pub backoff: usize,
    /// Pods that wait for an event.
    pub unschedulable: usize,
    /// Pods that a PreEnqueue plugin gates.
    pub gated: usize,
}

/// Numbers of cached objects.
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
    /// Creates metrics with zero values. `lease` is the name of the election's lease.
    pub fn new(lease: &str) -> Self {
        let families = Families::new();
        let slis = Slis::new(families.process.start_seconds.clone());
        let cached = CachedHandles::default();
        Self(Arc::new(MetricsInner { families, cached, slis, lease: lease.to_owned() }))
    }

    /// Encodes the metrics in Prometheus' text format.
    pub fn text(&self) -> String {
        let families = &self.0.families;
        families.watch_staleness.refresh(Instant::now());
        families.process.refresh();
        encode(&families.registry)
    }

    /// Encodes the results of health checks, for `/metrics/slis`.
    pub fn slis(&self) -> String {
        self.0.families.process.refresh();
        encode(&self.0.slis.registry)
    }

    /// Records a health check of a page such as `readyz`.
    pub fn record_health_check(&self, name: &str, page: &str, passed: bool) {
        let Slis { last, total, .. } = &self.0.slis;
        last.with_label_values(&[name, page]).set(i64::from(passed));
        let status = if passed { "success" } else { "error" };
        total.with_label_values(&[name, page, status]).inc();
    }

    /// Records the end of an attempt. For a scheduled pod the duration includes the bind.
    pub fn observe_attempt(&self, profile: &str, result: AttemptResult, seconds: f64) {
        let families = &self.0.families;
        let labels = [result.name(), profile];
        let make = || {
            let attempts = families.attempts.with_label_values(&labels);
            (attempts, families.attempt_seconds.with_label_values(&labels))
        };
        let update = |(attempts, times): &(IntCounter, Histogram)| {
            attempts.inc();
            times.observe(seconds);
        };
        match result {
            AttemptResult::Scheduled => self.0.cached.scheduled.with(profile, make, update),
            AttemptResult::Unschedulable | AttemptResult::Error => update(&make()),
        }
    }

    /// Records the duration of a successful bind.
    pub fn observe_bind(&self, profile: &str, seconds: f64) {
        let labels = ["Bind", "Success", profile];
        let make = || self.0.families.point_seconds.with_label_values(&labels);
        self.0.cached.bound.with(profile, make, |times| times.observe(seconds));
    }

    /// Records the duration of all plugins of an extension point.
    pub fn observe_extension_point(&self, point: &str, status: &str, profile: &str, seconds: f64) {
        let labels = [point, status, profile];
        self.0.families.point_seconds.with_label_values(&labels).observe(seconds);
    }

    /// Records the duration of a plugin at an extension point.
    pub fn observe_plugin(&self, plugin: &str, point: &str, status: &str, seconds: f64) {
        let labels = [plugin, point, status];
        self.0.families.plugin_seconds.with_label_values(&labels).observe(seconds);
    }

    /// Counts a plugin call that was not skipped.
    pub fn count_plugin_evaluation(&self, plugin: &str, point: &str, profile: &str) {
        self.0.families.plugin_evaluations.with_label_values(&[plugin, point, profile]).inc();
    }

    /// Counts a report of a plugin.
    pub fn count_plugin_report(&self, plugin: &str, reason: &str) {
        self.0.families.plugin_reports.with_label_values(&[plugin, reason]).inc();
    }

    /// Records the duration of a queueing hint.
    pub fn observe_hint(&self, plugin: &str, event: &str, hint: &str, seconds: f64) {
        self.0.families.hint_seconds.with_label_values(&[plugin, event, hint]).observe(seconds);
    }

    /// Returns the histogram of the durations of handling an event.
    pub fn event_handling_histogram(&self, event: &EventLabel) -> Histogram {
        self.0.families.event_seconds.with_label_values(&[&*event.to_string()])
    }

    /// Sets the number of events recorded for pods in attempts, by event, and the number of these pods.
    pub fn set_in_flight(&self, events: &BTreeMap<EventLabel, usize>, pods: usize) {
        let gauges = &self.0.families.in_flight_events;
        gauges.reset();
        gauges.with_label_values(&["PodPopped"]).set(pods as i64);
        for (event, count) in events {
            gauges.with_label_values(&[&*event.to_string()]).set(*count as i64);
        }
    }

    /// Records the duration of choosing a node.
    pub fn observe_algorithm(&self, seconds: f64) {
        self.0.families.algorithm_seconds.observe(seconds);
    }

    /// Records a bound pod: its number of attempts and the seconds since it could first be tried.
    pub fn observe_scheduled(&self, attempts: u32, sli_seconds: f64) {
        self.0.families.pod_attempts.observe(f64::from(attempts));
        let times =
            |attempts| self.0.families.sli_seconds.with_label_values(&[attempts_label(attempts)]);
        match attempts {
            1 => self.0.cached.first_attempt.get_or_init(|| times(1)).observe(sli_seconds),
            _ => times(attempts).observe(sli_seconds),
        }
    }

    /// Counts a bound pod that only the periodic flush had brought back, so an event was missed.
    pub fn count_scheduled_after_flush(&self) {
        self.0.families.after_flush.inc();
    }

    /// Sets the numbers of pending pods.
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

    /// Sets the totals of incoming pods to those of the queue.
    pub fn set_incoming_totals(&self, counters: &QueueCounters) {
        for ((queue, event), &total) in &counters.incoming {
            let labels = [queue.name(), &event.to_string()];
            advance(&self.0.families.incoming.with_label_values(&labels), total);
        }
    }

    /// Sets the number of pods of a profile that a plugin rejects.
    pub fn set_unschedulable_pods(&self, plugin: &str, profile: &str, pods: usize) {
        self.0.families.unschedulable.with_label_values(&[plugin, profile]).set(pods as i64);
    }

    /// Sets the numbers of cached objects.
    pub fn set_cache_size(&self, size: CacheSize) {
        let CacheSize { nodes, pods, assumed_pods } = size;
        for (kind, count) in [("nodes", nodes), ("pods", pods), ("assumed_pods", assumed_pods)] {
            self.0.families.cache_size.with_label_values(&[kind]).set(count as i64);
        }
    }

    /// Counts an attempt that ran PostFilter plugins.
    pub fn count_preemption_attempt(&self) {
        self.0.families.preemption_attempts.inc();
    }

    /// Records the number of victims of a preemption.
    pub fn observe_preemption_victims(&self, victims: usize) {
        self.0.families.preemption_victims.observe(victims as f64);
    }

    /// Counts a pod whose volumes could not be bound. Upstream's other operations, `predicate` and `assume`,
    /// do not fail here, since they only read memory.
    pub fn count_volume_bind_failure(&self) {
        self.0.families.volume_errors.with_label_values(&["bind"]).inc();
    }

    /// Records that a watch received data. The time since then is computed when the metrics are read, so
    /// that a silent watch shows.
    pub fn note_watch_activity(&self, kind: &'static str, at: Instant) {
        self.0.families.watch_staleness.set(kind, at);
    }

    /// Counts a relist of a kind.
    pub fn count_relist(&self, kind: &'static str, reason: &'static str) {
        self.0.families.relists.with_label_values(&[kind, reason]).inc();
    }

    /// Counts a bind.
    pub fn count_bind(&self, result: BindResult) {
        let binds = || self.0.families.binds.with_label_values(&[result.name()]);
        match result {
            BindResult::Bound => self.0.cached.binds.get_or_init(binds).inc(),
            BindResult::Rejected | BindResult::Ambiguous => binds().inc(),
        }
    }

    /// Sets the number of binds in flight.
    pub fn set_binds_in_flight(&self, binds: usize) {
        self.0.families.binds_in_flight.set(binds as i64);
    }

    /// Counts a Kubernetes event that was not written.
    pub fn count_dropped_event(&self) {
        self.0.families.events_dropped.inc();
    }

    /// Counts a failed check of the engine's state.
    pub fn count_invariant_violation(&self) {
        self.0.families.invariant_violations.inc();
    }

    /// Counts a completed audit of the engine's state.
    pub fn count_audit(&self, passed: bool) {
        let result = if passed { "passed" } else { "failed" };
        self.0.families.audits.with_label_values(&[result]).inc();
    }

    /// Sets whether this process leads.
    pub fn set_leading(&self, leads: bool) {
        self.0.families.master_status.with_label_values(&[&self.0.lease]).set(i64::from(leads));
    }
}

fn encode(registry: &Registry) -> String {
    TextEncoder::new()
        .encode_to_string(&registry.gather())
        .expect("families without samples are not gathered, and a string takes any text")
}

/// Sets a counter to a total that was counted elsewhere; a lower total changes nothing.
fn advance(counter: &IntCounter, total: u64) {
    counter.inc_by(total.saturating_sub(counter.get()));
}

/// Returns upstream's label for a number of attempts, which has single values up to 14.
fn attempts_label(attempts: u32) -> &'static str {
    const LABELS: [&str; 15] =
        ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14"];
    LABELS.get(attempts as usize).copied().unwrap_or("15+")
}

#[cfg(test)]
mod tests;
