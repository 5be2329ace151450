//! Decisions made with the cached evaluation of a class equal decisions made from scratch, with any
//! nominations and after any sequence of changes.

use std::collections::BTreeMap;

use engine::change::Change;
use engine::command::Command;
use engine::engine::{Engine, Settings};
use engine::object::{Labels, Node, Pod, Text, Uid};
use plugins::registry::Registry;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;

use crate::generators::{self, NODES, node_name};

const SECOND: i64 = 1_000_000_000;

/// One step of a case. Numbers that name pods are taken modulo the number of pods.
#[derive(Clone, Debug)]
enum DecisionStep {
    Node(Box<Node>),
    NodeGone(usize),
    /// Pods of a kind are created, with a priority; some on a node, some nominated for one.
    Pods {
        kind: usize,
        count: usize,
        priority: i32,
        node: Option<usize>,
        nominated: Option<usize>,
    },
    Nominate(usize, Option<usize>),
    Prioritise(usize, i32),
    Relabel(usize, Labels),
    Resize(usize, (i64, i64, i64)),
    Terminate(usize),
    Gone(usize),
    Schedule(usize),
}

/// Kinds of pods, and steps, each with whether decisions are compared after it.
type DecisionCase = (Vec<Pod>, Vec<(DecisionStep, bool)>);

fn decision_case() -> impl Strategy<Value = DecisionCase> {
    let kinds = vec(generators::pod(), 1..=3);
    let nodes =
        vec(generators::node().prop_map(|node| (DecisionStep::Node(node.into()), false)), 3..=6);
    (kinds, nodes, vec((step(), prop::bool::weighted(0.6)), 1..=40)).prop_map(
        |(mut kinds, nodes, steps)| {
            for kind in &mut kinds {
                kind.spec_mut().scheduler_name = generators::SCHEDULER.into();
            }
            (kinds, nodes.into_iter().chain(steps).collect())
        },
    )
}

fn step() -> impl Strategy<Value = DecisionStep> {
    let which = || 0..64_usize;
    let priority = || select(vec![-5_i32, 0, 0, 10]);
    let place = prop_oneof![
        2 => Just((None, None)),
        2 => (0..NODES).prop_map(|node| (Some(node), None)),
        3 => (0..NODES).prop_map(|node| (None, Some(node))),
    ];
    let pods = (0..3_usize, 1..=4_usize, priority(), place).prop_map(
        |(kind, count, priority, (node, nominated))| DecisionStep::Pods {
            kind,
            count,
            priority,
            node,
            nominated,
        },
    );
    prop_oneof![
        2 => generators::node().prop_map(|node| DecisionStep::Node(node.into())),
        1 => (0..NODES).prop_map(DecisionStep::NodeGone),
        14 => pods,
        4 => (which(), weighted(0.7, 0..NODES)).prop_map(|(pod, node)| DecisionStep::Nominate(pod, node)),
        2 => (which(), priority()).prop_map(|(pod, priority)| DecisionStep::Prioritise(pod, priority)),
        1 => (which(), generators::app_labels()).prop_map(|(pod, labels)| DecisionStep::Relabel(pod, labels)),
        1 => (which(), generators::requests()).prop_map(|(pod, requests)| DecisionStep::Resize(pod, requests)),
        2 => which().prop_map(DecisionStep::Terminate),
        4 => which().prop_map(DecisionStep::Gone),
        6 => (1..=6_usize).prop_map(DecisionStep::Schedule),
    ]
}

/// An API server that carries out commands at once, except that evicted pods stay terminating until a
/// step removes them, and two engines. The decisions of one are compared, which must not change its
/// commands.
struct ComparedEngines {
    engine: Engine,
    twin: Engine,
    kinds: Vec<Pod>,
    pods: BTreeMap<Uid, Pod>,
    now: i64,
    versions: u64,
}

impl ComparedEngines {
    fn new(kinds: Vec<Pod>) -> Self {
        let engine = || {
            let defaults = api::config::defaults(api::config::Gates::default());
            let profiles = Registry::default().profiles(&defaults).expect("the defaults are right");
            Engine::new(profiles, Settings::default())
        };
        let (engine, twin, pods) = (engine(), engine(), BTreeMap::new());
        Self { engine, twin, kinds, pods, now: 1000 * SECOND, versions: 0 }
    }

