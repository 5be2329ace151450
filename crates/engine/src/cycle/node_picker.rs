//! Picks the best node of a class without reading the totals of all nodes.

mod ranked_positions;

use std::sync::Arc;

use crate::bitset::NodeSet;
use crate::index::NodeIdx;
use crate::simd::Simd;
use crate::state::node_order::VisitOrder;
use crate::{simd, simd_dispatch};

use super::choose::{
    Positions, TieBreak, next_random, preorder_first, preorder_key, preorder_search, reduce,
};
use super::flip_cache::FlipCache;

use ranked_positions::RankedPositions;

/// Positions probed before the ties are gathered. Where ties are frequent, one of the first probes
/// is a tie.
const PREORDER_PROBES_MAX: usize = 64;

/// Maximum number of ties whose keys are compared one by one; with more, the first tie in pre-order
/// is searched for in their bit set.
const TIES_COMPARED_MAX: usize = 64;

/// Picks the best feasible node from the maxima of blocks of 64 nodes and from the set of ties.
///
/// Feasibility changes for whole zones at once, while totals change for few nodes. The maximum over
/// all nodes, feasible or not, is therefore always current, and while a feasible node reaches it,
/// nothing else is computed.
///
/// A *position* is an index into the visiting order, a *rank* the number of feasible nodes before a
/// position.
pub(crate) struct NodePicker {
    /// The largest total of each block, feasible or not.
    max_all: Vec<i64>,
    /// Blocks whose `max_all` is outdated.
    touched_blocks: NodeSet,
    /// The largest total of the feasible nodes of each block.
    max_feasible: Vec<i64>,
    /// Blocks whose `max_feasible` is outdated.
    stale_blocks: NodeSet,
    /// The total of the last node picked.
    best_total: i64,
    visit_order: Arc<VisitOrder>,
    /// Feasible nodes by position.
    feasible_positions: RankedPositions,
    flip_cache: FlipCache,
    ties: TieCandidates,
    /// Those of `ties` that are feasible, for one decision.
    feasible_ties: NodeSet,
}

/// The nodes of one total by position, feasible or not.
#[derive(Default)]
struct TieCandidates {
    total: i64,
    positions: NodeSet,
    /// Set if all totals may have changed since the positions were gathered.
    is_stale: bool,
}

impl NodePicker {
    pub(crate) fn new(visit_order: &Arc<VisitOrder>, feasible: &NodeSet) -> Self {
        let nodes = &visit_order.nodes;
        let blocks = feasible.words().len();
        let feasible_positions = if feasible.count() == nodes.len() {
            NodeSet::full(nodes.len())
        } else {
            NodeSet::from_answers(nodes.iter().map(|node| feasible.contains(*node)))
        };
        let positions = NodeSet::new(nodes.len());
        Self {
            max_all: vec![i64::MIN; blocks],
            touched_blocks: NodeSet::new(blocks),
            max_feasible: vec![i64::MIN; blocks],
            stale_blocks: NodeSet::new(blocks),
            best_total: i64::MIN,
            visit_order: Arc::clone(visit_order),
            feasible_positions: RankedPositions::new(feasible_positions, nodes.len()),
            flip_cache: FlipCache::default(),
            ties: TieCandidates { positions, is_stale: true, ..TieCandidates::default() },
            feasible_ties: NodeSet::default(),
        }
    }

    /// Invalidates everything derived from totals, since all of them may have changed.
    pub(crate) fn rebuild(&mut self) {
        self.touched_blocks = NodeSet::full(self.max_all.len());
        self.stale_blocks = self.touched_blocks.clone();
        self.ties.is_stale = true;
    }

    /// Updates the total of one node.
    pub(crate) fn touch(&mut self, node: NodeIdx, total: i64) {
        let block = NodeIdx::from(node.at() / 64);
        self.touched_blocks.insert(block);
        self.stale_blocks.insert(block);
        if !self.ties.is_stale {
            let position = NodeIdx(self.visit_order.position_of[node.at()]);
            self.ties.positions.set(position, total == self.ties.total);
        }
    }

    /// Updates which nodes are feasible.
    pub(crate) fn flip(&mut self, old: &NodeSet, new: &NodeSet) {
        for (block, (old, new)) in old.words().iter().zip(new.words()).enumerate() {
            if old != new {
                self.stale_blocks.insert(NodeIdx::from(block));
            }
        }
        let position_of = &self.visit_order.position_of;
        self.flip_cache.flip(old, new, position_of, self.feasible_positions.positions_mut());
    }

