//! Kubelets and pods in virtual time.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::life::{self, Stage};
use crate::actors::test_cluster::{SECOND, TestCluster, annotated, requests};
use crate::cluster::Part;
use crate::json::{at, condition, holds, members, slot};
use crate::store::ChangeKind;

#[tokio::test(start_paused = true)]
async fn a_deleted_pod_stops_after_its_stop_time_and_is_then_removed() {
    let cluster = TestCluster::new(1.0);
    cluster.create("a", "node-0", annotated(life::STOPS_AFTER, "20s"));
    cluster.wait_for_phase("a", "Running").await;
    cluster.delete("a", None);
    let start = Instant::now();
    tokio::time::sleep(19 * SECOND).await;
    let pod = cluster.get("a").unwrap();
    assert!(holds(&pod, "Ready") && pod["status"]["phase"] == "Running", "{pod:#}");
    assert_eq!(pod["metadata"]["deletionGracePeriodSeconds"], 30);
    cluster.wait_until_removed("a").await;
    let took = start.elapsed();
    assert!(took >= 20 * SECOND && took < 21 * SECOND, "{took:?}");
    let history = cluster.history("a");
    assert_eq!(
        history[history.len() - 2..],
        [
            (ChangeKind::Modified, "Succeeded".to_owned(), true),
            (ChangeKind::Deleted, "Succeeded".to_owned(), true)
        ]
    );
    assert_eq!(cluster.events("a"), ["Pulled", "Created", "Started", "Killing"]);
}

