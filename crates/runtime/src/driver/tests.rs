//! The loop with the default profile, in virtual time.

use api::config::Gates;
use engine::engine::Settings;
use plugins::registry::Registry;
use plugins::simple;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, LocalSet, spawn_local};

use super::*;

mod liveness;
mod preemption;
mod stages;

const KINDS: usize = 3;

struct DriverFixture {
    inputs: mpsc::Sender<Input>,
    commands: mpsc::Receiver<PodCommand>,
    window: Arc<BindWindow>,
    status: Arc<DriverStatus>,
    metrics: Metrics,
    task: JoinHandle<()>,
}

fn engine(registry: &Registry) -> Engine {
    let configuration = api::config::defaults(Gates::default());
    let profiles = registry.profiles(&configuration).unwrap();
    Engine::new(profiles, Settings::default())
}

fn driver() -> (Driver, mpsc::Receiver<PodCommand>) {
    driver_of(engine(&Registry::default()))
}

fn driver_of(engine: Engine) -> (Driver, mpsc::Receiver<PodCommand>) {
    let (sender, commands) = mpsc::channel(COMMANDS_MAX);
    let (window, status) = (Arc::default(), Arc::default());
    let metrics = Metrics::new("lease");
    let sampler = crate::timing::instrument(&mut [], &metrics);
    (Driver::new(engine, sender, window, status, metrics, sampler, KINDS), commands)
}

fn node(name: &str) -> Change {
    let amount = json!({"cpu": "64", "memory": "64Gi", "pods": "1000"});
    let value = json!({"metadata": {"name": name}, "status": {"allocatable": amount}});
    Change::Node(api::lower::node(&value).0.unwrap().into())
}

fn pod(name: &str, on: Option<&str>) -> Change {
    let meta = json!({"namespace": "ns", "name": name, "uid": name, "resourceVersion": "7"});
    let mut spec = json!({"schedulerName": "default-scheduler", "containers": [{"name": "c"}]});
    if let Some(node) = on {
        spec["nodeName"] = Value::from(node);
    }
    let value = json!({"metadata": meta, "spec": spec});
    Change::Pod(Box::new(api::lower::pod(&value).0.unwrap()))
}

fn bound(uid: &str, failure: Option<&str>) -> Change {
    Change::Bound { uid: uid.into(), failure: failure.map(Text::from) }
}

impl DriverFixture {
    fn start() -> Self {
        Self::start_with(engine(&Registry::default()))
    }

    fn start_with(engine: Engine) -> Self {
        let (driver, commands) = driver_of(engine);
        Self::start_driver(driver, commands)
    }

    fn start_driver(driver: Driver, commands: mpsc::Receiver<PodCommand>) -> Self {
        let (inputs, receiver) = mpsc::channel(INPUTS_MAX);
        let (window, status) = (Arc::clone(&driver.window), Arc::clone(&driver.status));
        let metrics = driver.metrics.clone();
        let task = spawn_local(driver.run(receiver));
        Self { inputs, commands, window, status, metrics, task }
    }

    /// Everything is known and this process leads.
    async fn leading(pods: usize) -> Self {
        Self::leading_with(engine(&Registry::default()), pods).await
    }

    async fn leading_with(engine: Engine, pods: usize) -> Self {
        let stage = Self::start_with(engine);
        stage.tell(node("n1")).await;
        for number in 0..pods {
            stage.tell(pod(&format!("p{number}"), None)).await;
        }
        for _ in 0..KINDS {
            stage.send(Input::Synced).await;
        }
        stage.send(Input::Lead(true)).await;
        stage
    }

    async fn send(&self, input: Input) {
        self.inputs.send(input).await.unwrap();
    }

    async fn tell(&self, change: Change) {
        self.send(Input::Change(change)).await;
    }

    /// What was issued by now: the kind of command and the pod.
    async fn issued(&mut self) -> Vec<String> {
        sleep(Duration::from_millis(1)).await;
        let mut issued = Vec::new();
        while let Ok(command) = self.commands.try_recv() {
            let shown = format!("{:?}", command.command);
            let kind = shown.split(' ').next().unwrap().to_owned();
            assert_eq!(&*command.scheduler, "default-scheduler", "{shown}");
            issued.push(format!("{kind} {}", pod_of(&command.command).name));
        }
        issued
    }
}

