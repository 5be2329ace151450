//! Tests of the loop with the default profile, in virtual time.

use std::sync::atomic::Ordering;

use api::config::Gates;
use engine::command::{AttemptHistory, PodRef};
use engine::engine::Settings;
use engine::framework::{Action, Point, Resource};
use engine::object::Text;
use plugins::registry::Registry;
use serde_json::{Value, json};
use tokio::task::{JoinHandle, LocalSet, spawn_local};

use super::gauges::GAUGES_INTERVAL;
use super::*;

mod attempts;
mod audits;
mod liveness;
mod preemption;
mod stages;

const KINDS: usize = 3;

struct DriverFixture {
    inputs: mpsc::Sender<Input>,
    commands: mpsc::Receiver<TracedCommand>,
    window: Arc<BindWindow>,
    status: Arc<DriverStatus>,
    metrics: Metrics,
    clock: EngineClock,
    task: JoinHandle<()>,
}

fn engine(registry: &Registry) -> Engine {
    let configuration = api::config::defaults(Gates::default());
    let profiles = registry.profiles(&configuration).unwrap();
    Engine::new(profiles, Settings::default())
}

fn driver() -> (Driver, mpsc::Receiver<TracedCommand>) {
    driver_of(engine(&Registry::default()))
}

fn driver_of(engine: Engine) -> (Driver, mpsc::Receiver<TracedCommand>) {
    let (sender, commands) = mpsc::channel(COMMANDS_MAX);
    let (window, status) = (Arc::default(), Arc::default());
    let metrics = Metrics::new("lease");
    let clock = EngineClock::start();
    (Driver::new(engine, sender, window, status, metrics, clock, KINDS), commands)
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

    fn start_driver(driver: Driver, commands: mpsc::Receiver<TracedCommand>) -> Self {
        let (inputs, receiver) = mpsc::channel(INPUTS_MAX);
        let (window, status) = (driver.binds.window(), Arc::clone(&driver.status));
        let (metrics, clock) = (driver.metrics.clone(), driver.clock);
        let task = spawn_local(driver.run(receiver));
        Self { inputs, commands, window, status, metrics, clock, task }
    }

    /// Starts a loop that leads, with one node, `pods` pods and all kinds synced.
    async fn leading(pods: usize) -> Self {
        Self::leading_with(engine(&Registry::default()), pods).await
    }

    async fn leading_with(engine: Engine, pods: usize) -> Self {
        let fixture = Self::start_with(engine);
        fixture.apply(node("n1")).await;
        for number in 0..pods {
            fixture.apply(pod(&format!("p{number}"), None)).await;
        }
        for _ in 0..KINDS {
            fixture.send(Input::Synced).await;
        }
        fixture.send(Input::Lead(true)).await;
        fixture
    }

    async fn send(&self, input: Input) {
        self.inputs.send(input).await.unwrap();
    }

    async fn apply(&self, change: Change) {
        self.send(Input::Change(change)).await;
    }

    /// Returns the commands issued so far, as the kind of command and the name of the pod.
    async fn issued(&mut self) -> Vec<String> {
        sleep(Duration::from_millis(1)).await;
        let mut issued = Vec::new();
        while let Ok(command) = self.commands.try_recv() {
            let shown = format!("{:?}", command.command);
            let kind = shown.split(' ').next().unwrap().to_owned();
            let pod = pod_of(&command.command);
            assert_eq!(&*pod.scheduler, "default-scheduler", "{shown}");
            issued.push(format!("{kind} {}", pod.name));
        }
        issued
    }
}

/// Returns the pod that a command serves: the preemptor, for victims.
fn pod_of(command: &Command) -> &PodRef {
    match command {
        Command::Bind { pod, .. }
        | Command::AskExtenders { pod, .. }
        | Command::AskExtendersAboutVictims { pod, .. }
        | Command::PrepareVolumes { pod, .. }
        | Command::Nominate { pod, .. }
        | Command::ReportFailure { pod, .. }
        | Command::Warn { pod, .. }
        | Command::Report { pod, .. }
        | Command::Evict { pod, .. }
        | Command::ReportScheduled { pod, .. } => pod,
        Command::DeleteVictim { preemptor, .. } | Command::ReportPreempted { preemptor, .. } => {
            preemptor
        }
    }
}

/// Runs a test on one thread, since the engine is not `Send`, in virtual time.
fn local(test: impl Future<Output = ()>) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    LocalSet::new().block_on(&runtime, test);
}

#[test]
fn no_decision_is_made_before_all_kinds_are_synced_and_this_process_leads() {
    local(async {
        let mut fixture = DriverFixture::start();
        fixture.send(Input::Lead(true)).await;
        fixture.apply(node("n1")).await;
        fixture.apply(pod("a", None)).await;
        for _ in 1..KINDS {
            fixture.send(Input::Synced).await;
        }
        assert_eq!(fixture.issued().await, Vec::<String>::new(), "a kind is missing");
        fixture.send(Input::Lead(false)).await;
        fixture.send(Input::Synced).await;
        assert_eq!(fixture.issued().await, Vec::<String>::new(), "another process leads");
        fixture.send(Input::Lead(true)).await;
        assert_eq!(fixture.issued().await, ["Bind a"]);
        assert!(fixture.status.leading.load(Ordering::Relaxed));
        assert_eq!(fixture.status.binds_in_flight.load(Ordering::Relaxed), 1);

        fixture.send(Input::Lead(false)).await;
        fixture.apply(pod("b", None)).await;
        assert_eq!(fixture.issued().await, Vec::<String>::new());
        assert!(!fixture.status.leading.load(Ordering::Relaxed));
        fixture.apply(bound("a", None)).await;
        assert_eq!(fixture.issued().await, ["ReportScheduled a"], "a bind in flight is completed");
        assert_eq!(fixture.status.binds_in_flight.load(Ordering::Relaxed), 0);
    });
}

