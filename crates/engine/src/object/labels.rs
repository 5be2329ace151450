//! Labels of one object, sorted by key.

use super::Text;

/// Labels of one object, sorted by key, each key once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Labels(Box<[(Text, Text)]>);

impl Labels {
    /// Looks a key up.
    pub fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        Some(&self.0[found].1)
    }

    /// Pairs in key order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (&**k, &**v))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<K: Into<Text>, V: Into<Text>> FromIterator<(K, V)> for Labels {
    /// Collects pairs in any order; of a repeated key the last value stays.
    fn from_iter<I: IntoIterator<Item = (K, V)>>(pairs: I) -> Self {
        let sorted: std::collections::BTreeMap<Text, Text> =
            pairs.into_iter().map(|(k, v)| (k.into(), v.into())).collect();
        Self(sorted.into_iter().collect())
    }
}
