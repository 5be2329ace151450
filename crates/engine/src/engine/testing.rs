//! A harness that feeds changes to an engine with stub plugins and shows its commands as short texts.

mod check;
mod plugins;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::change::{Change, ExtenderVerdict, FailedNode, NodeVictims};
use crate::command::Command;
use crate::framework::{Extender, Permit, Plugin, Point, Profile};
use crate::index::PodIdx;
use crate::object::{Node, Pod, PodSpec, Resources, Text, Volume};
use crate::queue::QueueStage;
use crate::testing::node;

use super::{Engine, Settings};

pub(super) use plugins::{Gate, Script};

pub(super) const SECOND: i64 = 1_000_000_000;
pub(super) const MINUTE: i64 = 60 * SECOND;

/// A node with this much cpu, in millicores.
pub(super) fn node_with(name: &str, cpu: i64) -> Node {
    let allocatable = Resources { cpu, memory: 1 << 30, ..Resources::default() };
    Node { allocatable, ..node(name) }
}

/// A pending pod that requests this much cpu, in millicores. Its uid is its name.
pub(super) fn pending(name: &str, cpu: i64) -> Pod {
    let requests = Resources { cpu, ..Resources::default() };
    let spec = PodSpec {
        scheduler_name: "default-scheduler".into(),
        requests: requests.clone(),
        requests_for_score: requests.clone(),
        requests_on_node: requests,
        non_zero_cpu: cpu,
        ..PodSpec::default()
    };
    Pod { uid: name.into(), spec: spec.into(), ..crate::testing::pod(name) }
}

/// A pod that the API server shows on a node.
pub(super) fn running(name: &str, node: &str, cpu: i64) -> Pod {
    Pod { node: node.into(), ..pending(name, cpu) }
}

/// A pending pod of a priority.
pub(super) fn important(name: &str, cpu: i64, priority: i32) -> Pod {
    Pod { priority, ..pending(name, cpu) }
}

/// A pending pod whose volume must be provisioned before it is bound.
pub(super) fn with_claim(mut pod: Pod) -> Pod {
    pod.spec_mut().volumes = [Volume::Claim { name: "claim".into() }].into();
    pod
}

/// The pod with a deletion timestamp.
pub(super) fn terminating(pod: Pod) -> Pod {
    Pod { terminating: true, ..pod }
}

pub(super) fn gone(pod: &str) -> Change {
    Change::PodGone { uid: pod.into() }
}

pub(super) fn bound(pod: &str) -> Change {
    Change::Bound { uid: pod.into(), failure: None }
}

pub(super) fn bind_failed(pod: &str, why: &str) -> Change {
    Change::Bound { uid: pod.into(), failure: Some(why.into()) }
}

pub(super) fn allowed(pod: &str, plugin: &str) -> Change {
    Change::Permission { uid: pod.into(), plugin: plugin.into(), denied: None }
}

pub(super) fn denied(pod: &str, plugin: &str, why: &str) -> Change {
    Change::Permission { uid: pod.into(), plugin: plugin.into(), denied: Some(why.into()) }
}

/// The API server's answer to the deletion of a victim.
pub(super) fn evicted(preemptor: &str, victim: &str) -> Change {
    Change::VictimHandled { preemptor: preemptor.into(), victim: victim.into(), failure: None }
}

pub(super) fn eviction_failed(preemptor: &str, victim: &str) -> Change {
    let failure = Some("refused".into());
    Change::VictimHandled { preemptor: preemptor.into(), victim: victim.into(), failure }
}

/// Nodes that extenders let pass, with their scores.
pub(super) fn passed(nodes: &[(&str, i64)]) -> ExtenderVerdict {
    let passed = nodes.iter().map(|(node, score)| (Text::from(*node), *score)).collect();
    ExtenderVerdict { passed, ..ExtenderVerdict::default() }
}

/// Nodes that an extender rejected: name, reason, and whether evicting pods cannot help.
pub(super) fn failed(nodes: &[(&str, &str, bool)]) -> ExtenderVerdict {
    let failed = nodes.iter().map(|(node, reason, unresolvable)| FailedNode {
        node: (*node).into(),
        reason: (*reason).into(),
        unresolvable: *unresolvable,
    });
    ExtenderVerdict { failed: failed.collect(), ..ExtenderVerdict::default() }
}

