//! Pods and nodes that go away at every stage between the choice of a node and the watch's word.

use engine::change::Storage;
use engine::framework::{Permit, Plugin, Subscription};
use engine::index::{NodeIdx, PodIdx};
use engine::state::State;

use super::*;

/// How far a pod has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BindingStage {
    /// Assumed on its node, and a plugin makes it wait.
    Permit,
    /// Its volumes are being written.
    Volumes,
    /// The bind is out.
    Sent,
    /// It was answered, and the watch did not show it yet.
    Answered,
}

const BINDING_STAGES: [BindingStage; 4] =
    [BindingStage::Permit, BindingStage::Volumes, BindingStage::Sent, BindingStage::Answered];

/// Makes one pod wait for permission.
struct WaitingPermit;

impl Plugin for WaitingPermit {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Permit]
    }

    /// Asks for another try whenever a node comes.
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription { resource: Resource::Node, action: Action::ADD }]
    }

    fn permit(&self, state: &State, pod: PodIdx, _: NodeIdx) -> Permit {
        match &*state.pods.get(pod).name {
            "slow" => Permit::Wait { timeout: 600_000_000_000 },
            _ => Permit::Allow,
        }
    }
}

struct StageFixture {
    driver: Driver,
    commands: mpsc::Receiver<PodCommand>,
    /// Of the last command to prepare volumes.
    ticket: u64,
}

/// A pod that fills a node.
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

