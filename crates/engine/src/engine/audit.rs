//! Audits: compare incremental state with state computed from scratch, and correct it.

use crate::cycle::choose::TieBreak;
use crate::cycle::evaluation::Evaluation;
use crate::cycle::scores::Scores;
use crate::framework::Point;
use crate::index::{ClassIdx, NodeIdx};
use crate::queue::{QueueCheck, QueueStage};

use super::Engine;

/// Node slots that one part of an audit checks, which takes a fraction of a millisecond.
const NODES_AT_ONCE: usize = 256;
/// Pod slots that one part of an audit checks.
const PODS_AT_ONCE: usize = 4096;

/// The next part of an audit. Changes may be applied between parts; each part compares the state as
/// it is then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditPart(AuditStep);

#[derive(Clone, Debug, PartialEq, Eq)]
enum AuditStep {
    /// Node slots from this one on.
    Nodes(usize),
    /// Pod slots from this one on.
    Pods(usize),
    /// Remaining parts of the queue's check.
    Queue(QueueCheck),
    /// The first class at this index or after it.
    Class(usize),
}

impl Default for AuditStep {
    fn default() -> Self {
        Self::Nodes(0)
    }
}

impl Engine {
    /// Checks the state, the queue and all cached evaluations. Returns the first difference.
    ///
    /// Costs as much as evaluating every class from scratch; for tests.
    pub fn audit(&mut self) -> Result<(), String> {
        let mut part = Some(AuditPart::default());
        let mut all = Ok(());
        while let Some(next) = part {
            let found;
            (part, found) = self.audit_part(next);
            all = all.and(found);
        }
        all
    }

    /// Runs one part of an audit: some nodes, some pods, some of the queue, or one class. Returns
    /// the next part, if any, and the differences found.
    ///
    /// Corrects sums of nodes that differ, and drops an evaluation that differs, which is then made
    /// again for the next pod of its class. Other differences are only reported.
    pub fn audit_part(&mut self, part: AuditPart) -> (Option<AuditPart>, Result<(), String>) {
        let (next, found) = match part.0 {
            AuditStep::Nodes(from) => {
                let to = from + NODES_AT_ONCE;
                let found = self.core.state.audit_nodes(from..to);
                let more = to < self.core.state.nodes.slots();
                (if more { AuditStep::Nodes(to) } else { AuditStep::Pods(0) }, found)
            }
            AuditStep::Pods(from) => {
                let to = from + PODS_AT_ONCE;
                let found = self.core.state.audit_pods(from..to);
                let found = found.and(self.audit_nominations(from..to));
                let more = to < self.core.state.pods.slots();
                (
                    if more {
                        AuditStep::Pods(to)
                    } else {
                        AuditStep::Queue(QueueCheck::default())
                    },
                    found,
                )
            }
            AuditStep::Queue(mut check) => match self.queue.check_part(&self.core, &mut check) {
                Ok(true) => (AuditStep::Queue(check), Ok(())),
                Ok(false) if !self.core.nominator.is_sound() => {
                    (AuditStep::Class(0), Err("queue: nominator".to_owned()))
                }
                Ok(false) => (AuditStep::Class(0), Ok(())),
                Err(wrong) => (AuditStep::Class(0), Err(format!("queue: {wrong}"))),
            },
            AuditStep::Class(from) => {
                let Some(class) = self.core.classes.next_from(from) else { return (None, Ok(())) };
                let before = self.core.state.nodes.peek_order();
                let found = self.audit_class(class);
                self.core.state.nodes.end_peek(before);
                (AuditStep::Class(class.at() + 1), found)
            }
        };
        (Some(AuditPart(next)), found)
    }

    fn audit_class(&mut self, class: ClassIdx) -> Result<(), String> {
        let profile = &self.core.profiles[self.core.classes.profile(class)];
        let evaluator = self.core.classes.representative(&self.core.state, profile, class);
        let Some(mut kept) = self.core.classes.take_evaluation(evaluator) else { return Ok(()) };
        let ranked = kept.ranking.is_some();
        let found = self.compare(&mut kept, class);
        if found.is_err() {
            self.core.classes.drop_evaluation(&mut self.core.state, evaluator);
            return found;
        }
        // Auditing must not count as use, or it would keep rankings alive.
        if !ranked && let Some(ranking) = kept.ranking.take() {
            ranking.recycle(&mut self.column_pool);
        }
        self.core.classes.put_back(evaluator, kept);
        found
    }

    /// Checks that no pod waits for an event although it is schedulable. Returns the first one.
    ///
    /// Nodes with nominated pods do not count as feasible.
    pub fn audit_waiting(&mut self) -> Result<(), String> {
        let before = self.core.state.nodes.peek_order();
        let found = self.find_waiting();
        self.core.state.nodes.end_peek(before);
        found
    }

    fn find_waiting(&mut self) -> Result<(), String> {
        let waiting: Vec<_> = self
            .queue
            .iter()
            .filter(|(_, stage)| *stage == QueueStage::Unschedulable)
            .map(|(queued, _)| *queued)
            .collect();
        for queued in waiting {
            let class = self.core.classes.class(queued.class).clone();
            let profile = &self.core.profiles[queued.profile()];
            let fresh = Evaluation::new(profile, class, &mut self.core.state);
            let free =
                fresh.feasible().iter().find(|node| self.core.nominator.on(*node).is_empty());
            if let Some(node) = free {
                let (pod, node) =
                    (self.core.state.full_name(queued.pod), self.core.state.nodes.name(node));
                return Err(format!("{pod} fits on {node} but waits for an event"));
            }
        }
        Ok(())
    }

    fn compare(&mut self, kept: &mut Evaluation, class: ClassIdx) -> Result<(), String> {
        let profile = &self.core.profiles[self.core.classes.profile(class)];
        kept.refresh(profile, &mut self.core.state);
        // The class may differ from the one whose evaluation it shares.
        let class = self.core.classes.class(class).clone();
        let fresh = Evaluation::new(profile, class.clone(), &mut self.core.state);
        if kept.feasible() != fresh.feasible() || kept.feasible_count() != fresh.feasible_count() {
            let names = |evaluation: &Evaluation| -> Vec<&str> {
                evaluation.feasible().iter().map(|node| self.core.state.nodes.name(node)).collect()
            };
            return Err(format!(
                "feasible nodes of a class: kept {:?}, from scratch {:?}",
                names(kept),
                names(&fresh)
            ));
        }
        let order = self.core.state.nodes.order().iter().copied();
        let feasible: Vec<NodeIdx> =
            order.filter(|node| fresh.feasible().contains(*node)).collect();
        // Without scorers nothing is ranked: the first feasible node is taken.
        if feasible.len() < 2 || profile.at(Point::Score).is_empty() {
            return Ok(());
        }
        let scores = Scores::new(profile, &class, &mut self.core.state, &feasible)
            .map_err(|failed| failed.0)?;
        let ranking = kept.rank(profile, &mut self.core.state, &mut self.column_pool);
        for (node, total) in feasible.iter().zip(&scores.totals) {
            if ranking.total(*node) != *total {
                let name = self.core.state.nodes.name(*node);
                let kept = ranking.total(*node);
                return Err(format!("total of {name}: kept {kept}, from scratch {total}"));
            }
        }
        let chosen = ranking.choose(TieBreak::First(0));
        let wanted = scores.winner().map(|winner| feasible[winner]);
        if chosen != wanted {
            return Err(format!("best node: kept {chosen:?}, from scratch {wanted:?}"));
        }
        Ok(())
    }
}
