//! The lowest priority on each node, so that preemption looks only at nodes with a less important pod.

use crate::index::NodeIdx;

/// By slot of the node table, the lowest priority of the pods there, and how many of them have it.
#[derive(Clone, Debug, Default)]
pub struct LowestPriorities {
    lowest: Vec<i32>,
    holders: Vec<u32>,
}

impl LowestPriorities {
    /// The lowest priority on a node; `i32::MAX` when no pod is there.
    pub fn of(&self, node: NodeIdx) -> i32 {
        self.lowest.get(node.at()).copied().unwrap_or(i32::MAX)
    }

    /// The lowest priority on any node; `i32::MAX` when there are no pods.
    pub fn of_all(&self) -> i32 {
        self.lowest.iter().copied().fold(i32::MAX, i32::min)
    }

    /// Counts a pod that came to a node.
    pub(crate) fn add(&mut self, node: NodeIdx, priority: i32) {
        if self.lowest.len() <= node.at() {
            self.lowest.resize(node.at() + 1, i32::MAX);
            self.holders.resize(node.at() + 1, 0);
        }
        let (lowest, holders) = (&mut self.lowest[node.at()], &mut self.holders[node.at()]);
        if *holders == 0 || priority < *lowest {
            (*lowest, *holders) = (priority, 1);
        } else if priority == *lowest {
            *holders += 1;
        }
    }

    /// Takes a pod out that left a node; `others` are the priorities of those that are still there.
    pub(crate) fn remove(
        &mut self,
        node: NodeIdx,
        priority: i32,
        others: impl Iterator<Item = i32>,
    ) {
        if priority != self.lowest[node.at()] {
            return;
        }
        self.holders[node.at()] -= 1;
        if self.holders[node.at()] == 0 {
            self.lowest[node.at()] = i32::MAX;
            others.for_each(|priority| self.add(node, priority));
        }
    }

    /// Replaces what is known of a node by what was counted anew.
    pub(super) fn correct(&mut self, node: NodeIdx, (lowest, holders): (i32, u32)) {
        if self.lowest.len() <= node.at() {
            self.lowest.resize(node.at() + 1, i32::MAX);
            self.holders.resize(node.at() + 1, 0);
        }
        (self.lowest[node.at()], self.holders[node.at()]) = (lowest, holders);
    }

    /// The lowest of these priorities and how many of them are equal to it.
    pub(super) fn recount(priorities: impl Iterator<Item = i32>) -> (i32, u32) {
        priorities.fold((i32::MAX, 0), |(lowest, holders), priority| {
            if holders == 0 || priority < lowest {
                (priority, 1)
            } else {
                (lowest, holders + u32::from(priority == lowest))
            }
        })
    }

    /// The cached numbers of a node: see [`Self::recount`].
    pub(super) fn kept(&self, node: NodeIdx) -> (i32, u32) {
        (self.of(node), self.holders.get(node.at()).copied().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_lowest_priority_is_that_of_the_pods_there(
            steps in prop::collection::vec((0_u32..3, -2_i32..3, any::<bool>()), 0..60),
        ) {
            let mut lowest = LowestPriorities::default();
            let mut pods: Vec<Vec<i32>> = vec![Vec::new(); 3];
            for (node, priority, comes) in steps {
                let there = &mut pods[node as usize];
                if comes {
                    there.push(priority);
                    lowest.add(NodeIdx(node), priority);
                } else if let Some(found) = there.iter().position(|other| *other == priority) {
                    there.swap_remove(found);
                    lowest.remove(NodeIdx(node), priority, there.iter().copied());
                }
                for (node, there) in pods.iter().enumerate() {
                    let counted = LowestPriorities::recount(there.iter().copied());
                    prop_assert_eq!(lowest.kept(node.into()), counted);
                }
                let of_all = pods.iter().flatten().copied().min().unwrap_or(i32::MAX);
                prop_assert_eq!(lowest.of_all(), of_all);
            }
        }
    }
}