    /// Returns the best feasible node; among ties, the one that the tie break selects.
    pub(crate) fn choose(
        &mut self,
        totals: &[i64],
        feasible: &NodeSet,
        tie: TieBreak,
    ) -> Option<NodeIdx> {
        simd_dispatch!(simd => self.choose_by(simd, totals, feasible, tie))
    }

    #[inline(always)]
    fn choose_by(
        &mut self,
        simd: impl Simd,
        totals: &[i64],
        feasible: &NodeSet,
        tie: TieBreak,
    ) -> Option<NodeIdx> {
        for block in self.touched_blocks.iter().map(NodeIdx::at) {
            self.max_all[block] = simd::max_selected(simd, block_of(totals, block), u64::MAX);
        }
        self.touched_blocks.clear();
        self.feasible_positions.refresh();
        // In the common case the maximum over all nodes equals the last best total, and a feasible
        // node has it.
        if maximum(&self.max_all) == self.best_total
            && let Some(node) = self.choose_at_best_total(simd, totals, tie)
        {
            return Some(node);
        }
        for block in self.stale_blocks.iter().map(NodeIdx::at) {
            let selected = feasible.words()[block];
            self.max_feasible[block] = simd::max_selected(simd, block_of(totals, block), selected);
        }
        self.stale_blocks.clear();
        self.best_total = maximum(&self.max_feasible);
        if self.best_total == i64::MIN {
            return None;
        }
        self.choose_at_best_total(simd, totals, tie)
    }

    /// Returns a feasible node whose total is `best_total`, if there is one.
    #[inline(always)]
    fn choose_at_best_total(
        &mut self,
        simd: impl Simd,
        totals: &[i64],
        tie: TieBreak,
    ) -> Option<NodeIdx> {
        if self.ties.is_stale || self.ties.total != self.best_total {
            if let Some(node) = self.probe(totals, tie) {
                self.ties.is_stale = true;
                return Some(node);
            }
            self.gather_ties(simd, totals, self.best_total);
        }
        self.feasible_ties.copy_from(&self.ties.positions);
        self.feasible_ties.intersect(self.feasible_positions.positions());
        match tie {
            TieBreak::First(start) => self.first_tie(start),
            TieBreak::Any(random) => self.random_tie(random),
        }
    }

    /// Looks for a feasible node of `best_total` at a few positions; finds one quickly where ties
    /// are frequent.
    #[inline(always)]
    fn probe(&self, totals: &[i64], tie: TieBreak) -> Option<NodeIdx> {
        let nodes = &self.visit_order.nodes;
        let is_best = |node: &NodeIdx| totals[node.at()] == self.best_total;
        match tie {
            TieBreak::First(start) => {
                let skipped = self.feasible_positions.rank_of(start);
                let node_at = |visited| nodes[self.position_of_visited(visited, skipped)];
                let wins = |visited| is_best(&node_at(visited));
                preorder_search(self.feasible_positions.count(), PREORDER_PROBES_MAX, wins)
                    .map(node_at)
            }
            // Every position is equally likely to be drawn, hence so is each best node.
            TieBreak::Any(mut random) => {
                let mut drawn = (0..PREORDER_PROBES_MAX)
                    .map(|_| NodeIdx::from(reduce(next_random(&mut random), nodes.len())));
                let is_best = |position: &NodeIdx| {
                    self.feasible_positions.positions().contains(*position)
                        && is_best(&nodes[position.at()])
                };
                drawn.find(is_best).map(|position| nodes[position.at()])
            }
        }
    }

    /// Returns the feasible tie that upstream's heap brings to the root.
    #[inline(always)]
    fn first_tie(&self, start: usize) -> Option<NodeIdx> {
        let (count, skipped) =
            (self.feasible_positions.count(), self.feasible_positions.rank_of(start));
        if simd::count_ones(self.feasible_ties.words()) > TIES_COMPARED_MAX {
            let visited = preorder_first(count, &VisitedTies { picker: self, skipped })?;
            return Some(self.visit_order.nodes[self.position_of_visited(visited, skipped)]);
        }
        let visited = |position: usize| {
            let rank = self.feasible_positions.rank_of(position);
            if rank < skipped { rank + count - skipped } else { rank - skipped }
        };
        let positions = self.feasible_ties.iter().map(NodeIdx::at);
        let position = positions.min_by_key(|position| preorder_key(visited(*position)))?;
        Some(self.visit_order.nodes[position])
    }

    /// Returns a random feasible tie.
    #[inline(always)]
    fn random_tie(&self, random: u64) -> Option<NodeIdx> {
        let words = self.feasible_ties.words();
        let mut rank = reduce(random, simd::count_ones(words)) as u32;
        for (index, word) in words.iter().enumerate() {
            let count = word.count_ones();
            if rank < count {
                let bit = simd::nth_set_bit(*word, rank) as usize;
                return Some(self.visit_order.nodes[index * 64 + bit]);
            }
            rank -= count;
        }
        None
    }

