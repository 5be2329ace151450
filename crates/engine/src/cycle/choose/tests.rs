//! Tests of the choice among equally good nodes.

use super::*;
use proptest::prelude::*;

struct Members<'a>(&'a [bool]);

impl Positions for Members<'_> {
    fn any(&self, first: usize, last: usize) -> bool {
        self.0[first..=last].contains(&true)
    }
}

/// Go's `container/heap` as documented: heapify, then the root.
fn by_heap(totals: &[i64]) -> usize {
    let mut heap: Vec<usize> = (0..totals.len()).collect();
    for start in (0..heap.len() / 2).rev() {
        let mut parent = start;
        loop {
            let mut child = 2 * parent + 1;
            if child >= heap.len() {
                break;
            }
            if child + 1 < heap.len() && totals[heap[child + 1]] > totals[heap[child]] {
                child += 1;
            }
            if totals[heap[child]] <= totals[heap[parent]] {
                break;
            }
            heap.swap(child, parent);
            parent = child;
        }
    }
    heap[0]
}

#[test]
fn known_vectors_have_their_known_winners() {
    for (totals, winner) in [
        (&[1, 1, 2, 2][..], 3),
        (&[5, 5, 5], 0),
        (&[1, 2, 2], 1),
        (&[2, 1, 2, 2], 0),
        (&[1, 1, 1, 1, 2, 2, 2], 4),
        (&[1, 3, 2, 3, 3, 3, 3], 1),
        (&[0, 1, 1, 2, 2, 2, 2], 3),
    ] {
        assert_eq!(heap_winner(totals), Some(winner), "{totals:?}");
    }
}

proptest! {
    #[test]
    fn the_rule_agrees_with_a_heap(totals in prop::collection::vec(0i64..4, 1..200)) {
        prop_assert_eq!(heap_winner(&totals), Some(by_heap(&totals)));
    }

    #[test]
    fn any_of_the_best_may_win(totals in prop::collection::vec(0i64..4, 1..50)) {
        let best = totals.iter().max();
        let ties = (0..totals.len()).filter(|position| totals.get(*position) == best);
        let mut state = 7;
        let mut won: Vec<usize> =
            (0..2000).filter_map(|_| any_winner(&totals, next_random(&mut state))).collect();
        won.sort_unstable();
        won.dedup();
        prop_assert_eq!(won, ties.collect::<Vec<_>>());
    }

    #[test]
    fn asking_for_stretches_finds_the_first(members in prop::collection::vec(any::<bool>(), 1..200)) {
        let ties: Vec<i64> = members.iter().map(|member| i64::from(*member)).collect();
        let wanted = heap_winner(&ties).filter(|winner| members[*winner]);
        prop_assert_eq!(preorder_first(members.len(), &Members(&members)), wanted);
    }

    #[test]
    fn searching_in_preorder_visits_in_key_order(count in 1usize..300) {
        let mut visited = Vec::new();
        preorder_search(count, usize::MAX, |position| { visited.push(position); false });
        let mut sorted: Vec<usize> = (0..count).collect();
        sorted.sort_by_key(|position| preorder_key(*position));
        prop_assert_eq!(visited, sorted);
    }
}

#[test]
fn random_numbers_are_those_of_splitmix64_and_reduce_evenly() {
    let mut state = 1_234_567;
    let drawn = [0; 3].map(|_: u64| next_random(&mut state));
    // Published outputs of the reference implementation for this seed.
    assert_eq!(
        drawn,
        [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
    );
    for (random, count, number) in [
        (0, 5, 0),
        (u64::MAX, 5, 4),
        (u64::MAX, 1, 0),
        (1 << 63, 2, 1),
        ((1 << 63) - 1, 2, 0),
        (u64::MAX, 0, 0),
    ] {
        assert_eq!(reduce(random, count), number, "{random} of {count}");
    }
}

#[test]
fn nothing_wins_among_no_nodes() {
    assert_eq!((heap_winner(&[]), any_winner(&[], 5)), (None, None));
    assert_eq!(preorder_first(0, &Members(&[])), None);
    assert_eq!(preorder_search(0, 10, |_| true), None);
}

#[test]
fn a_search_ends_at_its_limit() {
    let mut asked = 0;
    let found = preorder_search(100, 7, |_| {
        asked += 1;
        false
    });
    assert_eq!((found, asked), (None, 7));
}
