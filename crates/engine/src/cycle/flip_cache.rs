//! A cache of node sets whose feasibility flips together, by their positions in the visiting order.
//!
//! A verdict on a topology domain flips all its nodes at once, and soon flips them back. Translating
//! slots to positions node by node costs a random access per node, so it is done only the first time:
//! a set that differs from a cached one in at most an eighth of its nodes is flipped as a whole with
//! one XOR per 64 nodes, and only the difference is flipped node by node.

use crate::bitset::NodeSet;
use crate::index::NodeIdx;

/// Maximum number of cached sets; a further set replaces the oldest.
const CACHED_SETS_MAX: usize = 8;

/// Maximum number of nodes that are flipped one by one, without the cache.
const DIRECT_FLIPS_MAX: usize = 64;

/// Sets of nodes that were flipped before.
#[derive(Default)]
pub(crate) struct FlipCache {
    flips: Vec<Flip>,
    /// Index that the next set is stored at.
    next: usize,
    /// Nodes that remain to be flipped; kept for its memory only.
    pending: NodeSet,
}

/// One set of nodes, by slot and by position in the visiting order.
struct Flip {
    slots: NodeSet,
    positions: NodeSet,
}

impl FlipCache {
    /// Flips the positions of all nodes that are in exactly one of `old` and `new`.
    pub(crate) fn flip(
        &mut self,
        old: &NodeSet,
        new: &NodeSet,
        position_of: &[u32],
        positions: &mut NodeSet,
    ) {
        let Self { flips, next, pending } = self;
        pending.copy_from(old);
        pending.toggle(new);
        let count = pending.count();
        if count > DIRECT_FLIPS_MAX {
            let difference_max = count / 8;
            let similar = |flip: &&Flip| pending.differs_in(&flip.slots, difference_max);
            let Some(cached) = flips.iter().find(similar) else {
                let mut flipped = NodeSet::new(position_of.len());
                flip_each(pending, position_of, &mut flipped);
                positions.toggle(&flipped);
                let flip = Flip { slots: pending.clone(), positions: flipped };
                if flips.len() < CACHED_SETS_MAX {
                    flips.push(flip);
                } else {
                    flips[*next] = flip;
                }
                *next = (*next + 1) % CACHED_SETS_MAX;
                return;
            };
            // A node in the cached set alone stays pending: its second flip undoes the first.
            pending.toggle(&cached.slots);
            positions.toggle(&cached.positions);
        }
        flip_each(pending, position_of, positions);
    }
}

fn flip_each(nodes: &NodeSet, position_of: &[u32], positions: &mut NodeSet) {
    for node in nodes.iter() {
        let position = NodeIdx(position_of[node.at()]);
        positions.words_mut()[position.at() / 64] ^= 1 << (position.at() % 64);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NODES: usize = 500;

    /// Zones, as every n-th node, that flip together, each with single nodes beside it.
    fn flips() -> impl Strategy<Value = Vec<(usize, Vec<usize>)>> {
        let single = prop::collection::vec(0..NODES, 0..100);
        prop::collection::vec((0_usize..14, single), 1..60)
    }

    fn by_position(nodes: &NodeSet, position_of: &[u32]) -> NodeSet {
        let mut positions = NodeSet::new(position_of.len());
        for node in nodes.iter() {
            positions.insert(NodeIdx(position_of[node.at()]));
        }
        positions
    }

    proptest! {
        #[test]
        fn positions_follow_the_slots_however_nodes_flip(
            position_of in Just((0..NODES as u32).collect::<Vec<_>>()).prop_shuffle(),
            flips in flips(),
        ) {
            let mut cache = FlipCache::default();
            let mut feasible = NodeSet::full(NODES);
            let mut positions = by_position(&feasible, &position_of);
            for (zones, single) in flips {
                let before = feasible.clone();
                let zone = (0..NODES).filter(|node| node % zones.max(2) == 0);
                for node in zone.chain(single) {
                    let node = NodeIdx::from(node);
                    feasible.set(node, !feasible.contains(node));
                }
                cache.flip(&before, &feasible, &position_of, &mut positions);
                prop_assert_eq!(&positions, &by_position(&feasible, &position_of));
            }
            prop_assert!(cache.flips.len() <= CACHED_SETS_MAX);
        }
    }

    #[test]
    fn only_large_sets_unlike_the_cached_ones_are_cached() {
        let position_of: Vec<u32> = (0..NODES as u32).rev().collect();
        let mut cache = FlipCache::default();
        let mut feasible = NodeSet::full(NODES);
        let mut positions = by_position(&feasible, &position_of);
        for (name, nodes, cached) in [
            ("as many as are flipped directly", 0..DIRECT_FLIPS_MAX, 0),
            ("one more", 0..DIRECT_FLIPS_MAX + 1, 1),
            ("the same back", 0..DIRECT_FLIPS_MAX + 1, 1),
            ("an eighth more", 0..DIRECT_FLIPS_MAX + 9, 1),
            ("other nodes", 200..300, 2),
            ("these back", 200..300, 2),
        ] {
            let before = feasible.clone();
            for node in nodes.map(NodeIdx::from) {
                feasible.set(node, !feasible.contains(node));
            }
            cache.flip(&before, &feasible, &position_of, &mut positions);
            assert_eq!(positions, by_position(&feasible, &position_of), "{name}");
            assert_eq!(cache.flips.len(), cached, "{name}");
        }
    }
}
