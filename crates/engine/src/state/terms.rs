//! Interned pod affinity terms of existing pods.

use crate::index::{SpecIdx, TallyIdx, TermIdx};
use crate::map::Map;
use crate::object::{Labels, PodTerm};

use super::selector_index::SelectorIndex;

/// Kind of an affinity term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TermKind {
    /// Required affinity.
    Required,
    /// Required anti-affinity.
    RequiredAnti,
    /// Preferred affinity with this weight.
    Preferred(i32),
    /// Preferred anti-affinity with this weight.
    PreferredAnti(i32),
}

/// A term in use.
#[derive(Clone, Debug)]
pub struct TermRecord {
    /// Kind.
    pub kind: TermKind,
    /// The term.
    pub term: PodTerm,
    /// Specs that contain the term, as often as they contain it.
    pub specs: Vec<SpecIdx>,
    /// Tally of the pods that have the term, if one was requested.
    pub(crate) tally: Option<TallyIdx>,
}

impl TermRecord {
    /// Returns `true` if the term matches a pod of this namespace with these labels; the last
    /// argument holds the namespace's labels.
    pub fn matches(&self, namespace: &str, labels: &Labels, namespace_labels: &Labels) -> bool {
        let listed = self.term.namespaces.iter().any(|name| **name == *namespace);
        let selected =
            || self.term.namespace_selector.as_ref().is_some_and(|s| s.matches(namespace_labels));
        self.term.selector.as_ref().is_some_and(|s| s.matches(labels)) && (listed || selected())
    }
}

/// All terms in use.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    pub(super) records: Vec<Option<TermRecord>>,
    pub(super) by_term: Map<(TermKind, PodTerm), TermIdx>,
    by_selector: SelectorIndex<TermIdx>,
    pub(super) free: Vec<TermIdx>,
    /// Increases whenever a term is added or dropped.
    version: u64,
}

impl Terms {
    /// Returns a term.
    pub fn get(&self, term: TermIdx) -> &TermRecord {
        self.records[term.at()]
            .as_ref()
            .expect("the index is held by a spec that contains the term")
    }

    pub(crate) fn get_mut(&mut self, term: TermIdx) -> &mut TermRecord {
        self.records[term.at()]
            .as_mut()
            .expect("the index is held by a spec that contains the term")
    }

    /// Returns a version that increases whenever a term is added or dropped.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns the terms that match such a pod, in index order.
    pub fn matching(
        &self,
        namespace: &str,
        labels: &Labels,
        namespace_labels: &Labels,
    ) -> Vec<TermIdx> {
        let mut found = self.by_selector.candidates(labels);
        found.retain(|term| self.get(*term).matches(namespace, labels, namespace_labels));
        found
    }

    /// Returns the index of a term, interning it if necessary. The caller adds its spec with
    /// [`Self::add_carrier`].
    pub(crate) fn intern(&mut self, kind: TermKind, term: &PodTerm) -> TermIdx {
        let key = (kind, term.clone());
        if let Some(found) = self.by_term.get(&key) {
            return *found;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.records.push(None);
            TermIdx::from(self.records.len() - 1)
        });
        if let Some(selector) = &term.selector {
            self.by_selector.insert(selector, index);
        }
        let record = TermRecord { kind, term: key.1.clone(), specs: Vec::new(), tally: None };
        self.records[index.at()] = Some(record);
        self.by_term.insert(key, index);
        self.version += 1;
        index
    }

    /// Adds a spec that contains the term.
    pub(crate) fn add_carrier(&mut self, term: TermIdx, spec: SpecIdx) {
        self.get_mut(term).specs.push(spec);
    }

    /// Removes a spec; the last one drops the term. Returns the tally of the dropped term.
    pub(crate) fn remove_carrier(&mut self, term: TermIdx, spec: SpecIdx) -> Option<TallyIdx> {
        let record = self.get_mut(term);
        if let Some(found) = record.specs.iter().position(|other| *other == spec) {
            record.specs.swap_remove(found);
        }
        if !record.specs.is_empty() {
            return None;
        }
        let record = self.records[term.at()].take()?;
        if let Some(selector) = &record.term.selector {
            self.by_selector.remove(selector, term);
        }
        self.by_term.remove(&(record.kind, record.term));
        self.free.push(term);
        self.version += 1;
        record.tally
    }

    /// Returns the number of slots, vacant ones included.
    pub(super) fn slots(&self) -> usize {
        self.records.len()
    }

    /// Drops vacant slots at the end, until this number is left.
    pub(super) fn truncate(&mut self, slots: usize) {
        debug_assert!(self.records[slots..].iter().all(Option::is_none));
        self.records.truncate(slots);
        self.free.retain(|index| index.at() < slots);
    }
}

#[cfg(test)]
mod tests;
