//! A binary heap that supports removal of any pod.

use std::cmp::Ordering;
use std::ops::Range;

use crate::column;
use crate::framework::QueueKey;

use super::entry::{QueuedPod, Slot};

/// Sort keys of a pod in a heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) slot: Slot,
    /// Last second of the backoff.
    pub(super) expiration: i64,
    pub(super) key: QueueKey,
    pub(super) sequence: u64,
}

impl Item {
    pub(super) fn new(slot: Slot, info: &QueuedPod) -> Self {
        let expiration = info.backoff_expiration;
        Self { slot, expiration, key: info.key(), sequence: info.sequence }
    }

    /// Compares by arrival, which breaks ties of QueueSort.
    pub(super) fn by_arrival(&self, other: &Self) -> Ordering {
        self.key.timestamp.cmp(&other.key.timestamp).then(self.sequence.cmp(&other.sequence))
    }
}

/// Min-heap of pods with the position of each pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    items: Vec<Item>,
    /// Position by slot; [`NOWHERE`] for pods outside this heap.
    positions: Vec<u32>,
}

const NOWHERE: u32 = u32::MAX;

impl Heap {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn peek(&self) -> Option<&Item> {
        self.items.first()
    }

    pub(super) fn contains(&self, slot: Slot) -> bool {
        self.position(slot).is_some()
    }

    pub(super) fn push(&mut self, item: Item, order: impl Fn(&Item, &Item) -> Ordering) {
        debug_assert!(!self.contains(item.slot));
        if self.positions.len() <= item.slot.at() {
            self.positions.resize(item.slot.at() + 1, NOWHERE);
        }
        column::push(&mut self.items, item);
        self.restore_order(self.items.len() - 1, order);
    }

    /// Removes a pod, if present.
    pub(super) fn remove(&mut self, slot: Slot, order: impl Fn(&Item, &Item) -> Ordering) {
        let Some(position) = self.position(slot) else { return };
        self.items.swap_remove(position);
        self.positions[slot.at()] = NOWHERE;
        if position < self.items.len() {
            self.restore_order(position, order);
        }
    }

    /// Updates the keys of a pod, if present, and restores the order.
    pub(super) fn update(&mut self, item: Item, order: impl Fn(&Item, &Item) -> Ordering) {
        let Some(position) = self.position(item.slot) else { return };
        self.items[position] = item;
        self.restore_order(position, order);
    }

    /// Returns the length of the longer of the two tables.
    pub(super) fn slots(&self) -> usize {
        self.items.len().max(self.positions.len())
    }

    /// Returns `true` if the order and the positions hold for a range of both tables.
    pub(super) fn is_sound_within(
        &self,
        slots: Range<usize>,
        order: impl Fn(&Item, &Item) -> Ordering,
    ) -> bool {
        let item_of = |slot: usize| {
            let position = self.position(Slot(slot as u32))?;
            Some(self.items.get(position).is_some_and(|item| item.slot.at() == slot))
        };
        slots.clone().all(|slot| item_of(slot).unwrap_or(true))
            && slots.take_while(|position| *position < self.items.len()).all(|position| {
                let item = &self.items[position];
                let parent = &self.items[position.saturating_sub(1) / 2];
                self.position(item.slot) == Some(position) && order(parent, item).is_le()
            })
    }

    fn position(&self, slot: Slot) -> Option<usize> {
        let position = *self.positions.get(slot.at())?;
        (position != NOWHERE).then_some(position as usize)
    }

    /// Moves the item at a position up or down until the order holds.
    fn restore_order(&mut self, start: usize, order: impl Fn(&Item, &Item) -> Ordering) {
        let item = self.items[start];
        let mut position = start;
        while position > 0 {
            let parent = (position - 1) / 2;
            if order(&item, &self.items[parent]).is_ge() {
                break;
            }
            self.put(position, self.items[parent]);
            position = parent;
        }
        if position == start {
            position = self.sift_down(position, &item, order);
        }
        self.put(position, item);
    }

    fn sift_down(
        &mut self,
        start: usize,
        item: &Item,
        order: impl Fn(&Item, &Item) -> Ordering,
    ) -> usize {
        let mut position = start;
        loop {
            let mut child = 2 * position + 1;
            if child >= self.items.len() {
                return position;
            }
            let right = child + 1;
            if right < self.items.len() && order(&self.items[right], &self.items[child]).is_lt() {
                child = right;
            }
            if order(item, &self.items[child]).is_le() {
                return position;
            }
            self.put(position, self.items[child]);
            position = child;
        }
    }

    fn put(&mut self, position: usize, item: Item) {
        self.positions[item.slot.at()] = position as u32;
        self.items[position] = item;
    }
}
