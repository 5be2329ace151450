//! Tests of commands against a scripted server, in virtual time.

use std::sync::Arc;

use http::Method;
use tokio::time::{Instant, sleep};

use super::*;
use crate::bind::BindWindow;
use crate::gate::Throttle;
use crate::lease::Fence;
use crate::testing::{FakeApiServer, ReceivedRequest, Reply};

struct ExecutorFixture {
    fake: FakeApiServer,
    commands: mpsc::Sender<PodCommand>,
    inputs: mpsc::Receiver<Input>,
}

impl ExecutorFixture {
    fn start(
        fence: Fence,
        answer: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let (fake, metrics) = (FakeApiServer::new(answer), Metrics::new("lease"));
        let (sender, inputs) = mpsc::channel(100);
        let window = Arc::new(BindWindow::default());
        let executor = Executor {
            binder: Binder::new(fake.client(), fence.clone(), window, metrics.clone()),
            annotate_latency: true,
            client: fake.client(),
            extenders: Extenders::new(
                &api::config::defaults(api::config::Gates::default()),
                fake.client(),
            )
            .unwrap(),
            gate: fence.clone().into(),
            events: EventRecorder::start(
                fake.client(),
                Throttle::none(),
                "host".to_owned(),
                metrics.clone(),
            ),
            status_writer: StatusWriter::start(fake.client(), fence),
            inputs: sender,
            metrics,
            traces: Traces::off(),
        };
        let (commands, receiver) = mpsc::channel(100);
        tokio::spawn(executor.run(receiver));
        Self { fake, commands, inputs }
    }

    async fn command(&self, command: Command) {
        let version = |generation, version| PodVersion { generation, version };
        let command = PodCommand {
            command,
            scheduler: "default-scheduler".into(),
            pod_version: version(1, 10),
            victim_version: version(2, 20),
            ready: Some(Instant::now()),
            trace: None,
        };
        self.commands.send(command).await.unwrap();
    }

    async fn reply(&mut self) -> Change {
        match self.inputs.recv().await {
            Some(Input::Change(change)) => change,
            other => panic!("unexpected {other:?}"),
        }
    }

    async fn evict(&mut self) -> Option<Text> {
        let (victim, preemptor, node) = (pod("victim"), pod("preemptor"), "n1".into());
        self.command(Command::Evict { victim, preemptor, node }).await;
        let Change::VictimHandled { preemptor, victim, failure } = self.reply().await else {
            panic!("unexpected")
        };
        assert_eq!((preemptor, victim), ("uid-preemptor".into(), "uid-victim".into()));
        sleep(Duration::from_secs(1)).await;
        failure
    }
}

fn pod(name: &str) -> PodName {
    PodName { namespace: "ns".into(), name: name.into(), uid: format!("uid-{name}").into() }
}

fn healthy(_: &ReceivedRequest) -> Reply {
    Reply::json(200, &json!({}))
}

#[tokio::test(start_paused = true)]
async fn a_victim_gets_a_condition_and_an_event_and_is_deleted() {
    let mut fixture = ExecutorFixture::start(Fence::always(), healthy);
    assert_eq!(fixture.evict().await, None);
    let requests = fixture.fake.requests();
    assert_eq!(requests[0].path, "/api/v1/namespaces/ns/pods/victim/status");
    let condition = &requests[0].body["status"]["conditions"][0];
    assert_eq!(condition["type"], "DisruptionTarget");
    assert_eq!(condition["observedGeneration"], 2);
    assert_eq!(requests[1].method, Method::DELETE);
    assert_eq!(requests[1].body["preconditions"]["uid"], "uid-victim");
    assert_eq!(requests[1].parameter("timeout").as_deref(), Some("2500ms"));
    let event = &requests[2].body;
    assert_eq!(event["reason"], "Preempted");
    assert_eq!(event["note"], "Preempted by pod uid-preemptor on node n1");
    for (part, name, version) in [("regarding", "victim", "20"), ("related", "preemptor", "10")] {
        assert_eq!((&event[part]["kind"], &event[part]["name"]), (&json!("Pod"), &json!(name)));
        assert_eq!(event[part]["resourceVersion"], version);
    }
}

#[tokio::test(start_paused = true)]
async fn an_assumed_victim_gets_an_event_and_is_not_deleted() {
    let fixture = ExecutorFixture::start(Fence::always(), healthy);
    let (victim, preemptor, node) = (pod("victim"), pod("preemptor"), "n1".into());
    fixture.command(Command::ReportPreempted { victim, preemptor, node }).await;
    sleep(Duration::from_secs(1)).await;
    let requests = fixture.fake.requests();
    assert_eq!((requests.len(), &requests[0].method), (1, &Method::POST));
    let event = &requests[0].body;
    assert_eq!(
        (&event["reason"], &event["regarding"]["name"]),
        (&"Preempted".into(), &"victim".into())
    );
    assert_eq!(
        event["note"],
        "Preempted by pod uid-preemptor on node n1 (in kube-scheduler memory)."
    );
}

#[tokio::test(start_paused = true)]
async fn a_victim_that_is_gone_is_no_failure_and_gets_no_event() {
    for status in [404, 409] {
        let mut fixture =
            ExecutorFixture::start(Fence::always(), move |_| Reply::failure(status, "gone"));
        assert_eq!(fixture.evict().await, None, "{status}");
        assert_eq!(fixture.fake.requests_by(&Method::POST).len(), 0, "no event");
    }
}

#[tokio::test(start_paused = true)]
async fn a_victim_that_cannot_be_deleted_is_a_failure() {
    let mut fixture = ExecutorFixture::start(Fence::always(), |request| match request.method {
        Method::DELETE => Reply::failure(403, "no"),
        _ => Reply::json(200, &json!({})),
    });
    assert_eq!(fixture.evict().await.as_deref(), Some("403 Forbidden: no"));
    let mut silent = ExecutorFixture::start(Fence::always(), |_| Reply::never());
    assert_eq!(silent.evict().await.as_deref(), Some("the API server did not answer"));
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_deleted() {
    let mut fixture = ExecutorFixture::start(Fence::never(), healthy);
    assert_eq!(fixture.evict().await.as_deref(), Some("the lease is not held any more"));
    assert_eq!(fixture.fake.requests().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn hanging_writes_do_not_delay_binds() {
    let mut fixture = ExecutorFixture::start(Fence::always(), |request| {
        if request.path.ends_with("/binding") {
            Reply::json(201, &json!({}))
        } else {
            Reply::never()
        }
    });
    for number in 0..20_000 {
        let pod = pod(&format!("pod-{number}"));
        let message = "no room".to_owned();
        let reason = "Unschedulable";
        fixture.command(Command::ReportFailure { pod, reason, message, nominate: None }).await;
    }
    let (pod, resource_version, node) = (pod("a"), 7, "n1".into());
    let begun = Instant::now();
    fixture.command(Command::Bind { pod, resource_version, node, extender: None }).await;
    let Change::Bound { uid, failure } = fixture.reply().await else { panic!("unexpected") };
    assert_eq!((uid, failure), ("uid-a".into(), None));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
