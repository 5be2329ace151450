//! Undo: the inverse steps of the changes that a trial makes to the state.
//!
//! While a trial is open, every change of pods, nominations and reservations records what its
//! inverse needs. Undoing the steps in the inverse order restores all content: sums, ports, the
//! order of pods on nodes and in interned parts, lowest priorities, users of claims, reservations,
//! and slots with their free lists. The inverse steps are changes as well, so logs and versions go
//! on, and cached evaluations follow a trial and its end as they follow everything else.

use crate::index::{NodeIdx, PodIdx};
use crate::object::Text;

use super::State;
use super::nodes::NodeMark;
use super::plugin_states::SavedPluginStates;
use super::volumes::ReservationMark;

/// A change of the state, with what its inverse needs.
#[derive(Clone, Debug)]
pub(super) enum UndoStep {
    /// A pod was put on a node.
    Placed(PlacementMark),
    /// A pod was removed from a node.
    Displaced(PlacementMark),
    /// The nominated node of a pod was set; before, it was this.
    Nominated { pod: PodIdx, node: NodeIdx },
    /// Volume reservations were made or dropped.
    Volumes(ReservationMark),
    /// A pod was added; before, the tables had these numbers of slots.
    Added { pod: PodIdx, slots: SlotCounts },
}

/// A pod and its node before the pod was placed there or displaced.
#[derive(Clone, Debug)]
pub(super) struct PlacementMark {
    pod: PodIdx,
    node: NodeMark,
    position_in_label_set: u32,
    position_in_spec: u32,
    assumed: bool,
    lowest_priority: (i32, u32),
    /// Name of an orphan slot that the displacement freed.
    freed: Option<Text>,
}

/// Numbers of slots of the tables that a new pod may extend.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotCounts {
    pods: usize,
    label_sets: usize,
    specs: usize,
    terms: usize,
}

/// A position in the undo log, to which [`State::undo_to`] returns.
///
/// Parts of the state that are copied on write as a whole belong here rather than into steps: the
/// mark shares them, and undoing puts them back.
#[derive(Clone, Debug, Default)]
pub(crate) struct UndoMark {
    steps: usize,
    plugin_states: SavedPluginStates,
}

impl State {
    /// Starts to record inverse steps and returns the mark of the present content.
    pub(crate) fn start_undo_log(&mut self) -> UndoMark {
        debug_assert!(self.undo.is_none(), "trials do not overlap");
        self.undo = Some(Vec::new());
        self.undo_mark()
    }

    /// Ends the recording; the changes since then stay.
    pub(crate) fn end_undo_log(&mut self) {
        self.undo = None;
    }

    /// Returns the mark of the present content.
    pub(crate) fn undo_mark(&self) -> UndoMark {
        let plugin_states = self.plugin_states.save();
        UndoMark { steps: self.undo.as_ref().map_or(0, Vec::len), plugin_states }
    }

    /// Restores the content of a mark.
    pub(crate) fn undo_to(&mut self, mark: &UndoMark) {
        let Some(mut steps) = self.undo.take() else { return };
        for step in steps.drain(mark.steps..).rev() {
            self.invert(step);
        }
        self.undo = Some(steps);
        self.plugin_states.restore(&mark.plugin_states);
    }

    /// Records a change that is about to be made, if a trial is open.
    #[inline]
    pub(super) fn record(&mut self, step: impl FnOnce(&Self) -> UndoStep) {
        if self.undo.is_some() {
            let step = step(self);
            self.undo.get_or_insert_default().push(step);
        }
    }

    pub(super) fn placement_mark(&self, pod: PodIdx, node: NodeIdx) -> PlacementMark {
        let record = self.pods.get(pod);
        let freed = self.nodes.is_orphan_of(node, pod).then(|| self.nodes.name(node).into());
        PlacementMark {
            pod,
            node: self.nodes.mark(node),
            position_in_label_set: record.position_in_label_set,
            position_in_spec: record.position_in_spec,
            assumed: record.assumed,
            lowest_priority: self.lowest_priorities.kept(node),
            freed,
        }
    }

    pub(super) fn slot_counts(&self) -> SlotCounts {
        SlotCounts {
            pods: self.pods.slots(),
            label_sets: self.label_sets.slots(),
            specs: self.specs.slots(),
            terms: self.terms.slots(),
        }
    }

    fn invert(&mut self, step: UndoStep) {
        match step {
            UndoStep::Placed(mark) => {
                self.unlink(mark.pod);
                self.restore_placement(mark);
            }
            UndoStep::Displaced(mark) => {
                if let Some(name) = &mark.freed {
                    self.nodes.reclaim(mark.node.node(), name);
                }
                self.link(mark.pod, mark.node.node());
                self.reposition(&mark);
                self.restore_placement(mark);
            }
            UndoStep::Nominated { pod, node } => self.set_nominated(pod, node),
            UndoStep::Volumes(mark) => self.restore_volumes(mark),
            UndoStep::Added { pod, slots } => {
                self.remove_pod(pod);
                self.pods.truncate(slots.pods);
                self.label_sets.truncate(slots.label_sets);
                self.specs.truncate(slots.specs);
                self.terms.truncate(slots.terms);
            }
        }
    }

    /// Moves a pod that was listed last to its positions in label set and spec. What is there moves
    /// to the end, from where the removal had fetched it.
    fn reposition(&mut self, mark: &PlacementMark) {
        let record = self.pods.get(mark.pod);
        let (label_set, spec) = (record.label_set, record.spec);
        let pods = &mut self.label_sets.get_mut(label_set).pods;
        let last = pods.len() - 1;
        pods.swap(mark.position_in_label_set as usize, last);
        self.pods.get_mut(pods[last]).position_in_label_set = last as u32;
        let pods = &mut self.specs.get_mut(spec).pods;
        let last = pods.len() - 1;
        pods.swap(mark.position_in_spec as usize, last);
        self.pods.get_mut(pods[last]).position_in_spec = last as u32;
    }

    fn restore_placement(&mut self, mark: PlacementMark) {
        let PlacementMark { pod, node, lowest_priority, .. } = mark;
        let record = self.pods.get_mut(pod);
        record.position_in_label_set = mark.position_in_label_set;
        record.position_in_spec = mark.position_in_spec;
        record.assumed = mark.assumed;
        self.lowest_priorities.correct(node.node(), lowest_priority);
        self.nodes.restore(node);
    }
}
