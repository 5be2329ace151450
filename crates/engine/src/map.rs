//! Hash map without iteration, so that no decision can depend on hash order.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::FxBuildHasher;

#[expect(clippy::disallowed_types, reason = "this module wraps it without its iterators")]
type Inner<K, V> = std::collections::HashMap<K, V, FxBuildHasher>;

/// Hash map without iteration.
#[derive(Clone, Debug)]
pub struct Map<K, V>(Inner<K, V>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Inner::default())
    }
}

impl<K: Eq + Hash, V> Map<K, V> {
    /// Returns the value of a key.
    pub fn get<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    /// Returns the value of a key, mutably.
    pub fn get_mut<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }

    /// Returns `true` if the map contains a key.
    pub fn contains_key<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// Inserts a value and returns the previous value of the key.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Removes a key and returns its value.
    pub fn remove<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.remove(key)
    }

    /// Returns the value of a key, inserting it first if it is absent.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.0.entry(key).or_insert_with(make)
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
