//! The best node of a class, found without looking at all of them.

use std::sync::Arc;

use crate::bitset::NodeSet;
use crate::index::NodeIdx;
use crate::state::node_order::Visit;
use crate::wide;
use crate::wide::Vectors;

use super::choose::{
    Positions, Tie, next_random, preorder_first, preorder_key, preorder_search, reduce,
};
use super::turned::Turned;

/// So many positions are looked at before ties are gathered. Where they are many, one of the first wins.
const PROBED: usize = 64;

/// So many ties are compared one by one; the first of more is found in their set.
const COMPARED: usize = 64;

/// So many words are looked at before the right one is searched for.
const GUESSED: usize = 4;

/// Maxima of blocks of 64 nodes, and the nodes that are equally good.
///
/// Which nodes are feasible changes for whole zones at once, totals change for a few nodes. So the
/// best of all nodes is always known, and as long as a feasible one is as good, nothing else is.
pub(crate) struct Best {
    /// The largest total of each block, feasible or not.
    tops: Vec<i64>,
    /// Blocks whose totals changed.
    touched: NodeSet,
    /// The largest total of the feasible nodes of each block.
    block_max: Vec<i64>,
    /// Blocks for which that is to be found anew.
    stale_blocks: NodeSet,
    /// The total of the last node chosen.
    level: i64,
    /// The visiting order of nodes.
    visit: Arc<Visit>,
    /// Feasible nodes by their place in the visiting order.
    places: NodeSet,
    /// Feasible places before each word of `places`.
    before: Vec<u32>,
    before_is_current: bool,
    feasible_count: usize,
    turned: Turned,
    equals: Equals,
    /// Those of `equals` that are feasible, for one decision.
    ties: NodeSet,
}

/// The nodes of one total, feasible or not, by their place in the visiting order.
#[derive(Default)]
struct Equals {
    level: i64,
    places: NodeSet,
    /// All totals may have changed since the places were gathered.
    stale: bool,
}

impl Best {
    pub(crate) fn new(visit: &Arc<Visit>, feasible: &NodeSet) -> Self {
        let blocks = feasible.words().len();
        let places = if feasible.count() == visit.order.len() {
            NodeSet::full(visit.order.len())
        } else {
            NodeSet::from_answers(visit.order.iter().map(|node| feasible.contains(*node)))
        };
        let equals = NodeSet::new(visit.order.len());
        Self {
            tops: vec![i64::MIN; blocks],
            touched: NodeSet::new(blocks),
            block_max: vec![i64::MIN; blocks],
            stale_blocks: NodeSet::new(blocks),
            level: i64::MIN,
            visit: Arc::clone(visit),
            places,
            before: Vec::new(),
            before_is_current: false,
            feasible_count: 0,
            turned: Turned::default(),
            equals: Equals { places: equals, stale: true, ..Equals::default() },
            ties: NodeSet::default(),
        }
    }

    /// All totals may have changed.
    pub(crate) fn rebuild(&mut self) {
        self.touched = NodeSet::full(self.tops.len());
        self.stale_blocks = self.touched.clone();
        self.equals.stale = true;
    }

    /// Notes the total of a node that may have changed.
    pub(crate) fn touch(&mut self, node: NodeIdx, total: i64) {
        let block = NodeIdx::from(node.at() / 64);
        self.touched.insert(block);
        self.stale_blocks.insert(block);
        if !self.equals.stale {
            let place = NodeIdx(self.visit.place_of[node.at()]);
            self.equals.places.set(place, total == self.equals.level);
        }
    }

    /// Notes which nodes became feasible or ceased to be.
    pub(crate) fn turn(&mut self, old: &NodeSet, new: &NodeSet) {
        for (block, (old, new)) in old.words().iter().zip(new.words()).enumerate() {
            if old != new {
                self.stale_blocks.insert(NodeIdx::from(block));
            }
        }
        self.turned.turn(old, new, &self.visit.place_of, &mut self.places);
        self.before_is_current = false;
    }

    /// The best feasible node, and one of them if several are equally good.
    pub(crate) fn choose(
        &mut self,
        totals: &[i64],
        feasible: &NodeSet,
        tie: Tie,
    ) -> Option<NodeIdx> {
        wide!(vectors => self.choose_by(vectors, totals, feasible, tie))
    }

