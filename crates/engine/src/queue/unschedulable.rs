//! Pods that wait for an event, in groups that no hint can tell apart.
//!
//! An event is judged once per group, and only by groups with a plugin that subscribed to it:
//! what a hundred thousand waiting or gated pods cost does not depend on how many they are.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::framework::profile::PluginPosition;
use crate::map::Map;

use super::entry::{QueuedPod, Slot};
use super::hints::{Interest, Subject};
use super::plugin_set::{PLUGINS_MAX, PluginSet};

/// Pods of one class that the same plugins stand in the way of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GroupKey {
    subject: Subject,
    gating: Option<PluginPosition>,
}

impl GroupKey {
    fn of(info: &QueuedPod) -> Self {
        Self { subject: Subject::of(info), gating: info.gating() }
    }

    /// Plugins whose events concern the group: of a gated pod, only the one that holds it back.
    fn wakers(&self) -> PluginSet {
        let Subject { rejectors, pending, .. } = self.subject;
        self.gating.map_or(rejectors.with(pending), PluginSet::one)
    }
}

/// A slot of the table of groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupId(u32);

#[derive(Clone, Debug)]
struct Group {
    key: GroupKey,
    /// In no order; empty in a free slot.
    members: Vec<Slot>,
}

/// Where a pod is in the pool.
#[derive(Clone, Copy, Debug)]
struct Membership {
    group: GroupId,
    position: u32,
    since: i64,
}

/// All pods that wait for an event.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool {
    groups: Vec<Group>,
    free: Vec<GroupId>,
    by_key: Map<GroupKey, GroupId>,
    /// Groups by profile and plugin that may wake them.
    subscribers: Vec<BTreeSet<GroupId>>,
    /// By slot.
    memberships: Vec<Option<Membership>>,
    /// Pods by the time since when they wait.
    by_age: BTreeSet<(i64, Slot)>,
}

