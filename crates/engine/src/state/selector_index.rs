//! Finds the selectors that may match a set of labels without trying all of them.

use crate::map::Map;
use crate::object::{Labels, Operator, Selector, Text};

/// Selectors indexed by one of the label pairs that they require.
///
/// A selector is listed under each value of its first `In` requirement, since matching labels
/// contain one of these pairs. Selectors without an `In` requirement are always candidates.
#[derive(Clone, Debug)]
pub struct SelectorIndex<I> {
    by_pair: Map<(Text, Text), Vec<I>>,
    others: Vec<I>,
}

impl<I> Default for SelectorIndex<I> {
    fn default() -> Self {
        Self { by_pair: Map::default(), others: Vec::new() }
    }
}

impl<I: Copy + Eq> SelectorIndex<I> {
    /// Adds a selector.
    pub fn insert(&mut self, selector: &Selector, id: I) {
        match filed_under(selector) {
            Some((key, values)) => {
                for value in values {
                    let pair = (key.clone(), value.clone());
                    self.by_pair.get_or_insert_with(pair, Vec::new).push(id);
                }
            }
            None => self.others.push(id),
        }
    }

    /// Removes a selector.
    pub fn remove(&mut self, selector: &Selector, id: I) {
        match filed_under(selector) {
            Some((key, values)) => {
                for value in values {
                    let pair = (key.clone(), value.clone());
                    let Some(ids) = self.by_pair.get_mut(&pair) else { continue };
                    ids.retain(|other| *other != id);
                    if ids.is_empty() {
                        self.by_pair.remove(&pair);
                    }
                }
            }
            None => self.others.retain(|other| *other != id),
        }
    }

    /// Returns the ids of the selectors that may match the labels, each once, in ascending order.
    pub fn candidates(&self, labels: &Labels) -> Vec<I>
    where
        I: Ord,
    {
        let mut found = self.others.clone();
        for (key, value) in labels.iter() {
            // The map is keyed by owned pairs, so this clones; labels are few and short.
            if let Some(ids) = self.by_pair.get(&(Text::from(key), Text::from(value))) {
                found.extend_from_slice(ids);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

fn filed_under(selector: &Selector) -> Option<(&Text, &[Text])> {
    let requirement = selector.requirements.iter().find(|r| r.operator == Operator::In)?;
    Some((&requirement.key, &requirement.values))
}

#[cfg(test)]
mod tests;