    #[inline(always)]
    fn choose_by(
        &mut self,
        vectors: impl Vectors,
        totals: &[i64],
        feasible: &NodeSet,
        tie: Tie,
    ) -> Option<NodeIdx> {
        for block in self.touched.iter().map(NodeIdx::at) {
            self.tops[block] = wide::largest(vectors, block_of(totals, block), u64::MAX);
        }
        self.touched.clear();
        self.count_places();
        // Mostly the best of all nodes is as good as the one chosen last, and some are feasible.
        if maximum(&self.tops) == self.level
            && let Some(node) = self.choose_at(vectors, totals, tie)
        {
            return Some(node);
        }
        for block in self.stale_blocks.iter().map(NodeIdx::at) {
            let counted = feasible.words()[block];
            self.block_max[block] = wide::largest(vectors, block_of(totals, block), counted);
        }
        self.stale_blocks.clear();
        self.level = maximum(&self.block_max);
        if self.level == i64::MIN {
            return None;
        }
        self.choose_at(vectors, totals, tie)
    }

    /// The same among the feasible nodes of `level`.
    #[inline(always)]
    fn choose_at(&mut self, vectors: impl Vectors, totals: &[i64], tie: Tie) -> Option<NodeIdx> {
        if self.equals.stale || self.equals.level != self.level {
            if let Some(node) = self.probe(totals, tie) {
                self.equals.stale = true;
                return Some(node);
            }
            self.gather_equals(vectors, totals, self.level);
        }
        self.ties.copy_from(&self.equals.places);
        self.ties.intersect(&self.places);
        match tie {
            Tie::First(start) => self.first_tied(start),
            Tie::Any(random) => self.any_of_ties(random),
        }
    }

    /// Looks for a feasible node of `level` at a few places, which finds one where there are many.
    #[inline(always)]
    fn probe(&self, totals: &[i64], tie: Tie) -> Option<NodeIdx> {
        let is_best = |node: &NodeIdx| totals[node.at()] == self.level;
        match tie {
            Tie::First(start) => {
                let skipped = self.rank_of_place(start);
                let node_at = |position| self.visit.order[self.place_at(position, skipped)];
                let wins = |position| is_best(&node_at(position));
                preorder_search(self.feasible_count, PROBED, wins).map(node_at)
            }
            // All places are as likely, so those of the best nodes are.
            Tie::Any(mut random) => {
                let places = self.visit.order.len();
                let mut drawn =
                    (0..PROBED).map(|_| NodeIdx::from(reduce(next_random(&mut random), places)));
                let is_best = |place: &NodeIdx| {
                    self.places.contains(*place) && is_best(&self.visit.order[place.at()])
                };
                drawn.find(is_best).map(|place| self.visit.order[place.at()])
            }
        }
    }

    /// The one of the tied nodes that upstream's heap brings up.
    #[inline(always)]
    fn first_tied(&self, start: usize) -> Option<NodeIdx> {
        let (count, skipped) = (self.feasible_count, self.rank_of_place(start));
        if wide::count(self.ties.words()) > COMPARED {
            let position = preorder_first(count, &Tied { best: self, skipped })?;
            return Some(self.visit.order[self.place_at(position, skipped)]);
        }
        let position = |place: usize| {
            let rank = self.rank_of_place(place);
            if rank < skipped { rank + count - skipped } else { rank - skipped }
        };
        let places = self.ties.iter().map(NodeIdx::at);
        let place = places.min_by_key(|place| preorder_key(position(*place)))?;
        Some(self.visit.order[place])
    }

    /// Any of the tied nodes.
    #[inline(always)]
    fn any_of_ties(&self, random: u64) -> Option<NodeIdx> {
        let mut before = reduce(random, wide::count(self.ties.words())) as u32;
        for (index, word) in self.ties.words().iter().enumerate() {
            let count = word.count_ones();
            if before < count {
                return Some(self.visit.order[index * 64 + wide::nth(*word, before) as usize]);
            }
            before -= count;
        }
        None
    }

    /// The place of a position in a visit that begins after some feasible nodes.
    #[inline(always)]
    fn place_at(&self, position: usize, skipped: usize) -> usize {
        let (rank, count) = (position + skipped, self.feasible_count);
        self.place_of_rank(if rank < count { rank } else { rank - count })
    }

    #[inline(always)]
    fn gather_equals(&mut self, vectors: impl Vectors, totals: &[i64], level: i64) {
        let Equals { places, .. } = &mut self.equals;
        places.clear();
        for (block, place_of) in self.visit.place_of.chunks(64).enumerate() {
            let totals = block_of(totals, block);
            let mut equal = wide::equal(vectors, totals, level);
            while equal != 0 {
                let slot = equal.trailing_zeros() as usize;
                // There may be slots without a node, and no places for the last of them.
                if let Some(place) = place_of.get(slot).filter(|place| **place != u32::MAX) {
                    places.insert(NodeIdx(*place));
                }
                equal &= equal - 1;
            }
        }
        self.equals.level = level;
        self.equals.stale = false;
    }

