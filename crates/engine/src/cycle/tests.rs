//! Decisions by evaluations that are kept up to date, compared with decisions from scratch, after
//! random changes of the cluster.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::choose::TieBreak;
use super::decide::{Decision, DecisionInputs, decide};
use super::diagnosis::Diagnosis;
use super::evaluation::Evaluation;
use super::explain::{Explanation, explain};
use super::post_filter::PostFilterInput;
use super::ranking::ColumnPool;
use super::scores::Scores;
use super::shortlist::shortlist;
use super::testing::{
    ByNode, Stub, ZoneLimit, ZoneScores, class, labelled, number, pods_on, profile, web,
};
use crate::framework::scorer::{proportional, proportional_reversed};
use crate::framework::{PreFilterResult, Profile, Rejection};
use crate::index::{NodeIdx, PodIdx};
use crate::object::{Node, Pod};
use crate::queue::Nominator;
use crate::state::State;
use crate::testing as objects;

const NODES: usize = 9;
const PODS: usize = 16;
/// Pending pods that are nominated for nodes, the last of them is the one decided about.
const PENDING: usize = 4;

#[derive(Clone, Debug)]
enum Step {
    SetNode(usize, usize),
    RemoveNode(usize),
    /// A pod with or without a label comes to a node, or leaves the one it is on. The last number is
    /// that of a node that does not exist.
    TogglePod(usize, usize),
    Terminate(usize),
    Nominate(usize, usize),
    EndNomination(usize),
    /// A full turn of pods on one node, more than the logs keep if repeated.
    Churn(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..NODES, 0_usize..8).prop_map(|(node, form)| Step::SetNode(node, form)),
        1 => (0..NODES).prop_map(Step::RemoveNode),
        12 => (0..PODS, 0..=NODES).prop_map(|(pod, node)| Step::TogglePod(pod, node)),
        1 => (0..PODS).prop_map(Step::Terminate),
        4 => (0..PENDING, 0..NODES).prop_map(|(pod, node)| Step::Nominate(pod, node)),
        3 => (0..PENDING).prop_map(Step::EndNomination),
        1 => (0..NODES).prop_map(Step::Churn),
    ]
}

fn node(index: usize, form: usize) -> Node {
    let (name, number) = (format!("n{index}"), ["10", "20", "30"][form % 3]);
    let zone = ("topology.kubernetes.io/zone", ["a", "b"][form % 2]);
    match form {
        0 => labelled(&name, &[]),
        form => labelled(&name, &[("number", number), ("zone", ["a", "b", "c"][form % 3]), zone]),
    }
}

/// Turns nodes down by label and by their pods, and fails on one form of node if asked to.
fn filters(fails: bool) -> Vec<Stub> {
    let no_number = Rejection::unresolvable("node(s) had no number");
    let full = Rejection::unschedulable("Too many pods");
    let by_label = |state: &State, node| u32::from(number(state, node, "number") == 0);
    let by_pods = |state: &State, node| u32::from(pods_on(state, node) >= 3);
    let mut filters = vec![
        Stub::judge("Number", by_label, &[no_number]),
        Stub::judge("PodLimit", by_pods, &[full]),
    ];
    if fails {
        let by_sum = |state: &State, node| u32::from(pods_on(state, node) == 2);
        filters.push(Stub::judge("Fails", by_sum, &[Rejection::error("two pods")]));
    }
    filters
}

/// Allows the nodes with even numbers only.
fn narrowing() -> Stub {
    Stub::filter("Narrow", |_, preparation| {
        let state = &preparation.state;
        let mut nodes = state.nodes.present().clone();
        nodes.retain(|node| state.nodes.name(node).ends_with(['0', '2', '4', '6', '8']));
        PreFilterResult::Narrow(nodes, None)
    })
}

fn scorers() -> Vec<Stub> {
    let few_pods = ByNode::new(|state, node| 100 - 10 * pods_on(state, node));
    let numbers = ByNode::new(|state, node| number(state, node, "number"));
    let constant = ByNode { constant: Some(7), ..numbers };
    let many_pods = ByNode::new(|state, node| 1000 * pods_on(state, node));
    vec![
        Stub::score_by("FewPods", few_pods),
        Stub::score_by("Number", numbers.normalised(proportional_reversed)).weighing(3),
        Stub::score_by("Constant", constant).weighing(2),
        Stub::score_by("ManyPods", many_pods.normalised(proportional)),
    ]
}

