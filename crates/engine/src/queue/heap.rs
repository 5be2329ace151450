//! A binary heap from which any pod can be taken.

use std::cmp::Ordering;
use std::ops::Range;

use crate::column;
use crate::framework::QueueKey;

use super::entry::{QueuedPod, Slot};

/// What a heap orders pods by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) slot: Slot,
    /// End of the backoff.
    pub(super) expiration: i64,
    pub(super) key: QueueKey,
    pub(super) sequence: u64,
}

impl Item {
    pub(super) fn new(slot: Slot, info: &QueuedPod) -> Self {
        let expiration = info.backoff_expiration;
        Self { slot, expiration, key: info.key(), sequence: info.sequence }
    }

    /// Order of arrival, which settles what QueueSort leaves open.
    pub(super) fn by_arrival(&self, other: &Self) -> Ordering {
        self.key.timestamp.cmp(&other.key.timestamp).then(self.sequence.cmp(&other.sequence))
    }
}

/// A heap of pods, the least first, that knows where each pod is.
#[derive(Clone, Debug, Default)]
pub(super) struct Heap {
    items: Vec<Item>,
    /// Position by slot, [`NOWHERE`] for pods that are not in this heap.
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

    /// Takes a pod out.
    pub(super) fn remove(&mut self, slot: Slot, order: impl Fn(&Item, &Item) -> Ordering) {
        let Some(position) = self.position(slot) else { return };
        self.items.swap_remove(position);
        self.positions[slot.at()] = NOWHERE;
        if position < self.items.len() {
            self.restore_order(position, order);
        }
    }

    /// Puts a pod that is in where it now belongs.
    pub(super) fn update(&mut self, item: Item, order: impl Fn(&Item, &Item) -> Ordering) {
        let Some(position) = self.position(item.slot) else { return };
        self.items[position] = item;
        self.restore_order(position, order);
    }

    /// Length of the longer of its tables.
    pub(super) fn slots(&self) -> usize {
        self.items.len().max(self.positions.len())
    }

    /// Whether every pod in these slots of its tables is where it belongs and known to be there.
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

    /// Moves the item at a position up or down until it is in order.
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
