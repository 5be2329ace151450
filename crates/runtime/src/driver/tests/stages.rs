//! Pods and nodes that are deleted at each stage between a decision and its confirmation by the watch.

use engine::framework::{BindContext, Permit, Plugin, Subscription};

use super::*;

/// Stage of a pod's binding cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BindingStage {
    /// Assumed on its node; a Permit plugin makes it wait.
    Permit,
    /// Its volumes are being written.
    Volumes,
    /// The bind is in flight.
    Sent,
    /// The bind was answered; the watch has not shown it yet.
    Answered,
}

const BINDING_STAGES: [BindingStage; 4] =
    [BindingStage::Permit, BindingStage::Volumes, BindingStage::Sent, BindingStage::Answered];

/// A Permit plugin that makes the pod `slow` wait.
struct WaitingPermit;

impl Plugin for WaitingPermit {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Permit]
    }

    /// Retries denied pods when a node is added.
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription { resource: Resource::Node, action: Action::ADD }]
    }

    fn permit(&self, context: &mut BindContext) -> Permit {
        match &*context.state.pods.get(context.pod).name {
            "slow" => Permit::Wait { timeout: 600_000_000_000 },
            _ => Permit::Allow,
        }
    }
}

struct StageFixture {
    driver: Driver,
    commands: mpsc::Receiver<TracedCommand>,
    /// Ticket of the last `PrepareVolumes`.
    ticket: u64,
}

/// A pod that requests all CPU of a node.
fn large(name: &str, claim: Option<&str>, more: &Value) -> Change {
    let mut meta = json!({"namespace": "ns", "name": name, "uid": name, "resourceVersion": "7"});
    for (field, value) in more.as_object().into_iter().flatten() {
        meta[field] = value.clone();
    }
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "64"}}});
    let mut spec = json!({"schedulerName": "default-scheduler", "containers": [container]});
    if let Some(claim) = claim {
        spec["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]);
    }
    let value = json!({"metadata": meta, "spec": spec});
    Change::Pod(Box::new(api::lower::pod(&value).0.unwrap()))
}

/// A node on which none of the pods fits.
fn small(name: &str) -> Change {
    let value =
        json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": "1", "pods": "9"}}});
    Change::Node(api::lower::node(&value).0.unwrap().into())
}

fn slow() -> Change {
    large("slow", Some("claim"), &json!({}))
}

fn permission(denied: Option<&str>) -> Change {
    let (uid, plugin) = ("slow".into(), "NodeName".into());
    Change::Permission { uid, plugin, denied: denied.map(Text::from) }
}