    /// Returns the position of the n-th feasible node of a visit that begins after `skipped`
    /// feasible nodes.
    #[inline(always)]
    fn position_of_visited(&self, visited: usize, skipped: usize) -> usize {
        let (rank, count) = (visited + skipped, self.feasible_positions.count());
        self.feasible_positions.position_of(if rank < count { rank } else { rank - count })
    }

    #[inline(always)]
    fn gather_ties(&mut self, simd: impl Simd, totals: &[i64], total: i64) {
        let TieCandidates { positions, .. } = &mut self.ties;
        positions.clear();
        for (block, position_of) in self.visit_order.position_of.chunks(64).enumerate() {
            let totals = block_of(totals, block);
            let mut equal = simd::equal_mask(simd, totals, total);
            while equal != 0 {
                let slot = equal.trailing_zeros() as usize;
                // Slots without a node have no position, and trailing ones are beyond the column.
                if let Some(position) = position_of.get(slot).filter(|p| **p != u32::MAX) {
                    positions.insert(NodeIdx(*position));
                }
                equal &= equal - 1;
            }
        }
        self.ties.total = total;
        self.ties.is_stale = false;
    }

    /// Returns `true` if a node between two ranks, both inclusive, is a tie.
    #[inline(always)]
    fn has_tie_between(&self, first: usize, last: usize) -> bool {
        let (first, last) =
            (self.feasible_positions.position_of(first), self.feasible_positions.position_of(last));
        self.feasible_ties.any_between(first, last)
    }
}

/// The feasible ties by their position in a visit that begins after `skipped` feasible nodes.
struct VisitedTies<'a> {
    picker: &'a NodePicker,
    skipped: usize,
}

impl Positions for VisitedTies<'_> {
    #[inline(always)]
    fn any(&self, first: usize, last: usize) -> bool {
        let Self { picker, skipped } = self;
        let (first, last) = (first + skipped, last + skipped);
        // Ranks wrap around at most once.
        let count = picker.feasible_positions.count();
        let wrapped = if first < count { 0 } else { count };
        let (first, last) = (first - wrapped, last - wrapped);
        match last.checked_sub(count) {
            None => picker.has_tie_between(first, last),
            Some(last) => {
                picker.has_tie_between(first, count - 1) || picker.has_tie_between(0, last)
            }
        }
    }
}

/// Returns the totals of the nodes in one word of a set.
#[inline(always)]
fn block_of(totals: &[i64], block: usize) -> &[i64] {
    &totals[block * 64..totals.len().min(block * 64 + 64)]
}

/// Returns the largest total; `i64::MIN` if there are none.
#[inline(always)]
fn maximum(totals: &[i64]) -> i64 {
    totals.iter().fold(i64::MIN, |maximum, total| maximum.max(*total))
}

#[cfg(test)]
mod tests {
    use super::super::choose::heap_winner;
    use super::*;
    use proptest::prelude::*;

    /// A change between two decisions.
    #[derive(Clone, Debug)]
    enum Step {
        Total(usize, i64),
        Feasible(usize, bool),
        /// Every n-th node flips.
        Zone(usize),
        /// All totals change at once, to this many different values.
        AllTotals(i64),
    }

