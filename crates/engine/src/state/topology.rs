//! Label columns of nodes: for each key in use, the value of every node and the nodes of every value.

use crate::index::{DomainIdx, KeyIdx, NodeIdx};
use crate::map::Map;
use crate::object::{Labels, Text};

/// One label key over all nodes.
#[derive(Clone, Debug)]
pub struct LabelColumn {
    key: Text,
    values: Vec<Text>,
    by_value: Map<Text, DomainIdx>,
    domain_of: Vec<DomainIdx>,
    nodes_of: Vec<Vec<NodeIdx>>,
}

impl LabelColumn {
    /// The label key.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Domain of each slot; `NONE` where the node lacks the label.
    pub fn domains(&self) -> &[DomainIdx] {
        &self.domain_of
    }

    /// Domain of one node; `NONE` where it lacks the label.
    pub fn domain(&self, node: NodeIdx) -> DomainIdx {
        // A slot made after the column and still without an object has no labels.
        self.domain_of.get(node.at()).copied().unwrap_or(DomainIdx::NONE)
    }

    /// How many domain indexes are in use; values that no node has any more keep theirs.
    pub fn domain_count(&self) -> usize {
        self.values.len()
    }

    /// Label value of a domain.
    pub fn value(&self, domain: DomainIdx) -> &str {
        &self.values[domain.at()]
    }

    /// Finds the domain of a value.
    pub fn find(&self, value: &str) -> Option<DomainIdx> {
        self.by_value.get(value).copied()
    }

    /// Nodes of a domain, in no particular order.
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

/// The label columns in use.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    columns: Vec<LabelColumn>,
    by_key: Map<Text, KeyIdx>,
}

impl Topology {
    /// A column that was made before.
    pub fn column(&self, key: KeyIdx) -> &LabelColumn {
        &self.columns[key.at()]
    }

    /// The column of a key, if something uses it.
    pub fn find(&self, key: &str) -> Option<KeyIdx> {
        self.by_key.get(key).copied()
    }

    /// The column of a key, made from the given nodes if it is new.
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

    /// Takes over the labels of a node; `None` when it is gone.
    pub(crate) fn set_node(&mut self, node: NodeIdx, labels: Option<&Labels>) {
        for column in &mut self.columns {
            let value = labels.and_then(|labels| labels.get(&column.key));
            column.set(node, value);
        }
    }
}

#[cfg(test)]
mod tests;
