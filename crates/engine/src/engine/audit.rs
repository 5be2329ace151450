//! Compares what is kept up to date step by step with what comes out from scratch.

use crate::cycle::choose::Tie;
use crate::cycle::evaluation::Evaluation;
use crate::cycle::scores::Scores;
use crate::index::{ClassIdx, NodeIdx};
use crate::queue::Place;

use super::Engine;

/// Slots of nodes and of pods that one part of an audit looks at: a fraction of a millisecond.
const NODES_AT_ONCE: usize = 256;
const PODS_AT_ONCE: usize = 4096;

/// The part of an audit that comes next. Changes may be applied between parts: each compares what is
/// kept by then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuditPart(Part);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// Nodes from this slot on.
    Nodes(usize),
    /// Pods from this slot on.
    Pods(usize),
    Queue,
    /// The first class from this index on.
    Class(usize),
}

impl Default for Part {
    fn default() -> Self {
        Self::Nodes(0)
    }
}

impl Engine {
    /// Checks state, queue, and every kept evaluation. The first difference is told.
    ///
    /// Costs as much as evaluating every class anew: for tests, and for operators who ask.
    pub fn audit(&mut self) -> Result<(), String> {
        let mut part = Some(AuditPart::default());
        while let Some(next) = part {
            part = self.audit_part(next)?;
        }
        Ok(())
    }

    /// Does one part of an audit: some nodes, some pods, the queue, or one class. The part that comes
    /// next, if there is one.
    pub fn audit_part(&mut self, part: AuditPart) -> Result<Option<AuditPart>, String> {
        let next = match part.0 {
            Part::Nodes(from) => {
                let to = from + NODES_AT_ONCE;
                self.state.audit_nodes(from..to)?;
                if to < self.state.nodes.slots() { Part::Nodes(to) } else { Part::Pods(0) }
            }
            Part::Pods(from) => {
                let to = from + PODS_AT_ONCE;
                self.state.audit_pods(from..to)?;
                if to < self.state.pods.slots() { Part::Pods(to) } else { Part::Queue }
            }
            Part::Queue => {
                self.queue.check(&context_of!(self))?;
                Part::Class(0)
            }
            Part::Class(from) => {
                let Some(class) = self.classes.next_from(from) else { return Ok(None) };
                let before = self.state.nodes.settle_order_for_now();
                let found = self.audit_class(class);
                self.state.nodes.unsettle_order(before);
                found?;
                Part::Class(class.at() + 1)
            }
        };
        Ok(Some(AuditPart(next)))
    }

    fn audit_class(&mut self, class: ClassIdx) -> Result<(), String> {
        let profile = &self.profiles[self.classes.profile(class)];
        let evaluator = self.classes.evaluated_by(&self.state, profile, class);
        let Some(mut kept) = self.classes.take_evaluation(evaluator) else { return Ok(()) };
        let ranked = kept.ranking.is_some();
        let found = self.compare(&mut kept, class);
        // To be looked at is no use: what is kept, and for how long, stays as it was.
        if !ranked && let Some(ranking) = kept.ranking.take() {
            ranking.recycle(&mut self.spare);
        }
        self.classes.put_back(evaluator, kept);
        found
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
            let profile = &self.profiles[queued.profile()];
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

    fn compare(&mut self, kept: &mut Evaluation, class: ClassIdx) -> Result<(), String> {
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
        let chosen = ranking.choose(Tie::First(0));
        let wanted = scores.winner().map(|winner| feasible[winner]);
        if chosen != wanted {
            return Err(format!("best node: kept {chosen:?}, from scratch {wanted:?}"));
        }
        Ok(())
    }
}
