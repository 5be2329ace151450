//! Groups: pods of one namespace with equal labels, which no selector can tell apart.

use crate::index::{GroupIdx, PodIdx, TallyIdx};
use crate::map::Map;
use crate::object::{Labels, Operator, Selector, Text};

/// A group in use.
#[derive(Clone, Debug)]
pub struct GroupRecord {
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

/// All groups in use.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    records: Vec<Option<GroupRecord>>,
    by_name: Map<Text, Map<Labels, GroupIdx>>,
    by_pair: Map<(Text, Text), Vec<GroupIdx>>,
    free: Vec<GroupIdx>,
}

impl Groups {
    /// A group in use.
    pub fn get(&self, group: GroupIdx) -> &GroupRecord {
        self.records[group.at()].as_ref().expect("the index is held by a user of the group")
    }

    pub(crate) fn get_mut(&mut self, group: GroupIdx) -> &mut GroupRecord {
        self.records[group.at()].as_mut().expect("the index is held by a user of the group")
    }

    /// The group of a namespace and labels with one more user, and whether it is new.
    pub(crate) fn acquire(&mut self, namespace: &str, labels: &Labels) -> (GroupIdx, bool) {
        let found = self.by_name.get(namespace).and_then(|groups| groups.get(labels)).copied();
        if let Some(found) = found {
            self.get_mut(found).users += 1;
            return (found, false);
        }
        let record = GroupRecord {
            namespace: namespace.into(),
            labels: labels.clone(),
            pods: Vec::new(),
            tallies: Vec::new(),
            users: 1,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.records.push(None);
            GroupIdx::from(self.records.len() - 1)
        });
        self.records[index.at()] = Some(record);
        for (key, value) in labels.iter() {
            self.by_pair.get_or_insert_with((key.into(), value.into()), Vec::new).push(index);
        }
        let groups = self.by_name.get_or_insert_with(namespace.into(), Map::default);
        groups.insert(labels.clone(), index);
        (index, true)
    }

    /// Adds a user.
    pub(crate) fn hold(&mut self, group: GroupIdx) {
        self.get_mut(group).users += 1;
    }

    /// Takes one user away; the last one takes the group with it.
    pub(crate) fn release(&mut self, group: GroupIdx) {
        let record = self.get_mut(group);
        record.users -= 1;
        if record.users > 0 {
            return;
        }
        debug_assert!(record.pods.is_empty());
        let Some(record) = self.records[group.at()].take() else { return };
        for (key, value) in record.labels.iter() {
            let pair = (Text::from(key), Text::from(value));
            let Some(groups) = self.by_pair.get_mut(&pair) else { continue };
            groups.retain(|other| *other != group);
            if groups.is_empty() {
                self.by_pair.remove(&pair);
            }
        }
        if let Some(groups) = self.by_name.get_mut(&record.namespace) {
            groups.remove(&record.labels);
            if groups.is_empty() {
                self.by_name.remove(&record.namespace);
            }
        }
        self.free.push(group);
    }

    /// The groups that a selector may match: by its first `In` requirement, or else all.
    pub fn candidates(&self, selector: &Selector) -> Vec<GroupIdx> {
        let Some(pairs) = selector.requirements.iter().find(|r| r.operator == Operator::In) else {
            let all = self.records.iter().enumerate().filter(|(_, record)| record.is_some());
            return all.map(|(index, _)| GroupIdx::from(index)).collect();
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
