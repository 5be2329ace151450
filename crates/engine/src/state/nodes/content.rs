//! The content of the node table, for tests.

use crate::index::{NodeIdx, ResourceIdx};

use super::{ExactSums, Nodes};

impl Nodes {
    /// Appends one line per slot and the free list. Logs and columns of zeros are no content.
    pub(in crate::state) fn content(&self, lines: &mut Vec<String>) {
        for slot in 0..self.slots() {
            let node = NodeIdx::from(slot);
            let name = self.name(node);
            let exists = self.objects[slot].is_some();
            assert_eq!(self.present.contains(node), exists, "{name}");
            if !name.is_empty() {
                assert_eq!(self.find_slot(name), Some(node));
            }
            let sums = |sums: &ExactSums| sums.sum(node);
            let mut requested: Vec<(usize, i128)> =
                self.requested.iter().map(sums).enumerate().collect();
            requested.retain(|(_, sum)| *sum != 0);
            let mut allocatable: Vec<i64> = (0..self.allocatable.len())
                .map(|resource| self.allocatable_of(ResourceIdx::from(resource), node))
                .collect();
            allocatable.push(self.allowed_pods[slot]);
            let non_zero = [&self.non_zero_cpu, &self.non_zero_memory].map(sums);
            let (pods, ports) = (self.pods(node), self.ports(node));
            let count = self.pod_counts[slot];
            let volumes = self.volumes(node);
            let flags = [&self.unschedulable, &self.hard_tainted, &self.soft_tainted];
            let flags = flags.map(|set| set.contains(node));
            lines.push(format!(
                "node {slot} {name:?} {exists} {requested:?} {non_zero:?} {allocatable:?} \
                 {count} {pods:?} {ports:?} {volumes:?} {flags:?}"
            ));
        }
        // What a pending recomputation will give counts, not what is there before.
        let mut order = self.order.clone();
        let pending = order.peek();
        lines.push(format!("free nodes {:?}, order {order:?} {pending:?}", self.free));
    }
}
