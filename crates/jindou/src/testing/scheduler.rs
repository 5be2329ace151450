//! The scheduler of a test: engine, clock and API server in one.

use std::sync::Arc;
use std::time::Duration;

use api::answer::Answer;
use api::lower::Severity;
use api::snapshot;
use engine::change::{Change, EvictionOutcome};
use engine::command::{Command, PodRef};
use engine::engine::{Engine, Settings};
use engine::framework::Profile;
use engine::object::{AnnotationKeys, Pod};
use jiff::Timestamp;
use plugins::registry::Registry;

use super::world::{PodEvent, World, short_name, shortened};

/// Time of a new scheduler.
const START: &str = "2026-01-01T00:00:00Z";

/// Attempts of one step, after which plugins are assumed to wake pods forever.
const ATTEMPTS_MAX: usize = 10_000;

/// A scheduler for tests of plugins; see the [module](super).
///
/// Pods are named `name` in namespace `default`, otherwise `namespace/name`. Every step panics with what
/// is wrong with a manifest, a name or an answer of a plugin.
pub struct TestScheduler {
    pub(super) engine: Engine,
    /// Names of the plugins that are not part of `kube-scheduler`, by profile.
    pub(super) custom: Vec<Vec<String>>,
    pub(super) now: i64,
    pub(super) world: World,
    keys: Arc<AnnotationKeys>,
    checks: bool,
}

impl TestScheduler {
    /// Creates a scheduler for an empty cluster, at 2026-01-01T00:00:00Z.
    ///
    /// # Panics
    ///
    /// With all problems of the configuration. It may have no extenders.
    pub fn new(registry: &Registry, configuration: &str) -> Self {
        let read = api::config::read(configuration);
        let problems = |all: &[api::config::ConfigProblem]| {
            let lines: Vec<_> =
                all.iter().map(|one| format!("{}: {}", one.path, one.message)).collect();
            lines.join("\n")
        };
        let Some(configuration) = read.config else {
            panic!("the configuration is wrong:\n{}", problems(&read.problems))
        };
        let profiles = registry
            .profiles(&configuration)
            .unwrap_or_else(|all| panic!("the configuration is wrong:\n{}", problems(&all)));
        Self::with_profiles(profiles)
    }

    fn with_profiles(profiles: Vec<Profile>) -> Self {
        let in_tree = Registry::default();
        let custom = |profile: &Profile| {
            assert!(profile.extenders.is_empty(), "{}: tests have no extenders", profile.name);
            let names = profile.plugins.iter().map(|plugin| plugin.name());
            names.filter(|name| !in_tree.contains(name)).map(str::to_owned).collect()
        };
        Self {
            custom: profiles.iter().map(custom).collect(),
            keys: Arc::new(Profile::annotations(&profiles)),
            engine: Engine::new(profiles, Settings::default()),
            now: nanoseconds(START),
            world: World::default(),
            checks: true,
        }
    }

    /// Stops calling [`Self::check`] after every step, for tests with thousands of pods.
    #[must_use]
    pub fn without_checks(self) -> Self {
        Self { checks: false, ..self }
    }

    /// Lets time pass until a moment such as `2026-01-05T08:59:00Z`.
    pub fn at(&mut self, time: &str) {
        let time = nanoseconds(time);
        assert!(time >= self.now, "the time is after {time} already");
        self.pass(time);
    }

    /// Lets time pass.
    pub fn advance(&mut self, time: Duration) {
        let time = i64::try_from(time.as_nanos()).expect("a test takes less than 292 years");
        self.pass(self.now + time);
    }

    /// Stops at each deadline of the engine, as the live scheduler does.
    fn pass(&mut self, end: i64) {
        loop {
            let deadline = self.engine.next_deadline().unwrap_or(i64::MAX);
            self.now = deadline.clamp(self.now, end);
            self.step(Engine::tick);
            self.settle();
            if self.now == end && self.engine.next_deadline().is_none_or(|next| next > end) {
                return;
            }
        }
    }

