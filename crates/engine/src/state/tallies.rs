//! Tallies: logs of pods that come to and leave nodes, for those who count them per domain.
//!
//! A prepared filter counts its pods once and then follows the tally, so that placing a pod costs
//! its class one step and all others nothing until they are used.

use crate::change_log::ChangeLog;
use crate::index::{NodeIdx, TallyIdx, TermIdx};
use crate::limits::{TALLIES_DROP_BATCH, TALLIES_MAX, TALLY_CHANGES_MAX};
use crate::map::Map;
use crate::object::{Labels, Selector, Text};

use super::selector_index::SelectorIndex;

/// Which namespaces a matcher looks into.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum NamespaceScope {
    /// Every namespace.
    All,
    /// These, sorted.
    Names(Box<[Text]>),
}

/// Pods of some namespaces whose labels match a selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Matcher {
    /// Namespaces.
    pub scope: NamespaceScope,
    /// Selector over pod labels.
    pub selector: Selector,
}

impl Matcher {
    /// Whether it speaks of pods of this namespace with these labels.
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

/// Which pods a tally follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TallySource {
    /// Pods that all of the matchers match.
    Matching {
        /// At least one.
        matchers: Box<[Matcher]>,
        /// Leave terminating pods out.
        live_only: bool,
    },
    /// Pods that carry an affinity term.
    Carrying(TermIdx),
}

/// Names a tally. It may be dropped when nobody reads it for long; then its readers start anew.
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
    /// Position after the last change of a tally, or `None` if it was dropped.
    pub fn end(&self, tally: TallyRef) -> Option<u64> {
        Some(self.get(tally)?.changes.end())
    }

    /// Changes since a position as (node, +1 or -1), or `None` when the reader must start anew.
    pub fn since(&self, tally: TallyRef, position: u64) -> Option<&[(NodeIdx, i32)]> {
        self.get(tally)?.changes.since(position)
    }

    fn get(&self, tally: TallyRef) -> Option<&Tally> {
        let slot = self.slots[tally.index.at()].as_ref()?;
        (slot.generation == tally.generation).then_some(slot)
    }

    /// A tally of this source, if there is one.
    pub(crate) fn find(&mut self, source: &TallySource) -> Option<TallyRef> {
        let index = *self.by_source.get(source)?;
        self.clock += 1;
        let clock = self.clock;
        let tally = self.slots[index.at()].as_mut()?;
        tally.last_read = clock;
        Some(TallyRef { index, generation: tally.generation })
    }

    /// Starts a tally. The caller tells groups or terms of it, and drops what is returned.
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

    /// If there are too many, those that were not asked for longest.
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

    /// Ends a tally and returns whom it followed.
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

    /// Tallies that follow pods of a namespace with these labels.
    pub(crate) fn matching(&self, namespace: &str, labels: &Labels) -> Vec<TallyIdx> {
        let mut found = self.by_selector.candidates(labels);
        found.retain(|index| {
            let Some(tally) = &self.slots[index.at()] else { return false };
            let TallySource::Matching { matchers, .. } = &tally.source else { return false };
            matchers.iter().all(|matcher| matcher.matches(namespace, labels))
        });
        found
    }

    /// Notes that a pod came or went.
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

    /// Notes that a pod on a node began to terminate.
    pub(crate) fn record_terminating(&mut self, index: TallyIdx, node: NodeIdx) {
        let Some(tally) = &mut self.slots[index.at()] else { return };
        if matches!(tally.source, TallySource::Matching { live_only: true, .. }) {
            tally.changes.push((node, -1));
        }
    }
}

#[cfg(test)]
mod tests;