    fn apply_step(&mut self, step: DecisionStep) -> Result<(), String> {
        self.now += SECOND;
        match step {
            DecisionStep::Node(node) => self.apply(Change::Node((*node).into())),
            DecisionStep::NodeGone(node) => self.apply(Change::NodeGone(node_name(node))),
            DecisionStep::Pods { kind, count, priority, node, nominated } => {
                for _ in 0..count {
                    self.versions += 1;
                    let name: Text = format!("p{}", self.versions).into();
                    let name_of = |node: Option<usize>| node.map_or_else(Text::default, node_name);
                    let mut pod = Pod {
                        uid: name.to_string().as_str().into(),
                        name,
                        priority,
                        node: name_of(node),
                        nominated_node: name_of(nominated),
                        ..self.kinds[kind % self.kinds.len()].clone()
                    };
                    generators::storage::name_ephemeral_claims(&mut pod);
                    self.pods.insert(pod.uid.clone(), pod.clone());
                    self.show(&pod.uid)?;
                }
                Ok(())
            }
            DecisionStep::Nominate(pod, node) => self.change(pod, |pod| {
                if pod.node.is_empty() {
                    pod.nominated_node = node.map_or_else(Text::default, node_name);
                }
            }),
            DecisionStep::Prioritise(pod, priority) => {
                self.change(pod, |pod| pod.priority = priority)
            }
            DecisionStep::Relabel(pod, labels) => self.change(pod, |pod| pod.labels = labels),
            DecisionStep::Resize(pod, (cpu, memory, gpus)) => self.change(pod, |pod| {
                generators::set_requests(pod.spec_mut(), cpu, memory, gpus);
            }),
            DecisionStep::Terminate(pod) => self.change(pod, |pod| pod.terminating = true),
            DecisionStep::Gone(pod) => {
                let Some(uid) = self.nth(pod) else { return Ok(()) };
                self.pods.remove(&uid);
                self.apply(Change::PodGone { uid })
            }
            DecisionStep::Schedule(limit) => {
                self.step(Engine::tick)?;
                self.attempt(limit)
            }
        }
    }

    fn nth(&self, which: usize) -> Option<Uid> {
        self.pods.keys().nth(which.checked_rem(self.pods.len())?).cloned()
    }

    fn change(&mut self, which: usize, change: impl FnOnce(&mut Pod)) -> Result<(), String> {
        let Some(uid) = self.nth(which) else { return Ok(()) };
        if let Some(pod) = self.pods.get_mut(&uid) {
            change(pod);
        }
        self.show(&uid)
    }

    fn show(&mut self, uid: &Uid) -> Result<(), String> {
        self.versions += 1;
        let Some(pod) = self.pods.get_mut(uid) else { return Ok(()) };
        pod.resource_version = self.versions;
        let pod = pod.clone();
        self.apply(Change::Pod(pod.into()))
    }

    fn apply(&mut self, change: Change) -> Result<(), String> {
        self.step(move |engine, now, commands| engine.apply(change.clone(), now, commands))
    }

    fn attempt(&mut self, limit: usize) -> Result<(), String> {
        self.step(|engine, now, commands| {
            let _ = (0..limit).all(|_| engine.schedule(now, commands));
        })
    }

    fn step(&mut self, step: impl Fn(&mut Engine, i64, &mut Vec<Command>)) -> Result<(), String> {
        let (mut commands, mut twin_commands) = (Vec::new(), Vec::new());
        step(&mut self.engine, self.now, &mut commands);
        step(&mut self.twin, self.now, &mut twin_commands);
        if commands != twin_commands {
            return Err(format!("commands {commands:?}, of the twin {twin_commands:?}"));
        }
        commands.into_iter().try_for_each(|command| self.execute(command))
    }

    fn execute(&mut self, command: Command) -> Result<(), String> {
        match command {
            Command::Bind { pod, node, .. } => {
                self.apply(Change::Bound { uid: pod.uid.clone(), failure: None })?;
                if let Some(stored) = self.pods.get_mut(&pod.uid) {
                    stored.node = node;
                }
                self.show(&pod.uid)
            }
            Command::ReportFailure { pod, nominate: Some(node), .. } => {
                if let Some(stored) = self.pods.get_mut(&pod.uid) {
                    stored.nominated_node = node;
                }
                self.show(&pod.uid)
            }
            Command::DeleteVictim { victim, preemptor, .. } => {
                if let Some(stored) = self.pods.get_mut(&victim.uid) {
                    (stored.terminating, stored.preempted) = (true, true);
                }
                self.show(&victim.uid)?;
                let (preemptor, victim) = (preemptor.uid, victim.uid);
                self.apply(Change::VictimHandled { preemptor, victim, failure: None })
            }
            _ => Ok(()),
        }
    }

    fn compare(&mut self) -> Result<(), String> {
        self.engine.audit()?;
        self.engine.audit_decisions()
    }
}

fn run((kinds, steps): DecisionCase) -> Result<(), String> {
    let mut engines = ComparedEngines::new(kinds);
    for (number, (step, is_compared)) in steps.into_iter().enumerate() {
        let taken = engines.apply_step(step);
        let compared = taken.and_then(|()| if is_compared { engines.compare() } else { Ok(()) });
        compared.map_err(|wrong| format!("step {number}: {wrong}"))?;
    }
    engines.compare()
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn cached_decisions_equal_decisions_from_scratch(decision_case in decision_case()) {
        run(decision_case).map_err(TestCaseError::fail)?;
    }
}