/// The engine stays on its thread.
fn local(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

#[test]
fn nothing_is_decided_before_all_is_known_and_this_process_leads() {
    local(async {
        let mut stage = DriverFixture::start();
        stage.send(Input::Lead(true)).await;
        stage.tell(node("n1")).await;
        stage.tell(pod("a", None)).await;
        for _ in 1..KINDS {
            stage.send(Input::Synced).await;
        }
        assert_eq!(stage.issued().await, Vec::<String>::new(), "a kind is missing");
        stage.send(Input::Lead(false)).await;
        stage.send(Input::Synced).await;
        assert_eq!(stage.issued().await, Vec::<String>::new(), "another process leads");
        stage.send(Input::Lead(true)).await;
        assert_eq!(stage.issued().await, ["Bind a"]);
        assert!(stage.status.leading.load(Ordering::Relaxed));
        assert_eq!(stage.status.binds_in_flight.load(Ordering::Relaxed), 1);

        stage.send(Input::Lead(false)).await;
        stage.tell(pod("b", None)).await;
        assert_eq!(stage.issued().await, Vec::<String>::new());
        assert!(!stage.status.leading.load(Ordering::Relaxed));
        stage.tell(bound("a", None)).await;
        assert_eq!(stage.issued().await, ["ReportScheduled a"], "what was begun is ended");
        assert_eq!(stage.status.binds_in_flight.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn no_more_is_bound_at_once_than_the_window_allows() {
    local(async {
        let mut stage = DriverFixture::start();
        while stage.window.size() > 4 {
            stage.window.shrink();
        }
        stage.tell(node("n1")).await;
        for number in 0..9 {
            stage.tell(pod(&format!("p{number}"), None)).await;
        }
        for _ in 0..KINDS {
            stage.send(Input::Synced).await;
        }
        stage.send(Input::Lead(true)).await;
        let first = stage.issued().await;
        assert_eq!(first.len(), 4, "{first:?}");
        sleep(Duration::from_hours(1)).await;
        assert_eq!(stage.issued().await, Vec::<String>::new(), "nothing came back");
        stage.tell(bound("p0", None)).await;
        let next = stage.issued().await;
        assert_eq!(next, ["ReportScheduled p0", "Bind p4"]);
        stage.window.grow();
        stage.tell(bound("p1", None)).await;
        let next = stage.issued().await;
        assert_eq!(next, ["ReportScheduled p1", "Bind p5", "Bind p6"]);
        assert_eq!(stage.status.binds_in_flight.load(Ordering::Relaxed), 5);
    });
}

#[test]
fn a_pod_that_was_not_bound_is_tried_again_after_a_while() {
    local(async {
        let mut stage = DriverFixture::leading(1).await;
        assert_eq!(stage.issued().await, ["Bind p0"]);
        for _ in 0..5 {
            stage.tell(bound("p0", Some("no"))).await;
            assert_eq!(stage.issued().await, ["ReportFailure p0"]);
            sleep(Duration::from_secs(11)).await;
            assert_eq!(stage.issued().await, ["Bind p0"]);
        }
        assert_eq!(stage.status.binds_in_flight.load(Ordering::Relaxed), 1);
        stage.tell(bound("p0", None)).await;
        assert_eq!(stage.issued().await, ["ReportScheduled p0"]);
        let text = stage.metrics.text();
        assert!(text.contains("scheduler_pod_scheduling_attempts_sum 6"), "{text}");
    });
}

#[test]
fn a_pod_that_the_watch_shows_first_is_reported_as_scheduled() {
    local(async {
        let mut stage = DriverFixture::leading(1).await;
        assert_eq!(stage.issued().await, ["Bind p0"]);
        stage.tell(pod("p0", Some("n1"))).await;
        assert_eq!(stage.issued().await, Vec::<String>::new(), "its bind is still under way");
        assert_eq!(stage.status.binds_in_flight.load(Ordering::Relaxed), 1);
        stage.tell(bound("p0", None)).await;
        assert_eq!(stage.issued().await, ["ReportScheduled p0"]);
        assert!(stage.metrics.text().contains("result=\"scheduled\""));
    });
}

#[test]
fn a_pod_that_went_while_it_was_bound_leaves_nothing() {
    local(async {
        let mut stage = DriverFixture::leading(1).await;
        assert_eq!(stage.issued().await, ["Bind p0"]);
        stage.tell(Change::PodGone { uid: "p0".into() }).await;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(
            stage.status.binds_in_flight.load(Ordering::Relaxed),
            1,
            "it may still be on its way"
        );
        while stage.commands.try_recv().is_ok() {}
        stage.tell(bound("p0", Some("not found"))).await;
        assert_eq!(stage.issued().await, Vec::<String>::new());
        assert_eq!(stage.status.binds_in_flight.load(Ordering::Relaxed), 0);
        // An answer that nobody waits for changes nothing.
        stage.tell(bound("p0", None)).await;
        stage.tell(bound("nobody", Some("no"))).await;
        assert_eq!(stage.issued().await, Vec::<String>::new());
        assert_eq!(stage.status.binds_in_flight.load(Ordering::Relaxed), 0);
        stage.send(Input::Audit).await;
        stage.tell(pod("later", None)).await;
        assert_eq!(stage.issued().await, ["Bind later"]);
    });
}

#[test]
fn pods_that_fit_nowhere_are_counted_by_what_keeps_them_waiting() {
    local(async {
        let mut stage = DriverFixture::leading(0).await;
        let meta = json!({"namespace": "ns", "name": "big", "uid": "big", "resourceVersion": "7"});
        let container = json!({"name": "c", "resources": {"requests": {"cpu": "100"}}});
        let spec = json!({"schedulerName": "default-scheduler", "containers": [container]});
        let big = api::lower::pod(&json!({"metadata": meta, "spec": spec})).0.unwrap();
        stage.tell(Change::Pod(Box::new(big))).await;
        assert_eq!(stage.issued().await, ["ReportFailure big"]);
        sleep(GAUGES_INTERVAL).await;
        stage.send(Input::Audit).await;
        sleep(Duration::from_millis(1)).await;
        let text = stage.metrics.text();
        for line in [
            r#"scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 1"#,
            r#"scheduler_queue_incoming_pods_total{event="UnschedulablePodAdd",queue="active"} 1"#,
            "scheduler_preemption_attempts_total 1",
            "jindou_invariant_violations_total 0",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} is not in\n{text}");
        }
        stage.tell(Change::PodGone { uid: "big".into() }).await;
        sleep(GAUGES_INTERVAL).await;
        stage.send(Input::Audit).await;
        sleep(Duration::from_millis(1)).await;
        let zero = r#"scheduler_unschedulable_pods{plugin="NodeResourcesFit",profile="default-scheduler"} 0"#;
        assert!(stage.metrics.text().contains(zero), "{}", stage.metrics.text());
    });
}

fn audits(metrics: &Metrics, result: &str) -> usize {
    let start = format!("jindou_audits_total{{result=\"{result}\"}} ");
    let text = metrics.text();
    text.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or(0)
}

#[test]
fn what_is_kept_is_audited_now_and_then_while_nothing_is_to_be_done() {
    local(async {
        let mut stage = DriverFixture::leading(3).await;
        assert_eq!(stage.issued().await.len(), 3);
        sleep(3 * AUDIT_INTERVAL).await;
        assert_eq!(audits(&stage.metrics, "passed"), 0, "binds are under way");
        for uid in ["p0", "p1", "p2"] {
            stage.tell(bound(uid, None)).await;
        }
        sleep(Duration::from_secs(1)).await;
        assert_eq!(audits(&stage.metrics, "passed"), 1, "it was due long ago");
        sleep(Duration::from_secs(298)).await;
        assert_eq!(audits(&stage.metrics, "passed"), 1);
        sleep(Duration::from_secs(2)).await;
        assert_eq!(audits(&stage.metrics, "passed"), 2);
        sleep(10 * AUDIT_INTERVAL).await;
        assert_eq!(audits(&stage.metrics, "passed"), 12);
        assert_eq!(audits(&stage.metrics, "failed"), 0);
        stage.send(Input::Audit).await;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(audits(&stage.metrics, "passed"), 13, "on request at once");
    });
}

#[test]
fn an_audit_on_request_does_not_wait_for_binds() {
    local(async {
        let mut stage = DriverFixture::leading(3).await;
        assert_eq!(stage.issued().await.len(), 3);
        stage.send(Input::Audit).await;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(audits(&stage.metrics, "passed"), 1, "binds are under way");
        for uid in ["p0", "p1", "p2"] {
            stage.tell(bound(uid, None)).await;
        }
        sleep(Duration::from_secs(1)).await;
        assert_eq!(audits(&stage.metrics, "passed"), 1);
    });
}

/// Changes its mind about nodes without any reason that the engine could know of.
struct Moody(Arc<AtomicBool>);

impl simple::NodePlugin for Moody {
    fn filter(&self, _: &simple::Class, _: &simple::NodeView) -> Result<(), simple::Rejection> {
        let well = self.0.load(Ordering::Relaxed);
        if well {
            Ok(())
        } else {
            Err(simple::Rejection::unresolvable("node(s) are out of favour"))
        }
    }
}

#[test]
fn what_differs_from_what_comes_out_from_scratch_is_found() {
    const POINTS: &[Point] = &[Point::Filter];
    local(async {
        let mood = Arc::new(AtomicBool::new(true));
        let shared = Arc::clone(&mood);
        let build =
            move |_: Option<&_>| Ok(simple::plugin("NodeName", POINTS, Moody(Arc::clone(&shared))));
        let registry = Registry::default().with("NodeName", POINTS, Box::new(build));
        let mut stage = DriverFixture::leading_with(engine(&registry), 2).await;
        assert_eq!(stage.issued().await, ["Bind p0", "Bind p1"]);
        for uid in ["p0", "p1"] {
            stage.tell(bound(uid, None)).await;
        }
        sleep(AUDIT_INTERVAL).await;
        assert_eq!((audits(&stage.metrics, "passed"), audits(&stage.metrics, "failed")), (1, 0));
        mood.store(false, Ordering::Relaxed);
        sleep(AUDIT_INTERVAL + Duration::from_secs(1)).await;
        assert_eq!((audits(&stage.metrics, "passed"), audits(&stage.metrics, "failed")), (1, 1));
        assert!(stage.metrics.text().contains("jindou_invariant_violations_total 1\n"));
        sleep(AUDIT_INTERVAL + Duration::from_secs(1)).await;
        let counted = (audits(&stage.metrics, "passed"), audits(&stage.metrics, "failed"));
        assert_eq!(counted, (2, 1), "what was wrong was made anew");
    });
}

#[test]
fn the_handling_of_events_is_timed_under_upstreams_names() {
    local(async {
        let mut stage = DriverFixture::leading(2).await;
        assert_eq!(stage.issued().await, ["Bind p0", "Bind p1"]);
        stage.tell(node("n1")).await;
        stage.tell(pod("p0", Some("n1"))).await;
        stage.tell(pod("p0", Some("n1"))).await;
        stage.tell(pod("p1", None)).await;
        stage.tell(pod("other", Some("n2"))).await;
        for uid in ["p0", "p1", "nobody"] {
            stage.tell(Change::PodGone { uid: uid.into() }).await;
        }
        stage.tell(Change::NodeGone("n1".into())).await;
        sleep(GAUGES_INTERVAL).await;
        stage.send(Input::Audit).await;
        sleep(Duration::from_millis(1)).await;
        let text = stage.metrics.text();
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
    // In real time: spans are exported by a thread that knows no other.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (driver, mut commands) = driver();
    let traces =
        Traces::start(&endpoint, crate::traces::MILLION, "host", runtime.handle().clone()).unwrap();
    let mut driver = driver.traced(traces.clone());
    LocalSet::new().block_on(&runtime, async {
        driver.leading = true;
        driver.kinds_synced = KINDS;
        for change in [node("n1"), pod("a", None), pod("b", None), pod("c", None)] {
            driver.handle_input(Input::Change(change), Instant::now());
        }
        for _ in 0..3 {
            driver.apply(Change::Schedule { limit: 1 }, Instant::now());
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
fn the_loop_ends_when_it_is_told_and_when_it_is_alone() {
    local(async {
        let stage = DriverFixture::leading(0).await;
        stage.send(Input::Stop).await;
        tokio::time::timeout(Duration::from_millis(1), stage.task).await.unwrap().unwrap();
        assert!(!stage.status.leading.load(Ordering::Relaxed));

        let DriverFixture { task, inputs, commands, .. } = DriverFixture::leading(0).await;
        drop(inputs);
        tokio::time::timeout(Duration::from_millis(1), task).await.unwrap().unwrap();
        drop(commands);

        let DriverFixture { task, inputs, commands, .. } = DriverFixture::leading(1).await;
        drop(commands);
        tokio::time::timeout(Duration::from_secs(1), task).await.unwrap().unwrap();
        assert!(inputs.is_closed());
    });
}

fn bind(name: &str) -> Command {
    let pod = PodName { namespace: "ns".into(), name: name.into(), uid: name.into() };
    Command::Bind { pod, resource_version: 7, node: "n1".into(), extender: None }
}

#[test]
fn binds_that_come_late_wait_for_room_and_end_with_the_lead() {
    let (mut driver, _orders) = driver();
    while driver.window.size() > 4 {
        driver.window.shrink();
    }
    driver.leading = true;
    driver.binds_in_flight = 3;
    driver.commands = vec![bind("a"), bind("b"), bind("c")];
    assert_eq!(driver.next_command(), Some(bind("a")));
    driver.binds_in_flight = 4;
    assert_eq!(driver.next_command(), None);
    assert_eq!(driver.binds_over_window.len(), 2);
    driver.binds_in_flight = 3;
    assert_eq!(driver.next_command(), Some(bind("b")), "in their order");
    driver.leading = false;
    driver.commands = vec![bind("d")];
    assert_eq!(driver.next_command(), None, "nothing is begun without the lead");
    assert!(driver.binds_over_window.is_empty() && driver.outgoing.is_empty());
}

#[test]
fn a_bind_knows_since_when_its_pod_could_be_tried() {
    local(async {
        let mut stage = DriverFixture::leading(1).await;
        let begun = Instant::now();
        assert_eq!(stage.issued().await, ["Bind p0"]);
        stage.tell(bound("p0", Some("no"))).await;
        assert_eq!(stage.issued().await, ["ReportFailure p0"]);
        let command = stage.commands.recv().await.unwrap();
        assert!(matches!(command.command, Command::Bind { .. }), "{command:?}");
        assert!(begun.elapsed() > Duration::from_millis(500), "it waited in backoff");
        assert_eq!(command.ready, Some(begun), "the first attempt counts");
    });
}

#[test]
fn backoffs_do_not_depend_on_what_the_wall_clock_says() {
    const HOUR: i64 = 3_600_000_000_000;
    let mut waits = Vec::new();
    // The wall clock was an hour behind or ahead when the process began, and was set right since.
    for shift in [-HOUR, 0, HOUR] {
        local(async {
            let (mut driver, commands) = driver();
            driver.clock.epoch = 1_700_000_000_250_000_000 + shift;
            let mut stage = DriverFixture::start_driver(driver, commands);
            stage.tell(node("n1")).await;
            stage.tell(pod("a", None)).await;
            for _ in 0..KINDS {
                stage.send(Input::Synced).await;
            }
            stage.send(Input::Lead(true)).await;
            for _ in 0..4 {
                let begun = Instant::now();
                let command = stage.commands.recv().await.unwrap();
                assert!(matches!(command.command, Command::Bind { .. }), "{command:?}");
                waits.push(begun.elapsed().as_millis());
                stage.tell(bound("a", Some("no"))).await;
                assert_eq!(stage.issued().await, ["ReportFailure a"]);
            }
        });
    }
    assert_eq!(waits[..4], waits[4..8], "behind");
    assert_eq!(waits[4..8], waits[8..], "ahead");
    assert!(waits[1] >= 500 && waits[3] > waits[1] && waits[3] <= 10_000, "{waits:?}");
}

#[test]
fn the_clock_never_goes_back() {
    local(async {
        let clock = EngineClock::start();
        let before = clock.now();
        sleep(Duration::from_secs(2)).await;
        assert_eq!(clock.now() - before, 2_000_000_000);
    });
}
