//! Tests of the metrics, spans and times of attempts.

use super::*;

#[test]
fn a_fork_has_the_pods_of_the_engine() {
    local(async {
        let mut fixture = DriverFixture::leading(2).await;
        assert_eq!(fixture.issued().await.len(), 2);
        let (reply, fork) = oneshot::channel();
        fixture.send(Input::Fork { reply }).await;
        let fork = fork.await.unwrap();
        let (state, p0) = (fork.state(), fork.state().pods.find(&"p0".into()).unwrap());
        assert_eq!(state.pods.count(), 2);
        assert!(state.pods.get(p0).assumed, "as the engine has it");
    });
}

#[test]
fn unschedulable_pods_are_counted_by_the_plugins_that_rejected_them() {
    local(async {
        let mut fixture = DriverFixture::leading(0).await;
        let meta = json!({"namespace": "ns", "name": "big", "uid": "big", "resourceVersion": "7"});
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "100"}}});
        let spec = json!({"schedulerName": "default-scheduler", "containers": [container]});
        let big = api::lower::pod(&json!({"metadata": meta, "spec": spec})).0.unwrap();
        fixture.apply(Change::Pod(Box::new(big))).await;
        assert_eq!(fixture.issued().await, ["ReportFailure big"]);
        sleep(GAUGES_INTERVAL).await;
        fixture.send(Input::Audit).await;
        sleep(Duration::from_millis(1)).await;
        let text = fixture.metrics.text();
        for line in [
            r#"scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 1"#,
            r#"scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"} 1"#,
            "scheduler_preemption_attempts_total 1",
            "jindou_invariant_violations_total 0",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} is not in\n{text}");
        }
        fixture.apply(Change::PodGone { uid: "big".into() }).await;
        sleep(GAUGES_INTERVAL).await;
        fixture.send(Input::Audit).await;
        sleep(Duration::from_millis(1)).await;
        let zero = r#"scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 0"#;
        assert!(fixture.metrics.text().contains(zero), "{}", fixture.metrics.text());
    });
}

#[test]
fn the_handling_of_events_is_timed_under_upstreams_names() {
    local(async {
        let mut fixture = DriverFixture::leading(2).await;
        assert_eq!(fixture.issued().await, ["Bind p0", "Bind p1"]);
        fixture.apply(node("n1")).await;
        fixture.apply(pod("p0", Some("n1"))).await;
        fixture.apply(pod("p0", Some("n1"))).await;
        fixture.apply(pod("p1", None)).await;
        fixture.apply(pod("other", Some("n2"))).await;
        for uid in ["p0", "p1", "unknown"] {
            fixture.apply(Change::PodGone { uid: uid.into() }).await;
        }
        fixture.apply(Change::NodeGone("n1".into())).await;
        sleep(GAUGES_INTERVAL).await;
        fixture.send(Input::Audit).await;
        sleep(Duration::from_millis(1)).await;
        let text = fixture.metrics.text();
        for (event, count) in [
            ("NodeAdd", 1),
            ("NodeUpdate", 1),
            ("NodeDelete", 1),
            ("UnschedulablePodAdd", 2),
            ("UnschedulablePodUpdate", 1),
            ("UnschedulablePodDelete", 1),
            ("AssignedPodAdd", 2),
            ("AssignedPodUpdate", 1),
            ("AssignedPodDelete", 1),
        ] {
            let start = "scheduler_event_handling_duration_seconds_count";
            let line = format!("{start}{{event=\"{event}\"}} {count}\n");
            assert!(text.contains(&line), "{line} is not in\n{text}");
        }
        assert!(text.contains("scheduler_inflight_events{event=\"PodPopped\"} 0\n"), "{text}");
    });
}

#[test]
fn attempts_leave_no_span_behind() {
    // In real time, since another thread exports the spans.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (driver, mut commands) = driver();
    let traces =
        Traces::start(&endpoint, crate::traces::MILLION, "host", runtime.handle().clone()).unwrap();
    let mut driver = driver.with_traces(traces.clone());
    LocalSet::new().block_on(&runtime, async {
        driver.leading = true;
        driver.kinds_synced = KINDS;
        for change in [node("n1"), pod("a", None), pod("b", None), pod("c", None)] {
            driver.handle_input(Input::Change(change), Instant::now());
        }
        for _ in 0..3 {
            driver.schedule(Instant::now());
            driver.dispatch(Some(Instant::now())).await;
        }
        assert_eq!(driver.spans.len(), 3);
        for _ in 0..3 {
            let command = commands.recv().await.unwrap();
            let span = driver.spans.get(&pod_of(&command.command).uid).unwrap();
            assert_eq!(command.trace, Some(span.context()), "the bind belongs to its attempt");
        }
        driver.handle_input(Input::Change(bound("a", None)), Instant::now());
        driver.handle_input(Input::Change(bound("b", Some("no"))), Instant::now());
        driver.handle_input(Input::Change(Change::PodGone { uid: "c".into() }), Instant::now());
        driver.handle_input(Input::Change(bound("c", Some("gone"))), Instant::now());
        driver.dispatch(None).await;
        assert!(driver.spans.is_empty() && driver.attempts.is_empty());
        drop(driver);
        traces.shut_down().await;
    });
}

#[test]
fn a_bind_carries_the_time_at_which_its_pod_could_first_be_tried() {
    local(async {
        let mut fixture = DriverFixture::leading(1).await;
        let begun = Instant::now();
        assert_eq!(fixture.issued().await, ["Bind p0"]);
        fixture.apply(bound("p0", Some("no"))).await;
        assert_eq!(fixture.issued().await, ["ReportFailure p0"]);
        let command = fixture.commands.recv().await.unwrap();
        let Command::Bind { history, .. } = command.command else { panic!("{command:?}") };
        assert!(begun.elapsed() > Duration::from_millis(500), "it waited in backoff");
        assert_eq!(history.attempts, 2);
        let ready = fixture.clock.instant(history.initial_attempt);
        assert_eq!(ready, begun, "the first attempt counts");
    });
}

#[test]
fn backoffs_do_not_depend_on_the_wall_clock() {
    const HOUR: i64 = 3_600_000_000_000;
    let mut waits = Vec::new();
    // The wall clock was an hour behind or ahead when the process started, and was corrected later.
    for shift in [-HOUR, 0, HOUR] {
        local(async {
            let (mut driver, commands) = driver();
            driver.clock.epoch = 1_700_000_000_250_000_000 + shift;
            let mut fixture = DriverFixture::start_driver(driver, commands);
            fixture.apply(node("n1")).await;
            fixture.apply(pod("a", None)).await;
            for _ in 0..KINDS {
                fixture.send(Input::Synced).await;
            }
            fixture.send(Input::Lead(true)).await;
            for _ in 0..4 {
                let begun = Instant::now();
                let command = fixture.commands.recv().await.unwrap();
                assert!(matches!(command.command, Command::Bind { .. }), "{command:?}");
                waits.push(begun.elapsed().as_millis());
                fixture.apply(bound("a", Some("no"))).await;
                assert_eq!(fixture.issued().await, ["ReportFailure a"]);
            }
        });
    }
    assert_eq!(waits[..4], waits[4..8], "behind");
    assert_eq!(waits[4..8], waits[8..], "ahead");
    assert!(waits[1] >= 500 && waits[3] > waits[1] && waits[3] <= 10_000, "{waits:?}");
}