impl Pool {
    pub(super) fn insert(&mut self, slot: Slot, info: &QueuedPod) {
        let group = self.group_for(GroupKey::of(info));
        let members = &mut self.groups[group.0 as usize].members;
        let since = info.waiting_since();
        let membership = Membership { group, position: members.len() as u32, since };
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
        let Some(Membership { group, position, since }) = membership else { return };
        self.by_age.remove(&(since, slot));
        let members = &mut self.groups[group.0 as usize].members;
        members.swap_remove(position as usize);
        if let Some(moved) = members.get(position as usize) {
            if let Some(other) = &mut self.memberships[moved.at()] {
                other.position = position;
            }
        } else if members.is_empty() {
            self.drop_group(group);
        }
    }

    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.memberships.get(slot.at()).is_some_and(Option::is_some)
    }

    /// Groups that an event concerns, given whom it interests by profile.
    pub(super) fn concerned(&self, interests: &[Interest]) -> Vec<GroupId> {
        let mut groups = Vec::new();
        for (profile, interest) in interests.iter().enumerate() {
            let plugins = interest.all();
            for plugin in plugins.iter() {
                let Some(subscribers) = self.subscribers.get(place(profile, plugin)) else { break };
                // A group that several plugins may wake is taken at the first of them.
                groups.extend(subscribers.iter().filter(|group| {
                    self.key(**group).wakers().and(plugins).first() == Some(plugin)
                }));
            }
        }
        groups
    }

    /// Every group.
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> {
        let ids = (0..self.groups.len() as u32).map(GroupId);
        ids.filter(|group| !self.members(*group).is_empty())
    }

    pub(super) fn subject(&self, group: GroupId) -> &Subject {
        &self.groups[group.0 as usize].key.subject
    }

    pub(super) fn members(&self, group: GroupId) -> &[Slot] {
        &self.groups[group.0 as usize].members
    }

    /// Since when the pod has waited that waits longest.
    pub(super) fn oldest(&self) -> Option<i64> {
        self.by_age.first().map(|(since, _)| *since)
    }

    /// Pods that have waited since before a moment, the oldest first.
    pub(super) fn waiting_since_before(&self, moment: i64) -> impl Iterator<Item = Slot> {
        self.by_age.range(..(moment, Slot(0))).map(|(_, slot)| *slot)
    }

    /// How many groups there are.
    #[cfg(test)]
    pub(super) fn group_count(&self) -> usize {
        self.by_key.len()
    }

    /// Whether everything that is kept of a pod is what its history says.
    pub(super) fn holds(&self, slot: Slot, info: &QueuedPod) -> bool {
        let Some(Some(membership)) = self.memberships.get(slot.at()) else { return false };
        let key = GroupKey::of(info);
        let subscribed = |plugin| {
            let subscribers = self.subscribers.get(place(info.profile(), plugin));
            subscribers.is_some_and(|groups| groups.contains(&membership.group))
        };
        *self.key(membership.group) == key
            && self.by_key.get(&key) == Some(&membership.group)
            && self.members(membership.group).get(membership.position as usize) == Some(&slot)
            && membership.since == info.waiting_since()
            && self.by_age.contains(&(membership.since, slot))
            && key.wakers().iter().all(subscribed)
    }

    /// Length of the longest of its tables.
    pub(super) fn slots(&self) -> usize {
        self.groups.len().max(self.memberships.len())
    }

    /// How many pods are members of the groups in these slots.
    pub(super) fn members_within(&self, slots: Range<usize>) -> usize {
        let groups = slots.filter_map(|slot| self.groups.get(slot));
        groups.map(|group| group.members.len()).sum()
    }

    /// Whether the groups in these slots are found where they should be and nowhere else, and the
    /// members in these slots are members.
    pub(super) fn is_sound_within(&self, slots: Range<usize>) -> bool {
        let is_member = |slot: usize| {
            let Some(Some(membership)) = self.memberships.get(slot) else { return true };
            let members = self.members(membership.group);
            members.get(membership.position as usize) == Some(&Slot(slot as u32))
        };
        let is_free =
            |slot: usize| self.free.get(slot).is_none_or(|group| self.members(*group).is_empty());
        slots.clone().all(|slot| is_member(slot) && is_free(slot))
            && slots
                .take_while(|slot| *slot < self.groups.len())
                .all(|slot| self.is_filed(GroupId(slot as u32)))
    }

    /// Whether a group with members is found by its key and by those that may wake it, and one without
    /// is not.
    fn is_filed(&self, group: GroupId) -> bool {
        let key = self.key(group);
        let is_used = !self.members(group).is_empty();
        let wakers = key.wakers();
        let is_subscribed = |at: usize, groups: &BTreeSet<GroupId>| {
            let profile = at / PLUGINS_MAX == key.subject.profile;
            let wakes = is_used && profile && wakers.contains(at % PLUGINS_MAX);
            groups.contains(&group) == wakes
        };
        let found = self.by_key.get(key) == Some(&group);
        found == is_used
            && self.subscribers.iter().enumerate().all(|(at, groups)| is_subscribed(at, groups))
    }

    /// Whether as many pods are filed by age, and as many groups by key as have members.
    pub(super) fn is_of_size(&self, pods: usize) -> bool {
        self.by_age.len() == pods && self.by_key.len() + self.free.len() == self.groups.len()
    }

    fn key(&self, group: GroupId) -> &GroupKey {
        &self.groups[group.0 as usize].key
    }

    fn group_for(&mut self, key: GroupKey) -> GroupId {
        if let Some(group) = self.by_key.get(&key) {
            return *group;
        }
        let group = if let Some(group) = self.free.pop() {
            self.groups[group.0 as usize].key = key;
            group
        } else {
            self.groups.push(Group { key, members: Vec::new() });
            GroupId(self.groups.len() as u32 - 1)
        };
        self.by_key.insert(key, group);
        for plugin in key.wakers().iter() {
            let place = place(key.subject.profile, plugin);
            if self.subscribers.len() <= place {
                self.subscribers.resize(place + 1, BTreeSet::new());
            }
            self.subscribers[place].insert(group);
        }
        group
    }

    fn drop_group(&mut self, group: GroupId) {
        let key = *self.key(group);
        for plugin in key.wakers().iter() {
            self.subscribers[place(key.subject.profile, plugin)].remove(&group);
        }
        self.by_key.remove(&key);
        self.free.push(group);
    }
}

fn place(profile: usize, plugin: PluginPosition) -> usize {
    profile * PLUGINS_MAX + plugin
}
