//! Pods that wait for an event, in sets that no queueing hint can tell apart.
//!
//! Hints run once per set, and only for sets with a plugin that subscribes to the event. The cost
//! of an event therefore depends on the number of sets, not on the number of waiting pods.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::framework::profile::PluginPosition;
use crate::map::Map;

use super::entry::{QueuedPod, Slot};
use super::hints::{Interest, WaitingSubject};
use super::plugin_set::{PLUGINS_MAX, PluginSet};

/// Identity of a set: pods of one class that the same plugins rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct WaitingSetKey {
    subject: WaitingSubject,
    gating: Option<PluginPosition>,
}

impl WaitingSetKey {
    fn of(info: &QueuedPod) -> Self {
        Self { subject: WaitingSubject::of(info), gating: info.gating() }
    }

    /// Returns the plugins whose events concern the set; for gated pods, only the gating plugin.
    fn wakers(&self) -> PluginSet {
        let WaitingSubject { rejectors, pending, .. } = self.subject;
        self.gating.map_or(rejectors.with(pending), PluginSet::one)
    }
}

/// Slot of the table of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct WaitingSetIdx(u32);

#[derive(Clone, Debug)]
struct WaitingSet {
    key: WaitingSetKey,
    /// Unordered; empty in a free slot.
    members: Vec<Slot>,
}

/// Position of a pod in the pool.
#[derive(Clone, Copy, Debug)]
struct Membership {
    set: WaitingSetIdx,
    position: u32,
    since: i64,
}

/// All pods that wait for an event.
#[derive(Clone, Debug, Default)]
pub(super) struct UnschedulablePool {
    sets: Vec<WaitingSet>,
    free: Vec<WaitingSetIdx>,
    by_key: Map<WaitingSetKey, WaitingSetIdx>,
    /// Sets by profile and waking plugin; see [`subscriber_index`].
    subscribers: Vec<BTreeSet<WaitingSetIdx>>,
    /// Memberships by slot.
    memberships: Vec<Option<Membership>>,
    /// Pods by the start of their wait.
    by_age: BTreeSet<(i64, Slot)>,
}

impl UnschedulablePool {
    pub(super) fn insert(&mut self, slot: Slot, info: &QueuedPod) {
        let set = self.set_for(WaitingSetKey::of(info));
        let members = &mut self.sets[set.0 as usize].members;
        let since = info.waiting_since();
        let membership = Membership { set, position: members.len() as u32, since };
        members.push(slot);
        if self.memberships.len() <= slot.at() {
            self.memberships.resize(slot.at() + 1, None);
        }
        debug_assert!(self.memberships[slot.at()].is_none());
        self.memberships[slot.at()] = Some(membership);
        self.by_age.insert((since, slot));
    }