    fn step(nodes: usize) -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0..nodes, 0i64..6).prop_map(|(node, total)| Step::Total(node, total)),
            4 => (0..nodes, any::<bool>()).prop_map(|(node, fits)| Step::Feasible(node, fits)),
            2 => (1_usize..4).prop_map(Step::Zone),
            1 => prop::sample::select(vec![1, 2, 40, 1 << 40]).prop_map(Step::AllTotals),
        ]
    }

    /// The steps before a decision, the position at which its visit begins, and a random number.
    type Round = (Vec<Step>, usize, u64);

    /// Nodes in visiting order, their feasibility at first, and the rounds.
    fn scenario() -> impl Strategy<Value = (Vec<u32>, Vec<bool>, Vec<Round>)> {
        (1usize..300).prop_flat_map(|nodes| {
            let order = Just((0..nodes as u32).collect::<Vec<_>>()).prop_shuffle();
            let feasible = prop::collection::vec(prop::bool::weighted(0.8), nodes);
            let rounds = (prop::collection::vec(step(nodes), 0..6), 0..nodes, any::<u64>());
            (order, feasible, prop::collection::vec(rounds, 1..12))
        })
    }

    fn visit_order(nodes: impl Iterator<Item = u32>) -> Arc<VisitOrder> {
        let nodes: Vec<NodeIdx> = nodes.map(NodeIdx).collect();
        let mut position_of = vec![0; nodes.len()];
        for (position, node) in nodes.iter().enumerate() {
            position_of[node.at()] = position as u32;
        }
        Arc::new(VisitOrder { nodes, position_of })
    }

    proptest! {
        #[test]
        fn the_best_node_is_the_root_of_a_heap((order, feasible, rounds) in scenario()) {
            let nodes = order.len();
            let visit = visit_order(order.into_iter());
            let mut feasible = NodeSet::from_answers(feasible.into_iter());
            let mut totals = vec![0; nodes];
            let mut picker = NodePicker::new(&visit, &feasible);
            picker.rebuild();
            for (steps, start, random) in rounds {
                for step in steps {
                    match step {
                        Step::Total(node, total) => {
                            totals[node] = total;
                            picker.touch(node.into(), total);
                        }
                        Step::Feasible(node, fits) => {
                            let before = feasible.clone();
                            feasible.set(node.into(), fits);
                            picker.flip(&before, &feasible);
                        }
                        Step::Zone(stride) => {
                            let before = feasible.clone();
                            for node in (0..nodes).step_by(stride).map(NodeIdx::from) {
                                feasible.set(node, !feasible.contains(node));
                            }
                            picker.flip(&before, &feasible);
                        }
                        Step::AllTotals(values) => {
                            for (slot, total) in totals.iter_mut().enumerate() {
                                *total = (slot as i64 * 7919) % values;
                            }
                            picker.rebuild();
                        }
                    }
                }
                let visited = visit.nodes[start..].iter().chain(&visit.nodes[..start]);
                let visited: Vec<_> = visited.filter(|node| feasible.contains(**node)).collect();
                let visited_totals: Vec<i64> = visited.iter().map(|n| totals[n.at()]).collect();
                let wanted = heap_winner(&visited_totals).map(|position| *visited[position]);
                // A random pick before must not influence the deterministic one.
                let best_total = visited_totals.iter().max().copied();
                let any = picker.choose(&totals, &feasible, TieBreak::Any(random));
                prop_assert_eq!(any.map(|node| totals[node.at()]), best_total);
                prop_assert!(any.is_none_or(|node| feasible.contains(node)));
                prop_assert_eq!(picker.choose(&totals, &feasible, TieBreak::First(start)), wanted);
            }
        }
    }

    fn gather_now(picker: &mut NodePicker, totals: &[i64]) {
        let total = picker.best_total;
        simd_dispatch!(simd => picker.gather_ties(simd, totals, total));
    }

    #[test]
    fn no_feasible_node_means_no_best_node() {
        let visit = visit_order(0..100);
        let (totals, none) = (vec![5; 100], NodeSet::new(100));
        let mut picker = NodePicker::new(&visit, &none);
        picker.rebuild();
        assert_eq!(picker.choose(&totals, &none, TieBreak::First(0)), None);
        assert_eq!(picker.choose(&totals, &none, TieBreak::Any(1)), None);
        let mut one = none.clone();
        one.insert(NodeIdx(70));
        picker.flip(&none, &one);
        assert_eq!(picker.choose(&totals, &one, TieBreak::First(0)), Some(NodeIdx(70)));
        assert_eq!(picker.choose(&totals, &one, TieBreak::Any(1)), Some(NodeIdx(70)));
    }

    #[test]
    fn each_of_the_best_nodes_is_equally_likely() {
        let nodes = 640;
        let visit = visit_order((0..nodes as u32).rev());
        // Few, some and many best nodes, picked from their set and by probing.
        for (stride, gathered) in [(160, true), (10, true), (10, false), (1, true), (1, false)] {
            let totals: Vec<i64> = (0..nodes).map(|node| i64::from(node % stride == 0)).collect();
            let feasible = NodeSet::full(nodes);
            let mut picker = NodePicker::new(&visit, &feasible);
            picker.rebuild();
            let (mut state, mut picks) = (1, vec![0_u32; nodes]);
            let picks_per_node = 400;
            for _ in 0..picks_per_node * (nodes / stride) {
                if !gathered {
                    picker.rebuild();
                }
                let tie = TieBreak::Any(next_random(&mut state));
                let node = picker.choose(&totals, &feasible, tie);
                picks[node.unwrap().at()] += 1;
                if gathered && picker.ties.is_stale {
                    gather_now(&mut picker, &totals);
                }
            }
            // Five standard deviations of a binomial distribution with this mean.
            let (least, most) = (300, 500);
            for (node, picks) in picks.iter().enumerate() {
                let range = if node % stride == 0 { least..=most } else { 0..=0 };
                assert!(range.contains(picks), "every {stride}: {node} was picked {picks} times");
            }
        }
    }
}