    /// Adds or updates the objects of manifests, then schedules.
    pub fn apply(&mut self, manifests: &str) {
        let read = snapshot::read_with(manifests, Arc::clone(&self.keys));
        let errors = read.problems.iter().filter(|problem| problem.severity == Severity::Error);
        let errors: Vec<_> = errors.map(ToString::to_string).collect();
        assert!(errors.is_empty(), "the manifests are wrong:\n{}", errors.join("\n"));
        let ignored: Vec<_> = read.ignored.keys().map(String::as_str).collect();
        assert!(ignored.is_empty(), "the scheduler reads no {}", ignored.join(" and no "));
        for change in read.objects.into_changes() {
            let change = match change {
                Change::Pod(pod) => Change::Pod(Box::new(self.world.store(*pod))),
                other => other,
            };
            self.tell(change);
        }
        self.settle();
    }

    /// Deletes a pod, then schedules.
    pub fn delete(&mut self, pod: &str) {
        let removed = self.world.remove(shortened(pod));
        let Pod { uid, .. } = removed.unwrap_or_else(|| panic!("there is no pod {pod}"));
        self.tell(Change::PodGone { uid });
        self.settle();
    }

    /// Deletes a node, then schedules. Its pods stay until they are deleted.
    pub fn delete_node(&mut self, node: &str) {
        assert!(self.engine.state().nodes.find(node).is_some(), "there is no node {node}");
        self.tell(Change::NodeGone(node.into()));
        self.settle();
    }

    /// Returns the pods that have a node, with their nodes, sorted by pod.
    pub fn bound(&self) -> Vec<(String, String)> {
        let pods = self.world.pods_with_node(true);
        pods.map(|(pod, node)| (pod.to_owned(), node.to_string())).collect()
    }

    /// Returns the node of a pod, or `None` if it has none.
    pub fn bound_to(&self, pod: &str) -> Option<&str> {
        let node = &*self.pod(pod).node;
        (!node.is_empty()).then_some(node)
    }

    /// Returns the pods without a node, with their [reasons](Self::reason), sorted by pod.
    pub fn waiting(&self) -> Vec<(String, String)> {
        let pods = self.world.pods_with_node(false);
        pods.map(|(pod, _)| (pod.to_owned(), self.reason(pod).unwrap_or_default())).collect()
    }

    /// Returns why a pod has no node: the message of its condition `PodScheduled`, or which plugin holds
    /// it back. `None` if the pod has a node.
    pub fn reason(&self, pod: &str) -> Option<String> {
        let (pod, stored) = (shortened(pod), self.pod(pod));
        if !stored.node.is_empty() {
            return None;
        }
        let state = self.engine.state();
        let index = state.pods.find(&stored.uid)?;
        if state.waiting_on_permit().any(|other| other == index) {
            let node = state.nodes.name(state.pods.get(index).node);
            return Some(format!("waits on Permit plugins for {node}"));
        }
        let queued = self.engine.queue().get(index)?;
        if let Some(plugin) = queued.gating() {
            let name = self.engine.profiles()[queued.profile()].plugin_name(plugin);
            return Some(format!("gated by {name}"));
        }
        let reason = self.world.reasons.get(pod);
        Some(reason.cloned().unwrap_or_else(|| "was not tried yet".to_owned()))
    }

    /// Returns all events since the start, in order: `Scheduled`, `FailedScheduling`, `Preempted`, and
    /// those that plugins report.
    pub fn events(&self) -> &[PodEvent] {
        &self.world.events
    }

    /// Explains where a pod would go now and why, as `jindou explain` does.
    pub fn explain(&mut self, pod: &str) -> Answer {
        let stored = self.pod(pod).clone();
        let answer = api::answer::explain(&mut self.engine, stored, self.now);
        answer.unwrap_or_else(|| panic!("no profile has the schedulerName of {pod}"))
    }

    fn pod(&self, pod: &str) -> &Pod {
        let found = self.world.pods.get(shortened(pod));
        found.unwrap_or_else(|| panic!("there is no pod {pod}"))
    }

    /// Makes all attempts that are due, and checks before each and after the last.
    fn settle(&mut self) {
        for _ in 0..ATTEMPTS_MAX {
            if self.checks {
                self.check().unwrap_or_else(|wrong| panic!("{wrong}"));
            }
            if !self.engine.queue().has_next() {
                return;
            }
            self.step(|engine, now, commands| {
                engine.schedule(now, commands);
            });
        }
        panic!("{ATTEMPTS_MAX} attempts in one step: plugins wake pods again and again");
    }

