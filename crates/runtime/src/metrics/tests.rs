//! Tests of the text that Prometheus reads.

use std::time::Duration;

use engine::queue::SubQueue;

use super::*;

/// Updates every metric, so that the snapshot lacks those that cannot be updated.
async fn filled() -> Metrics {
    let metrics = Metrics::new("kube-scheduler");
    metrics.observe_attempt("default-scheduler", AttemptResult::Scheduled, 0.003);
    metrics.observe_attempt("default-scheduler", AttemptResult::Unschedulable, 0.25);
    metrics.observe_attempt("default-scheduler", AttemptResult::Error, 40.0);
    metrics.observe_algorithm(0.002);
    metrics.observe_extension_point("Bind", "Success", "default-scheduler", 0.01);
    metrics.observe_plugin("VolumeBinding", "Reserve", "Success", 0.000_02);
    metrics.count_plugin_evaluation("NodeResourcesFit", "PreFilter", "default-scheduler");
    metrics.observe_hint("NodeResourcesFit", "NodeAdd", "QueueSkip", 0.000_001);
    metrics.event_handling_histogram(&EventLabel::POD_ADD).observe(0.000_05);
    metrics.set_in_flight(&[(EventLabel::UnschedulableTimeout, 3)].into(), 2);
    metrics.observe_scheduled(1, 0.5);
    metrics.observe_scheduled(15, 6000.0);
    metrics.count_scheduled_after_flush();
    metrics.set_pending_pods(PendingPods { active: 1, backoff: 2, unschedulable: 3, gated: 4 });
    let mut counters = QueueCounters::default();
    counters.incoming.insert((SubQueue::Active, EventLabel::POD_ADD), 1);
    metrics.set_incoming_totals(&counters);
    metrics.set_unschedulable_pods("NodeResourcesFit", "a\"b\\c\nd", 3);
    metrics.set_cache_size(CacheSize { nodes: 5000, pods: 1_000_000, assumed_pods: 7 });
    metrics.count_preemption_attempt();
    metrics.observe_preemption_victims(3);
    metrics.count_volume_bind_failure();
    metrics.note_watch_activity("pods", Instant::now());
    metrics.count_relist("pods", "expired");
    metrics.count_bind(BindResult::Bound);
    metrics.count_bind(BindResult::Rejected);
    metrics.count_bind(BindResult::Ambiguous);
    metrics.set_binds_in_flight(9);
    metrics.count_dropped_event();
    metrics.count_invariant_violation();
    metrics.count_audit(true);
    metrics.count_audit(false);
    metrics.set_leading(true);
    tokio::time::advance(Duration::from_millis(1500)).await;
    metrics
}

#[tokio::test(start_paused = true)]
async fn the_text_is_that_of_upstreams_clients() {
    let text = filled().await.text();
    // Values of the process differ from run to run.
    let text: String = text
        .lines()
        .filter(|line| !line.starts_with("process_"))
        .flat_map(|line| [line, "\n"])
        .collect();
    insta::assert_snapshot!(text);
}

#[tokio::test(start_paused = true)]
async fn every_name_has_help_and_type_once_and_only_counters_end_in_total() {
    let text = filled().await.text();
    let types: Vec<(&str, &str)> =
        text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let mut names: Vec<&str> = types.iter().map(|(name, _)| *name).collect();
    assert!(names.is_sorted(), "{names:?}");
    names.dedup();
    assert_eq!(names.len(), types.len());
    assert_eq!(text.matches("# HELP ").count(), types.len());
    for (name, kind) in types {
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name} is a {kind}");
        assert!(!name.ends_with("_total_total"), "{name}");
    }
    assert!(!text.contains("# EOF"));
}

#[test]
fn a_new_registry_shows_only_metrics_without_labels() {
    let text = Metrics::new("x").text();
    assert!(text.contains("\nscheduler_preemption_attempts_total 0\n"), "{text}");
    assert!(!text.contains("scheduler_schedule_attempts_total"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn the_process_is_described() {
    let text = Metrics::new("x").text();
    for name in ["process_resident_memory_bytes", "process_start_time_seconds", "process_open_fds"]
    {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        let value: f64 = line.rsplit_once(' ').unwrap().1.parse().unwrap();
        assert!(value > 0.0, "{line}");
    }
    assert!(text.contains("\nprocess_cpu_seconds_total "));
}

#[test]
fn totals_of_the_queue_are_copied_and_never_fall() {
    let metrics = Metrics::new("x");
    let mut counters = QueueCounters::default();
    counters.incoming.insert((SubQueue::Backoff, EventLabel::BackoffComplete), 5);
    metrics.set_incoming_totals(&counters);
    metrics.set_incoming_totals(&counters);
    counters.incoming.insert((SubQueue::Backoff, EventLabel::BackoffComplete), 3);
    metrics.set_incoming_totals(&counters);
    let want = r#"scheduler_queue_incoming_pods_total{event="BackoffComplete",queue="backoff"} 5"#;
    assert!(metrics.text().contains(want));
}

#[test]
fn attempts_have_labels_of_their_own_up_to_fourteen() {
    assert_eq!(attempts_label(1), "1");
    assert_eq!(attempts_label(14), "14");
    assert_eq!(attempts_label(15), "15+");
    assert_eq!(attempts_label(u32::MAX), "15+");
}

#[tokio::test(start_paused = true)]
async fn a_late_record_does_not_make_a_watch_look_older() {
    let metrics = Metrics::new("x");
    let start = Instant::now();
    metrics.note_watch_activity("nodes", start + Duration::from_secs(4));
    metrics.note_watch_activity("nodes", start);
    tokio::time::advance(Duration::from_secs(5)).await;
    assert!(metrics.text().contains("jindou_watch_staleness_seconds{kind=\"nodes\"} 1\n"));
}
