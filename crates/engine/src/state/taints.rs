//! Interned taint lists of nodes. A cluster has few distinct lists, so plugins evaluate each list
//! once instead of each node.

use crate::column;
use crate::index::{NodeIdx, TaintsIdx};
use crate::map::Map;
use crate::object::Taint;

/// Taint lists in use, and the list of each node.
#[derive(Clone, Debug, Default)]
pub struct TaintLists {
    lists: Vec<TaintList>,
    by_taints: Map<Box<[Taint]>, TaintsIdx>,
    free: Vec<TaintsIdx>,
    of_node: Vec<TaintsIdx>,
}

/// One list; empty while its index is free.
#[derive(Clone, Debug, Default)]
struct TaintList {
    taints: Box<[Taint]>,
    users: u32,
}

impl TaintLists {
    /// Returns the list of each slot; `NONE` if the node has no taints.
    pub fn column(&self) -> &[TaintsIdx] {
        &self.of_node
    }

    /// Returns the list of a node; `NONE` if it has no taints.
    pub fn of(&self, node: NodeIdx) -> TaintsIdx {
        self.of_node[node.at()]
    }

    /// Applies `map` to each list and returns the results by index. Unused indexes have no taints.
    pub fn map_each<T>(&self, mut map: impl FnMut(&[Taint]) -> T) -> Vec<T> {
        self.lists.iter().map(|list| map(&list.taints)).collect()
    }

    /// Adds a slot without taints.
    pub(crate) fn add_slot(&mut self) {
        column::push(&mut self.of_node, TaintsIdx::NONE);
    }

    /// Sets the taints of a node.
    pub(crate) fn set(&mut self, node: NodeIdx, taints: &[Taint]) {
        let new = if taints.is_empty() { TaintsIdx::NONE } else { self.acquire(taints) };
        let old = std::mem::replace(&mut self.of_node[node.at()], new);
        if old.is_some() {
            self.release(old);
        }
    }

    fn acquire(&mut self, taints: &[Taint]) -> TaintsIdx {
        if let Some(found) = self.by_taints.get(taints) {
            self.lists[found.at()].users += 1;
            return *found;
        }
        let list = TaintList { taints: taints.into(), users: 1 };
        let index = self.free.pop().unwrap_or_else(|| {
            self.lists.push(TaintList::default());
            TaintsIdx::from(self.lists.len() - 1)
        });
        self.lists[index.at()] = list;
        self.by_taints.insert(taints.into(), index);
        index
    }

    fn release(&mut self, index: TaintsIdx) {
        let list = &mut self.lists[index.at()];
        list.users -= 1;
        if list.users == 0 {
            self.by_taints.remove(&std::mem::take(&mut list.taints));
            self.free.push(index);
        }
    }
}

#[cfg(test)]
mod tests;
