//! A set of nodes as bits.

use crate::index::NodeIdx;
use crate::{simd, simd_dispatch};

/// A set of nodes, one bit for each slot of the node table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSet {
    words: Vec<u64>,
}

impl NodeSet {
    /// The empty set with room for `slots` nodes.
    pub fn new(slots: usize) -> Self {
        Self { words: vec![0; slots.div_ceil(64)] }
    }

    /// The first `slots` nodes.
    pub fn full(slots: usize) -> Self {
        let mut words = vec![u64::MAX; slots.div_ceil(64)];
        if let Some(last) = words.last_mut().filter(|_| !slots.is_multiple_of(64)) {
            *last = (1 << (slots % 64)) - 1;
        }
        Self { words }
    }

    /// The set of those about which the answer is yes, asked in order of their slots.
    pub fn from_answers(answers: impl ExactSizeIterator<Item = bool>) -> Self {
        let mut words = vec![0; answers.len().div_ceil(64)];
        for (slot, answer) in answers.enumerate() {
            words[slot / 64] |= u64::from(answer) << (slot % 64);
        }
        Self { words }
    }

    /// Makes room for `slots` nodes; those added are absent.
    pub fn grow(&mut self, slots: usize) {
        if self.words.len() < slots.div_ceil(64) {
            self.words.resize(slots.div_ceil(64), 0);
        }
    }

    /// Becomes a copy of another set without giving up its memory.
    pub fn copy_from(&mut self, other: &Self) {
        self.words.clear();
        self.words.extend_from_slice(&other.words);
    }

    /// The bits, 64 nodes to a word.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The same, to be changed. Bits beyond the slots must stay zero.
    pub fn words_mut(&mut self) -> &mut [u64] {
        &mut self.words
    }

    /// Puts a node in.
    pub fn insert(&mut self, node: NodeIdx) {
        self.words[node.at() / 64] |= 1 << (node.at() % 64);
    }

    /// Takes a node out.
    pub fn remove(&mut self, node: NodeIdx) {
        self.words[node.at() / 64] &= !(1 << (node.at() % 64));
    }

    /// Puts a node in or takes it out.
    pub fn set(&mut self, node: NodeIdx, member: bool) {
        let word = &mut self.words[node.at() / 64];
        *word = *word & !(1 << (node.at() % 64)) | u64::from(member) << (node.at() % 64);
    }

    /// Whether a node is in.
    pub fn contains(&self, node: NodeIdx) -> bool {
        self.words.get(node.at() / 64).is_some_and(|word| word >> (node.at() % 64) & 1 == 1)
    }

    /// Whether any slot between two, both included, is in.
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

    /// Keeps what is also in the other set.
    pub fn intersect(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= other;
        }
    }

    /// Removes what is in the other set.
    pub fn subtract(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word &= !other;
        }
    }

    /// Adds what is in the other set.
    pub fn unite(&mut self, other: &Self) {
        self.grow(other.words.len() * 64);
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word |= other;
        }
    }

    /// Adds what is in the other set only, removes what is in both.
    pub fn toggle(&mut self, other: &Self) {
        for (word, other) in self.words.iter_mut().zip(&other.words) {
            *word ^= other;
        }
    }

    /// Whether at most so many nodes are in one of the two sets only.
    pub fn differs_in(&self, other: &Self, most: usize) -> bool {
        simd_dispatch!(_ => simd::count_differing(&self.words, &other.words)) <= most
    }

    /// Takes everything out.
    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// How many nodes are in.
    pub fn count(&self) -> usize {
        simd_dispatch!(_ => simd::count_ones(&self.words))
    }

    /// Whether no node is in.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The nodes in slot order.
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

    /// Removes the nodes for which `keep` is false.
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