    fn tell(&mut self, change: Change) {
        self.step(|engine, now, commands| engine.apply(change, now, commands));
    }

    /// Lets the engine do something, and carries out what follows.
    fn step(&mut self, work: impl FnOnce(&mut Engine, i64, &mut Vec<Command>)) {
        let mut commands = Vec::new();
        work(&mut self.engine, self.now, &mut commands);
        while !commands.is_empty() {
            let outcomes = std::mem::take(&mut commands).into_iter();
            let outcomes: Vec<_> = outcomes.flat_map(|command| self.execute(command)).collect();
            for outcome in outcomes {
                self.engine.apply(outcome, self.now, &mut commands);
            }
        }
    }

    /// Carries out a command as an API server on which every write succeeds. Returns its outcome.
    fn execute(&mut self, command: Command) -> Vec<Change> {
        match command {
            Command::Bind { pod, node, .. } => {
                self.world.reasons.remove(&short(&pod));
                let shown = self.update(&pod, |pod| pod.node = node);
                [Change::Bound { uid: pod.uid, failure: None }].into_iter().chain(shown).collect()
            }
            Command::PrepareVolumes { pod, ticket, .. } => {
                vec![Change::VolumesReady { uid: pod.uid, ticket, failure: None }]
            }
            Command::Nominate { pod, node } => self.update(&pod, |pod| pod.nominated_node = node),
            Command::ReportFailure { pod, message, nominate, .. } => {
                let name = short(&pod);
                self.world.event(&name, "FailedScheduling", &*message);
                self.world.reasons.insert(name, message);
                let nominate =
                    nominate.map(|node| self.update(&pod, |pod| pod.nominated_node = node));
                nominate.unwrap_or_default()
            }
            Command::Warn { pod, message } => {
                self.world.event(&short(&pod), "FailedScheduling", message);
                Vec::new()
            }
            Command::Report { pod, report, .. } => {
                self.world.event(&short(&pod), &report.reason, report.note);
                Vec::new()
            }
            Command::ReportScheduled { pod, node } => {
                self.world.event(&short(&pod), "Scheduled", format!("assigned to {node}"));
                Vec::new()
            }
            Command::ReportPreempted { victim, preemptor, node } => {
                self.preempted(&victim, &preemptor, &node);
                Vec::new()
            }
            Command::DeleteVictim { victim, preemptor, node } => {
                self.preempted(&victim, &preemptor, &node);
                self.world.remove(&short(&victim));
                let outcome = Change::VictimHandled {
                    preemptor: preemptor.uid,
                    victim: victim.uid.clone(),
                    failure: None,
                };
                vec![outcome, Change::PodGone { uid: victim.uid }]
            }
            Command::Evict { pod, reason, note, dry_run, .. } => {
                let outcome = EvictionOutcome::Evicted;
                let evicted = Change::Evicted { uid: pod.uid.clone(), outcome };
                if dry_run {
                    return vec![evicted];
                }
                self.world.event(&short(&pod), reason, note);
                self.world.remove(&short(&pod));
                vec![evicted, Change::PodGone { uid: pod.uid }]
            }
            Command::AskExtenders { .. } | Command::AskExtendersAboutVictims { .. } => {
                unreachable!("the profiles have no extenders")
            }
        }
    }

    fn preempted(&mut self, victim: &PodRef, preemptor: &PodRef, node: &str) {
        let note = format!("by {} on {node}", short(preemptor));
        self.world.event(&short(victim), "Preempted", note);
    }

    /// Changes a pod of the API server. Returns the change that shows it, if it changed.
    fn update(&mut self, pod: &PodRef, change: impl FnOnce(&mut Pod)) -> Vec<Change> {
        let updated = self.world.update(pod, change);
        updated.map(|pod| Change::Pod(Box::new(pod))).into_iter().collect()
    }
}

fn short(pod: &PodRef) -> String {
    short_name(&pod.namespace, &pod.name)
}

fn nanoseconds(time: &str) -> i64 {
    let time: Timestamp = time.parse().unwrap_or_else(|why| panic!("{time}: {why}"));
    i64::try_from(time.as_nanosecond()).expect("a test is between the years 1678 and 2262")
}
