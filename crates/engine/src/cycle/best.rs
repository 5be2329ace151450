//! The best node of a class, found without looking at all of them.

use std::sync::Arc;

use crate::bitset::NodeSet;
use crate::index::NodeIdx;
use crate::state::node_order::Visit;

use super::choose::{preorder_first, preorder_key, preorder_search};

/// Positions looked at one by one before all ties are gathered. Usually one of the first wins.
const SEARCHED: usize = 32;

/// Maxima of blocks of 64 nodes, and the order of equally good nodes.
pub(crate) struct Best {
    block_max: Vec<i64>,
    /// The visiting order of nodes.
    visit: Arc<Visit>,
    /// Feasible nodes by their place in the visiting order.
    places: NodeSet,
    /// Feasible places before each word of `places`.
    before: Vec<u32>,
    feasible_count: usize,
    /// Grows with every change of the feasible set.
    version: u64,
    before_version: u64,
    ties: Ties,
    /// All totals were taken over since the last choice; that may happen every time.
    rebuilt: bool,
    /// Nodes of the best total by their place in the visiting order, while they are looked for.
    tied_places: NodeSet,
    /// Blocks whose maximum is to be found anew.
    stale_blocks: NodeSet,
}

/// The ties of one level, last first, as long as nothing joins them and no position moves.
#[derive(Default)]
struct Ties {
    stack: Vec<(u64, NodeIdx)>,
    level: i64,
    start: usize,
    version: u64,
    joined: bool,
}

impl Best {
    pub(crate) fn new(visit: &Arc<Visit>, feasible: &NodeSet) -> Self {
        let slots = feasible.words().len() * 64;
        let mut best = Self {
            block_max: vec![i64::MIN; slots.div_ceil(64)],
            visit: Arc::clone(visit),
            places: NodeSet::new(visit.order.len()),
            before: Vec::new(),
            feasible_count: 0,
            version: 1,
            before_version: 0,
            ties: Ties::default(),
            rebuilt: true,
            tied_places: NodeSet::default(),
            stale_blocks: NodeSet::new(slots.div_ceil(64)),
        };
        best.places.fill_with(visit.order.iter().map(|node| feasible.contains(*node)));
        best
    }

    /// Takes over all totals.
    pub(crate) fn rebuild(&mut self, totals: &[i64], feasible: &NodeSet) {
        for (block, word) in feasible.words().iter().enumerate() {
            self.block_max[block] = block_maximum(totals, block, *word);
        }
        self.ties.joined = true;
        self.rebuilt = true;
        self.stale_blocks.clear();
    }

    /// Notes that the total of a node changed; [`Self::settle`] takes all such totals over.
    pub(crate) fn touch(&mut self, node: NodeIdx, total: i64) {
        self.stale_blocks.insert(NodeIdx::from(node.at() / 64));
        self.ties.joined |= total == self.ties.level;
    }

    /// Takes over the totals of the nodes that were touched.
    pub(crate) fn settle(&mut self, totals: &[i64], feasible: &NodeSet) {
        for block in self.stale_blocks.iter() {
            let word = feasible.words()[block.at()];
            self.block_max[block.at()] = block_maximum(totals, block.at(), word);
        }
        self.stale_blocks.clear();
    }

    /// Notes that a node became feasible or ceased to be; to be touched as well.
    pub(crate) fn set_feasible(&mut self, node: NodeIdx, feasible: bool) {
        self.places.set(NodeIdx(self.visit.place_of[node.at()]), feasible);
        self.version += 1;
    }

