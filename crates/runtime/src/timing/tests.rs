//! Tests of the durations recorded for the default profile.

use api::config::Gates;
use engine::change::Change;
use engine::command::Command;
use engine::engine::Settings;
use plugins::registry::Registry;
use serde_json::{Value, json};

use super::*;

fn engine() -> Engine {
    let profiles = Registry::default().profiles(&api::config::defaults(Gates::default()));
    Engine::new(profiles.unwrap(), Settings::default())
}

fn node(name: &str) -> Change {
    let amount = json!({"cpu": "1000", "memory": "64Gi", "pods": "10000"});
    let value = json!({"metadata": {"name": name}, "status": {"allocatable": amount}});
    Change::Node(api::lower::node(&value).0.unwrap().into())
}

fn pod(name: &str, cpu: &str) -> Change {
    let meta = json!({"namespace": "ns", "name": name, "uid": name});
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    let value: Value = json!({"metadata": meta, "spec": {"containers": [container]}});
    Change::Pod(Box::new(api::lower::pod(&value).0.unwrap()))
}

/// Schedules a number of pods of each amount of cpu. Returns the commands and the text of the metrics.
fn try_pods(measured: bool, amounts: &[&str], count: usize) -> (Vec<Command>, String) {
    let (mut engine, metrics) = (engine(), Metrics::new("lease"));
    if measured {
        measure(&mut engine);
    }
    let mut commands = Vec::new();
    for name in ["n1", "n2"] {
        engine.apply(node(name), 0, &mut commands);
    }
    for (index, amount) in amounts.iter().enumerate() {
        for number in 0..count {
            engine.apply(pod(&format!("p{index}-{number}"), amount), 0, &mut commands);
            engine.schedule(0, &mut commands);
            record(&mut engine, &metrics);
            assert_eq!(engine.take_measurements(), Measurements::default(), "all were recorded");
        }
    }
    engine.apply(node("n3"), 0, &mut commands);
    engine.audit().unwrap();
    record(&mut engine, &metrics);
    (commands, metrics.text())
}

fn count(text: &str, start: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(start));
    line.map_or(0, |line| line.trim().parse().unwrap())
}

#[test]
fn about_a_tenth_of_the_attempts_is_timed() {
    let (_, text) = try_pods(true, &["1m"], 1000);
    let of = |point: &str| {
        let labels =
            format!("extension_point=\"{point}\",profile=\"default-scheduler\",status=\"Success\"");
        count(
            &text,
            &format!("scheduler_framework_extension_point_duration_seconds_count{{{labels}}}"),
        )
    };
    assert!((60..=140).contains(&of("Filter")), "{text}");
    assert_eq!(of("Filter"), of("Score"));
    assert_eq!(of("Filter"), of("Reserve"));
    assert!(of("PreFilter") <= 2, "a class is prepared once");
    let reserve = r#"plugin_execution_duration_seconds_count{extension_point="Reserve",plugin="VolumeBinding",status="Success"}"#;
    assert_eq!(count(&text, &format!("scheduler_{reserve}")), of("Reserve"));
}

#[test]
fn evaluations_are_counted_in_every_attempt() {
    let (_, text) = try_pods(true, &["1m", "2m", "3m"], 20);
    let fit = r#"scheduler_plugin_evaluation_total{extension_point="PreFilter",plugin="NodeResourcesFit",profile="default-scheduler"}"#;
    // Each of three classes until it counts as recurring, and again in the audit, which evaluates from
    // scratch.
    assert!((3..=12).contains(&count(&text, fit)), "{text}");
    assert!(!text.contains(r#"extension_point="PreFilter",plugin="VolumeBinding""#), "it skips");
}

#[test]
fn unschedulable_pods_have_durations_of_their_extension_points() {
    let (_, text) = try_pods(true, &["2000"], 200);
    for part in [
        r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="Filter",profile="default-scheduler",status="Unschedulable"}"#,
        r#"scheduler_framework_extension_point_duration_seconds_count{extension_point="PostFilter",profile="default-scheduler",status="Unschedulable"}"#,
        r#"scheduler_plugin_execution_duration_seconds_count{extension_point="PostFilter",plugin="DefaultPreemption",status="Unschedulable"}"#,
        r#"scheduler_plugin_execution_duration_seconds_count{extension_point="PreEnqueue",plugin="SchedulingGates",status="Success"}"#,
        r#"scheduler_queueing_hint_execution_duration_seconds_count{event="NodeAdd",hint="QueueSkip",plugin="NodeResourcesFit"}"#,
    ] {
        assert!(count(&text, part) > 0, "{part} is not in\n{text}");
    }
}

#[test]
fn decisions_do_not_depend_on_timing() {
    let amounts = ["1m", "500m", "2000", "1"];
    assert_eq!(try_pods(true, &amounts, 50).0, try_pods(false, &amounts, 50).0);
}
