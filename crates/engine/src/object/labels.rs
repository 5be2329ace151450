//! Labels of one object, sorted by key.

use std::sync::Arc;

use super::Text;

/// Labels of one object, sorted by key, each key once. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Arc<[(Text, Text)]>);

impl Labels {
    /// Returns the value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        Some(&self.0[found].1)
    }

    /// Iterates over the pairs in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (&**k, &**v))
    }

    /// Returns the number of labels.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns `true` if there are no labels.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<Text>, V: Into<Text>> FromIterator<(K, V)> for Labels {
    /// Collects pairs in any order; the last value of a repeated key wins.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let mut all: Vec<(Text, Text)> =
            pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        // API servers send most labels sorted.
        if !all.is_sorted_by(|one, next| one.0 < next.0) {
            // Reversing first makes the stable sort and `dedup_by` keep the last of equal keys.
            all.reverse();
            all.sort_by(|one, other| one.0.cmp(&other.0));
            all.dedup_by(|one, before| one.0 == before.0);
        }
        Self(all.into())
    }
}

#[cfg(test)]
mod tests;
