//! Interned pod specs.

use std::sync::Arc;

use crate::index::{PodIdx, ResourceIdx, SpecIdx, TermIdx};
use crate::map::Map;
use crate::object::PodSpec;

use super::State;
use super::terms::TermKind;

/// A spec in use.
#[derive(Clone, Debug)]
pub struct SpecRecord {
    /// The spec.
    pub spec: Arc<PodSpec>,
    /// Requests that a pod of this spec counts for on its node.
    pub on_node: Box<[(ResourceIdx, i64)]>,
    /// Pod affinity terms of the spec.
    pub terms: Box<[TermIdx]>,
    /// Pods that have a node.
    pub pods: Vec<PodIdx>,
    pub(super) users: u32,
}

/// All specs in use.
#[derive(Clone, Debug, Default)]
pub struct Specs {
    pub(super) records: Vec<Option<SpecRecord>>,
    pub(super) by_spec: Map<Arc<PodSpec>, SpecIdx>,
    /// Index by the address of the shared spec: the lowering cache usually passes the same
    /// allocation, which needs no comparison.
    pub(super) by_address: Map<usize, SpecIdx>,
    pub(super) free: Vec<SpecIdx>,
}

impl Specs {
    /// Returns a spec.
    pub fn get(&self, spec: SpecIdx) -> &SpecRecord {
        self.records[spec.at()].as_ref().expect("the index is held by a user of the spec")
    }

    pub(crate) fn get_mut(&mut self, spec: SpecIdx) -> &mut SpecRecord {
        self.records[spec.at()].as_mut().expect("the index is held by a user of the spec")
    }

    /// Finds an equal spec and adds a user.
    pub(crate) fn acquire(&mut self, spec: &Arc<PodSpec>) -> Option<SpecIdx> {
        let found =
            self.by_address.get(&Arc::as_ptr(spec).addr()).or_else(|| self.by_spec.get(spec));
        let found = *found?;
        self.get_mut(found).users += 1;
        Some(found)
    }

    /// Stores a new spec with one user.
    pub(crate) fn insert(
        &mut self,
        spec: Arc<PodSpec>,
        on_node: Box<[(ResourceIdx, i64)]>,
        terms: Box<[TermIdx]>,
    ) -> SpecIdx {
        let record =
            SpecRecord { spec: Arc::clone(&spec), on_node, terms, pods: Vec::new(), users: 1 };
        let index = self.free.pop().unwrap_or_else(|| {
            self.records.push(None);
            SpecIdx::from(self.records.len() - 1)
        });
        self.records[index.at()] = Some(record);
        self.by_address.insert(Arc::as_ptr(&spec).addr(), index);
        self.by_spec.insert(spec, index);
        index
    }

    /// Adds a user.
    pub(crate) fn hold(&mut self, spec: SpecIdx) {
        self.get_mut(spec).users += 1;
    }

    /// Removes a user and returns the record if it was the last one.
    pub(crate) fn release(&mut self, spec: SpecIdx) -> Option<SpecRecord> {
        let record = self.get_mut(spec);
        record.users -= 1;
        if record.users > 0 {
            return None;
        }
        debug_assert!(record.pods.is_empty());
        let record = self.records[spec.at()].take()?;
        self.by_address.remove(&Arc::as_ptr(&record.spec).addr());
        self.by_spec.remove(&record.spec);
        self.free.push(spec);
        Some(record)
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

impl State {
    pub(super) fn acquire_spec(&mut self, spec: Arc<PodSpec>) -> SpecIdx {
        if let Some(found) = self.specs.acquire(&spec) {
            return found;
        }
        let on_node = self.resources.vector(&spec.requests_on_node);
        let terms = self.intern_terms(&spec);
        let index = self.specs.insert(spec, on_node, terms.clone());
        for term in terms {
            self.terms.add_carrier(term, index);
        }
        index
    }

    pub(super) fn release_spec(&mut self, index: SpecIdx) {
        let Some(spec) = self.specs.release(index) else { return };
        // The inverse order of interning: the free lists are then as before.
        for term in spec.terms.iter().rev() {
            if let Some(tally) = self.terms.remove_carrier(*term, index) {
                self.tallies.remove(tally);
            }
        }
    }

    fn intern_terms(&mut self, spec: &PodSpec) -> Box<[TermIdx]> {
        let affinity = &spec.pod_affinity;
        let required = affinity.required.iter().map(|term| (TermKind::Required, term));
        let required_anti = affinity.required_anti.iter().map(|t| (TermKind::RequiredAnti, t));
        let preferred = affinity.preferred.iter().map(|(w, t)| (TermKind::Preferred(*w), t));
        let preferred_anti =
            affinity.preferred_anti.iter().map(|(w, t)| (TermKind::PreferredAnti(*w), t));
        let all = required.chain(required_anti).chain(preferred).chain(preferred_anti);
        all.map(|(kind, term)| self.terms.intern(kind, term)).collect()
    }
}

#[cfg(test)]
mod tests;