    /// The best node, of equal ones the one upstream's heap brings up. `start` is the place at
    /// which the visit begins.
    pub(crate) fn choose(
        &mut self,
        totals: &[i64],
        feasible: &NodeSet,
        start: usize,
    ) -> Option<NodeIdx> {
        let level = *self.block_max.iter().max()?;
        if level == i64::MIN {
            return None;
        }
        let is_tie = |node: NodeIdx| feasible.contains(node) && totals[node.at()] == level;
        let ties = &mut self.ties;
        if !ties.joined && (ties.level, ties.start, ties.version) == (level, start, self.version) {
            while let Some((_, node)) = ties.stack.last() {
                if is_tie(*node) {
                    return Some(*node);
                }
                ties.stack.pop();
            }
        }
        let calm = self.count_places() && !std::mem::take(&mut self.rebuilt);
        let skipped = self.rank_of_place(start);
        let count = self.feasible_count;
        let by_rank = |best: &Self, rank: usize| best.node_of_rank((rank + skipped) % count);
        let found = preorder_search(count, SEARCHED, |rank| is_tie(by_rank(self, rank)));
        if let Some(rank) = found {
            return Some(by_rank(self, rank));
        }
        if !calm {
            // Much changed since the last time and will probably change again: sorting is wasted.
            self.ties.joined = true;
            let order = &self.visit.order;
            self.tied_places.fill_with(order.iter().map(|node| is_tie(*node)));
            let found =
                preorder_first(count, |first, last| self.any_tied(first + skipped, last + skipped));
            return found.map(|rank| self.node_of_rank((rank + skipped) % count));
        }
        let mut stack = std::mem::take(&mut self.ties.stack);
        stack.clear();
        self.for_each_tie(totals, feasible, level, skipped, |key, node| stack.push((key, node)));
        stack.sort_unstable_by(|a, b| b.cmp(a));
        self.ties = Ties { stack, level, start, version: self.version, joined: false };
        self.ties.stack.last().map(|(_, node)| *node)
    }

    /// Whether any node between two ranks, both included, is tied; ranks go round once.
    fn any_tied(&self, first: usize, last: usize) -> bool {
        let count = self.feasible_count;
        if first >= count {
            return self.any_tied(first - count, last - count);
        }
        if last >= count {
            return self.any_tied(first, count - 1) || self.any_tied(0, last - count);
        }
        self.tied_places.any_between(self.place_of_rank(first), self.place_of_rank(last))
    }

    /// Calls `each` for every node of the best total with the sort key of its position.
    fn for_each_tie(
        &self,
        totals: &[i64],
        feasible: &NodeSet,
        level: i64,
        skipped: usize,
        mut each: impl FnMut(u64, NodeIdx),
    ) {
        for (block, word) in feasible.words().iter().enumerate() {
            if self.block_max[block] != level {
                continue;
            }
            let mut rest = *word;
            while rest != 0 {
                let node = NodeIdx::from(block * 64 + rest.trailing_zeros() as usize);
                rest &= rest - 1;
                if totals[node.at()] == level {
                    let rank = self.rank_of_place(self.visit.place_of[node.at()] as usize);
                    let turn = if rank < skipped { self.feasible_count } else { 0 };
                    each(preorder_key(rank + turn - skipped), node);
                }
            }
        }
    }

    /// Counts feasible places before each word; true when the set was the same last time.
    fn count_places(&mut self) -> bool {
        if self.before_version == self.version {
            return true;
        }
        self.before.clear();
        let mut count = 0;
        for word in self.places.words() {
            self.before.push(count);
            count += word.count_ones();
        }
        self.feasible_count = count as usize;
        self.before_version = self.version;
        false
    }

    /// How many feasible nodes are visited before a place when the visit begins at the first.
    fn rank_of_place(&self, place: usize) -> usize {
        if self.feasible_count == self.visit.order.len() {
            return place;
        }
        let Some(word) = self.places.words().get(place / 64) else { return 0 };
        let lower = word & ((1 << (place % 64)) - 1);
        self.before[place / 64] as usize + lower.count_ones() as usize
    }

    fn node_of_rank(&self, rank: usize) -> NodeIdx {
        self.visit.order[self.place_of_rank(rank)]
    }

    fn place_of_rank(&self, rank: usize) -> usize {
        if self.feasible_count == self.visit.order.len() {
            return rank;
        }
        let word = self.before.partition_point(|before| *before as usize <= rank) - 1;
        let mut bits = self.places.words()[word];
        for _ in 0..rank - self.before[word] as usize {
            bits &= bits - 1;
        }
        word * 64 + bits.trailing_zeros() as usize
    }
}

fn block_maximum(totals: &[i64], block: usize, word: u64) -> i64 {
    let block_totals = &totals[block * 64..totals.len().min(block * 64 + 64)];
    if word == u64::MAX {
        return block_totals.iter().copied().max().unwrap_or(i64::MIN);
    }
    let mut best = i64::MIN;
    let mut rest = word;
    while rest != 0 {
        best = best.max(block_totals[rest.trailing_zeros() as usize]);
        rest &= rest - 1;
    }
    best
}
