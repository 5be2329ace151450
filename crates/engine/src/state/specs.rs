//! Pod specs, each stored once however many pods share it.

use std::sync::Arc;

use crate::index::{PodIdx, ResourceIdx, SpecIdx, TermIdx};
use crate::map::Map;
use crate::object::PodSpec;

/// A spec in use.
#[derive(Clone, Debug)]
pub struct SpecRecord {
    /// The spec.
    pub spec: Arc<PodSpec>,
    /// What a pod of it counts for on its node.
    pub on_node: Box<[(ResourceIdx, i64)]>,
    /// The pod affinity terms it carries.
    pub terms: Box<[TermIdx]>,
    /// Pods of it that are on nodes.
    pub pods: Vec<PodIdx>,
    users: u32,
}

/// All specs in use.
#[derive(Clone, Debug, Default)]
pub struct Specs {
    records: Vec<Option<SpecRecord>>,
    by_spec: Map<Arc<PodSpec>, SpecIdx>,
    /// By where they are: most come again as the very same, and need not be compared.
    by_address: Map<usize, SpecIdx>,
    free: Vec<SpecIdx>,
}

impl Specs {
    /// A spec in use.
    pub fn get(&self, spec: SpecIdx) -> &SpecRecord {
        self.records[spec.at()].as_ref().expect("the index is held by a user of the spec")
    }

    pub(crate) fn get_mut(&mut self, spec: SpecIdx) -> &mut SpecRecord {
        self.records[spec.at()].as_mut().expect("the index is held by a user of the spec")
    }

    /// Finds an equal spec and adds a user to it.
    pub(crate) fn acquire(&mut self, spec: &Arc<PodSpec>) -> Option<SpecIdx> {
        let found =
            self.by_address.get(&Arc::as_ptr(spec).addr()).or_else(|| self.by_spec.get(spec));
        let found = *found?;
        self.get_mut(found).users += 1;
        Some(found)
    }

    /// Stores a spec that was not there, with its first user.
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

    /// Takes one user away and returns the record if it was the last.
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
}

#[cfg(test)]
mod tests;
