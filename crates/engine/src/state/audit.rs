//! Compares the columns with the objects they were computed from, and corrects differences.

use std::ops::Range;

use crate::index::NodeIdx;

use super::State;
use super::lowest::LowestPriorities;

/// Maximum number of differences that one part of an audit returns as text; the others are counted.
const DIFFERENCES_SHOWN_MAX: usize = 8;

impl State {
    /// Recomputes the sums over the pods of a range of node slots, corrects those that differ and
    /// returns the differences.
    pub(crate) fn audit_nodes(&mut self, slots: Range<usize>) -> Result<(), String> {
        let mut found = Vec::new();
        for index in slots.start..slots.end.min(self.nodes.slots()) {
            found.append(&mut self.audit_node(index.into()));
        }
        if found.is_empty() {
            return Ok(());
        }
        let left_out = found.len().saturating_sub(DIFFERENCES_SHOWN_MAX);
        found.truncate(DIFFERENCES_SHOWN_MAX);
        let more = if left_out > 0 { format!("; and {left_out} more") } else { String::new() };
        Err(format!("{}{more}: corrected", found.join("; ")))
    }

    /// Checks that the pods of a range of slots are listed under their node, label set and spec.
    /// Returns the first that is not.
    pub(crate) fn audit_pods(&self, slots: Range<usize>) -> Result<(), String> {
        for (pod, record) in self.pods.iter_within(slots) {
            let on_node = record.node.is_some();
            let listed = on_node && self.nodes.pods(record.node).contains(&pod);
            let label_set = &self.label_sets.get(record.label_set).pods;
            let spec = &self.specs.get(record.spec).pods;
            let in_label_set = label_set.get(record.position_in_label_set as usize) == Some(&pod);
            let in_spec = spec.get(record.position_in_spec as usize) == Some(&pod);
            if on_node && !(listed && in_label_set && in_spec) {
                return Err(format!(
                    "{} is not listed under its node, label set and spec",
                    self.full_name(pod)
                ));
            }
        }
        Ok(())
    }

    fn audit_node(&mut self, node: NodeIdx) -> Vec<String> {
        let Self { nodes, pods, specs, resources, .. } = self;
        let on_node = nodes.pods(node).to_vec();
        let specs = on_node.iter().map(|pod| specs.get(pods.get(*pod).spec));
        let mut found = nodes.recount(node, specs, resources);
        if !found.is_empty() {
            nodes.note_pod_change(node);
        }
        let priorities = on_node.iter().map(|pod| pods.get(*pod).priority);
        let counted = LowestPriorities::recount(priorities);
        let kept = self.lowest_priorities.kept(node);
        if kept != counted {
            self.lowest_priorities.correct(node, counted);
            let name = self.nodes.name(node);
            found.push(format!("lowest priority on {name}: kept {kept:?}, counted {counted:?}"));
        }
        found
    }
}

#[cfg(test)]
mod tests;
