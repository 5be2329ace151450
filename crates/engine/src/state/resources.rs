//! Interned resource names.

use crate::index::ResourceIdx;
use crate::map::Map;
use crate::object::{Resources, Text};

/// All resource names seen. They are few and are never dropped.
#[derive(Clone, Debug)]
pub struct ResourceNames {
    names: Vec<Text>,
    by_name: Map<Text, ResourceIdx>,
}

impl Default for ResourceNames {
    fn default() -> Self {
        let mut names = Self { names: Vec::new(), by_name: Map::default() };
        for (name, index) in [
            ("cpu", ResourceIdx::CPU),
            ("memory", ResourceIdx::MEMORY),
            ("ephemeral-storage", ResourceIdx::EPHEMERAL),
        ] {
            let made = names.intern(name);
            debug_assert_eq!(made, index);
        }
        names
    }
}

impl ResourceNames {
    /// Returns the index of a name, interning it if necessary.
    pub fn intern(&mut self, name: &str) -> ResourceIdx {
        if let Some(index) = self.by_name.get(name) {
            return *index;
        }
        let index = ResourceIdx::from(self.names.len());
        self.names.push(name.into());
        self.by_name.insert(name.into(), index);
        index
    }

    /// Returns the index of a name, or `None` if no object has used it.
    pub fn get(&self, name: &str) -> Option<ResourceIdx> {
        self.by_name.get(name).copied()
    }

    /// Returns the name of an index.
    pub fn name(&self, index: ResourceIdx) -> &str {
        &self.names[index.at()]
    }

    /// Returns the number of names.
    pub fn count(&self) -> usize {
        self.names.len()
    }

    /// Returns amounts by index. Zero amounts of CPU, memory and ephemeral storage are left out;
    /// scalars are kept.
    pub fn vector(&mut self, resources: &Resources) -> Box<[(ResourceIdx, i64)]> {
        let basic = [
            (ResourceIdx::CPU, resources.cpu),
            (ResourceIdx::MEMORY, resources.memory),
            (ResourceIdx::EPHEMERAL, resources.ephemeral),
        ];
        let mut vector: Vec<_> = basic.into_iter().filter(|(_, amount)| *amount != 0).collect();
        for (name, amount) in &resources.scalars {
            vector.push((self.intern(name), *amount));
        }
        vector.into()
    }
}

#[cfg(test)]
mod tests;