#[tokio::test(start_paused = true)]
async fn the_grace_period_and_the_speed_bound_how_long_stopping_takes() {
    let cluster = TestCluster::new(10.0);
    for (name, stops_after, grace, expected) in [
        ("usual", "", None, 100),
        ("annotated", "20s", None, 2000),
        ("impatient", "20s", Some(5), 500),
        ("at-once", "20s", Some(0), 0),
    ] {
        cluster.create(name, "node-0", annotated(life::STOPS_AFTER, stops_after));
        cluster.wait_for_phase(name, "Running").await;
        let start = Instant::now();
        cluster.delete(name, grace);
        cluster.wait_until_removed(name).await;
        let took = start.elapsed().as_millis();
        assert!(took >= expected && took < expected + 50, "{name}: {took} ms, not {expected} ms");
    }
    cluster.create("shortened", "node-0", annotated(life::STOPS_AFTER, "10m"));
    cluster.wait_for_phase("shortened", "Running").await;
    let start = Instant::now();
    cluster.delete("shortened", Some(600));
    tokio::time::sleep(SECOND).await;
    cluster.delete("shortened", Some(10));
    cluster.wait_until_removed("shortened").await;
    assert!(start.elapsed() < 3 * SECOND, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_holds_a_stopped_pod_in_a_terminal_phase() {
    let cluster = TestCluster::new(1.0);
    let held = |policy: &'static str| {
        move |pod: &mut Value| {
            pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
            pod["spec"]["restartPolicy"] = policy.into();
        }
    };
    for (name, policy, phase) in [("server", "Always", "Succeeded"), ("task", "Never", "Failed")] {
        cluster.create(name, "node-0", held(policy));
        cluster.wait_for_phase(name, "Running").await;
        cluster.delete(name, None);
        let pod = cluster.wait_for_phase(name, phase).await;
        assert_eq!(condition(&pod, "Ready").unwrap()["status"], "False");
        assert!(at(&pod["status"]["containerStatuses"][0], &["state", "terminated"]).is_some());
        // No further event is emitted, however often it changes.
        cluster.edit(name, Part::Main, |pod| {
            slot(pod, &["metadata", "labels"])["changed"] = "yes".into();
        });
        tokio::time::sleep(60 * SECOND).await;
        assert_eq!(cluster.get(name).unwrap()["status"]["phase"], phase);
        let killing = cluster.events(name).iter().filter(|reason| *reason == "Killing").count();
        assert_eq!(killing, 1, "{:?}", cluster.events(name));
        cluster.edit(name, Part::Main, |pod| {
            members(&mut pod["metadata"]).remove("finalizers");
        });
        assert!(cluster.get(name).is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn pods_without_a_running_container_are_removed_at_once() {
    let cluster = TestCluster::new(1.0);
    cluster.create("free", "", |_| {});
    cluster.delete("free", None);
    assert!(cluster.get("free").is_none());
    cluster.create("slow", "node-0", annotated(life::STARTS_AFTER, "10m"));
    cluster.wait_until("slow", |pod| Stage::of(pod.unwrap()) == Some(Stage::Creating)).await;
    cluster.create("lost", "node-7", |_| {});
    for name in ["slow", "lost"] {
        let start = Instant::now();
        cluster.delete(name, None);
        cluster.wait_until_removed(name).await;
        assert!(start.elapsed() < SECOND, "{name}");
        assert!(!cluster.events(name).contains(&"Killing".to_owned()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_while_it_waits_starts_once_and_on_time() {
    let cluster = TestCluster::new(1.0);
    let start = Instant::now();
    cluster.create("a", "node-0", |pod| {
        annotated(life::STARTS_AFTER, "10s")(pod);
        annotated(life::RUNS_FOR, "30s")(pod);
        pod["spec"]["restartPolicy"] = "Never".into();
    });
    for number in 0..8 {
        tokio::time::sleep(SECOND).await;
        cluster.edit("a", Part::Main, |pod| {
            slot(pod, &["metadata", "labels"])["number"] = number.to_string().into();
        });
    }
    let pod = cluster.get("a").unwrap();
    assert_eq!(
        pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"],
        "ContainerCreating"
    );
    cluster.wait_for_phase("a", "Running").await;
    assert!(start.elapsed() >= 10 * SECOND && start.elapsed() < 11 * SECOND);
    cluster.wait_for_phase("a", "Succeeded").await;
    assert!(start.elapsed() >= 40 * SECOND && start.elapsed() < 41 * SECOND);
    tokio::time::sleep(60 * SECOND).await;
    let reasons = cluster.events("a");
    assert_eq!(reasons, ["Pulled", "Created", "Started"]);
    let starts = cluster.history("a").windows(2).filter(|two| two[0].1 != two[1].1).count();
    assert_eq!(starts, 2, "Pending, Running, Succeeded: {:?}", cluster.history("a"));
}

#[tokio::test(start_paused = true)]
async fn containers_that_exit_are_restarted_with_a_growing_delay() {
    let cluster = TestCluster::new(1.0);
    cluster.create("a", "node-0", |pod| {
        annotated(life::RUNS_FOR, "5s")(pod);
        annotated(life::EXIT_CODE, "3")(pod);
    });
    let restarts = |count: i64, state: &'static str| {
        move |pod: Option<&Value>| {
            let status = &pod.unwrap()["status"]["containerStatuses"][0];
            status["restartCount"] == count && at(status, &["state", state]).is_some()
        }
    };
    let start = Instant::now();
    let mut expected = 0;
    for (count, wait) in [(1, 10), (2, 20), (3, 40)] {
        let pod = cluster.wait_until("a", restarts(count, "waiting")).await.unwrap();
        assert!(!holds(&pod, "Ready"));
        cluster.wait_until("a", restarts(count, "running")).await;
        expected += 5 + wait;
        assert_eq!(start.elapsed().as_secs(), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_does_not_fit_fails_as_on_a_real_node() {
    let cluster = TestCluster::new(1.0);
    cluster.create("a", "node-0", requests("cpu", "31"));
    cluster.create("b", "node-0", requests("cpu", "2"));
    cluster.create("c", "node-0", requests("cpu", "1"));
    for (name, phase) in [("a", "Running"), ("b", "Failed"), ("c", "Running")] {
        cluster.wait_for_phase(name, phase).await;
    }
    let pod = cluster.get("b").unwrap();
    assert_eq!(pod["status"]["reason"], "OutOfcpu");
    let why =
        "Node didn't have enough resource: cpu, requested: 2000, used: 31000, capacity: 32000";
    assert_eq!(pod["status"]["message"], format!("Pod was rejected: {why}"));
    assert!(pod["status"].get("containerStatuses").is_none());
    assert_eq!(cluster.events("b"), ["OutOfcpu"]);
    // Failed and removed pods occupy nothing.
    cluster.delete("a", None);
    cluster.wait_until_removed("a").await;
    cluster.create("d", "node-0", requests("cpu", "31"));
    cluster.wait_for_phase("d", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn pods_that_already_run_are_counted_and_not_checked() {
    let cluster = TestCluster::new(1.0);
    let running = |pod: &mut Value| {
        requests("cpu", "20")(pod);
        pod["status"]["phase"] = "Running".into();
    };
    cluster.create("a", "node-0", running);
    cluster.create("b", "node-0", running);
    for name in ["a", "b"] {
        cluster.edit(name, Part::Status, |pod| pod["status"]["phase"] = "Running".into());
    }
    cluster.wait_for_phase("a", "Running").await;
    cluster.wait_for_phase("b", "Running").await;
    cluster.create("c", "node-0", requests("cpu", "1"));
    let pod = cluster.wait_for_phase("c", "Failed").await;
    assert!(pod["status"]["message"].as_str().unwrap().contains("used: 40000"), "{pod:#}");
}

#[tokio::test(start_paused = true)]
async fn requests_are_counted_from_scratch_when_changes_were_missed() {
    let cluster = TestCluster::new(1.0);
    cluster.create("a", "node-0", requests("cpu", "20"));
    cluster.wait_for_phase("a", "Running").await;
    cluster.pods().objects.limit_watch_cache(1);
    // No kubelet runs in between, so the deletion is compacted before it is read.
    cluster.delete("a", Some(0));
    cluster.create("b", "node-0", requests("cpu", "20"));
    cluster.create("c", "node-0", requests("cpu", "20"));
    cluster.wait_for_phase("b", "Running").await;
    cluster.wait_for_phase("c", "Failed").await;
}

#[tokio::test(start_paused = true)]
async fn a_preempted_victim_terminates_before_its_resources_are_free() {
    let cluster = TestCluster::new(1.0);
    cluster.create("victim", "node-0", |pod| {
        requests("cpu", "20")(pod);
        annotated(life::STOPS_AFTER, "20s")(pod);
    });
    cluster.wait_for_phase("victim", "Running").await;
    cluster.delete("victim", None);
    // A scheduler that does not wait for its victim overcommits the node.
    cluster.create("hasty", "node-0", requests("cpu", "20"));
    assert_eq!(cluster.wait_for_phase("hasty", "Failed").await["status"]["reason"], "OutOfcpu");
    tokio::time::sleep(15 * SECOND).await;
    let victim = cluster.get("victim").unwrap();
    assert!(at(&victim, &["metadata", "deletionTimestamp"]).is_some() && holds(&victim, "Ready"));
    cluster.wait_until_removed("victim").await;
    cluster.create("patient", "node-0", requests("cpu", "20"));
    cluster.wait_for_phase("patient", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_pod_occupies_resources_from_admission_to_its_end() {
    let cluster = TestCluster::new(1.0);
    let slow = |pod: &mut Value| {
        requests("memory", "100Gi")(pod);
        annotated(life::STARTS_AFTER, "30s")(pod);
        annotated(life::RUNS_FOR, "30s")(pod);
        pod["spec"]["restartPolicy"] = "Never".into();
    };
    cluster.create("a", "node-0", slow);
    cluster.wait_until("a", |pod| Stage::of(pod.unwrap()) == Some(Stage::Creating)).await;
    cluster.create("b", "node-0", slow);
    assert_eq!(cluster.wait_for_phase("b", "Failed").await["status"]["reason"], "OutOfmemory");
    cluster.wait_for_phase("a", "Succeeded").await;
    cluster.create("c", "node-0", slow);
    cluster.wait_for_phase("c", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_is_ready_when_all_its_readiness_gates_are_true() {
    let cluster = TestCluster::new(1.0);
    cluster.create("a", "node-0", |pod| {
        pod["spec"]["readinessGates"] = json!([{"conditionType": "example.com/ok"}]);
    });
    let pod = cluster.wait_for_phase("a", "Running").await;
    assert!(holds(&pod, "ContainersReady"));
    let ready = condition(&pod, "Ready").unwrap();
    assert_eq!(
        (&ready["status"], &ready["reason"]),
        (&json!("False"), &json!("ReadinessGatesNotReady"))
    );
    for (status, open) in [("True", true), ("False", false), ("True", true)] {
        cluster.edit("a", Part::Status, |pod| {
            let gate = json!({"type": "example.com/ok", "status": status});
            crate::subresources::set_condition(&mut pod["status"], gate);
        });
        cluster.wait_until("a", |pod| holds(pod.unwrap(), "Ready") == open).await;
    }
    // An unchanged gate causes no further write.
    let count = cluster.history("a").len();
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(cluster.history("a").len(), count);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_is_active_for_too_long_fails() {
    let cluster = TestCluster::new(1.0);
    for (name, starts_after) in [("quick", "0s"), ("slow", "10h")] {
        cluster.create(name, "node-0", |pod| {
            annotated(life::STARTS_AFTER, starts_after)(pod);
            pod["spec"]["activeDeadlineSeconds"] = 100.into();
        });
    }
    let start = Instant::now();
    for name in ["quick", "slow"] {
        let pod = cluster.wait_for_phase(name, "Failed").await;
        assert_eq!(pod["status"]["reason"], "DeadlineExceeded");
        assert!(!holds(&pod, "Ready"));
        assert!(at(&pod["status"]["containerStatuses"][0], &["state", "terminated"]).is_some());
        assert!(cluster.events(name).contains(&"DeadlineExceeded".to_owned()));
    }
    // Start times have a resolution of one second.
    let took = start.elapsed();
    assert!(took >= 99 * SECOND && took < 101 * SECOND, "{took:?}");
}
