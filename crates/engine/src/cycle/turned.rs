//! Nodes that become feasible or cease to be together, by their places in the visiting order.
//!
//! A verdict on a zone turns all its nodes at once, and soon turns them back. Where they are in the
//! visiting order is looked up node by node the first time only: a set of nodes that was turned before,
//! give or take a few, is turned as a whole.

use crate::bitset::NodeSet;
use crate::index::NodeIdx;

/// Sets that are remembered; when there is one more, the earliest is forgotten.
const SETS_MAX: usize = 8;

/// Up to so many nodes are turned one by one.
const FEW: usize = 64;

/// Sets of nodes that were turned.
#[derive(Default)]
pub(crate) struct Turned {
    sets: Vec<Turn>,
    /// Where the next one goes.
    next: usize,
    /// Nodes that are still to be turned.
    rest: NodeSet,
}

/// The same nodes twice.
struct Turn {
    slots: NodeSet,
    places: NodeSet,
}

impl Turned {
    /// Turns the places of all nodes that are in one of two sets only.
    pub(crate) fn turn(
        &mut self,
        old: &NodeSet,
        new: &NodeSet,
        place_of: &[u32],
        places: &mut NodeSet,
    ) {
        let Self { sets, next, rest } = self;
        rest.copy_from(old);
        rest.toggle(new);
        let count = rest.count();
        if count > FEW {
            let most = count / 8;
            let Some(turn) = sets.iter().find(|turn| rest.differs_in(&turn.slots, most)) else {
                let mut turned = NodeSet::new(place_of.len());
                turn_each(rest, place_of, &mut turned);
                places.toggle(&turned);
                let turn = Turn { slots: rest.clone(), places: turned };
                if sets.len() < SETS_MAX {
                    sets.push(turn);
                } else {
                    sets[*next] = turn;
                }
                *next = (*next + 1) % SETS_MAX;
                return;
            };
            // What is turned twice is as it was.
            rest.toggle(&turn.slots);
            places.toggle(&turn.places);
        }
        turn_each(rest, place_of, places);
    }
}

fn turn_each(nodes: &NodeSet, place_of: &[u32], places: &mut NodeSet) {
    for node in nodes.iter() {
        let place = NodeIdx(place_of[node.at()]);
        places.words_mut()[place.at() / 64] ^= 1 << (place.at() % 64);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NODES: usize = 500;

    /// Zones that change sides, and single nodes beside them.
    fn turns() -> impl Strategy<Value = Vec<(usize, Vec<usize>)>> {
        let single = prop::collection::vec(0..NODES, 0..100);
        prop::collection::vec((0_usize..14, single), 1..60)
    }

    proptest! {
        #[test]
        fn places_follow(
            order in Just((0..NODES as u32).collect::<Vec<_>>()).prop_shuffle(),
            turns in turns(),
        ) {
            let by_place = |nodes: &NodeSet| {
                let mut places = NodeSet::new(NODES);
                for node in nodes.iter() {
                    places.insert(NodeIdx(order[node.at()]));
                }
                places
            };
            let mut turned = Turned::default();
            let mut feasible = NodeSet::full(NODES);
            let mut places = by_place(&feasible);
            for (zones, single) in turns {
                let before = feasible.clone();
                let zone = (0..NODES).filter(|node| node % zones.max(2) == 0);
                for node in zone.chain(single) {
                    let node = NodeIdx::from(node);
                    feasible.set(node, !feasible.contains(node));
                }
                turned.turn(&before, &feasible, &order, &mut places);
                prop_assert_eq!(&places, &by_place(&feasible));
            }
            prop_assert!(turned.sets.len() <= SETS_MAX);
        }
    }
}
