//! Checks the columns against the objects they were made from.

use std::ops::Range;

use crate::index::{NodeIdx, ResourceIdx};

use super::State;
use super::lowest::LowestPriorities;

impl State {
    /// Adds up the pods of these slots of nodes anew. The first difference is told.
    pub(crate) fn audit_nodes(&self, slots: Range<usize>) -> Result<(), String> {
        for index in slots.start..slots.end.min(self.nodes.slots()) {
            self.audit_node(index.into())?;
        }
        Ok(())
    }

    /// Looks whether the pods of these slots are listed where they are. The first that is not is told.
    pub(crate) fn audit_pods(&self, slots: Range<usize>) -> Result<(), String> {
        for (pod, record) in self.pods.iter_within(slots) {
            let on_node = record.node.is_some();
            let listed = on_node && self.nodes.pods(record.node).contains(&pod);
            let group = &self.groups.get(record.group).pods;
            let spec = &self.specs.get(record.spec).pods;
            let in_group = group.get(record.place_in_group as usize) == Some(&pod);
            let in_spec = spec.get(record.place_in_spec as usize) == Some(&pod);
            if on_node && !(listed && in_group && in_spec) {
                return Err(format!("{} is not listed where it is", self.full_name(pod)));
            }
        }
        Ok(())
    }

    fn audit_node(&self, node: NodeIdx) -> Result<(), String> {
        let name = self.nodes.name(node);
        let mut requested = vec![0i64; self.resources.count()];
        let (mut cpu, mut memory) = (0i64, 0i64);
        for pod in self.nodes.pods(node) {
            let spec = self.specs.get(self.pods.get(*pod).spec);
            for (resource, amount) in &spec.on_node {
                requested[resource.at()] += amount;
            }
            cpu += spec.spec.non_zero_cpu;
            memory += spec.spec.non_zero_memory;
        }
        for (index, sum) in requested.iter().enumerate() {
            let resource = ResourceIdx::from(index);
            let kept = self.nodes.requested_of(resource, node);
            if kept != *sum {
                let resource = self.resources.name(resource);
                return Err(format!("{resource} requested on {name}: kept {kept}, sum {sum}"));
            }
        }
        let kept = (self.nodes.non_zero_cpu()[node.at()], self.nodes.non_zero_memory()[node.at()]);
        if kept != (cpu, memory) {
            return Err(format!("usage of {name}: kept {kept:?}, sum {:?}", (cpu, memory)));
        }
        let priorities = self.nodes.pods(node).iter().map(|pod| self.pods.get(*pod).priority);
        let counted = LowestPriorities::recount(priorities);
        let kept = self.lowest_priorities.kept(node);
        if kept != counted {
            return Err(format!("lowest priority on {name}: kept {kept:?}, counted {counted:?}"));
        }
        Ok(())
    }
}
