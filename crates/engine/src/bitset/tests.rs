//! Node sets compared with ordered sets of slots.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Slots that lie at and around the edges of words.
const EDGES: [usize; 8] = [0, 1, 62, 63, 64, 65, 127, 128];

fn set(slots: usize, members: &BTreeSet<usize>) -> NodeSet {
    let mut set = NodeSet::new(slots);
    set.extend(members.iter().copied().filter(|slot| *slot < slots).map(NodeIdx::from));
    set
}

fn members(set: &NodeSet) -> BTreeSet<usize> {
    let listed: Vec<usize> = set.iter().map(NodeIdx::at).collect();
    assert!(listed.is_sorted_by(|one, next| one < next), "in slot order: {listed:?}");
    assert_eq!(listed.len(), set.count());
    assert_eq!(listed.is_empty(), set.is_empty());
    listed.into_iter().collect()
}

fn slots_of(slots: usize) -> impl Strategy<Value = BTreeSet<usize>> {
    prop::collection::btree_set(0..slots, 0..slots)
}

/// Two sets over the same number of slots.
fn pairs() -> impl Strategy<Value = (usize, BTreeSet<usize>, BTreeSet<usize>)> {
    (1_usize..200).prop_flat_map(|slots| (Just(slots), slots_of(slots), slots_of(slots)))
}

proptest! {
    #[test]
    fn set_operations_agree_with_those_of_an_ordered_set((slots, one, other) in pairs()) {
        let (first, second) = (set(slots, &one), set(slots, &other));
        prop_assert_eq!(members(&first), one.clone());
        let apply = |operation: fn(&mut NodeSet, &NodeSet)| {
            let mut changed = first.clone();
            operation(&mut changed, &second);
            members(&changed)
        };
        prop_assert_eq!(apply(NodeSet::intersect), &one & &other);
        prop_assert_eq!(apply(NodeSet::subtract), &one - &other);
        prop_assert_eq!(apply(NodeSet::unite), &one | &other);
        prop_assert_eq!(apply(NodeSet::toggle), &one ^ &other);
        prop_assert_eq!(apply(NodeSet::copy_from), other.clone());
        let differing = (&one ^ &other).len();
        prop_assert!(first.differs_in(&second, differing));
        prop_assert!(differing == 0 || !first.differs_in(&second, differing - 1));
    }

    #[test]
    fn a_stretch_of_slots_is_searched_including_both_ends(
        (slots, one, _) in pairs(),
        ends in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 20),
    ) {
        let first = set(slots, &one);
        for (from, to) in ends {
            let (from, to) = (from.index(slots), to.index(slots));
            let (from, to) = (from.min(to), from.max(to));
            let any = one.range(from..=to).next().is_some();
            prop_assert_eq!(first.any_between(from, to), any, "{}..={}", from, to);
        }
    }

    #[test]
    fn retain_asks_about_each_member_once_and_in_order((slots, one, other) in pairs()) {
        let mut kept = set(slots, &one);
        let mut asked = Vec::new();
        kept.retain(|node| {
            asked.push(node.at());
            other.contains(&node.at())
        });
        prop_assert_eq!(asked, one.iter().copied().collect::<Vec<_>>());
        prop_assert_eq!(members(&kept), &one & &other);
    }

    #[test]
    fn answers_become_members_at_their_positions(answers in prop::collection::vec(any::<bool>(), 0..200)) {
        let built = NodeSet::from_answers(answers.iter().copied());
        for (slot, answer) in answers.iter().enumerate() {
            prop_assert_eq!(built.contains(slot.into()), *answer);
        }
        prop_assert_eq!(built.count(), answers.iter().filter(|answer| **answer).count());
        prop_assert_eq!(built.words().len(), answers.len().div_ceil(64));
    }
}

#[test]
fn a_full_set_has_no_bits_beyond_its_slots() {
    for slots in EDGES {
        let full = NodeSet::full(slots);
        assert_eq!(members(&full), (0..slots).collect(), "{slots}");
        assert_eq!(full.words().len(), slots.div_ceil(64));
    }
}

#[test]
fn insert_remove_and_set_change_only_their_own_bit() {
    for slot in EDGES.map(NodeIdx::from) {
        let mut set = NodeSet::new(130);
        set.insert(slot);
        assert_eq!(members(&set), BTreeSet::from([slot.at()]));
        set.set(slot, false);
        assert!(set.is_empty(), "{slot:?}");
        let mut set = NodeSet::full(130);
        set.remove(slot);
        assert_eq!((set.count(), set.contains(slot)), (129, false));
        set.set(slot, true);
        set.set(slot, true);
        assert_eq!(set, NodeSet::full(130));
    }
}

#[test]
fn growing_keeps_members_and_never_shrinks() {
    let mut set = NodeSet::new(10);
    set.insert(NodeIdx(9));
    set.grow(200);
    assert!(!set.contains(NodeIdx(199)));
    set.insert(NodeIdx(199));
    set.grow(3);
    assert_eq!(members(&set), BTreeSet::from([9, 199]));
}

#[test]
fn a_slot_beyond_the_words_is_no_member() {
    assert!(!NodeSet::full(64).contains(NodeIdx(64)));
    assert!(!NodeSet::default().contains(NodeIdx(0)));
}

#[test]
fn uniting_with_a_longer_set_grows_and_copying_a_shorter_one_shrinks() {
    let (short, long) = (NodeSet::full(10), NodeSet::full(100));
    let mut united = short.clone();
    united.unite(&long);
    assert_eq!(united, long);
    let mut copied = long.clone();
    copied.copy_from(&short);
    assert_eq!(copied, short);
    copied.clear();
    assert!(copied.is_empty());
}

#[test]
fn sets_of_the_same_nodes_are_equal_whatever_room_they_have() {
    let mut wide = NodeSet::new(200);
    assert_eq!(NodeSet::default(), wide);
    let mut narrow = NodeSet::new(64);
    narrow.insert(NodeIdx(7));
    assert_ne!(narrow, wide);
    wide.insert(NodeIdx(7));
    assert_eq!(narrow, wide);
    assert_eq!(wide, narrow);
    wide.insert(NodeIdx(150));
    assert_ne!(narrow, wide);
    assert_ne!(wide, narrow);
}
