//! An index of one list by the path elements of `FieldsV1`.

#[cfg(test)]
use std::cell::Cell;
use std::collections::HashMap;

use serde_json::{Map, Value};

use super::fields::{PathElement, key_text};

/// Maximum number of key sets by which one list is indexed. The schema gives a list exactly one; further
/// ones come from forged managed fields only, and each costs a pass over the list. Their items are not
/// found.
const KEY_SETS_MAX: usize = 4;

/// Finds the items of one list by path element. The list is indexed at the first lookup, so that n
/// lookups in a list of m items take O(n + m) steps instead of O(n·m).
pub(super) struct ListIndex<'a> {
    items: &'a [Value],
    by_value: Option<HashMap<String, usize>>,
    /// Key names, and the position of the first item with each combination of their values.
    by_keys: Vec<(Vec<String>, HashMap<String, usize>)>,
}

impl<'a> ListIndex<'a> {
    pub(super) fn new(items: &'a [Value]) -> Self {
        Self { items, by_value: None, by_keys: Vec::new() }
    }

    /// Returns the position of the first item that a path element names.
    pub(super) fn position(&mut self, element: &str) -> Option<usize> {
        match PathElement::parse(element) {
            PathElement::Value(text) => {
                let wanted: Value = serde_json::from_str(text).ok()?;
                let items = self.items;
                let index = self.by_value.get_or_insert_with(|| positions(items, Value::to_string));
                index.get(&wanted.to_string()).copied()
            }
            PathElement::Key(text) => {
                let wanted: Map<String, Value> = serde_json::from_str(text).ok()?;
                let names: Vec<String> = wanted.keys().cloned().collect();
                let index = self.index_by(names)?;
                index.get(&Value::Object(wanted).to_string()).copied()
            }
            PathElement::Field(_) | PathElement::Other(_) => None,
        }
    }

    fn index_by(&mut self, names: Vec<String>) -> Option<&HashMap<String, usize>> {
        let known = self.by_keys.iter().position(|(known, _)| *known == names);
        let position = match known {
            Some(position) => position,
            None if self.by_keys.len() < KEY_SETS_MAX => {
                let index = positions(self.items, |item| key_text(item, &names));
                self.by_keys.push((names, index));
                self.by_keys.len() - 1
            }
            None => return None,
        };
        self.by_keys.get(position).map(|(_, index)| index)
    }
}

fn positions(items: &[Value], identity: impl Fn(&Value) -> String) -> HashMap<String, usize> {
    #[cfg(test)]
    VISITED.set(VISITED.get() + items.len());
    let mut positions = HashMap::with_capacity(items.len());
    for (position, item) in items.iter().enumerate() {
        positions.entry(identity(item)).or_insert(position);
    }
    positions
}

#[cfg(test)]
thread_local! {
    /// List items indexed by this thread.
    static VISITED: Cell<usize> = const { Cell::new(0) };
}

/// Returns the number of list items indexed by this thread since the last call.
#[cfg(test)]
pub(super) fn take_visited() -> usize {
    VISITED.take()
}
