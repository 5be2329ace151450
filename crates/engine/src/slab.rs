//! A table with stable slots and a free list.

use std::ops::Range;

/// Slots per page; a power of two, so that division is a shift.
const PAGE: usize = 256;

/// Table whose entries keep their slot. It grows by pages: growing moves no entry, and at most one
/// page is partly unused.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    /// Every page but the last is full.
    pages: Vec<Vec<Option<T>>>,
    /// Vacant slots, reused last in, first out.
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Returns the entry in a slot.
    pub fn get(&self, slot: usize) -> Option<&T> {
        self.pages.get(slot / PAGE)?.get(slot % PAGE)?.as_ref()
    }

    /// Returns the entry in a slot, mutably.
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.pages.get_mut(slot / PAGE)?.get_mut(slot % PAGE)?.as_mut()
    }

    /// Inserts an entry into a vacant slot and returns the slot.
    pub fn insert(&mut self, entry: T) -> usize {
        if let Some(slot) = self.free.pop() {
            let slot = slot as usize;
            self.pages[slot / PAGE][slot % PAGE] = Some(entry);
            return slot;
        }
        let slot = self.slots();
        if slot.is_multiple_of(PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        self.pages[slot / PAGE].push(Some(entry));
        slot
    }

    /// Removes and returns the entry in a slot, which becomes vacant.
    pub fn remove(&mut self, slot: usize) -> Option<T> {
        let entry = self.pages.get_mut(slot / PAGE)?.get_mut(slot % PAGE)?.take()?;
        self.free.push(slot as u32);
        Some(entry)
    }

    /// Drops vacant slots at the end, until this number is left.
    pub fn truncate(&mut self, slots: usize) {
        while self.slots() > slots {
            let Some(last) = self.pages.last_mut() else { return };
            debug_assert!(matches!(last.last(), Some(None)), "only vacant slots are dropped");
            last.pop();
            if last.is_empty() {
                self.pages.pop();
            }
        }
        self.free.retain(|slot| (*slot as usize) < slots);
    }

    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.slots() - self.free.len()
    }

    /// Returns `true` if there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of slots, vacant ones included.
    pub fn slots(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE + last.len())
    }

    /// Returns the vacant slots; the last is reused first.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn free(&self) -> &[u32] {
        &self.free
    }

    /// Iterates over all entries and their slots in slot order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.iter_within(0..self.slots())
    }

    /// Iterates over the entries in a range of slots, in slot order.
    pub fn iter_within(&self, slots: Range<usize>) -> impl Iterator<Item = (usize, &T)> {
        slots.filter_map(|slot| Some((slot, self.get(slot)?)))
    }
}

#[cfg(test)]
mod tests;
