//! Which of equally good nodes is chosen.
//!
//! Upstream pushes the feasible nodes through Go's `container/heap` and takes the root. Building a
//! heap moves an element up only past strictly smaller ones and prefers the left child, so the
//! root is the first of the best nodes in *pre-order* of the implicit binary tree over the
//! feasible list. That rule needs no heap: it is a comparison of positions.
//!
//! A rule that always prefers the same node suits a comparison with upstream, not a cluster: small pods
//! do not change the score of a large node, so all of them would go to one, and a second scheduler would
//! choose it as well. With a random number, each of the best nodes is as likely as the others.

/// How one of equally good nodes is chosen.
#[derive(Clone, Copy, Debug)]
pub enum TieBreak {
    /// The one that upstream's heap brings up when the visit begins at this place.
    First(usize),
    /// Any, by a random number.
    Any(u64),
}

/// The number below `count` that a random number stands for.
#[inline(always)]
pub fn reduce(random: u64, count: usize) -> usize {
    ((u128::from(random) * count as u128) >> 64) as usize
}

/// The random number after this one (splitmix64).
#[inline(always)]
pub fn next_random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The position of any of the best, by a random number.
pub fn any_winner(totals: &[i64], random: u64) -> Option<usize> {
    let best = totals.iter().max()?;
    let ties = || totals.iter().enumerate().filter(|(_, total)| *total == best);
    ties().nth(reduce(random, ties().count())).map(|(position, _)| position)
}

/// Sort key of a position in the feasible list: smaller keys come first in pre-order.
///
/// Counted from one, a position in binary spells the path from the root: after the leading one, 0 is
/// left and 1 is right. Pre-order is the order of these strings, with prefixes first.
#[inline(always)]
pub fn preorder_key(position: usize) -> u64 {
    let path = position as u64 + 1;
    let depth = u64::from(path.ilog2());
    let aligned = (path << path.leading_zeros()) << 1;
    // The path fills the upper bits, its length breaks ties between a prefix and its extension.
    (aligned & !0x3f) | depth
}

/// The position that upstream's heap would bring to the root.
pub fn heap_winner(totals: &[i64]) -> Option<usize> {
    let best = totals.iter().max()?;
    let ties = totals.iter().enumerate().filter(|(_, total)| *total == best);
    ties.map(|(position, _)| position).min_by_key(|position| preorder_key(*position))
}

/// Visits positions below `count` in pre-order until `found` says yes, at most `limit` of them.
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

/// A set of positions.
pub trait Positions {
    /// Whether any between two, both included, is in.
    fn any(&self, first: usize, last: usize) -> bool;
}

/// The first position below `count` in pre-order that is in a set.
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

/// Whether anything in a subtree, which is one stretch of positions on each level, is in a set.
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
        // Odd positions are left children; their right sibling comes next if it exists.
        if at % 2 == 1 && sibling < count {
            return Some(sibling);
        }
        at = (at - 1) / 2;
    }
    None
}

#[cfg(test)]
mod tests;