#[test]
fn no_more_binds_are_in_flight_than_the_window_allows() {
    local(async {
        let mut fixture = DriverFixture::start();
        while fixture.window.size() > 4 {
            fixture.window.shrink();
        }
        fixture.apply(node("n1")).await;
        for number in 0..9 {
            fixture.apply(pod(&format!("p{number}"), None)).await;
        }
        for _ in 0..KINDS {
            fixture.send(Input::Synced).await;
        }
        fixture.send(Input::Lead(true)).await;
        let first = fixture.issued().await;
        assert_eq!(first.len(), 4, "{first:?}");
        sleep(Duration::from_hours(1)).await;
        assert_eq!(fixture.issued().await, Vec::<String>::new(), "no bind was answered");
        fixture.apply(bound("p0", None)).await;
        let next = fixture.issued().await;
        assert_eq!(next, ["ReportScheduled p0", "Bind p4"]);
        fixture.window.grow();
        fixture.apply(bound("p1", None)).await;
        let next = fixture.issued().await;
        assert_eq!(next, ["ReportScheduled p1", "Bind p5", "Bind p6"]);
        assert_eq!(fixture.status.binds_in_flight.load(Ordering::Relaxed), 5);
    });
}

#[test]
fn a_pod_whose_bind_failed_is_retried_after_backoff() {
    local(async {
        let mut fixture = DriverFixture::leading(1).await;
        assert_eq!(fixture.issued().await, ["Bind p0"]);
        for _ in 0..5 {
            fixture.apply(bound("p0", Some("no"))).await;
            assert_eq!(fixture.issued().await, ["ReportFailure p0"]);
            sleep(Duration::from_secs(11)).await;
            assert_eq!(fixture.issued().await, ["Bind p0"]);
        }
        assert_eq!(fixture.status.binds_in_flight.load(Ordering::Relaxed), 1);
        fixture.apply(bound("p0", None)).await;
        assert_eq!(fixture.issued().await, ["ReportScheduled p0"]);
        let text = fixture.metrics.text();
        assert!(text.contains("scheduler_pod_scheduling_attempts_sum 6"), "{text}");
    });
}

#[test]
fn a_pod_that_the_watch_shows_first_is_reported_as_scheduled() {
    local(async {
        let mut fixture = DriverFixture::leading(1).await;
        assert_eq!(fixture.issued().await, ["Bind p0"]);
        fixture.apply(pod("p0", Some("n1"))).await;
        assert_eq!(fixture.issued().await, Vec::<String>::new(), "its bind is still in flight");
        assert_eq!(fixture.status.binds_in_flight.load(Ordering::Relaxed), 1);
        fixture.apply(bound("p0", None)).await;
        assert_eq!(fixture.issued().await, ["ReportScheduled p0"]);
        assert!(fixture.metrics.text().contains("result=\"scheduled\""));
    });
}

#[test]
fn a_pod_that_is_deleted_during_its_bind_leaves_no_attempt_behind() {
    local(async {
        let mut fixture = DriverFixture::leading(1).await;
        assert_eq!(fixture.issued().await, ["Bind p0"]);
        fixture.apply(Change::PodGone { uid: "p0".into() }).await;
        sleep(Duration::from_millis(1)).await;
        assert_eq!(
            fixture.status.binds_in_flight.load(Ordering::Relaxed),
            1,
            "the bind may still land"
        );
        while fixture.commands.try_recv().is_ok() {}
        fixture.apply(bound("p0", Some("not found"))).await;
        assert_eq!(fixture.issued().await, Vec::<String>::new());
        assert_eq!(fixture.status.binds_in_flight.load(Ordering::Relaxed), 0);
        // Results without an attempt change nothing.
        fixture.apply(bound("p0", None)).await;
        fixture.apply(bound("unknown", Some("no"))).await;
        assert_eq!(fixture.issued().await, Vec::<String>::new());
        assert_eq!(fixture.status.binds_in_flight.load(Ordering::Relaxed), 0);
        fixture.send(Input::Audit).await;
        fixture.apply(pod("later", None)).await;
        assert_eq!(fixture.issued().await, ["Bind later"]);
    });
}

#[test]
fn the_loop_ends_on_stop_and_when_a_channel_closes() {
    local(async {
        let fixture = DriverFixture::leading(0).await;
        fixture.send(Input::Stop).await;
        tokio::time::timeout(Duration::from_millis(1), fixture.task).await.unwrap().unwrap();
        assert!(!fixture.status.leading.load(Ordering::Relaxed));

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
    let pod =
        PodRef { namespace: "ns".into(), name: name.into(), uid: name.into(), ..PodRef::default() };
    Command::Bind { pod, node: "n1".into(), extender: None, history: AttemptHistory::default() }
}

#[test]
fn binds_over_the_window_wait_and_fail_without_leadership() {
    local(async {
        let (mut driver, mut sent) = driver();
        let mut sent = || sent.try_recv().ok().map(|sent| sent.command);
        while driver.binds.has_room() {
            driver.binds.admit(bind("earlier"));
        }
        driver.leading = true;
        driver.commands = vec![bind("a"), bind("b")];
        driver.dispatch(None).await;
        assert_eq!(sent(), None, "the window is full");
        driver.binds.answered();
        driver.dispatch(None).await;
        assert_eq!((sent(), sent()), (Some(bind("a")), None));
        driver.leading = false;
        driver.binds.answered();
        driver.commands = vec![bind("c")];
        driver.dispatch(None).await;
        assert_eq!(sent(), None, "no bind begins without leadership");
        assert!(driver.binds.take_waiting().is_empty() && driver.commands.is_empty());
    });
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