    /// Whether any node between two ranks, both included, is tied.
    #[inline(always)]
    fn any_tied(&self, first: usize, last: usize) -> bool {
        self.ties.any_between(self.place_of_rank(first), self.place_of_rank(last))
    }

    /// Counts feasible places before each word.
    #[inline(always)]
    fn count_places(&mut self) {
        if self.before_is_current {
            return;
        }
        self.before.clear();
        let mut count = 0;
        for word in self.places.words() {
            self.before.push(count);
            count += word.count_ones();
        }
        self.feasible_count = count as usize;
        self.before_is_current = true;
    }

    /// How many feasible nodes are visited before a place when the visit begins at the first.
    #[inline(always)]
    fn rank_of_place(&self, place: usize) -> usize {
        if self.feasible_count == self.visit.order.len() {
            return place;
        }
        let Some(word) = self.places.words().get(place / 64) else { return 0 };
        let lower = word & ((1 << (place % 64)) - 1);
        self.before[place / 64] as usize + lower.count_ones() as usize
    }

    #[inline(always)]
    fn place_of_rank(&self, rank: usize) -> usize {
        if self.feasible_count == self.visit.order.len() {
            return rank;
        }
        let word = self.word_of_rank(rank as u32);
        let before = rank as u32 - self.before[word];
        word * 64 + wide::nth(self.places.words()[word], before) as usize
    }

    /// The word of `places` that has the node of a rank.
    #[inline(always)]
    fn word_of_rank(&self, rank: u32) -> usize {
        let before = |word: usize| self.before.get(word).copied().unwrap_or(u32::MAX);
        // Mostly they are spread evenly, and it is where it would be then, or close to it.
        let mut word = rank as usize * self.before.len() / self.feasible_count.max(1);
        for _ in 0..GUESSED {
            if before(word) > rank {
                word = word.saturating_sub(1);
            } else if before(word + 1) <= rank {
                word += 1;
            } else {
                return word;
            }
        }
        self.before.partition_point(|before| *before <= rank) - 1
    }
}

/// Nodes that are tied, by their position in a visit that begins after some that are feasible.
struct Tied<'a> {
    best: &'a Best,
    skipped: usize,
}

impl Positions for Tied<'_> {
    #[inline(always)]
    fn any(&self, first: usize, last: usize) -> bool {
        let Self { best, skipped } = self;
        let (first, last) = (first + skipped, last + skipped);
        // Ranks go round once.
        let count = best.feasible_count;
        let rounds = if first < count { 0 } else { count };
        let (first, last) = (first - rounds, last - rounds);
        match last.checked_sub(count) {
            None => best.any_tied(first, last),
            Some(last) => best.any_tied(first, count - 1) || best.any_tied(0, last),
        }
    }
}

/// Totals of the nodes in one word of a set.
#[inline(always)]
fn block_of(totals: &[i64], block: usize) -> &[i64] {
    &totals[block * 64..totals.len().min(block * 64 + 64)]
}

/// The largest of any number of totals; `i64::MIN` of none.
#[inline(always)]
fn maximum(totals: &[i64]) -> i64 {
    totals.iter().fold(i64::MIN, |maximum, total| maximum.max(*total))
}

#[cfg(test)]
mod tests {
    use super::super::choose::heap_winner;
    use super::*;
    use proptest::prelude::*;

    /// What happens to a node between two decisions.
    #[derive(Clone, Debug)]
    enum News {
        Total(usize, i64),
        Feasible(usize, bool),
        /// Every so manyth node changes sides.
        Zone(usize),
        /// All totals at once, of so many values.
        All(i64),
    }

    fn news(nodes: usize) -> impl Strategy<Value = News> {
        prop_oneof![
            8 => (0..nodes, 0i64..6).prop_map(|(node, total)| News::Total(node, total)),
            4 => (0..nodes, any::<bool>()).prop_map(|(node, fits)| News::Feasible(node, fits)),
            2 => (1_usize..4).prop_map(News::Zone),
            1 => prop::sample::select(vec![1, 2, 40, 1 << 40]).prop_map(News::All),
        ]
    }

    /// News before a decision, where its visit begins, and a random number.
    type Round = (Vec<News>, usize, u64);

