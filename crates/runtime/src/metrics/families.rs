//! The table of metrics: name, help, labels, buckets.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use prometheus::core::Collector;
use prometheus::{
    Gauge, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, exponential_buckets,
};
use tokio::time::Instant;

use super::process::Process;

/// The registry and a handle to each family.
pub(super) struct Families {
    pub(super) registry: Registry,
    pub(super) attempts: IntCounterVec,
    pub(super) attempt_seconds: HistogramVec,
    pub(super) algorithm_seconds: Histogram,
    pub(super) point_seconds: HistogramVec,
    pub(super) plugin_seconds: HistogramVec,
    pub(super) plugin_evaluations: IntCounterVec,
    pub(super) plugin_reports: IntCounterVec,
    pub(super) hint_seconds: HistogramVec,
    pub(super) event_seconds: HistogramVec,
    pub(super) in_flight_events: IntGaugeVec,
    pub(super) sli_seconds: HistogramVec,
    pub(super) pod_attempts: Histogram,
    pub(super) after_flush: IntCounter,
    pub(super) pending: IntGaugeVec,
    pub(super) incoming: IntCounterVec,
    pub(super) unschedulable: IntGaugeVec,
    pub(super) cache_size: IntGaugeVec,
    pub(super) preemption_victims: Histogram,
    pub(super) preemption_attempts: IntCounter,
    pub(super) volume_errors: IntCounterVec,
    pub(super) watch_staleness: Staleness,
    pub(super) relists: IntCounterVec,
    pub(super) binds: IntCounterVec,
    pub(super) binds_in_flight: IntGauge,
    pub(super) events_dropped: IntCounter,
    pub(super) invariant_violations: IntCounter,
    pub(super) audits: IntCounterVec,
    pub(super) master_status: IntGaugeVec,
    pub(super) process: Process,
}

impl Families {
    /// Registers all families.
    pub(super) fn new() -> Self {
        let registry = Registry::new();
        let to = Registrar(&registry);
        Self {
            attempts: to.counters(
                "scheduler_schedule_attempts_total",
                "Scheduling attempts by result.",
                &["result", "profile"],
            ),
            attempt_seconds: to.histograms(
                "scheduler_scheduling_attempt_duration_seconds",
                "Duration of a scheduling attempt, from the start of the algorithm to the end of the bind.",
                &["result", "profile"],
                (0.001, 2.0, 15),
            ),
            algorithm_seconds: to.histogram(
                "scheduler_scheduling_algorithm_duration_seconds",
                "Duration of choosing a node.",
                (0.001, 2.0, 15),
            ),
            point_seconds: to.histograms(
                "scheduler_framework_extension_point_duration_seconds",
                "Duration of all plugins of an extension point: Bind and PreBind always, others in a tenth of the attempts.",
                &["extension_point", "status", "profile"],
                (0.0001, 2.0, 12),
            ),
            plugin_seconds: to.histograms(
                "scheduler_plugin_execution_duration_seconds",
                "Duration of a plugin at an extension point, in a tenth of the attempts.",
                &["plugin", "extension_point", "status"],
                (0.00001, 1.5, 20),
            ),
            plugin_evaluations: to.counters(
                "scheduler_plugin_evaluation_total",
                "Number of PreFilter and PreScore calls of a plugin that were not skipped.",
                &["plugin", "extension_point", "profile"],
            ),
            plugin_reports: to.counters(
                "jindou_plugin_reports_total",
                "Number of reports of plugins about pods, which are also events and log lines.",
                &["plugin", "reason"],
            ),
            hint_seconds: to.histograms(
                "scheduler_queueing_hint_execution_duration_seconds",
                "Duration of a queueing hint, of a tenth of them.",
                &["plugin", "event", "hint"],
                (0.00001, 1.5, 20),
            ),
            event_seconds: to.histograms(
                "scheduler_event_handling_duration_seconds",
                "Duration of handling a change of a pod or a node.",
                &["event"],
                (0.0001, 2.0, 12),
            ),
            in_flight_events: to.gauges(
                "scheduler_inflight_events",
                "Events recorded for pods in attempts; PodPopped counts the pods themselves.",
                &["event"],
            ),
            sli_seconds: to.histograms(
                "scheduler_pod_scheduling_sli_duration_seconds",
                "Time from when a pod could first be tried until it was bound.",
                &["attempts"],
                (0.01, 2.0, 20),
            ),
            pod_attempts: to.histogram(
                "scheduler_pod_scheduling_attempts",
                "Number of attempts until a pod was scheduled.",
                (1.0, 2.0, 5),
            ),
            after_flush: to.counter(
                "scheduler_pod_scheduled_after_flush_total",
                "Pods scheduled that only the periodic flush had brought back to the queue.",
            ),
            pending: to.gauges(
                "scheduler_pending_pods",
                "Pending pods by sub-queue.",
                &["queue"],
            ),
            incoming: to.counters(
                "scheduler_queue_incoming_pods_total",
                "Pods added to a sub-queue, by event.",
                &["queue", "event"],
            ),
            unschedulable: to.gauges(
                "scheduler_unschedulable_pods",
                "Pods that a plugin rejected; a pod counts once for each such plugin.",
                &["plugin", "profile"],
            ),
            cache_size: to.gauges(
                "scheduler_cache_size",
                "Nodes, pods and assumed pods in the cache.",
                &["type"],
            ),
            preemption_victims: to.histogram(
                "scheduler_preemption_victims",
                "Victims chosen for one pod.",
                (1.0, 2.0, 7),
            ),
            preemption_attempts: to.counter(
                "scheduler_preemption_attempts_total",
                "Attempts that ran preemption.",
            ),
            volume_errors: to.counters(
                "scheduler_volume_scheduling_stage_error_total",
                "Failures to handle the volumes of a pod, by step.",
                &["operation"],
            ),
            watch_staleness: Staleness::new(to.float_gauges(
                "jindou_watch_staleness_seconds",
                "Time since the watch of a kind last received data.",
                &["kind"],
            )),
            relists: to.counters(
                "jindou_relists_total",
                "Relists of a kind, by reason.",
                &["kind", "reason"],
            ),
            binds: to.counters(
                "jindou_binds_total",
                "Binds by result: bound, rejected, ambiguous.",
                &["result"],
            ),
            binds_in_flight: to.gauge("jindou_binds_in_flight", "Binds in flight."),
            events_dropped: to.counter(
                "jindou_events_dropped_total",
                "Kubernetes events that were not written, to keep scheduling going.",
            ),
            invariant_violations: to.counter(
                "jindou_invariant_violations_total",
                "Checks of the scheduler's own state that failed. Any value but 0 is a bug.",
            ),
            audits: to.counters(
                "jindou_audits_total",
                "Audits of the scheduler's own state by result: passed, failed.",
                &["result"],
            ),
            master_status: to.gauges(
                "leader_election_master_status",
                "1 if this process holds the lease of that name, else 0.",
                &["name"],
            ),
            process: to.process(),
            registry,
        }
    }
}