fn profiles() -> Vec<Profile> {
    let with = |mut stubs: Vec<Stub>, more: Vec<Stub>| {
        stubs.extend(more);
        profile(stubs)
    };
    let bucketed = || ZoneScores::plugin("Bucketed", true).weighing(2);
    let by_zone = || vec![ZoneLimit::plugin(5), bucketed(), ZoneScores::plugin("ByZone", false)];
    vec![
        with(filters(false), scorers()),
        with(by_zone(), scorers().split_off(2)),
        with(vec![bucketed()], scorers().drain(..1).collect()),
        with(filters(false), by_zone()),
        with(vec![narrowing(), ZoneLimit::plugin(3)], scorers()),
        with(filters(true), scorers().split_off(1)),
        with(filters(false), Vec::new()),
    ]
}

struct Cluster {
    state: State,
    nominator: Nominator,
    pods: BTreeMap<usize, PodIdx>,
    pending: Vec<PodIdx>,
}

impl Cluster {
    fn new() -> Self {
        let mut state = objects::state((0..NODES).map(|index| node(index, index % 7)), []);
        let pending =
            |index: usize| Pod { priority: index as i32 % 3, ..web(&format!("w{index}"), "") };
        let pending = (0..PENDING).map(|index| state.add_pod(pending(index))).collect();
        Self { state, nominator: Nominator::default(), pods: BTreeMap::new(), pending }
    }

    fn find(&self, index: usize) -> Option<NodeIdx> {
        self.state.nodes.find(&format!("n{index}"))
    }

    fn apply_all(&mut self, steps: &[Step]) {
        for step in steps {
            self.apply(step);
        }
    }

    fn apply(&mut self, step: &Step) {
        match *step {
            Step::SetNode(index, form) => drop(self.state.set_node(&node(index, form).into())),
            Step::RemoveNode(index) => {
                if let Some(node) = self.find(index) {
                    self.nominator.remove_node(node);
                }
                self.state.remove_node(&format!("n{index}"));
            }
            Step::TogglePod(index, node) => {
                if let Some(pod) = self.pods.remove(&index) {
                    self.state.remove_pod(pod);
                    return;
                }
                let (name, node) = (format!("p{index}"), format!("n{node}"));
                let plain = Pod { node: node.as_str().into(), ..objects::pod(&name) };
                let pod = if index % 3 == 0 { plain } else { web(&name, &node) };
                self.pods.insert(index, self.state.add_pod(pod));
            }
            Step::Terminate(index) => {
                if let Some(pod) = self.pods.get(&index) {
                    self.state.set_terminating(*pod);
                }
            }
            Step::Nominate(index, node) => {
                if let Some(node) = self.find(node) {
                    self.nominator.nominate(self.pending[index], node);
                }
            }
            Step::EndNomination(index) => drop(self.nominator.remove(self.pending[index])),
            Step::Churn(index) => {
                for _ in 0..700 {
                    let pod = self.state.add_pod(web("churn", &format!("n{index}")));
                    self.state.remove_pod(pod);
                }
            }
        }
    }

    fn decide(
        &mut self,
        profile: &Profile,
        evaluation: &mut Evaluation,
        pool: &mut ColumnPool,
        (pod, draw): (PodIdx, Option<u64>),
    ) -> Decision {
        let mut inputs = DecisionInputs {
            nominator: &self.nominator,
            excluded: None,
            start: &mut 0,
            draw,
            column_pool: pool,
        };
        decide(profile, evaluation, &mut self.state, pod, &mut inputs)
    }

    fn explain(&mut self, profile: &Profile, pod: PodIdx) -> Explanation {
        let input = PostFilterInput::new(pod, &self.nominator, 0, 0);
        explain(profile, class(), &mut self.state, &input)
    }
}

/// The kept evaluation and the kept ranking are those that preparing anew makes.
fn check_evaluation(
    profile: &Profile,
    kept: &mut Evaluation,
    state: &mut State,
    pool: &mut ColumnPool,
    start: usize,
) {
    kept.refresh(profile, state);
    let mut anew = Evaluation::new(profile, class(), state);
    assert_eq!(kept.feasible(), anew.feasible());
    assert_eq!(kept.feasible_count(), kept.feasible().count());
    assert_eq!((&kept.rejected, &kept.narrowed), (&anew.rejected, &anew.narrowed));
    let texts = [&mut *kept, &mut anew].map(|one| Diagnosis::new(profile, one, state).text(""));
    assert_eq!(texts[0], texts[1]);
    let order = state.nodes.order().to_vec();
    let start = if order.is_empty() { 0 } else { start % order.len() };
    let visited = order[start..].iter().chain(&order[..start]).copied();
    let feasible: Vec<NodeIdx> = visited.filter(|node| kept.feasible().contains(*node)).collect();
    let scores = Scores::new(profile, &kept.class, state, &feasible);
    let ranking = kept.rank(profile, state, pool);
    let Ok(scores) = scores else { panic!("{scores:?}") };
    assert_eq!(ranking.failure(profile), None);
    // Without scorers all totals are equal, whatever they are.
    if !scores.plugins.is_empty() {
        let totals: Vec<i64> = feasible.iter().map(|node| ranking.total(*node)).collect();
        assert_eq!(totals, scores.totals);
    }
    let winner = scores.winner().map(|winner| feasible[winner]);
    assert_eq!(ranking.choose(TieBreak::First(start)), winner, "from {start}");
}

