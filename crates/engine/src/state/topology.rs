//! Label columns: for each label key in use, the value of every node and the nodes of every value.

use crate::index::{DomainIdx, KeyIdx, NodeIdx};
use crate::map::Map;
use crate::object::{Labels, Text};

use super::State;

/// Values of one label key on all nodes.
#[derive(Clone, Debug)]
pub struct LabelColumn {
    key: Text,
    values: Vec<Text>,
    by_value: Map<Text, DomainIdx>,
    domain_of: Vec<DomainIdx>,
    nodes_of: Vec<Vec<NodeIdx>>,
}

impl LabelColumn {
    /// Returns the label key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the domain of each slot; `NONE` if the node lacks the label.
    pub fn domains(&self) -> &[DomainIdx] {
        &self.domain_of
    }

    /// Returns the domain of a node; `NONE` if it lacks the label.
    pub fn domain(&self, node: NodeIdx) -> DomainIdx {
        // An orphan slot added after the column is beyond its end.
        self.domain_of.get(node.at()).copied().unwrap_or(DomainIdx::NONE)
    }

    /// Returns the number of domain indexes; values without nodes keep their index.
    pub fn domain_count(&self) -> usize {
        self.values.len()
    }

    /// Returns the label value of a domain.
    pub fn value(&self, domain: DomainIdx) -> &str {
        &self.values[domain.at()]
    }

    /// Finds the domain of a label value.
    pub fn find(&self, value: &str) -> Option<DomainIdx> {
        self.by_value.get(value).copied()
    }

    /// Returns the nodes of a domain, unordered.
    pub fn nodes(&self, domain: DomainIdx) -> &[NodeIdx] {
        &self.nodes_of[domain.at()]
    }

    fn set(&mut self, node: NodeIdx, value: Option<&str>) {
        if self.domain_of.len() <= node.at() {
            self.domain_of.resize(node.at() + 1, DomainIdx::NONE);
        }
        let domain = value.map_or(DomainIdx::NONE, |value| self.intern(value));
        let old = std::mem::replace(&mut self.domain_of[node.at()], domain);
        if old == domain {
            return;
        }
        if old.is_some() {
            self.nodes_of[old.at()].retain(|other| *other != node);
        }
        if domain.is_some() {
            self.nodes_of[domain.at()].push(node);
        }
    }

    fn intern(&mut self, value: &str) -> DomainIdx {
        if let Some(domain) = self.by_value.get(value) {
            return *domain;
        }
        let domain = DomainIdx::from(self.values.len());
        self.values.push(value.into());
        self.by_value.insert(value.into(), domain);
        self.nodes_of.push(Vec::new());
        domain
    }
}

/// All label columns in use.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    columns: Vec<LabelColumn>,
    by_key: Map<Text, KeyIdx>,
}

impl Topology {
    /// Returns a column.
    pub fn column(&self, key: KeyIdx) -> &LabelColumn {
        &self.columns[key.at()]
    }

    /// Returns the column of a key, if it exists.
    pub fn find(&self, key: &str) -> Option<KeyIdx> {
        self.by_key.get(key).copied()
    }

    /// Returns the column of a key, creating it from the given nodes if necessary.
    pub(crate) fn intern<'a>(
        &mut self,
        key: &str,
        slots: usize,
        nodes: impl Iterator<Item = (NodeIdx, &'a Labels)>,
    ) -> KeyIdx {
        if let Some(found) = self.by_key.get(key) {
            return *found;
        }
        let mut column = LabelColumn {
            key: key.into(),
            values: Vec::new(),
            by_value: Map::default(),
            domain_of: vec![DomainIdx::NONE; slots],
            nodes_of: Vec::new(),
        };
        for (node, labels) in nodes {
            column.set(node, labels.get(key));
        }
        let index = KeyIdx::from(self.columns.len());
        self.columns.push(column);
        self.by_key.insert(key.into(), index);
        index
    }

    /// Sets the labels of a node; `None` removes it from all columns.
    pub(crate) fn set_node(&mut self, node: NodeIdx, labels: Option<&Labels>) {
        for column in &mut self.columns {
            let value = labels.and_then(|labels| labels.get(&column.key));
            column.set(node, value);
        }
    }
}

impl State {
    /// Returns the column of a node label, creating it if necessary.
    pub fn label_column(&mut self, key: &str) -> KeyIdx {
        let nodes = &self.nodes;
        let labels = nodes.present().iter().map(|node| (node, &nodes.object(node).labels));
        self.topology.intern(key, nodes.slots(), labels)
    }
}

#[cfg(test)]
mod tests;
