//! The lowest pod priority on each node, so that preemption visits only nodes with pods of lower
//! priority.

use crate::index::NodeIdx;

/// Lowest priority of the pods on each node, and the number of pods that have it, by node slot.
#[derive(Clone, Debug, Default)]
pub struct LowestPriorities {
    lowest: Vec<i32>,
    holders: Vec<u32>,
}

impl LowestPriorities {
    /// Returns the lowest priority on a node; `i32::MAX` if it has no pods.
    pub fn of(&self, node: NodeIdx) -> i32 {
        self.lowest.get(node.at()).copied().unwrap_or(i32::MAX)
    }

    /// Returns the lowest priority on any node; `i32::MAX` if there are no pods.
    pub fn of_all(&self) -> i32 {
        self.lowest.iter().copied().fold(i32::MAX, i32::min)
    }

    /// Adds a pod to a node.
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

    /// Removes a pod from a node; `others` are the priorities of the remaining pods.
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

    /// Replaces the numbers of a node by the result of [`Self::recount`] or [`Self::kept`].
    pub(super) fn correct(&mut self, node: NodeIdx, (lowest, holders): (i32, u32)) {
        if self.lowest.len() <= node.at() {
            self.lowest.resize(node.at() + 1, i32::MAX);
            self.holders.resize(node.at() + 1, 0);
        }
        (self.lowest[node.at()], self.holders[node.at()]) = (lowest, holders);
    }

    /// Returns the lowest of the priorities and the number of times it occurs.
    pub(super) fn recount(priorities: impl Iterator<Item = i32>) -> (i32, u32) {
        priorities.fold((i32::MAX, 0), |(lowest, holders), priority| {
            if holders == 0 || priority < lowest {
                (priority, 1)
            } else {
                (lowest, holders + u32::from(priority == lowest))
            }
        })
    }

    /// Returns the maintained numbers of a node, as [`Self::recount`] would.
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
