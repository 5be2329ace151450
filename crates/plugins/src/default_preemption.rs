//! DefaultPreemption: evicts pods of lower priority so that a pod without feasible nodes fits.
//!
//! ```text
//! eligible? ─▶ potential nodes ─▶ victims on each ─▶ candidates ─▶ best candidate
//! ```
//!
//! The engine evicts the victims and holds the pod back meanwhile.

mod budgets;
#[cfg(test)]
mod tests;
mod victims;

use std::cmp::Reverse;

use api::config::args::DefaultPreemptionArgs;
use api::config::{Gates, PluginArgs};
use engine::cycle::diagnosis::fit_error;
use engine::cycle::what_if::{Candidate, ExtenderPreemption, PostFilter};
use engine::framework::{
    Action, Class, Code, Event, Plugin, Point, PostFilterOutcome, Reason, Rejection, Resource,
    Subscription,
};
use engine::index::NodeIdx;
use engine::map::Map;
use engine::state::State;

use victims::{InfeasibleNode, VictimSearch};

pub(crate) const NAME: &str = "DefaultPreemption";
pub(crate) const POINTS: &[Point] = &[Point::PreEnqueue, Point::PostFilter];
pub(crate) const DOC: &str =
    "Evicts pods of lower priority so that a pod without feasible nodes fits.";

pub(crate) fn build(args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    if let Some(PluginArgs::DefaultPreemption(args)) = args {
        return Box::new(DefaultPreemption(args.clone()));
    }
    match PluginArgs::default_of(NAME, Gates::default()) {
        Some(PluginArgs::DefaultPreemption(args)) => Box::new(DefaultPreemption(args)),
        _ => unreachable!("the plugin has default arguments"),
    }
}

struct DefaultPreemption(DefaultPreemptionArgs);

impl Plugin for DefaultPreemption {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn post_filter(&self, cycle: &mut PostFilter) -> PostFilterOutcome {
        if let Err(reason) = check_eligible(cycle) {
            return unschedulable(reason, false);
        }
        match cycle.victims {
            ExtenderPreemption::Answered(left) => return nominate_among(cycle, left),
            ExtenderPreemption::Failed(text) => return PostFilterOutcome::Error(prefixed(text)),
            ExtenderPreemption::NotNeeded | ExtenderPreemption::Required => {}
        }
        if has_no_lower_priority_pod(cycle) {
            return CandidateSearch::none(potential_count(cycle)).outcome(cycle);
        }
        let potential = potential_nodes(cycle);
        let mut candidates = CandidateSearch::new(self.candidates_max(potential.len()));
        candidates.search(cycle, &potential);
        candidates.outcome(cycle)
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        // Ends the wait of a preemptor in PreEnqueue when a victim is gone.
        vec![Subscription { resource: Resource::Pod, action: Action::DELETE }]
    }

    /// The plugins that rejected the pod decide when to retry.
    fn hint(&self, _state: &State, _class: &Class, _event: &Event) -> bool {
        false
    }
}

impl DefaultPreemption {
    /// Returns the number of candidates at which the search ends.
    fn candidates_max(&self, potential: usize) -> usize {
        let share = potential * self.0.min_candidate_nodes_percentage.max(0) as usize / 100;
        share.max(self.0.min_candidate_nodes_absolute.max(0) as usize).min(potential)
    }
}

/// The search for nodes on which the pod fits without victims, over part of the potential nodes.
struct CandidateSearch {
    candidates_max: usize,
    /// Candidates that violate no disruption budget.
    non_violating: Vec<Candidate>,
    /// The other candidates.
    violating: Vec<Candidate>,
    /// Number of nodes without pods of lower priority.
    nodes_without_victims: usize,
    /// Reasons why the pod does not fit even without pods of lower priority, with the number of nodes;
    /// collected only until there is a candidate.
    rejections: Vec<(Rejection, usize)>,
    /// Positions in `rejections`.
    rejection_positions: Map<Rejection, usize>,
}

