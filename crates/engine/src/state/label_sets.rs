//! Interned pairs of namespace and labels; no selector distinguishes the pods of one label set.

use crate::index::{LabelSetIdx, PodIdx, TallyIdx};
use crate::map::Map;
use crate::object::{Labels, Operator, Selector, Text};

use super::State;

/// A label set in use.
#[derive(Clone, Debug)]
pub struct LabelSetRecord {
    /// Namespace of the pods.
    pub namespace: Text,
    /// Labels of the pods.
    pub labels: Labels,
    /// Pods that have a node.
    pub pods: Vec<PodIdx>,
    /// Tallies that count the pods.
    pub(crate) tallies: Vec<TallyIdx>,
    pub(super) users: u32,
}

/// All label sets in use.
#[derive(Clone, Debug, Default)]
pub struct LabelSets {
    pub(super) records: Vec<Option<LabelSetRecord>>,
    pub(super) by_name: Map<Text, Map<Labels, LabelSetIdx>>,
    pub(super) by_pair: Map<(Text, Text), Vec<LabelSetIdx>>,
    pub(super) free: Vec<LabelSetIdx>,
}

impl LabelSets {
    /// Returns a label set.
    pub fn get(&self, label_set: LabelSetIdx) -> &LabelSetRecord {
        self.records[label_set.at()].as_ref().expect("the index is held by a user of the label set")
    }

    pub(crate) fn get_mut(&mut self, label_set: LabelSetIdx) -> &mut LabelSetRecord {
        self.records[label_set.at()].as_mut().expect("the index is held by a user of the label set")
    }

    /// Interns a pair of namespace and labels and adds a user. Returns `true` if the label set is
    /// new.
    pub(crate) fn acquire(&mut self, namespace: &str, labels: &Labels) -> (LabelSetIdx, bool) {
        let found = self.by_name.get(namespace).and_then(|sets| sets.get(labels)).copied();
        if let Some(found) = found {
            self.get_mut(found).users += 1;
            return (found, false);
        }
        let record = LabelSetRecord {
            namespace: namespace.into(),
            labels: labels.clone(),
            pods: Vec::new(),
            tallies: Vec::new(),
            users: 1,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.records.push(None);
            LabelSetIdx::from(self.records.len() - 1)
        });
        self.records[index.at()] = Some(record);
        for (key, value) in labels.iter() {
            self.by_pair.get_or_insert_with((key.into(), value.into()), Vec::new).push(index);
        }
        let sets = self.by_name.get_or_insert_with(namespace.into(), Map::default);
        sets.insert(labels.clone(), index);
        (index, true)
    }

    /// Adds a user.
    pub(crate) fn hold(&mut self, label_set: LabelSetIdx) {
        self.get_mut(label_set).users += 1;
    }

    /// Removes a user; the label set is dropped with the last one.
    pub(crate) fn release(&mut self, label_set: LabelSetIdx) {
        let record = self.get_mut(label_set);
        record.users -= 1;
        if record.users > 0 {
            return;
        }
        debug_assert!(record.pods.is_empty());
        let Some(record) = self.records[label_set.at()].take() else { return };
        for (key, value) in record.labels.iter() {
            let pair = (Text::from(key), Text::from(value));
            let Some(sets) = self.by_pair.get_mut(&pair) else { continue };
            sets.retain(|other| *other != label_set);
            if sets.is_empty() {
                self.by_pair.remove(&pair);
            }
        }
        if let Some(sets) = self.by_name.get_mut(&record.namespace) {
            sets.remove(&record.labels);
            if sets.is_empty() {
                self.by_name.remove(&record.namespace);
            }
        }
        self.free.push(label_set);
    }

    /// Returns the label sets that a selector may match: those with a label pair of its first `In`
    /// requirement, or all if it has none.
    pub fn candidates(&self, selector: &Selector) -> Vec<LabelSetIdx> {
        let Some(pairs) = selector.requirements.iter().find(|r| r.operator == Operator::In) else {
            let all = self.records.iter().enumerate().filter(|(_, record)| record.is_some());
            return all.map(|(index, _)| LabelSetIdx::from(index)).collect();
        };
        let lists = pairs
            .values
            .iter()
            .filter_map(|value| self.by_pair.get(&(pairs.key.clone(), value.clone())));
        let mut found: Vec<_> = lists.flatten().copied().collect();
        found.sort_unstable();
        found
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
    pub(super) fn acquire_label_set(&mut self, namespace: &str, labels: &Labels) -> LabelSetIdx {
        let (label_set, new) = self.label_sets.acquire(namespace, labels);
        if new {
            self.label_sets.get_mut(label_set).tallies = self.tallies.matching(namespace, labels);
        }
        label_set
    }
}

#[cfg(test)]
mod tests;
