//! The objects of one kind by namespace and name.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::object::{Stored, Text};

/// The objects of one kind, in order of namespace and name: plugins iterate over them, and the
/// order affects decisions. Clones share the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table<T> {
    /// By namespace, which is empty for cluster-scoped kinds, and name. No namespace is empty.
    objects: BTreeMap<Text, BTreeMap<Text, Arc<T>>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new() }
    }
}

impl<T> Table<T> {
    /// Returns an object of a cluster-scoped kind.
    pub fn get(&self, name: &str) -> Option<&T> {
        self.get_in("", name)
    }

    /// Returns an object by namespace and name.
    pub fn get_in(&self, namespace: &str, name: &str) -> Option<&T> {
        self.objects.get(namespace)?.get(name).map(|object| &**object)
    }

    /// Iterates over the objects of a namespace by name.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = &T> {
        self.objects.get(namespace).into_iter().flat_map(BTreeMap::values).map(|object| &**object)
    }

    /// Iterates over all objects by namespace and name.
    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.objects.values().flat_map(BTreeMap::values).map(|object| &**object)
    }

    /// Removes an object and returns it.
    pub(crate) fn remove(&mut self, namespace: &str, name: &str) -> Option<Arc<T>> {
        let objects = self.objects.get_mut(namespace)?;
        let removed = objects.remove(name);
        if objects.is_empty() {
            self.objects.remove(namespace);
        }
        removed
    }
}

impl<T: Stored> Table<T> {
    /// Adds an object. Returns the version that it replaces.
    pub fn insert(&mut self, object: impl Into<Arc<T>>) -> Option<Arc<T>> {
        let object = object.into();
        let (namespace, name) = object.key();
        self.objects.entry(namespace).or_default().insert(name, object)
    }
}

#[cfg(test)]
mod tests;
