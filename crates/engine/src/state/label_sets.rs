//! LabelSets: pods of one namespace with equal labels, which no selector can tell apart.

use crate::index::{LabelSetIdx, PodIdx, TallyIdx};
use crate::map::Map;
use crate::object::{Labels, Operator, Selector, Text};

/// A label_set in use.
#[derive(Clone, Debug)]
pub struct LabelSetRecord {
    /// Namespace of its pods.
    pub namespace: Text,
    /// Labels of its pods.
    pub labels: Labels,
    /// Pods of it that are on nodes.
    pub pods: Vec<PodIdx>,
    /// Tallies that count its pods.
    pub(crate) tallies: Vec<TallyIdx>,
    users: u32,
}

/// All sets in use.
#[derive(Clone, Debug, Default)]
pub struct LabelSets {
    records: Vec<Option<LabelSetRecord>>,
    by_name: Map<Text, Map<Labels, LabelSetIdx>>,
    by_pair: Map<(Text, Text), Vec<LabelSetIdx>>,
    free: Vec<LabelSetIdx>,
}

impl LabelSets {
    /// A label_set in use.
    pub fn get(&self, label_set: LabelSetIdx) -> &LabelSetRecord {
        self.records[label_set.at()].as_ref().expect("the index is held by a user of the label_set")
    }

    pub(crate) fn get_mut(&mut self, label_set: LabelSetIdx) -> &mut LabelSetRecord {
        self.records[label_set.at()].as_mut().expect("the index is held by a user of the label_set")
    }

    /// The label_set of a namespace and labels with one more user, and whether it is new.
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

    /// Takes one user away; the last one takes the label_set with it.
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

    /// The sets that a selector may match: by its first `In` requirement, or else all.
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
}

#[cfg(test)]
mod tests;