    /// Nodes in visiting order, which of them are feasible at first, and what happens then.
    fn story() -> impl Strategy<Value = (Vec<u32>, Vec<bool>, Vec<Round>)> {
        (1usize..300).prop_flat_map(|nodes| {
            let order = Just((0..nodes as u32).collect::<Vec<_>>()).prop_shuffle();
            let feasible = prop::collection::vec(prop::bool::weighted(0.8), nodes);
            let rounds = (prop::collection::vec(news(nodes), 0..6), 0..nodes, any::<u64>());
            (order, feasible, prop::collection::vec(rounds, 1..12))
        })
    }

    proptest! {
        #[test]
        fn the_best_is_the_one_that_a_heap_brings_up((order, feasible, rounds) in story()) {
            let nodes = order.len();
            let mut place_of = vec![0; nodes];
            for (place, node) in order.iter().enumerate() {
                place_of[*node as usize] = place as u32;
            }
            let order: Vec<NodeIdx> = order.into_iter().map(NodeIdx).collect();
            let visit = Arc::new(Visit { order, place_of });
            let mut feasible = NodeSet::from_answers(feasible.into_iter());
            let mut totals = vec![0; nodes];
            let mut best = Best::new(&visit, &feasible);
            best.rebuild();
            for (news, start, random) in rounds {
                for news in news {
                    match news {
                        News::Total(node, total) => {
                            totals[node] = total;
                            best.touch(node.into(), total);
                        }
                        News::Feasible(node, fits) => {
                            let before = feasible.clone();
                            feasible.set(node.into(), fits);
                            best.turn(&before, &feasible);
                        }
                        News::Zone(step) => {
                            let before = feasible.clone();
                            for node in (0..nodes).step_by(step).map(NodeIdx::from) {
                                feasible.set(node, !feasible.contains(node));
                            }
                            best.turn(&before, &feasible);
                        }
                        News::All(values) => {
                            for (slot, total) in totals.iter_mut().enumerate() {
                                *total = (slot as i64 * 7919) % values;
                            }
                            best.rebuild();
                        }
                    }
                }
                let visited = visit.order[start..].iter().chain(&visit.order[..start]);
                let visited: Vec<_> = visited.filter(|node| feasible.contains(**node)).collect();
                let visited_totals: Vec<i64> = visited.iter().map(|n| totals[n.at()]).collect();
                let wanted = heap_winner(&visited_totals).map(|position| *visited[position]);
                // Which of them another rule chooses makes no difference to this one.
                let best_total = visited_totals.iter().max().copied();
                let any = best.choose(&totals, &feasible, Tie::Any(random));
                prop_assert_eq!(any.map(|node| totals[node.at()]), best_total);
                prop_assert!(any.is_none_or(|node| feasible.contains(node)));
                prop_assert_eq!(best.choose(&totals, &feasible, Tie::First(start)), wanted);
            }
        }
    }

    fn gather_now(best: &mut Best, totals: &[i64]) {
        let level = best.level;
        wide!(vectors => best.gather_equals(vectors, totals, level));
    }

    #[test]
    fn each_of_the_best_nodes_is_as_likely_as_the_others() {
        let nodes = 640;
        let order: Vec<NodeIdx> = (0..nodes).rev().map(NodeIdx::from).collect();
        let place_of = (0..nodes as u32).rev().collect();
        let visit = Arc::new(Visit { order, place_of });
        // Few, some and many of the best, found among all, by their set, and by looking at a few places.
        for (step, gathered) in [(160, true), (10, true), (10, false), (1, true), (1, false)] {
            let totals: Vec<i64> = (0..nodes).map(|node| i64::from(node % step == 0)).collect();
            let feasible = NodeSet::full(nodes);
            let mut best = Best::new(&visit, &feasible);
            best.rebuild();
            let (mut state, mut chosen) = (1, vec![0_u32; nodes]);
            let each = 400;
            for _ in 0..each * (nodes / step) {
                if !gathered {
                    best.rebuild();
                }
                let node = best.choose(&totals, &feasible, Tie::Any(next_random(&mut state)));
                chosen[node.unwrap().at()] += 1;
                if gathered && best.equals.stale {
                    gather_now(&mut best, &totals);
                }
            }
            // Five standard deviations of a binomial distribution with this mean.
            let (least, most) = (300, 500);
            for (node, chosen) in chosen.iter().enumerate() {
                let range = if node % step == 0 { least..=most } else { 0..=0 };
                assert!(range.contains(chosen), "one in {step}: {node} was chosen {chosen} times");
            }
        }
    }
}
