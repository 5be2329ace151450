//! Tallies: logs of the pods that match a condition and are placed on nodes or removed from them.
//!
//! A prepared filter counts its pods once and then follows the tally. Placing a pod therefore costs
//! one log entry per tally; classes that are not in use pay nothing until they are.

use crate::change_log::ChangeLog;
use crate::index::{NodeIdx, PodIdx, TallyIdx, TermIdx};
use crate::limits::{TALLIES_DROP_BATCH, TALLIES_MAX, TALLY_CHANGES_MAX};
use crate::map::Map;
use crate::object::{Labels, Selector, Text};

use super::State;
use super::selector_index::SelectorIndex;

/// Namespaces that a matcher selects.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NamespaceScope {
    /// All namespaces.
    All,
    /// The listed namespaces, sorted.
    Names(Box<[Text]>),
}

/// Selects pods by namespace and labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matcher {
    /// Namespaces.
    pub scope: NamespaceScope,
    /// Selector over pod labels.
    pub selector: Selector,
}

impl Matcher {
    /// Returns `true` if it selects pods of this namespace with these labels.
    pub fn matches(&self, namespace: &str, labels: &Labels) -> bool {
        let in_scope = match &self.scope {
            NamespaceScope::All => true,
            NamespaceScope::Names(names) => {
                names.binary_search_by(|n| (**n).cmp(namespace)).is_ok()
            }
        };
        in_scope && self.selector.matches(labels)
    }
}

/// Pods that a tally counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TallySource {
    /// Pods that all of the matchers select.
    Matching {
        /// At least one matcher.
        matchers: Box<[Matcher]>,
        /// Excludes terminating pods.
        live_only: bool,
    },
    /// Pods that have an affinity term.
    Carrying(TermIdx),
}

/// Handle of a tally. It becomes invalid when the tally is dropped as least recently read; readers
/// then start from scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TallyRef {
    pub(crate) index: TallyIdx,
    generation: u64,
}

#[derive(Clone, Debug)]
struct Tally {
    source: TallySource,
    generation: u64,
    changes: ChangeLog<(NodeIdx, i32)>,
    last_read: u64,
}

/// All tallies in use.
#[derive(Clone, Debug, Default)]
pub struct Tallies {
    slots: Vec<Option<Tally>>,
    by_source: Map<TallySource, TallyIdx>,
    by_selector: SelectorIndex<TallyIdx>,
    free: Vec<TallyIdx>,
    live: usize,
    clock: u64,
}

impl Tallies {
    /// Returns the position after the last change of a tally, or `None` if it was dropped.
    pub fn end(&self, tally: TallyRef) -> Option<u64> {
        Some(self.get(tally)?.changes.end())
    }

    /// Returns the changes from a position on as (node, +1 or −1), or `None` if the reader must
    /// start from scratch.
    pub fn since(&self, tally: TallyRef, position: u64) -> Option<&[(NodeIdx, i32)]> {
        self.get(tally)?.changes.since(position)
    }

    fn get(&self, tally: TallyRef) -> Option<&Tally> {
        let slot = self.slots[tally.index.at()].as_ref()?;
        (slot.generation == tally.generation).then_some(slot)
    }

    /// Finds the tally of a source and marks it as read.
    pub(crate) fn find(&mut self, source: &TallySource) -> Option<TallyRef> {
        let index = *self.by_source.get(source)?;
        self.clock += 1;
        let clock = self.clock;
        let tally = self.slots[index.at()].as_mut()?;
        tally.last_read = clock;
        Some(TallyRef { index, generation: tally.generation })
    }