/// Time since each watch last received data, by kind.
pub(super) struct Staleness {
    last: Mutex<BTreeMap<&'static str, Instant>>,
    ages: GaugeVec,
}

impl Staleness {
    fn new(ages: GaugeVec) -> Self {
        Self { last: Mutex::new(BTreeMap::new()), ages }
    }

    /// Records data at a time; an earlier time than the last changes nothing.
    pub(super) fn set(&self, kind: &'static str, at: Instant) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = last.entry(kind).or_insert(at);
        *entry = at.max(*entry);
    }

    /// Computes the times.
    pub(super) fn refresh(&self, now: Instant) {
        for (kind, at) in &*self.last.lock().unwrap_or_else(PoisonError::into_inner) {
            let age = now.saturating_duration_since(*at).as_secs_f64();
            self.ages.with_label_values(&[kind]).set(age);
        }
    }
}

/// Start, factor and number of exponential buckets.
type Buckets = (f64, f64, usize);

/// Creates and registers families.
pub(super) struct Registrar<'a>(pub(super) &'a Registry);

impl Registrar<'_> {
    pub(super) fn add<T: Collector + Clone + 'static>(&self, family: prometheus::Result<T>) -> T {
        let family = family.expect("names and labels are constants, and a test makes them all");
        self.0.register(Box::new(family.clone())).expect("each name is used once");
        family
    }

    fn counter(&self, name: &str, help: &str) -> IntCounter {
        self.add(IntCounter::new(name, help))
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> IntCounterVec {
        self.add(IntCounterVec::new(Opts::new(name, help), labels))
    }

    fn gauge(&self, name: &str, help: &str) -> IntGauge {
        self.add(IntGauge::new(name, help))
    }

    pub(super) fn gauges(&self, name: &str, help: &str, labels: &[&str]) -> IntGaugeVec {
        self.add(IntGaugeVec::new(Opts::new(name, help), labels))
    }

    fn float_gauges(&self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        self.add(GaugeVec::new(Opts::new(name, help), labels))
    }

    fn histogram(&self, name: &str, help: &str, buckets: Buckets) -> Histogram {
        self.add(Histogram::with_opts(histogram_options(name, help, buckets)))
    }

    fn histograms(
        &self,
        name: &str,
        help: &str,
        labels: &[&str],
        buckets: Buckets,
    ) -> HistogramVec {
        self.add(HistogramVec::new(histogram_options(name, help, buckets), labels))
    }

    fn process(&self) -> Process {
        Process {
            cpu_seconds: self.add(prometheus::Counter::new(
                "process_cpu_seconds_total",
                "CPU time in user and system mode.",
            )),
            resident_bytes: self.add(Gauge::new(
                "process_resident_memory_bytes",
                "Memory in use that is not swapped out.",
            )),
            start_seconds: self.add(Gauge::new(
                "process_start_time_seconds",
                "When the process was started, in seconds since 1970.",
            )),
            open_files: self.add(Gauge::new("process_open_fds", "File descriptors in use.")),
        }
    }
}

fn histogram_options(name: &str, help: &str, (start, factor, count): Buckets) -> HistogramOpts {
    let buckets = exponential_buckets(start, factor, count).expect("start and factor are positive");
    HistogramOpts::new(name, help).buckets(buckets)
}
