//! Compares decisions by cached evaluations with decisions from scratch.

use crate::cycle::decide::{Decision, DecisionInputs, decide};
use crate::cycle::evaluation::Evaluation;
use crate::cycle::explain::{Explanation, explain};
use crate::cycle::post_filter::{PostFilterInput, post_filter};
use crate::framework::profile::PluginPosition;
use crate::index::NodeIdx;
use crate::queue::{QueueStage, QueuedPod};

use super::Engine;

impl Engine {
    /// Decides on every waiting pod both as an attempt would and from scratch, and returns the
    /// first difference. Nothing is carried out; attempts that end with a plugin's error are not
    /// compared.
    ///
    /// Costs as much as explaining every waiting pod; for tests.
    pub fn audit_decisions(&mut self) -> Result<(), String> {
        let before = self.core.state.nodes.peek_order();
        // Pods in flight wait for extenders.
        let waits = |stage| !matches!(stage, QueueStage::Binding | QueueStage::InFlight);
        let mut waiting: Vec<QueuedPod> = self
            .queue
            .iter()
            .filter(|(_, stage)| waits(*stage))
            .map(|(queued, _)| *queued)
            .collect();
        waiting.sort_unstable_by_key(|queued| queued.pod);
        let found = waiting.iter().try_for_each(|queued| {
            self.compare_decisions(queued)
                .map_err(|found| format!("{}: {found}", self.core.state.full_name(queued.pod)))
        });
        self.core.state.nodes.end_peek(before);
        found
    }

    fn compare_decisions(&mut self, queued: &QueuedPod) -> Result<(), String> {
        let profile = &self.core.profiles[queued.profile()];
        let evaluator = self.core.classes.representative(&self.core.state, profile, queued.class);
        let kept = self.core.classes.take_evaluation(evaluator);
        let was_kept = kept.is_some();
        let mut evaluation = kept.unwrap_or_else(|| {
            let class = self.core.classes.class(evaluator).clone();
            Box::new(Evaluation::new(profile, class, &mut self.core.state))
        });
        let found = self.compare_with(queued, &mut evaluation);
        if was_kept {
            self.core.classes.put_back(evaluator, evaluation);
        }
        found
    }

    fn compare_with(
        &mut self,
        queued: &QueuedPod,
        evaluation: &mut Evaluation,
    ) -> Result<(), String> {
        let pod = queued.pod;
        let profile = &self.core.profiles[queued.profile()];
        let state = &mut self.core.state;
        let input = PostFilterInput::new(pod, &self.core.nominator, 0, self.cursor.random);
        let class = self.core.classes.class(queued.class).clone();
        let wanted = explain(profile, class, state, &input);
        let mut inputs = DecisionInputs {
            nominator: &self.core.nominator,
            excluded: None,
            start: &mut 0,
            draw: None,
            column_pool: &mut self.column_pool,
        };
        let decision = decide(profile, evaluation, state, pod, &mut inputs);
        match decision {
            _ if wanted.error.is_some() => Ok(()),
            Decision::Error(text) => Err(format!("failed: {text}")),
            Decision::NoNodes => Err("the attempt saw no nodes".to_owned()),
            Decision::Node { node, feasible } => {
                let best = is_best(&wanted, node, feasible);
                let name = state.nodes.name(node);
                best.map_err(|why| format!("{name} of {feasible} chosen, but {why}"))
            }
            Decision::Unschedulable(diagnosis) => {
                let report = post_filter(profile, evaluation, state, &diagnosis, &input);
                let kept = (diagnosis.text(&report.message), sorted(diagnosis.rejectors()), report);
                let Explanation { message, diagnosis, post_filter, .. } = wanted;
                let fresh = (message, sorted(diagnosis.rejectors()), post_filter);
                if kept == fresh {
                    return Ok(());
                }
                Err(format!("unschedulable: kept {kept:?}, from scratch {fresh:?}"))
            }
        }
    }
}

/// Checks that a node has the highest total from scratch, and the number of feasible nodes.
fn is_best(wanted: &Explanation, node: NodeIdx, feasible: usize) -> Result<(), String> {
    if wanted.feasible.len() != feasible {
        return Err(format!("{} are feasible from scratch", wanted.feasible.len()));
    }
    let Some(place) = wanted.feasible.iter().position(|other| *other == node) else {
        return Err("it is not feasible from scratch".to_owned());
    };
    let totals = &wanted.scores.totals;
    if totals.get(place) == totals.iter().max() || totals.is_empty() {
        return Ok(());
    }
    Err(format!("its total is {:?} of {totals:?} from scratch", totals[place]))
}

fn sorted(mut plugins: Vec<PluginPosition>) -> Vec<PluginPosition> {
    plugins.sort_unstable();
    plugins
}
