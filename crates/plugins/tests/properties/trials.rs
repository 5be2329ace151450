//! Trials leave nothing behind: not in the state, and not in the decisions after them. Within one,
//! decisions equal those from scratch on a fork that took the same steps.

use engine::bitset::NodeSet;
use engine::cycle::decide::Decision;
use engine::engine::{Engine, Fork, Trial};
use engine::index::{NodeIdx, PodIdx};
use engine::object::Pod;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::generators;
use crate::steps::{Scenario, scenario};
use crate::world::World;

/// A step of a trial. Numbers are taken modulo how many pods or nodes there are.
#[derive(Clone, Debug)]
enum TrialStep {
    Remove(usize),
    Place(usize, usize),
    /// Places a pod on the node that is decided, without the excluded nodes.
    PlaceDecided(usize, u8),
    Decide(usize, u8),
    Check(usize, usize),
    Add(Box<Pod>),
    /// A trial inside the trial, of which the changes are kept or not.
    Nest(Vec<TrialStep>, bool),
}

fn trial_step() -> impl Strategy<Value = TrialStep> {
    let which = || 0..64_usize;
    let excluded = || prop_oneof![2 => Just(0_u8), 1 => any::<u8>()];
    let step = prop_oneof![
        6 => which().prop_map(TrialStep::Remove),
        2 => (which(), which()).prop_map(|(pod, node)| TrialStep::Place(pod, node)),
        5 => (which(), excluded()).prop_map(|(pod, nodes)| TrialStep::PlaceDecided(pod, nodes)),
        4 => (which(), excluded()).prop_map(|(pod, nodes)| TrialStep::Decide(pod, nodes)),
        2 => (which(), which()).prop_map(|(pod, node)| TrialStep::Check(pod, node)),
        1 => generators::pod().prop_map(|pod| TrialStep::Add(Box::new(pod))),
    ];
    step.prop_recursive(2, 12, 5, |inner| {
        (vec(inner, 1..5), any::<bool>()).prop_map(|(steps, keep)| TrialStep::Nest(steps, keep))
    })
}

/// A change that a trial made, to be made by another one.
#[derive(Clone)]
enum Change {
    Remove(PodIdx),
    Place(PodIdx, NodeIdx),
    Add(Box<Pod>),
}

/// Runs steps; what a rolled-back trial did leaves the list of changes again.
#[derive(Default)]
struct Runner {
    changes: Vec<Change>,
    /// The engine before the trial, for comparisons from scratch.
    origin: Option<Fork>,
    /// What was decided.
    decisions: Vec<String>,
    added: usize,
}

impl Runner {
    fn run(&mut self, trial: &mut Trial, steps: &[TrialStep]) -> Result<(), String> {
        steps.iter().try_for_each(|step| self.step(trial, step))
    }

    fn step(&mut self, trial: &mut Trial, step: &TrialStep) -> Result<(), String> {
        match step {
            TrialStep::Remove(pod) => {
                if let Some(pod) = nth_pod(trial, *pod) {
                    trial.remove(pod);
                    self.changes.push(Change::Remove(pod));
                }
            }
            TrialStep::Place(pod, node) => {
                if let (Some(pod), Some(node)) = (free_pod(trial, *pod), nth_node(trial, *node)) {
                    self.place(trial, pod, node);
                }
            }
            TrialStep::PlaceDecided(pod, excluded) => {
                if let Some(pod) = free_pod(trial, *pod)
                    && let Some(node) = self.decide(trial, pod, *excluded)?
                {
                    self.place(trial, pod, node);
                }
            }
            TrialStep::Decide(pod, excluded) => {
                if let Some(pod) = free_pod(trial, *pod) {
                    self.decide(trial, pod, *excluded)?;
                }
            }
            TrialStep::Check(pod, node) => {
                if let (Some(pod), Some(node)) = (free_pod(trial, *pod), nth_node(trial, *node)) {
                    let checked = trial.check(pod, node);
                    self.decisions.push(format!("{checked:?}"));
                }
            }
            TrialStep::Add(pod) => {
                self.added += 1;
                let name = format!("supposed{}", self.added);
                let mut pod =
                    Pod { uid: name.as_str().into(), name: name.into(), ..(**pod).clone() };
                generators::storage::name_ephemeral_claims(&mut pod);
                trial.add(pod.clone());
                self.changes.push(Change::Add(pod.into()));
            }
            TrialStep::Nest(steps, keep) => {
                let changes = self.changes.len();
                let mut nested = trial.nest();
                let found = self.run(&mut nested, steps);
                if *keep {
                    nested.keep();
                } else {
                    drop(nested);
                    self.changes.truncate(changes);
                }
                found?;
            }
        }
        Ok(())
    }

