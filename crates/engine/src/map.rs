//! A hash map that cannot be iterated, so that no decision can depend on hash order.

use std::borrow::Borrow;
use std::hash::Hash;

use rustc_hash::FxBuildHasher;

#[expect(clippy::disallowed_types, reason = "the one place that wraps it")]
type Inner<K, V> = std::collections::HashMap<K, V, FxBuildHasher>;

/// A hash map without iteration.
#[derive(Clone, Debug)]
pub struct Map<K, V>(Inner<K, V>);

impl<K, V> Default for Map<K, V> {
    fn default() -> Self {
        Self(Inner::default())
    }
}

impl<K: Eq + Hash, V> Map<K, V> {
    /// Looks a key up.
    pub fn get<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.0.get(key)
    }

    /// Looks a key up, to change its value.
    pub fn get_mut<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.0.get_mut(key)
    }

    /// Whether a key is there.
    pub fn contains_key<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.0.contains_key(key)
    }

    /// Puts a value in and returns the one it replaces.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        self.0.insert(key, value)
    }

    /// Takes a value out.
    pub fn remove<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        self.0.remove(key)
    }

    /// The value of a key, made first if it is absent.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> &mut V {
        self.0.entry(key).or_insert_with(make)
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests;