/// A decision by the kept evaluation is the one that is explained.
fn check_decision(decision: &Decision, explanation: &Explanation) {
    match decision {
        Decision::Node { node, feasible } => {
            assert_eq!(Some(*node), explanation.selected);
            assert_eq!(*feasible, explanation.feasible.len());
        }
        Decision::NoNodes => {
            assert_eq!(explanation.error.as_deref(), Some("no nodes available to schedule pods"));
        }
        Decision::Unschedulable(diagnosis) => {
            assert_eq!(explanation.error, None);
            assert_eq!(
                (diagnosis.text(""), explanation.selected),
                (explanation.message.clone(), None)
            );
            let other = &explanation.diagnosis;
            assert!(diagnosis.nodes().eq(other.nodes()), "{diagnosis:?} {other:?}");
            assert_eq!(diagnosis.absent, other.absent);
        }
        Decision::Error(text) => assert_eq!(explanation.error.as_ref(), Some(text)),
    }
}

proptest! {
    #[test]
    fn kept_evaluations_and_rankings_equal_those_from_scratch(
        profile in 0_usize..7,
        rounds in prop::collection::vec((prop::collection::vec(step(), 0..6), any::<usize>()), 1..20),
    ) {
        let profile = &profiles()[profile];
        let mut cluster = Cluster::new();
        let mut kept = Evaluation::new(profile, class(), &mut cluster.state);
        let mut pool = ColumnPool::default();
        for (steps, start) in rounds {
            cluster.apply_all(&steps);
            check_evaluation(profile, &mut kept, &mut cluster.state, &mut pool, start);
        }
    }

    #[test]
    fn decisions_with_nominated_pods_equal_those_from_scratch(
        profile in 0_usize..7,
        rounds in prop::collection::vec(
            (prop::collection::vec(step(), 0..6), 0..PENDING, any::<u64>()),
            1..20,
        ),
    ) {
        let profile = &profiles()[profile];
        let mut cluster = Cluster::new();
        let mut kept = Evaluation::new(profile, class(), &mut cluster.state);
        let mut pool = ColumnPool::default();
        for (steps, pod, random) in rounds {
            cluster.apply_all(&steps);
            let pod = cluster.pending[pod];
            let decision = cluster.decide(profile, &mut kept, &mut pool, (pod, None));
            let explanation = cluster.explain(profile, pod);
            check_decision(&decision, &explanation);
            // A random draw may select another one of the best.
            let drawn = cluster.decide(profile, &mut kept, &mut pool, (pod, Some(random)));
            match (&drawn, &explanation.selected) {
                (Decision::Node { node, .. }, Some(selected)) => {
                    let total = |wanted: &NodeIdx| {
                        let position = explanation.feasible.iter().position(|node| node == wanted);
                        position.map(|position| explanation.scores.totals.get(position).copied())
                    };
                    prop_assert!(total(node).is_some());
                    prop_assert_eq!(total(node), total(selected));
                }
                _ => check_decision(&drawn, &explanation),
            }
        }
    }

    #[test]
    fn a_shortlist_holds_the_feasible_nodes_of_the_explanation(
        profile in 0_usize..7,
        rounds in prop::collection::vec((prop::collection::vec(step(), 0..6), 0..PENDING), 1..12),
    ) {
        let profile = &profiles()[profile];
        let mut cluster = Cluster::new();
        let mut kept = Evaluation::new(profile, class(), &mut cluster.state);
        for (steps, pod) in rounds {
            cluster.apply_all(&steps);
            let pod = cluster.pending[pod];
            let explanation = cluster.explain(profile, pod);
            let inputs = DecisionInputs {
                nominator: &cluster.nominator,
                excluded: None,
                start: &mut 0,
                draw: None,
                column_pool: &mut ColumnPool::default(),
            };
            match shortlist(profile, &mut kept, &mut cluster.state, pod, &inputs, true) {
                Ok(shortlist) => {
                    prop_assert_eq!(shortlist.feasible, explanation.feasible);
                    if !shortlist.nominated {
                        prop_assert!(shortlist.diagnosis.nodes().eq(explanation.diagnosis.nodes()));
                    }
                }
                Err(decision) => check_decision(&decision, &explanation),
            }
        }
    }
}