    fn place(&mut self, trial: &mut Trial, pod: PodIdx, node: NodeIdx) {
        let placed = trial.place(pod, node);
        self.decisions.push(format!("{placed:?}"));
        if placed.is_ok() {
            self.changes.push(Change::Place(pod, node));
        }
    }

    /// Decides, and returns the node. In a trial of its own, so that the visiting order goes on from
    /// the same node in the decision from scratch.
    fn decide(
        &mut self,
        trial: &mut Trial,
        pod: PodIdx,
        excluded: u8,
    ) -> Result<Option<NodeIdx>, String> {
        let excluded = excluded_nodes(trial, excluded);
        let decision = trial.nest().decide(pod, &excluded);
        let text = text_of(&decision);
        if let Some(mut fork) = self.origin.clone() {
            let mut other = fork.trial();
            for change in &self.changes {
                match change {
                    Change::Remove(pod) => other.remove(*pod),
                    Change::Place(pod, node) => {
                        other.place(*pod, *node).map_err(|_| "not placed again")?;
                    }
                    Change::Add(pod) => drop(other.add((**pod).clone())),
                }
            }
            let from_scratch = text_of(&other.decide(pod, &excluded));
            if text != from_scratch {
                return Err(format!("kept: {text}, from scratch: {from_scratch}"));
            }
        }
        self.decisions.push(text);
        let Decision::Node { node, .. } = decision else { return Ok(None) };
        if excluded.contains(node) { Err("an excluded node".to_owned()) } else { Ok(Some(node)) }
    }
}

fn nth_pod(trial: &Trial, which: usize) -> Option<PodIdx> {
    let pods: Vec<PodIdx> = trial.state().pods.iter().map(|(pod, _)| pod).collect();
    Some(pods[which.checked_rem(pods.len())?])
}

/// A pod without a node: the given one or the next.
fn free_pod(trial: &Trial, which: usize) -> Option<PodIdx> {
    let pods = trial.state().pods.iter().filter(|(_, record)| !record.node.is_some());
    let pods: Vec<PodIdx> = pods.map(|(pod, _)| pod).collect();
    Some(pods[which.checked_rem(pods.len())?])
}

fn nth_node(trial: &Trial, which: usize) -> Option<NodeIdx> {
    let nodes = trial.state().nodes.present();
    nodes.iter().nth(which.checked_rem(nodes.count())?)
}

fn excluded_nodes(trial: &Trial, bits: u8) -> NodeSet {
    let mut excluded = NodeSet::new(trial.state().nodes.slots());
    let nodes = trial.state().nodes.present().iter();
    excluded.extend(nodes.filter(|node| bits >> (node.0 % 8) & 1 == 1));
    excluded
}

fn text_of(decision: &Decision) -> String {
    match decision {
        Decision::Node { node, feasible } => format!("{node:?} of {feasible}"),
        Decision::NoNodes => "no nodes".to_owned(),
        Decision::Unschedulable(diagnosis) => diagnosis.text(""),
        Decision::Error(text) => format!("error {text}"),
    }
}

/// Tries the same on the engine and on a fork of it.
fn run_trial(engine: &mut Engine, steps: &[TrialStep]) -> Result<(), String> {
    let before = engine.content();
    let mut fork = engine.fork();
    let forked = fork.content();
    let mut on_fork = Runner { origin: Some(engine.fork()), ..Runner::default() };
    let mut on_engine = Runner::default();
    on_engine.run(&mut engine.trial(), steps)?;
    same(&before, &engine.content())?;
    on_fork.run(&mut fork.trial(), steps)?;
    same(&forked, &fork.content())?;
    same(&on_engine.decisions, &on_fork.decisions)
}

fn same(before: &[String], after: &[String]) -> Result<(), String> {
    for (before, after) in before.iter().zip(after) {
        if before != after {
            return Err(format!("was: {before}\nis:  {after}"));
        }
    }
    if before.len() == after.len() { Ok(()) } else { Err("lines are missing".to_owned()) }
}

fn run(scenario: &Scenario, trials: &[Vec<TrialStep>]) -> Result<(), String> {
    let mut world = World::new();
    for (number, step) in scenario.steps.iter().enumerate() {
        let taken = world.apply_step(step.clone());
        let settled = taken.and_then(|()| if scenario.prompt { world.settle() } else { Ok(()) });
        let tried = settled.and_then(|()| match number % 4 {
            3 => run_trial(&mut world.engine, &trials[number / 4 % trials.len()]),
            _ => Ok(()),
        });
        tried.map_err(|wrong| format!("step {number}: {wrong}\n{}", world.history()))?;
    }
    world.check()?;
    world.check_twin()
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn a_trial_leaves_nothing_behind(
        scenario in scenario(60),
        trials in vec(vec(trial_step(), 1..12), 1..4),
    ) {
        run(&scenario, &trials).map_err(TestCaseError::fail)?;
    }
}
