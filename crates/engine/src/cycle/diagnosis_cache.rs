//! The cached diagnosis of a class, so that each further unschedulable pod costs only the nodes
//! that changed.

use std::sync::Arc;

use crate::framework::{NodeVerdict, Profile};
use crate::index::NodeIdx;
use crate::limits::CACHED_REJECTIONS_MAX;
use crate::state::State;

use super::diagnosis::Diagnosis;
use super::evaluation::Evaluation;
use super::nomination_filter::ChangeCursor;
use super::rivals::Rivals;

/// A diagnosis that holds for the pods of a class without a nomination, and its validity.
pub(crate) struct CachedDiagnosis {
    diagnosis: Arc<Diagnosis>,
    cursor: ChangeCursor,
    /// See [`Evaluation::global_changes`].
    global_changes: u64,
}

impl Evaluation {
    /// Diagnoses a pod without feasible nodes. Only nodes that changed since the last diagnosis are
    /// evaluated again.
    pub(crate) fn diagnose(
        &mut self,
        profile: &Profile,
        state: &mut State,
        rivals: Rivals,
    ) -> Arc<Diagnosis> {
        if self.rejected.is_some() {
            return Arc::new(Diagnosis::new(profile, self, state));
        }
        let others = rivals.of_others();
        let cursor = ChangeCursor::now(self, state, others);
        let kept = self.failure.take();
        let current = kept.and_then(|kept| self.bring_up_to_date(kept, &cursor, state, others));
        let mut diagnosis =
            current.unwrap_or_else(|| Arc::new(self.diagnose_all(profile, state, others)));
        if diagnosis.refusal_count() <= CACHED_REJECTIONS_MAX {
            let diagnosis = Arc::clone(&diagnosis);
            let global_changes = self.global_changes();
            self.failure = Some(CachedDiagnosis { diagnosis, cursor, global_changes });
        }
        // A pod's own nomination is not its rival.
        if let Some(own) = rivals.own_node() {
            self.diagnose_node(Arc::make_mut(&mut diagnosis), state, rivals, own);
        }
        diagnosis
    }

    /// Updates a cached diagnosis; `None` if any node may have been affected.
    fn bring_up_to_date(
        &mut self,
        kept: CachedDiagnosis,
        now: &ChangeCursor,
        state: &mut State,
        rivals: Rivals,
    ) -> Option<Arc<Diagnosis>> {
        let CachedDiagnosis { mut diagnosis, cursor, global_changes } = kept;
        if global_changes != self.global_changes() || self.reads_other_nodes() && !rivals.are_none()
        {
            return None;
        }
        let changes = cursor.changes(now, state, rivals)?;
        if !changes.is_empty() {
            let diagnosis = Arc::make_mut(&mut diagnosis);
            for node in changes {
                self.diagnose_node(diagnosis, state, rivals, node);
            }
        }
        Some(diagnosis)
    }

    /// Updates the refusal of one node, if it is in the diagnosis.
    fn diagnose_node(
        &mut self,
        diagnosis: &mut Diagnosis,
        state: &mut State,
        rivals: Rivals,
        node: NodeIdx,
    ) {
        let Some(place) = diagnosis.position_of(state, node) else { return };
        let mut read = |evaluation: &Evaluation, state: &State, verdict| {
            diagnosis.refusal_by_verdict(evaluation, state, node, verdict)
        };
        let refusal = self.refused(state, rivals, node, &mut read);
        debug_assert!(refusal.is_some(), "a node is feasible for a pod diagnosed as unschedulable");
        if let Some(refusal) = refusal {
            diagnosis.replace(place, refusal);
        }
    }

    fn diagnose_all(&mut self, profile: &Profile, state: &mut State, rivals: Rivals) -> Diagnosis {
        let mut diagnosis = Diagnosis::empty(profile, self, state, None);
        let visit = Arc::clone(state.nodes.visit_order());
        for node in &visit.nodes {
            if self.narrowed.as_ref().is_some_and(|(_, nodes)| !nodes.contains(*node)) {
                continue;
            }
            let mut read = |evaluation: &Evaluation, state: &State, verdict| {
                diagnosis.add_verdict(evaluation, state, *node, verdict);
            };
            self.refused(state, rivals, *node, &mut read);
        }
        diagnosis
    }

    /// Passes the first rejecting verdict on a node, rivals considered, to `read`.
    fn refused<T>(
        &mut self,
        state: &mut State,
        rivals: Rivals,
        node: NodeIdx,
        mut read: impl FnMut(&Self, &State, (usize, NodeVerdict)) -> T,
    ) -> Option<T> {
        if rivals.any_on(state, node) {
            return rivals.two_passes(self, state, node, read);
        }
        let verdict = self.verdict(state, node)?;
        Some(read(self, state, verdict))
    }
}

#[cfg(test)]
mod tests;
