//! Pod affinity terms that existing pods carry, each stored once.

use crate::index::{SpecIdx, TallyIdx, TermIdx};
use crate::map::Map;
use crate::object::{Labels, PodTerm};

use super::selector_index::SelectorIndex;

/// What a term asks for.
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
    /// What it asks for.
    pub kind: TermKind,
    /// The term.
    pub term: PodTerm,
    /// Specs that carry it, each as often as it does.
    pub specs: Vec<SpecIdx>,
    /// Counts the pods that carry it, once somebody asked.
    pub(crate) tally: Option<TallyIdx>,
}

impl TermRecord {
    /// Whether it speaks of a pod of this namespace, with these labels on pod and namespace.
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
    records: Vec<Option<TermRecord>>,
    by_term: Map<(TermKind, PodTerm), TermIdx>,
    by_selector: SelectorIndex<TermIdx>,
    free: Vec<TermIdx>,
    /// Grows with every term that comes or goes.
    version: u64,
}

impl Terms {
    /// A term in use.
    pub fn get(&self, term: TermIdx) -> &TermRecord {
        self.records[term.at()].as_ref().expect("the index is held by a spec that carries the term")
    }

    pub(crate) fn get_mut(&mut self, term: TermIdx) -> &mut TermRecord {
        self.records[term.at()].as_mut().expect("the index is held by a spec that carries the term")
    }

    /// Grows with every term that comes or goes; equal versions mean equal terms.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Terms that speak of such a pod, in index order.
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

    /// The index of a term, made if it is new. The caller adds its spec with [`Self::add_carrier`].
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

    /// Notes that a spec carries a term.
    pub(crate) fn add_carrier(&mut self, term: TermIdx, spec: SpecIdx) {
        self.get_mut(term).specs.push(spec);
    }

    /// Notes that a spec is gone; the last one takes the term with it. Returns its tally then.
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
}

#[cfg(test)]
mod tests;