/// A node on which nobody has room.
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
    /// One node, and a pod that has come this far on its way to it.
    async fn at(stage: BindingStage) -> Self {
        const POINTS: &[Point] = &[Point::Permit];
        let build = |_: Option<&_>| Ok(Box::new(WaitingPermit) as Box<dyn Plugin>);
        let registry = Registry::default().with("NodeName", POINTS, Box::new(build));
        let (mut driver, commands) = driver_of(engine(&registry));
        (driver.leading, driver.kinds_synced) = (true, KINDS);
        let mut scene = Self { driver, commands, ticket: 0 };
        let class = json!({"metadata": {"name": "late"}, "provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer"});
        let claim = json!({
            "metadata": {"namespace": "ns", "name": "claim", "uid": "claim"},
            "spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        });
        let class = api::lower::storage_class(&class).0.unwrap();
        let claim = api::lower::persistent_volume_claim(&claim).0.unwrap();
        scene.tell(Change::Storage(Storage::Class(class).into())).await;
        scene.tell(Change::Storage(Storage::Claim(claim).into())).await;
        scene.tell(node("n1")).await;
        assert_eq!(scene.tell(slow()).await, ["Nominate slow"]);
        if stage == BindingStage::Permit {
            return scene;
        }
        assert_eq!(scene.tell(permission(None)).await, ["Nominate slow", "PrepareVolumes slow"]);
        if stage == BindingStage::Volumes {
            return scene;
        }
        assert_eq!(scene.tell(scene.volumes(None)).await, ["Bind slow"]);
        if stage == BindingStage::Answered {
            assert_eq!(scene.tell(bound("slow", None)).await, ["ReportScheduled slow"]);
        }
        scene
    }

    /// Lets something happen, decides what can be decided, and checks all that is kept.
    async fn tell(&mut self, change: Change) -> Vec<String> {
        self.driver.handle_input(Input::Change(change), Instant::now());
        self.go_on().await
    }

    async fn go_on(&mut self) -> Vec<String> {
        self.driver.apply(Change::Tick, Instant::now());
        self.driver.dispatch(None).await;
        while self.driver.can_decide() {
            self.driver.apply(Change::Schedule { limit: 1 }, Instant::now());
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

    /// What comes back at a stage, if anything does.
    fn answer(&self, stage: BindingStage, failure: Option<&str>) -> Option<Change> {
        match stage {
            BindingStage::Permit => Some(permission(failure)),
            BindingStage::Volumes => Some(self.volumes(failure)),
            BindingStage::Sent => Some(bound("slow", failure)),
            BindingStage::Answered => None,
        }
    }

    /// The node that a pod is on by what is known here.
    fn node_of(&self, uid: &str) -> Option<String> {
        let state = self.driver.engine.state();
        let node = state.pods.get(state.pods.find(&uid.into())?).node;
        node.is_some().then(|| state.nodes.name(node).to_owned())
    }
}

#[test]
fn a_pod_that_is_deleted_at_any_stage_leaves_its_place_to_others() {
    for stage in BINDING_STAGES {
        for failure in [None, Some("not found")] {
            local(async {
                let mut scene = StageFixture::at(stage).await;
                let refused = scene.tell(large("next", None, &json!({}))).await;
                assert_eq!(refused, ["ReportFailure next"], "{stage:?}: the place is taken");
                let issued = scene.tell(Change::PodGone { uid: "slow".into() }).await;
                assert_eq!(scene.node_of("slow"), None, "{stage:?}");
                assert!(issued.contains(&"Bind next".to_owned()), "{stage:?}: {issued:?}");
                assert_eq!(scene.node_of("next").as_deref(), Some("n1"));
                // What was on its way comes back late and means nothing any more.
                if let Some(late) = scene.answer(stage, failure) {
                    assert_eq!(scene.tell(late).await, Vec::<String>::new(), "{stage:?}");
                }
                assert_eq!(scene.tell(bound("next", None)).await, ["ReportScheduled next"]);
                assert_eq!(
                    (scene.driver.binds_in_flight, scene.driver.attempts.len()),
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
            let mut scene = StageFixture::at(stage).await;
            let going =
                large("slow", Some("claim"), &json!({"deletionTimestamp": "2024-01-01T00:00:00Z"}));
            let issued = scene.tell(going).await;
            assert!(!issued.contains(&"Bind slow".to_owned()), "{stage:?}: {issued:?}");
            assert_eq!(scene.node_of("slow"), None, "{stage:?}");
            let issued = scene.tell(scene.answer(stage, None).unwrap()).await;
            assert!(!issued.contains(&"Bind slow".to_owned()), "{stage:?}: {issued:?}");
            assert_eq!(
                scene.tell(large("next", None, &json!({}))).await,
                ["Bind next"],
                "{stage:?}"
            );
            scene.tell(Change::PodGone { uid: "slow".into() }).await;
            assert_eq!(scene.driver.binds_in_flight, 1, "{stage:?}: only that of the next one");
        });
    }
}

#[test]
fn a_pod_whose_node_goes_is_tried_elsewhere_when_it_was_not_bound() {
    for stage in [BindingStage::Permit, BindingStage::Volumes, BindingStage::Sent] {
        local(async {
            let mut scene = StageFixture::at(stage).await;
            scene.tell(Change::NodeGone("n1".into())).await;
            scene.tell(node("n2")).await;
            let issued = scene.tell(scene.answer(stage, Some("the node is gone")).unwrap()).await;
            // Where a node that came meanwhile may have helped, it is tried again at once.
            assert_eq!(issued[0], "ReportFailure slow", "{stage:?}");
            sleep(Duration::from_secs(30)).await;
            scene.tell(node("n3")).await;
            let issued = scene.go_on().await;
            let on = scene.node_of("slow").unwrap_or_default();
            assert!(["n2", "n3"].contains(&&*on), "{stage:?}: {issued:?}, on {on:?}");
            assert_eq!(scene.driver.binds_in_flight, 0, "it waits for permission again");
        });
    }
}

#[test]
fn a_pod_whose_node_goes_although_it_was_bound_is_known_until_it_goes_too() {
    for stage in BINDING_STAGES {
        local(async {
            let mut scene = StageFixture::at(stage).await;
            scene.tell(Change::NodeGone("n1".into())).await;
            let begun = BINDING_STAGES.iter().position(|other| *other == stage).unwrap();
            for stage in &BINDING_STAGES[begun..] {
                if let Some(answer) = scene.answer(*stage, None) {
                    scene.tell(answer).await;
                }
            }
            assert_eq!(scene.node_of("slow").as_deref(), Some("n1"), "{stage:?}");
            assert_eq!(scene.driver.binds_in_flight, 0, "{stage:?}");
            // The node comes back before the pod goes: its place is still taken.
            scene.tell(node("n1")).await;
            let refused = scene.tell(large("next", None, &json!({}))).await;
            assert_eq!(refused, ["ReportFailure next"], "{stage:?}");
            let issued = scene.tell(Change::PodGone { uid: "slow".into() }).await;
            assert!(issued.contains(&"Bind next".to_owned()), "{stage:?}: {issued:?}");
        });
    }
}

#[test]
fn a_failure_at_any_stage_gives_the_place_back_and_the_pod_is_tried_again() {
    for stage in [BindingStage::Permit, BindingStage::Volumes, BindingStage::Sent] {
        local(async {
            let mut scene = StageFixture::at(stage).await;
            for round in 0..3 {
                let failed =
                    scene.tell(scene.answer(stage, Some("500 Internal Server Error")).unwrap());
                assert_eq!(failed.await, ["ReportFailure slow"], "{stage:?}");
                assert_eq!(scene.node_of("slow"), None, "{stage:?}");
                sleep(Duration::from_secs(30)).await;
                // A plugin that denied is asked again when something happens.
                scene.tell(small(&format!("small-{round}"))).await;
                assert_eq!(scene.node_of("slow").as_deref(), Some("n1"), "{stage:?}");
                let begun = BINDING_STAGES.iter().position(|other| *other == stage).unwrap();
                for before in &BINDING_STAGES[..begun] {
                    scene.tell(scene.answer(*before, None).unwrap()).await;
                }
            }
        });
    }
}

#[test]
fn a_leader_that_loses_its_lease_binds_nothing_whose_volumes_become_ready() {
    local(async {
        let mut scene = StageFixture::at(BindingStage::Volumes).await;
        scene.driver.handle_input(Input::Lead(false), Instant::now());
        let issued = scene.tell(scene.volumes(None)).await;
        assert_eq!(issued, ["ReportFailure slow"], "no bind is begun");
        assert_eq!((scene.node_of("slow"), scene.driver.binds_in_flight), (None, 0));
    });
}