impl CandidateSearch {
    fn new(candidates_max: usize) -> Self {
        let (non_violating, violating, rejections) = (Vec::new(), Vec::new(), Vec::new());
        let (nodes_without_victims, rejection_positions) = (0, Map::default());
        Self {
            candidates_max,
            non_violating,
            violating,
            nodes_without_victims,
            rejections,
            rejection_positions,
        }
    }

    /// Returns a finished search: none of this number of potential nodes has pods of lower priority.
    fn none(nodes_without_victims: usize) -> Self {
        Self { nodes_without_victims, ..Self::new(0) }
    }

    /// Tries one node after the other, from a random one on, until there are enough candidates.
    fn search(&mut self, cycle: &mut PostFilter, potential: &[NodeIdx]) {
        let mut search = VictimSearch::new(cycle);
        let priority = cycle.state().pods.get(cycle.pod).priority;
        let offset = cycle.random.checked_rem(potential.len() as u64).unwrap_or(0) as usize;
        let (before, after) = potential.split_at(offset);
        for node in after.iter().chain(before) {
            if cycle.state().lowest_priorities.of(*node) >= priority {
                self.nodes_without_victims += 1;
                continue;
            }
            let needs_reason = self.non_violating.is_empty() && self.violating.is_empty();
            match search.victims(cycle, *node, needs_reason) {
                Ok(victims) => self.add(victims),
                Err(InfeasibleNode(Some(rejection))) => self.count_rejection(rejection),
                Err(InfeasibleNode(None)) => {}
            }
            if !self.non_violating.is_empty()
                && self.non_violating.len() + self.violating.len() >= self.candidates_max
            {
                return;
            }
        }
    }

    fn count_rejection(&mut self, rejection: Rejection) {
        let rejections = &mut self.rejections;
        let position = *self.rejection_positions.get_or_insert_with(rejection.clone(), || {
            rejections.push((rejection, 0));
            rejections.len() - 1
        });
        self.rejections[position].1 += 1;
    }

    /// Adds a candidate. As upstream, each of the two lists holds up to `candidates_max`.
    fn add(&mut self, candidate: Candidate) {
        let list =
            if candidate.violations == 0 { &mut self.non_violating } else { &mut self.violating };
        if list.len() < self.candidates_max {
            list.push(candidate);
        }
    }

    fn outcome(self, cycle: &PostFilter) -> PostFilterOutcome {
        let Self { non_violating, violating, nodes_without_victims, rejections, .. } = self;
        let candidates: Vec<Candidate> = non_violating.into_iter().chain(violating).collect();
        if *cycle.victims == ExtenderPreemption::Required && !candidates.is_empty() {
            return PostFilterOutcome::AskExtenders(candidates);
        }
        if let Some(best) = candidates.into_iter().min_by_key(|candidate| cost(cycle, candidate)) {
            return PostFilterOutcome::Nominate { node: best.node, victims: best.victims };
        }
        if let Some(error) = error_text(&rejections) {
            return PostFilterOutcome::Error(prefixed(&error));
        }
        let no_victims = Rejection::unresolvable("No preemption victims found for incoming pod");
        let not_tried = Rejection::unresolvable("Preemption is not helpful for scheduling");
        let rejected = rejections.iter().map(|(rejection, nodes)| (rejection, *nodes));
        let tried = std::iter::once((&no_victims, nodes_without_victims)).chain(rejected);
        let text = fit_error(cycle.state().nodes.count(), None, tried, Some(&not_tried));
        unschedulable(&text, true)
    }
}

/// Chooses among the candidates that extenders left. Pods may have arrived since, so candidates on which
/// the preemptor no longer fits are skipped.
fn nominate_among(cycle: &mut PostFilter, left: &[Candidate]) -> PostFilterOutcome {
    let mut fitting = Vec::new();
    for candidate in left {
        let mut what_if = cycle.what_if(candidate.node);
        for victim in &candidate.victims {
            what_if.remove(*victim);
        }
        let fits = !candidate.victims.is_empty() && what_if.fits().is_ok();
        drop(what_if);
        if fits {
            fitting.push(candidate);
        }
    }
    match fitting.into_iter().min_by_key(|candidate| cost(cycle, candidate)) {
        Some(best) => {
            PostFilterOutcome::Nominate { node: best.node, victims: best.victims.clone() }
        }
        None => unschedulable("no candidate node for preemption", false),
    }
}