    /// Creates a tally. The caller links it to its label sets or term and then drops
    /// [`Self::least_recently_read`].
    pub(crate) fn insert(&mut self, source: TallySource) -> TallyRef {
        self.clock += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            TallyIdx::from(self.slots.len() - 1)
        });
        if let TallySource::Matching { matchers, .. } = &source {
            self.by_selector.insert(&matchers[0].selector, index);
        }
        self.by_source.insert(source.clone(), index);
        let generation = self.clock;
        let changes = ChangeLog::new(TALLY_CHANGES_MAX);
        self.slots[index.at()] = Some(Tally { source, generation, changes, last_read: self.clock });
        self.live += 1;
        TallyRef { index, generation }
    }

    /// Returns the least recently read tallies if there are too many.
    pub(crate) fn least_recently_read(&self) -> Vec<TallyIdx> {
        if self.live <= TALLIES_MAX + TALLIES_DROP_BATCH {
            return Vec::new();
        }
        let live = self.slots.iter().enumerate();
        let mut ages: Vec<(u64, usize)> =
            live.filter_map(|(index, slot)| Some((slot.as_ref()?.last_read, index))).collect();
        ages.sort_unstable();
        ages.into_iter().take(TALLIES_DROP_BATCH).map(|(_, index)| index.into()).collect()
    }

    /// Removes a tally and returns its source.
    pub(crate) fn remove(&mut self, index: TallyIdx) -> Option<TallySource> {
        let tally = self.slots[index.at()].take()?;
        if let TallySource::Matching { matchers, .. } = &tally.source {
            self.by_selector.remove(&matchers[0].selector, index);
        }
        self.by_source.remove(&tally.source);
        self.free.push(index);
        self.live -= 1;
        Some(tally.source)
    }

    /// Returns the tallies that count pods of this namespace with these labels.
    pub(crate) fn matching(&self, namespace: &str, labels: &Labels) -> Vec<TallyIdx> {
        let mut found = self.by_selector.candidates(labels);
        found.retain(|index| {
            let Some(tally) = &self.slots[index.at()] else { return false };
            let TallySource::Matching { matchers, .. } = &tally.source else { return false };
            matchers.iter().all(|matcher| matcher.matches(namespace, labels))
        });
        found
    }

    /// Records that a pod was placed on a node (+1) or removed (−1).
    pub(crate) fn record(
        &mut self,
        index: TallyIdx,
        node: NodeIdx,
        change: i32,
        terminating: bool,
    ) {
        let Some(tally) = &mut self.slots[index.at()] else { return };
        let skips = matches!(tally.source, TallySource::Matching { live_only: true, .. });
        if !(skips && terminating) {
            tally.changes.push((node, change));
        }
    }

    /// Records that a pod on a node began to terminate.
    pub(crate) fn record_terminating(&mut self, index: TallyIdx, node: NodeIdx) {
        let Some(tally) = &mut self.slots[index.at()] else { return };
        if matches!(tally.source, TallySource::Matching { live_only: true, .. }) {
            tally.changes.push((node, -1));
        }
    }
}

impl State {
    /// Calls `each` with every pod of a source that has a node, and the node.
    pub fn for_each_counted_pod(
        &self,
        source: &TallySource,
        mut each: impl FnMut(PodIdx, NodeIdx),
    ) {
        match source {
            TallySource::Matching { matchers, live_only } => {
                for label_set in self.label_sets.candidates(&matchers[0].selector) {
                    let record = self.label_sets.get(label_set);
                    let matches = |m: &Matcher| m.matches(&record.namespace, &record.labels);
                    if !matchers.iter().all(matches) {
                        continue;
                    }
                    for pod in &record.pods {
                        let pod_record = self.pods.get(*pod);
                        if !(*live_only && pod_record.terminating) {
                            each(*pod, pod_record.node);
                        }
                    }
                }
            }
            TallySource::Carrying(term) => {
                for spec in &self.terms.get(*term).specs {
                    for pod in &self.specs.get(*spec).pods {
                        each(*pod, self.pods.get(*pod).node);
                    }
                }
            }
        }
    }

    /// Returns the tally of a source, creating it if necessary.
    pub fn tally(&mut self, source: &TallySource) -> TallyRef {
        if let Some(found) = self.tallies.find(source) {
            return found;
        }
        let tally = self.tallies.insert(source.clone());
        match source {
            TallySource::Matching { matchers, .. } => {
                for label_set in self.label_sets.candidates(&matchers[0].selector) {
                    let record = self.label_sets.get_mut(label_set);
                    if matchers.iter().all(|m| m.matches(&record.namespace, &record.labels)) {
                        record.tallies.push(tally.index);
                    }
                }
            }
            TallySource::Carrying(term) => self.terms.get_mut(*term).tally = Some(tally.index),
        }
        for least_recently_read in self.tallies.least_recently_read() {
            self.drop_tally(least_recently_read);
        }
        tally
    }

    fn drop_tally(&mut self, tally: TallyIdx) {
        match self.tallies.remove(tally) {
            Some(TallySource::Matching { matchers, .. }) => {
                for label_set in self.label_sets.candidates(&matchers[0].selector) {
                    self.label_sets.get_mut(label_set).tallies.retain(|other| *other != tally);
                }
            }
            Some(TallySource::Carrying(term)) => self.terms.get_mut(term).tally = None,
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