/// An engine with one profile of stub plugins, the time, and the last commands. The state of the engine
/// is checked after every change.
pub(super) struct Harness {
    pub(super) engine: Engine,
    pub(super) script: Arc<Script>,
    pub(super) now: i64,
    /// Commands of the last change.
    pub(super) commands: Vec<Command>,
    /// The last ticket of each pod, of volumes or of an extender call.
    pub(super) tickets: BTreeMap<String, u64>,
}

impl Harness {
    /// Nodes with names and millicores.
    pub(super) fn new(nodes: &[(&str, i64)]) -> Self {
        Self::with(Vec::new(), Settings::default(), nodes)
    }

    pub(super) fn with_extenders(extenders: Vec<Extender>, nodes: &[(&str, i64)]) -> Self {
        Self::with(extenders, Settings::default(), nodes)
    }

    pub(super) fn with(
        extenders: Vec<Extender>,
        settings: Settings,
        nodes: &[(&str, i64)],
    ) -> Self {
        Self::with_profile(settings, nodes, |profile| profile.add_extenders(extenders))
    }

    /// With one more plugin, at all points that it implements.
    pub(super) fn with_plugin(plugin: Box<dyn Plugin>, nodes: &[(&str, i64)]) -> Self {
        Self::with_profile(Settings::default(), nodes, |profile| {
            let position = profile.plugins.len();
            for point in plugin.points() {
                match profile.points.iter_mut().find(|(other, _)| other == point) {
                    Some((_, plugins)) => plugins.push(position),
                    None => profile.points.push((*point, vec![position])),
                }
            }
            profile.plugins.push(plugin);
        })
    }

    fn with_profile(
        settings: Settings,
        nodes: &[(&str, i64)],
        change: impl FnOnce(&mut Profile),
    ) -> Self {
        let script = Arc::new(Script::default());
        let mut profile = profile(&script);
        change(&mut profile);
        let mut harness = Self {
            engine: Engine::new(vec![profile], settings),
            script,
            now: 1000 * SECOND,
            commands: Vec::new(),
            tickets: BTreeMap::new(),
        };
        for (name, cpu) in nodes {
            harness.add_node(name, *cpu);
        }
        harness
    }

    /// Applies a change, checks the engine and returns the commands as texts.
    #[track_caller]
    pub(super) fn tell(&mut self, change: Change) -> Vec<String> {
        if let Change::PodGone { uid } = &change
            && let Some(pod) = self.engine.core.state.pods.find(uid)
            && !self.engine.bindings.contains_key(&pod)
        {
            // Plugins release what a bound pod holds by their own watches.
            self.script.reserved.lock().retain(|(_, other)| other != uid);
        }
        self.step(|engine, now, commands| engine.apply(change, now, commands))
    }

    /// Handles the deadlines that have passed.
    #[track_caller]
    pub(super) fn tick(&mut self) -> Vec<String> {
        self.step(Engine::tick)
    }

    /// Makes attempts, at most this number.
    #[track_caller]
    pub(super) fn attempt(&mut self, limit: usize) -> Vec<String> {
        self.step(|engine, now, commands| {
            let _ = (0..limit).all(|_| engine.schedule(now, commands));
        })
    }

    #[track_caller]
    pub(super) fn step(
        &mut self,
        step: impl FnOnce(&mut Engine, i64, &mut Vec<Command>),
    ) -> Vec<String> {
        self.commands.clear();
        step(&mut self.engine, self.now, &mut self.commands);
        self.check();
        for command in &self.commands {
            match command {
                Command::PrepareVolumes { pod, ticket, .. }
                | Command::AskExtenders { pod, ticket, .. }
                | Command::AskExtendersAboutVictims { pod, ticket, .. } => {
                    self.tickets.insert(pod.name.to_string(), *ticket);
                }
                _ => {}
            }
        }
        self.briefs()
    }

    /// The last commands as texts.
    pub(super) fn briefs(&self) -> Vec<String> {
        self.commands.iter().map(brief).collect()
    }

    #[track_caller]
    pub(super) fn show(&mut self, pod: Pod) -> Vec<String> {
        self.tell(Change::Pod(Box::new(pod)))
    }

    #[track_caller]
    pub(super) fn set_node(&mut self, node: Node) -> Vec<String> {
        self.tell(Change::Node(node.into()))
    }

