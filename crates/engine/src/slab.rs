//! Numbered slots for things that come and go.

use std::ops::Range;

/// Slots of a page. A power of two.
const PAGE: usize = 256;

/// A table of slots. It grows page by page, so that nothing is moved and little is empty.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    /// All full but the last.
    pages: Vec<Vec<Option<T>>>,
    /// Slots of things that are gone; the last one is taken first.
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { pages: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// The thing in a slot.
    pub fn get(&self, slot: usize) -> Option<&T> {
        self.pages.get(slot / PAGE)?.get(slot % PAGE)?.as_ref()
    }

    /// The thing in a slot, to be changed.
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.pages.get_mut(slot / PAGE)?.get_mut(slot % PAGE)?.as_mut()
    }

    /// Puts a thing into a slot, whose number is returned.
    pub fn insert(&mut self, thing: T) -> usize {
        if let Some(slot) = self.free.pop() {
            let slot = slot as usize;
            self.pages[slot / PAGE][slot % PAGE] = Some(thing);
            return slot;
        }
        let slot = self.slots();
        if slot.is_multiple_of(PAGE) {
            self.pages.push(Vec::with_capacity(PAGE));
        }
        self.pages[slot / PAGE].push(Some(thing));
        slot
    }

    /// Takes a thing out of its slot, which is free then.
    pub fn remove(&mut self, slot: usize) -> Option<T> {
        let thing = self.pages.get_mut(slot / PAGE)?.get_mut(slot % PAGE)?.take()?;
        self.free.push(slot as u32);
        Some(thing)
    }

    /// How many things there are.
    pub fn len(&self) -> usize {
        self.slots() - self.free.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many slots there are, empty ones included.
    pub fn slots(&self) -> usize {
        self.pages.last().map_or(0, |last| (self.pages.len() - 1) * PAGE + last.len())
    }

    /// All things with their slots, in order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        self.iter_within(0..self.slots())
    }

    /// The things of some slots, in order.
    pub fn iter_within(&self, slots: Range<usize>) -> impl Iterator<Item = (usize, &T)> {
        slots.filter_map(|slot| Some((slot, self.get(slot)?)))
    }
}

#[cfg(test)]
mod tests;