    pub(super) fn remove(&mut self, slot: Slot) {
        let membership = self.memberships.get_mut(slot.at()).and_then(Option::take);
        let Some(Membership { set, position, since }) = membership else { return };
        self.by_age.remove(&(since, slot));
        let members = &mut self.sets[set.0 as usize].members;
        members.swap_remove(position as usize);
        if let Some(moved) = members.get(position as usize) {
            if let Some(other) = &mut self.memberships[moved.at()] {
                other.position = position;
            }
        } else if members.is_empty() {
            self.drop_set(set);
        }
    }

    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.memberships.get(slot.at()).is_some_and(Option::is_some)
    }

    /// Returns the sets that an event concerns; `interests` is indexed by profile.
    pub(super) fn concerned(&self, interests: &[Interest]) -> Vec<WaitingSetIdx> {
        let mut sets = Vec::new();
        for (profile, interest) in interests.iter().enumerate() {
            let plugins = interest.all();
            for plugin in plugins.iter() {
                let Some(subscribers) = self.subscribers.get(subscriber_index(profile, plugin))
                else {
                    break;
                };
                // A set that several plugins may wake is listed at the first of them.
                sets.extend(
                    subscribers.iter().filter(|set| {
                        self.key(**set).wakers().and(plugins).first() == Some(plugin)
                    }),
                );
            }
        }
        sets
    }

    /// Iterates over all sets.
    pub(super) fn sets(&self) -> impl Iterator<Item = WaitingSetIdx> {
        let ids = (0..self.sets.len() as u32).map(WaitingSetIdx);
        ids.filter(|set| !self.members(*set).is_empty())
    }

    pub(super) fn subject(&self, set: WaitingSetIdx) -> &WaitingSubject {
        &self.sets[set.0 as usize].key.subject
    }

    pub(super) fn members(&self, set: WaitingSetIdx) -> &[Slot] {
        &self.sets[set.0 as usize].members
    }

    /// Returns the earliest start of a wait.
    pub(super) fn oldest(&self) -> Option<i64> {
        self.by_age.first().map(|(since, _)| *since)
    }

    /// Iterates over the pods that wait since before a time, oldest first.
    pub(super) fn waiting_since_before(&self, moment: i64) -> impl Iterator<Item = Slot> {
        self.by_age.range(..(moment, Slot(0))).map(|(_, slot)| *slot)
    }

    /// Returns the number of sets.
    #[cfg(test)]
    pub(super) fn set_count(&self) -> usize {
        self.by_key.len()
    }

    /// Returns `true` if all tables agree with the record of a pod.
    pub(super) fn holds(&self, slot: Slot, info: &QueuedPod) -> bool {
        let Some(Some(membership)) = self.memberships.get(slot.at()) else { return false };
        let key = WaitingSetKey::of(info);
        let subscribed = |plugin| {
            let subscribers = self.subscribers.get(subscriber_index(info.profile(), plugin));
            subscribers.is_some_and(|sets| sets.contains(&membership.set))
        };
        *self.key(membership.set) == key
            && self.by_key.get(&key) == Some(&membership.set)
            && self.members(membership.set).get(membership.position as usize) == Some(&slot)
            && membership.since == info.waiting_since()
            && self.by_age.contains(&(membership.since, slot))
            && key.wakers().iter().all(subscribed)
    }

    /// Returns the length of the longest table.
    pub(super) fn slots(&self) -> usize {
        self.sets.len().max(self.memberships.len())
    }

    /// Returns the number of members of the sets in a range of slots.
    pub(super) fn members_within(&self, slots: Range<usize>) -> usize {
        let sets = slots.filter_map(|slot| self.sets.get(slot));
        sets.map(|set| set.members.len()).sum()
    }

    /// Returns `true` if the sets and memberships in a range of slots are consistent.
    pub(super) fn is_sound_within(&self, slots: Range<usize>) -> bool {
        let is_member = |slot: usize| {
            let Some(Some(membership)) = self.memberships.get(slot) else { return true };
            let members = self.members(membership.set);
            members.get(membership.position as usize) == Some(&Slot(slot as u32))
        };
        let is_free =
            |slot: usize| self.free.get(slot).is_none_or(|set| self.members(*set).is_empty());
        slots.clone().all(|slot| is_member(slot) && is_free(slot))
            && slots
                .take_while(|slot| *slot < self.sets.len())
                .all(|slot| self.is_filed(WaitingSetIdx(slot as u32)))
    }

    /// Returns `true` if a set with members is indexed by its key and its wakers, and a free slot
    /// is not.
    fn is_filed(&self, set: WaitingSetIdx) -> bool {
        let key = self.key(set);
        let is_used = !self.members(set).is_empty();
        let wakers = key.wakers();
        let is_subscribed = |at: usize, sets: &BTreeSet<WaitingSetIdx>| {
            let profile = at / PLUGINS_MAX == key.subject.profile;
            let wakes = is_used && profile && wakers.contains(at % PLUGINS_MAX);
            sets.contains(&set) == wakes
        };
        let found = self.by_key.get(key) == Some(&set);
        found == is_used
            && self.subscribers.iter().enumerate().all(|(at, sets)| is_subscribed(at, sets))
    }

    /// Returns `true` if the indexes by age and by key have the right sizes.
    pub(super) fn is_of_size(&self, pods: usize) -> bool {
        self.by_age.len() == pods && self.by_key.len() + self.free.len() == self.sets.len()
    }

    fn key(&self, set: WaitingSetIdx) -> &WaitingSetKey {
        &self.sets[set.0 as usize].key
    }

    fn set_for(&mut self, key: WaitingSetKey) -> WaitingSetIdx {
        if let Some(set) = self.by_key.get(&key) {
            return *set;
        }
        let set = if let Some(set) = self.free.pop() {
            self.sets[set.0 as usize].key = key;
            set
        } else {
            self.sets.push(WaitingSet { key, members: Vec::new() });
            WaitingSetIdx(self.sets.len() as u32 - 1)
        };
        self.by_key.insert(key, set);
        for plugin in key.wakers().iter() {
            let at = subscriber_index(key.subject.profile, plugin);
            if self.subscribers.len() <= at {
                self.subscribers.resize(at + 1, BTreeSet::new());
            }
            self.subscribers[at].insert(set);
        }
        set
    }

    fn drop_set(&mut self, set: WaitingSetIdx) {
        let key = *self.key(set);
        for plugin in key.wakers().iter() {
            self.subscribers[subscriber_index(key.subject.profile, plugin)].remove(&set);
        }
        self.by_key.remove(&key);
        self.free.push(set);
    }
}

fn subscriber_index(profile: usize, plugin: PluginPosition) -> usize {
    profile * PLUGINS_MAX + plugin
}