    #[track_caller]
    pub(super) fn add_node(&mut self, name: &str, cpu: i64) -> Vec<String> {
        self.set_node(node_with(name, cpu))
    }

    #[track_caller]
    pub(super) fn remove_node(&mut self, name: &str) -> Vec<String> {
        self.tell(Change::NodeGone(name.into()))
    }

    /// Makes all attempts that are due.
    #[track_caller]
    pub(super) fn schedule(&mut self) -> Vec<String> {
        self.attempt(1000)
    }

    /// Shows a pending pod and tries it.
    #[track_caller]
    pub(super) fn place(&mut self, pod: Pod) -> Vec<String> {
        assert_eq!(self.show(pod), [""; 0]);
        self.schedule()
    }

    /// Lets time pass, then makes what is due.
    #[track_caller]
    pub(super) fn after(&mut self, time: i64) -> Vec<String> {
        self.now += time;
        let mut commands = self.tick();
        commands.extend(self.schedule());
        commands
    }

    /// The answer to the last volume command of a pod.
    #[track_caller]
    pub(super) fn volumes(&mut self, pod: &str, failure: Option<&str>) -> Vec<String> {
        let ticket = self.tickets[pod];
        self.tell(Change::VolumesReady {
            uid: pod.into(),
            ticket,
            failure: failure.map(Text::from),
        })
    }

    /// The answer to the last extender call about the nodes of a pod.
    #[track_caller]
    pub(super) fn answer(
        &mut self,
        pod: &str,
        verdict: Result<ExtenderVerdict, &str>,
    ) -> Vec<String> {
        let (uid, ticket) = (pod.into(), self.tickets[pod]);
        self.tell(Change::ExtendersAnswered { uid, ticket, verdict: verdict.map_err(Text::from) })
    }

    /// The answer to the last extender call about the victims of a pod.
    #[track_caller]
    pub(super) fn answer_victims(
        &mut self,
        pod: &str,
        candidates: Result<Vec<NodeVictims>, &str>,
    ) -> Vec<String> {
        let (uid, ticket) = (pod.into(), self.tickets[pod]);
        let candidates = candidates.map_err(Text::from);
        self.tell(Change::ExtendersAnsweredAboutVictims { uid, ticket, candidates })
    }

    /// Has a Permit plugin answer like this about a pod.
    pub(super) fn permit(&mut self, plugin: &'static str, pod: &str, answer: Permit) {
        self.script.permits.lock().insert((plugin, pod.to_owned()), answer);
    }

    /// Has a Permit plugin make a pod wait.
    pub(super) fn wait_at(&mut self, plugin: &'static str, pod: &str, timeout: i64) {
        self.permit(plugin, pod, Permit::Wait { timeout });
    }

    /// The profile, for changes. Possible as long as no other thread shares it.
    pub(super) fn profile_mut(&mut self) -> &mut Profile {
        &mut Arc::get_mut(&mut self.engine.core.profiles).expect("the profiles are not shared")[0]
    }

    pub(super) fn find(&self, pod: &str) -> Option<PodIdx> {
        self.engine.core.state.pods.find(&pod.into())
    }

    pub(super) fn stage(&self, pod: &str) -> Option<QueueStage> {
        self.engine.queue.stage(self.find(pod)?)
    }

    /// The node that a pod is on or assumed on.
    pub(super) fn node_of(&self, pod: &str) -> Option<&str> {
        let node = self.engine.core.state.pods.get(self.find(pod)?).node;
        node.is_some().then(|| self.engine.core.state.nodes.name(node))
    }

    /// The node that a pod is nominated for.
    pub(super) fn nominated(&self, pod: &str) -> Option<&str> {
        let node = self.engine.core.nominator.node_of(self.find(pod)?)?;
        Some(self.engine.core.state.nodes.name(node))
    }

    pub(super) fn attempts(&self, pod: &str) -> u32 {
        let queued = self.find(pod).and_then(|pod| self.engine.queue.get(pod));
        queued.map_or(0, |queued| queued.attempts)
    }

