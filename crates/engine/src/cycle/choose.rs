//! The choice among ties, the feasible nodes with the highest score.
//!
//! Upstream pushes the feasible nodes through Go's `container/heap` and takes the root. A push
//! moves an element up only past strictly smaller ones, and the left child is preferred, so the
//! root is the first of the best nodes in *pre-order* of the implicit binary tree over the feasible
//! list. That rule needs no heap: it compares positions.
//!
//! The fixed rule is for comparison with upstream. In a cluster it would send all small pods to the
//! same node, since they do not change a large node's score, and a second scheduler would choose
//! that node too. With a random number all ties are equally likely.

/// Rule for choosing among ties.
#[derive(Clone, Copy, Debug)]
pub enum TieBreak {
    /// The tie that upstream's heap returns if the visit begins at this position.
    First(usize),
    /// Any tie, by a random number.
    Any(u64),
}

/// Maps a random number to a number below `count`.
#[inline(always)]
pub fn reduce(random: u64, count: usize) -> usize {
    ((u128::from(random) * count as u128) >> 64) as usize
}

/// Advances a splitmix64 generator and returns its next number.
#[inline(always)]
pub fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Returns the position of a random one of the highest totals.
pub fn any_winner(totals: &[i64], random: u64) -> Option<usize> {
    let best = totals.iter().max()?;
    let ties = || totals.iter().enumerate().filter(|(_, total)| *total == best);
    ties().nth(reduce(random, ties().count())).map(|(position, _)| position)
}

/// Returns the sort key of a position in the feasible list: smaller keys come first in pre-order.
///
/// Counted from one, the binary digits of a position spell the path from the root: after the
/// leading 1, 0 is left and 1 is right. Pre-order is the order of these strings, with prefixes
/// first.
#[inline(always)]
pub fn preorder_key(position: usize) -> u64 {
    let path = position as u64 + 1;
    let depth = u64::from(path.ilog2());
    let aligned = (path << path.leading_zeros()) << 1;
    // The upper bits hold the path; its length orders a prefix before its extensions.
    (aligned & !0x3f) | depth
}

/// Returns the position that upstream's heap would bring to the root.
pub fn heap_winner(totals: &[i64]) -> Option<usize> {
    let best = totals.iter().max()?;
    let ties = totals.iter().enumerate().filter(|(_, total)| *total == best);
    ties.map(|(position, _)| position).min_by_key(|position| preorder_key(*position))
}

/// Visits at most `limit` positions below `count` in pre-order and returns the first for which
/// `found` returns `true`.
#[inline(always)]
pub fn preorder_search(
    count: usize,
    limit: usize,
    mut found: impl FnMut(usize) -> bool,
) -> Option<usize> {
    let mut position = 0;
    for _ in 0..limit {
        if position >= count {
            return None;
        }
        if found(position) {
            return Some(position);
        }
        position = preorder_next(position, count)?;
    }
    None
}

/// Set of positions.
pub trait Positions {
    /// Returns `true` if the set contains a position between two, both inclusive.
    fn any(&self, first: usize, last: usize) -> bool;
}

/// Returns the first position below `count` in pre-order that is in the set.
#[inline(always)]
pub fn preorder_first(count: usize, set: &impl Positions) -> Option<usize> {
    let mut position = 0;
    if !in_subtree(position, count, set) {
        return None;
    }
    while !set.any(position, position) {
        let left = 2 * position + 1;
        position = if in_subtree(left, count, set) { left } else { left + 1 };
    }
    Some(position)
}

/// Returns `true` if the set meets a subtree, whose positions are contiguous on each level.
#[inline(always)]
fn in_subtree(root: usize, count: usize, set: &impl Positions) -> bool {
    let (mut first, mut last) = (root, root);
    while first < count {
        if set.any(first, last.min(count - 1)) {
            return true;
        }
        (first, last) = (2 * first + 1, 2 * last + 2);
    }
    false
}

#[inline(always)]
fn preorder_next(position: usize, count: usize) -> Option<usize> {
    if 2 * position + 1 < count {
        return Some(2 * position + 1);
    }
    let mut at = position;
    while at > 0 {
        let sibling = at + 1;
        // Odd positions are left children; the right sibling follows if it exists.
        if at % 2 == 1 && sibling < count {
            return Some(sibling);
        }
        at = (at - 1) / 2;
    }
    None
}

#[cfg(test)]
mod tests;
