//! Compares what is kept up to date step by step with what comes out from scratch.

use crate::cycle::evaluation::Evaluation;
use crate::cycle::scores::Scores;
use crate::index::NodeIdx;
use crate::queue::Place;

use super::Engine;

impl Engine {
    /// Checks state, queue, and every kept evaluation. The first difference is told.
    ///
    /// Costs as much as evaluating every class anew: for tests, and for operators who ask.
    pub fn audit(&mut self) -> Result<(), String> {
        self.state.audit()?;
        self.queue.check(&context_of!(self))?;
        let before = self.state.nodes.settle_order_for_now();
        let found = self.audit_evaluations();
        self.state.nodes.unsettle_order(before);
        found
    }

    fn audit_evaluations(&mut self) -> Result<(), String> {
        for class in self.classes.all() {
            let profile = &self.profiles[self.classes.profile(class)];
            let evaluator = self.classes.evaluated_by(&self.state, profile, class);
            let Some(mut kept) = self.classes.take_evaluation(evaluator) else { continue };
            let found = self.compare(&mut kept, class);
            self.classes.keep_evaluation(&mut self.state, evaluator, kept);
            found?;
        }
        Ok(())
    }

    /// Checks that no pod waits for an event although it fits. The first such pod is told.
    ///
    /// Nodes for which more important pods are nominated do not count as fitting.
    pub fn audit_waiting(&mut self) -> Result<(), String> {
        let before = self.state.nodes.settle_order_for_now();
        let found = self.find_waiting();
        self.state.nodes.unsettle_order(before);
        found
    }

    fn find_waiting(&mut self) -> Result<(), String> {
        let waiting: Vec<_> = self
            .queue
            .iter()
            .filter(|(_, place)| *place == Place::Unschedulable)
            .map(|(queued, _)| *queued)
            .collect();
        for queued in waiting {
            let class = self.classes.class(queued.class).clone();
            let profile = &self.profiles[queued.profile];
            let fresh = Evaluation::new(profile, class, &mut self.state);
            let free =
                fresh.feasible().iter().find(|node| self.queue.nominator.on(*node).is_empty());
            if let Some(node) = free {
                let (pod, node) = (self.state.full_name(queued.pod), self.state.nodes.name(node));
                return Err(format!("{pod} fits on {node} but waits for an event"));
            }
        }
        Ok(())
    }

    fn compare(
        &mut self,
        kept: &mut Evaluation,
        class: crate::index::ClassIdx,
    ) -> Result<(), String> {
        let profile = &self.profiles[self.classes.profile(class)];
        kept.refresh(profile, &mut self.state);
        // Also for a class that another one evaluates for.
        let class = self.classes.class(class).clone();
        let fresh = Evaluation::new(profile, class.clone(), &mut self.state);
        if kept.feasible() != fresh.feasible() || kept.feasible_count() != fresh.feasible_count() {
            let names = |evaluation: &Evaluation| -> Vec<&str> {
                evaluation.feasible().iter().map(|node| self.state.nodes.name(node)).collect()
            };
            return Err(format!(
                "feasible nodes of a class: kept {:?}, from scratch {:?}",
                names(kept),
                names(&fresh)
            ));
        }
        let order = self.state.nodes.order().iter().copied();
        let feasible: Vec<NodeIdx> =
            order.filter(|node| fresh.feasible().contains(*node)).collect();
        if feasible.len() < 2 {
            return Ok(());
        }
        let scores =
            Scores::new(profile, &class, &mut self.state, &feasible).map_err(|failed| failed.0)?;
        let ranking = kept.rank(profile, &mut self.state, &mut self.spare);
        for (node, total) in feasible.iter().zip(&scores.totals) {
            if ranking.total(*node) != *total {
                let name = self.state.nodes.name(*node);
                let kept = ranking.total(*node);
                return Err(format!("total of {name}: kept {kept}, from scratch {total}"));
            }
        }
        let chosen = ranking.choose(0);
        let wanted = scores.winner().map(|winner| feasible[winner]);
        if chosen != wanted {
            return Err(format!("best node: kept {chosen:?}, from scratch {wanted:?}"));
        }
        Ok(())
    }
}
