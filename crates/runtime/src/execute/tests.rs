//! Tests of commands against a scripted server, in virtual time.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::bind::BindWindow;
use crate::gate::Throttle;
use crate::lease::Fence;
use crate::testing::{FakeApiServer, ReceivedRequest, Reply};

pub(super) struct ExecutorFixture {
    pub(super) fake: FakeApiServer,
    commands: mpsc::Sender<TracedCommand>,
    inputs: mpsc::Receiver<Input>,
}

impl ExecutorFixture {
    pub(super) fn start(
        fence: Fence,
        answer: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let (fake, metrics) = (FakeApiServer::new(answer), Metrics::new("lease"));
        let (sender, inputs) = mpsc::channel(100);
        let window = Arc::new(BindWindow::default());
        let executor = Executor {
            binder: Binder::new(fake.client(), fence.clone(), window, metrics.clone()),
            annotate_latency: true,
            clock: EngineClock::start(),
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

    pub(super) async fn command(&self, command: Command) {
        self.commands.send(TracedCommand { command, trace: None }).await.unwrap();
    }

    pub(super) async fn reply(&mut self) -> Change {
        match self.inputs.recv().await {
            Some(Input::Change(change)) => change,
            other => panic!("unexpected {other:?}"),
        }
    }
}

pub(super) fn pod(name: &str) -> PodRef {
    PodRef {
        namespace: "ns".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        resource_version: 10,
        generation: 2,
        scheduler: "default-scheduler".into(),
    }
}

pub(super) fn healthy(_: &ReceivedRequest) -> Reply {
    Reply::json(200, &json!({}))
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
    let (pod, node, history) = (pod("a"), "n1".into(), AttemptHistory::default());
    let begun = Instant::now();
    fixture.command(Command::Bind { pod, node, extender: None, history }).await;
    let Change::Bound { uid, failure } = fixture.reply().await else { panic!("unexpected") };
    assert_eq!((uid, failure), ("uid-a".into(), None));
    assert_eq!(begun.elapsed(), Duration::ZERO);
}