/// Returns the criteria of the choice, in upstream's order; the smallest wins. Of equal candidates the
/// first is chosen (upstream: a random one).
fn cost(cycle: &PostFilter, candidate: &Candidate) -> (usize, i32, i64, usize, Reverse<i64>) {
    let record = |pod: &_| cycle.state().pods.get(*pod);
    let highest =
        candidate.victims.iter().map(|pod| record(pod).priority).max().unwrap_or(i32::MIN);
    // Shifted to positive numbers, so that more victims of negative priority do not cost less.
    let sum = candidate.victims.iter().map(|pod| i64::from(record(pod).priority) + (1 << 31)).sum();
    let most_important = candidate.victims.iter().filter(|pod| record(pod).priority == highest);
    let started = most_important.map(|pod| victims::start_time(record(pod), cycle.now));
    let earliest = started.min().unwrap_or(i64::MIN);
    (candidate.violations, highest, sum, candidate.victims.len(), Reverse(earliest))
}

/// Returns the reason why the pod may not preempt, if there is one.
fn check_eligible(cycle: &PostFilter) -> Result<(), &'static str> {
    if cycle.class().spec.never_preempts {
        return Err("not eligible due to preemptionPolicy=Never.");
    }
    let preemptor = cycle.state().pods.get(cycle.pod);
    let node = preemptor.nominated;
    // If evictions cannot make the nominated node fit any more, the pod may preempt elsewhere.
    if !node.is_some() || cycle.diagnosis.code(node) == Code::UnschedulableAndUnresolvable {
        return Ok(());
    }
    let has_terminating_victim = cycle.state().nodes.pods(node).iter().any(|pod| {
        let pod = cycle.state().pods.get(*pod);
        pod.priority < preemptor.priority && pod.terminating && pod.preempted
    });
    if has_terminating_victim {
        return Err("not eligible due to a terminating pod on the nominated node.");
    }
    Ok(())
}

/// Returns `true` if no pod on any node has a lower priority, so that no node needs to be tried.
fn has_no_lower_priority_pod(cycle: &PostFilter) -> bool {
    cycle.state().lowest_priorities.of_all() >= cycle.state().pods.get(cycle.pod).priority
}

/// Returns the nodes on which evictions could help.
fn potential_nodes(cycle: &PostFilter) -> Vec<NodeIdx> {
    let diagnosis = cycle.diagnosis;
    let diagnosed = diagnosis.nodes();
    if diagnosis.absent_code() != Code::Unschedulable {
        let potential = diagnosed.filter(|(_, _, rejection)| rejection.code == Code::Unschedulable);
        return potential.map(|(node, _, _)| node).collect();
    }
    let mut potential = cycle.state().nodes.present().clone();
    for (node, _, rejection) in diagnosed {
        potential.set(node, rejection.code == Code::Unschedulable);
    }
    let order = cycle.state().nodes.order().iter().copied();
    order.filter(|node| potential.contains(*node)).collect()
}

/// Returns the number of [`potential_nodes`].
fn potential_count(cycle: &PostFilter) -> usize {
    let diagnosis = cycle.diagnosis;
    let diagnosed = diagnosis.count_of(Code::Unschedulable);
    let absent = match diagnosis.absent_code() {
        Code::Unschedulable => cycle.state().nodes.count() - diagnosis.rejected_count(),
        _ => 0,
    };
    diagnosed + absent
}

/// Returns the messages of all errors, each once, joined as upstream does; `None` without errors.
fn error_text(rejections: &[(Rejection, usize)]) -> Option<String> {
    let mut texts: Vec<String> = Vec::new();
    let rejections = rejections.iter().map(|(rejection, _)| rejection);
    for rejection in rejections.filter(|rejection| rejection.code == Code::Error) {
        let text = rejection.message();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match &*texts {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

fn unschedulable(message: &str, clear_nomination: bool) -> PostFilterOutcome {
    PostFilterOutcome::Unschedulable { reasons: vec![prefixed(message)], clear_nomination }
}

fn prefixed(message: &str) -> Reason {
    Reason::Owned(format!("preemption: {message}"))
}