impl StageFixture {
    /// Creates one node and a pod whose binding cycle has reached `stage`.
    async fn at(stage: BindingStage) -> Self {
        const POINTS: &[Point] = &[Point::Permit];
        let build = |_: Option<&_>| Ok(Box::new(WaitingPermit) as Box<dyn Plugin>);
        let registry = Registry::default().with("NodeName", POINTS, Box::new(build));
        let (mut driver, commands) = driver_of(engine(&registry));
        (driver.leading, driver.kinds_synced) = (true, KINDS);
        let mut fixture = Self { driver, commands, ticket: 0 };
        let class = json!({"kind": "StorageClass", "metadata": {"name": "late"}, "provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"});
        let claim = json!({
            "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": "ns", "name": "claim", "uid": "claim"},
            "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        });
        for change in api::snapshot::from_values([class, claim]).objects.into_changes() {
            fixture.apply(change).await;
        }
        fixture.apply(node("n1")).await;
        assert_eq!(fixture.apply(slow()).await, ["Nominate slow"]);
        if stage == BindingStage::Permit {
            return fixture;
        }
        assert_eq!(fixture.apply(permission(None)).await, ["Nominate slow", "PrepareVolumes slow"]);
        if stage == BindingStage::Volumes {
            return fixture;
        }
        assert_eq!(fixture.apply(fixture.volumes(None)).await, ["Bind slow"]);
        if stage == BindingStage::Answered {
            assert_eq!(fixture.apply(bound("slow", None)).await, ["ReportScheduled slow"]);
        }
        fixture
    }

    /// Applies a change, makes all decisions that are possible and audits the state. Returns the commands
    /// that were issued.
    async fn apply(&mut self, change: Change) -> Vec<String> {
        self.driver.handle_input(Input::Change(change), Instant::now());
        self.step().await
    }

    async fn step(&mut self) -> Vec<String> {
        self.driver.tick(Instant::now());
        self.driver.dispatch(None).await;
        while self.driver.can_decide() {
            self.driver.schedule(Instant::now());
            self.driver.dispatch(Some(Instant::now())).await;
        }
        self.driver.engine.audit().unwrap();
        let mut issued = Vec::new();
        while let Ok(command) = self.commands.try_recv() {
            if let Command::PrepareVolumes { ticket, .. } = command.command {
                self.ticket = ticket;
            }
            let shown = format!("{:?}", command.command);
            let kind = shown.split(' ').next().unwrap();
            issued.push(format!("{kind} {}", pod_of(&command.command).name));
        }
        issued
    }

    fn volumes(&self, failure: Option<&str>) -> Change {
        let (uid, ticket) = ("slow".into(), self.ticket);
        Change::VolumesReady { uid, ticket, failure: failure.map(Text::from) }
    }

    /// Returns the input that ends a stage.
    fn answer(&self, stage: BindingStage, failure: Option<&str>) -> Option<Change> {
        match stage {
            BindingStage::Permit => Some(permission(failure)),
            BindingStage::Volumes => Some(self.volumes(failure)),
            BindingStage::Sent => Some(bound("slow", failure)),
            BindingStage::Answered => None,
        }
    }

    /// Returns the node on which the engine has placed a pod.
    fn node_of(&self, uid: &str) -> Option<String> {
        let state = self.driver.engine.state();
        let node = state.pods.get(state.pods.find(&uid.into())?).node;
        node.is_some().then(|| state.nodes.name(node).to_owned())
    }
}

#[test]
fn a_pod_that_is_deleted_at_any_stage_frees_its_node() {
    for stage in BINDING_STAGES {
        for failure in [None, Some("not found")] {
            local(async {
                let mut fixture = StageFixture::at(stage).await;
                let refused = fixture.apply(large("next", None, &json!({}))).await;
                assert_eq!(refused, ["ReportFailure next"], "{stage:?}: the place is taken");
                let issued = fixture.apply(Change::PodGone { uid: "slow".into() }).await;
                assert_eq!(fixture.node_of("slow"), None, "{stage:?}");
                assert!(issued.contains(&"Bind next".to_owned()), "{stage:?}: {issued:?}");
                assert_eq!(fixture.node_of("next").as_deref(), Some("n1"));
                // The result of the stage arrives late and is ignored.
                if let Some(late) = fixture.answer(stage, failure) {
                    assert_eq!(fixture.apply(late).await, Vec::<String>::new(), "{stage:?}");
                }
                assert_eq!(fixture.apply(bound("next", None)).await, ["ReportScheduled next"]);
                assert_eq!(
                    (fixture.driver.binds.in_flight(), fixture.driver.attempts.len()),
                    (0, 0),
                    "{stage:?}"
                );
            });
        }
    }
}

#[test]
fn a_pod_that_is_being_deleted_is_not_bound_any_more() {
    for stage in [BindingStage::Permit, BindingStage::Volumes, BindingStage::Sent] {
        local(async {
            let mut fixture = StageFixture::at(stage).await;
            let going =
                large("slow", Some("claim"), &json!({"deletionTimestamp": "2024-01-01T00:00:00Z"}));
            let issued = fixture.apply(going).await;
            assert!(!issued.contains(&"Bind slow".to_owned()), "{stage:?}: {issued:?}");
            assert_eq!(fixture.node_of("slow"), None, "{stage:?}");
            let issued = fixture.apply(fixture.answer(stage, None).unwrap()).await;
            assert!(!issued.contains(&"Bind slow".to_owned()), "{stage:?}: {issued:?}");
            assert_eq!(
                fixture.apply(large("next", None, &json!({}))).await,
                ["Bind next"],
                "{stage:?}"
            );
            fixture.apply(Change::PodGone { uid: "slow".into() }).await;
            assert_eq!(fixture.driver.binds.in_flight(), 1, "{stage:?}: the bind of `next` alone");
        });
    }
}

#[test]
fn a_pod_whose_node_is_deleted_before_the_bind_is_scheduled_elsewhere() {
    for stage in [BindingStage::Permit, BindingStage::Volumes, BindingStage::Sent] {
        local(async {
            let mut fixture = StageFixture::at(stage).await;
            fixture.apply(Change::NodeGone("n1".into())).await;
            fixture.apply(node("n2")).await;
            let issued =
                fixture.apply(fixture.answer(stage, Some("the node is gone")).unwrap()).await;
            // Only the first command is checked: the new node may cause a retry at once.
            assert_eq!(issued[0], "ReportFailure slow", "{stage:?}");
            sleep(Duration::from_secs(30)).await;
            fixture.apply(node("n3")).await;
            let issued = fixture.step().await;
            let on = fixture.node_of("slow").unwrap_or_default();
            assert!(["n2", "n3"].contains(&&*on), "{stage:?}: {issued:?}, on {on:?}");
            assert_eq!(fixture.driver.binds.in_flight(), 0, "it waits for Permit again");
        });
    }
}

#[test]
fn a_bound_pod_keeps_its_requests_after_its_node_was_deleted() {
    for stage in BINDING_STAGES {
        local(async {
            let mut fixture = StageFixture::at(stage).await;
            fixture.apply(Change::NodeGone("n1".into())).await;
            let begun = BINDING_STAGES.iter().position(|other| *other == stage).unwrap();
            for stage in &BINDING_STAGES[begun..] {
                if let Some(answer) = fixture.answer(*stage, None) {
                    fixture.apply(answer).await;
                }
            }
            assert_eq!(fixture.node_of("slow").as_deref(), Some("n1"), "{stage:?}");
            assert_eq!(fixture.driver.binds.in_flight(), 0, "{stage:?}");
            // The node returns before the pod is deleted; the pod still counts on it.
            fixture.apply(node("n1")).await;
            let refused = fixture.apply(large("next", None, &json!({}))).await;
            assert_eq!(refused, ["ReportFailure next"], "{stage:?}");
            let issued = fixture.apply(Change::PodGone { uid: "slow".into() }).await;
            assert!(issued.contains(&"Bind next".to_owned()), "{stage:?}: {issued:?}");
        });
    }
}

#[test]
fn a_failure_at_any_stage_frees_the_node_and_the_pod_is_retried() {
    for stage in [BindingStage::Permit, BindingStage::Volumes, BindingStage::Sent] {
        local(async {
            let mut fixture = StageFixture::at(stage).await;
            for round in 0..3 {
                let failed = fixture
                    .apply(fixture.answer(stage, Some("500 Internal Server Error")).unwrap());
                assert_eq!(failed.await, ["ReportFailure slow"], "{stage:?}");
                assert_eq!(fixture.node_of("slow"), None, "{stage:?}");
                sleep(Duration::from_secs(30)).await;
                // A pod that a plugin denied is retried on the event that its plugin subscribed to.
                fixture.apply(small(&format!("small-{round}"))).await;
                assert_eq!(fixture.node_of("slow").as_deref(), Some("n1"), "{stage:?}");
                let begun = BINDING_STAGES.iter().position(|other| *other == stage).unwrap();
                for before in &BINDING_STAGES[..begun] {
                    fixture.apply(fixture.answer(*before, None).unwrap()).await;
                }
            }
        });
    }
}

#[test]
fn without_leadership_no_bind_follows_ready_volumes() {
    local(async {
        let mut fixture = StageFixture::at(BindingStage::Volumes).await;
        fixture.driver.handle_input(Input::Lead(false), Instant::now());
        let issued = fixture.apply(fixture.volumes(None)).await;
        assert_eq!(issued, ["ReportFailure slow"], "no bind is begun");
        assert_eq!((fixture.node_of("slow"), fixture.driver.binds.in_flight()), (None, 0));
    });
}