    /// The plugins that rejected a pod last, and those for which it is pending.
    pub(super) fn blockers(&self, pod: &str) -> (Vec<&str>, Vec<&str>) {
        let queued = self.find(pod).and_then(|pod| self.engine.queue.get(pod));
        let Some(queued) = queued else { return (Vec::new(), Vec::new()) };
        let name = |plugin| self.engine.core.profiles[queued.profile()].plugin_name(plugin);
        (queued.rejectors.iter().map(name).collect(), queued.pending.iter().map(name).collect())
    }

    /// Text of the last failure.
    pub(super) fn message(&self) -> &str {
        let messages = self.commands.iter().rev().filter_map(|command| match command {
            Command::ReportFailure { message, .. } | Command::Warn { message, .. } => Some(message),
            _ => None,
        });
        messages.into_iter().next().map_or("", |message| message)
    }

    /// Takes the calls of Reserve, Unreserve and PostBind since the last time.
    pub(super) fn log(&self) -> Vec<String> {
        self.script.log.take()
    }
}

/// A profile of stub plugins.
fn profile(script: &Arc<Script>) -> Profile {
    let script = || Arc::clone(script);
    let plugins: Vec<Box<dyn Plugin>> = vec![
        Box::new(plugins::Gate),
        Box::new(plugins::Sort),
        Box::new(plugins::Fit(script())),
        Box::new(plugins::Preempt(script())),
        Box::new(plugins::Rank(script())),
        Box::new(plugins::Reserve("ReserveA", script())),
        Box::new(plugins::Reserve("ReserveB", script())),
        Box::new(plugins::Ask("PermitA", script())),
        Box::new(plugins::Ask("PermitB", script())),
        Box::new(plugins::Provision),
    ];
    let mut points: BTreeMap<Point, Vec<usize>> = BTreeMap::new();
    for (position, plugin) in plugins.iter().enumerate() {
        for point in plugin.points() {
            points.entry(*point).or_default().push(position);
        }
    }
    // Preempt subscribes to deletions but gates no pod by itself.
    points.insert(Point::PreEnqueue, vec![0]);
    Profile {
        name: "default-scheduler".into(),
        plugins,
        points: points.into_iter().collect(),
        weights: vec![1],
        percentage_of_nodes_to_score: None,
        extenders: Vec::new(),
    }
}

/// A command as a short text.
fn brief(command: &Command) -> String {
    match command {
        Command::Bind { pod, node, extender: None, .. } => format!("bind {} to {node}", pod.name),
        Command::Bind { pod, node, extender: Some(extender), .. } => {
            format!("bind {} to {node} by extender {extender}", pod.name)
        }
        Command::AskExtenders { pod, extenders, nodes, .. } => {
            format!("ask {extenders:?} about {}: {}", pod.name, nodes.join(" "))
        }
        Command::AskExtendersAboutVictims { pod, extenders, candidates, .. } => {
            let candidates = candidates.iter().map(|candidate| {
                let victims: Vec<&str> = candidate.victims.iter().map(|pod| &*pod.name).collect();
                format!("{}({})", candidate.node, victims.join(" "))
            });
            let candidates: Vec<String> = candidates.collect();
            format!("ask {extenders:?} about victims of {}: {}", pod.name, candidates.join(" "))
        }
        Command::PrepareVolumes { pod, node, .. } => {
            format!("prepare volumes of {} on {node}", pod.name)
        }
        Command::Nominate { pod, node } => format!("nominate {} for {}", pod.name, or_none(node)),
        Command::ReportFailure { pod, reason, nominate, .. } => match nominate {
            None => format!("{reason} {}", pod.name),
            Some(node) => format!("{reason} {}, nominate for {}", pod.name, or_none(node)),
        },
        Command::Warn { pod, .. } => format!("warn about {}", pod.name),
        Command::Report { pod, plugin, report } => {
            format!("{plugin} reports about {}: {}, {}", pod.name, report.reason, report.note)
        }
        Command::ReportScheduled { pod, node } => format!("scheduled {} on {node}", pod.name),
        Command::DeleteVictim { victim, preemptor, node } => {
            format!("delete {} on {node} for {}", victim.name, preemptor.name)
        }
        Command::Evict { pod, .. } => format!("evict {}", pod.name),
        Command::ReportPreempted { victim, preemptor, node } => {
            format!("preempted {} on {node} for {}", victim.name, preemptor.name)
        }
    }
}

fn or_none(node: &Text) -> &str {
    if node.is_empty() { "none" } else { node }
}
