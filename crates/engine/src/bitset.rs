//! Sets of nodes as bit sets.

use crate::index::NodeIdx;
use crate::{simd, simd_dispatch};

/// Set of nodes with one bit per slot of the node table.
#[derive(Clone, Debug, Default, Eq)]
pub struct NodeSet {
    words: Vec<u64>,
}

/// Sets of the same nodes are equal, also if one of them has room for more slots.
impl PartialEq for NodeSet {
    fn eq(&self, other: &Self) -> bool {
        let (shorter, longer) = if self.words.len() <= other.words.len() {
            (&self.words, &other.words)
        } else {
            (&other.words, &self.words)
        };
        let (common, rest) = longer.split_at(shorter.len());
        common == shorter && rest.iter().all(|word| *word == 0)
    }
}

impl NodeSet {
    /// Creates an empty set for `slots` nodes.
    pub fn new(slots: usize) -> Self {
        Self { words: vec![0; slots.div_ceil(64)] }
    }

    /// Creates the set of the first `slots` nodes.
    pub fn full(slots: usize) -> Self {
        let mut words = vec![u64::MAX; slots.div_ceil(64)];
        if let Some(last) = words.last_mut().filter(|_| !slots.is_multiple_of(64)) {
            *last = (1 << (slots % 64)) - 1;
        }
        Self { words }
    }

    /// Creates a set from one answer per slot, in slot order; `true` makes the node a member.
    pub fn from_answers(answers: impl ExactSizeIterator<Item = bool>) -> Self {
        let mut words = vec![0; answers.len().div_ceil(64)];
        for (slot, answer) in answers.enumerate() {
            words[slot / 64] |= u64::from(answer) << (slot % 64);
        }
        Self { words }
    }

    /// Extends the set to `slots` nodes; added nodes are not members.
    pub fn grow(&mut self, slots: usize) {
        if self.words.len() < slots.div_ceil(64) {
            self.words.resize(slots.div_ceil(64), 0);
        }
    }

    /// Copies another set and keeps the allocated memory.
    pub fn copy_from(&mut self, other: &Self) {
        self.words.clear();
        self.words.extend_from_slice(&other.words);
    }

    /// Returns the bits, 64 nodes per word.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns the bits, mutably. Bits beyond the last slot must stay zero.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Adds a node.
    pub fn insert(&mut self, node: NodeIdx) {
        self.words[node.at() / 64] |= 1 << (node.at() % 64);
    }

    /// Removes a node.
    pub fn remove(&mut self, node: NodeIdx) {
        self.words[node.at() / 64] &= !(1 << (node.at() % 64));
    }

    /// Adds or removes a node.
    pub fn set(&mut self, node: NodeIdx, member: bool) {
        let word = &mut self.words[node.at() / 64];
        *word = *word & !(1 << (node.at() % 64)) | u64::from(member) << (node.at() % 64);
    }

    /// Returns `true` if the set contains a node.
    pub fn contains(&self, node: NodeIdx) -> bool {
        self.words.get(node.at() / 64).is_some_and(|word| word >> (node.at() % 64) & 1 == 1)
    }

    /// Returns `true` if the set contains a node between two slots, both inclusive.
    #[inline(always)]
    pub fn any_between(&self, first: usize, last: usize) -> bool {
        let (first_word, last_word) = (first / 64, last / 64);
        let from = u64::MAX << (first % 64);
        let to = u64::MAX >> (63 - last % 64);
        if first_word == last_word {
            return self.words[first_word] & from & to != 0;
        }
        self.words[first_word] & from != 0
            || self.words[last_word] & to != 0
            || self.words[first_word + 1..last_word].iter().any(|word| *word != 0)
    }

    /// Removes the nodes that are not in the other set.
    pub fn intersect(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// Removes the nodes that are in the other set.
    pub fn subtract(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// Adds the nodes of the other set.
    pub fn unite(&mut self, other: &Self) {
        self.grow(other.words.len() * 64);
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Keeps the nodes that are in exactly one of the two sets.
    pub fn toggle(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word ^= other;
        }
    }

    /// Returns `true` if at most `most` nodes are in exactly one of the two sets.
    pub fn differs_in(&self, other: &Self, most: usize) -> bool {
        simd_dispatch!(_ => simd::count_differing(&self.words, &other.words)) <= most
    }

    /// Removes all nodes.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// Returns the number of nodes.
    pub fn count(&self) -> usize {
        simd_dispatch!(_ => simd::count_ones(&self.words))
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// Iterates over the nodes in slot order.
    pub fn iter(&self) -> impl Iterator<Item = NodeIdx> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = rest.trailing_zeros() as usize;
                (rest != 0).then(|| {
                    rest &= rest - 1;
                    NodeIdx::from(index * 64 + bit)
                })
            })
        })
    }

    /// Removes the nodes for which `keep` returns `false`.
    pub fn retain(&mut self, mut keep: impl FnMut(NodeIdx) -> bool) {
        for (index, word) in self.words.iter_mut().enumerate() {
            let mut rest = *word;
            while rest != 0 {
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                if !keep(NodeIdx::from(index * 64 + bit)) {
                    *word &= !(1 << bit);
                }
            }
        }
    }
}

impl Extend<NodeIdx> for NodeSet {
    fn extend<T: IntoIterator<Item = NodeIdx>>(&mut self, nodes: T) {
        nodes.into_iter().for_each(|node| self.insert(node));
    }
}

#[cfg(test)]
mod tests;
