//! A bounded log of changes that many readers follow, each with its own cursor.

/// Log of changes. A reader whose cursor is behind the retained entries must start from scratch.
#[derive(Clone, Debug)]
pub struct ChangeLog<T> {
    entries: Vec<T>,
    /// Position of the first retained entry.
    base: u64,
    limit: usize,
}

impl<T> ChangeLog<T> {
    /// Creates a log that keeps at least the last `limit` entries, and at most twice as many.
    pub fn new(limit: usize) -> Self {
        Self { entries: Vec::new(), base: 0, limit }
    }

    /// Appends an entry.
    pub fn push(&mut self, entry: T) {
        if self.entries.len() >= 2 * self.limit {
            self.entries.drain(..self.limit);
            self.base += self.limit as u64;
        }
        self.entries.push(entry);
    }

    /// Returns the position after the last entry.
    pub fn end(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// Returns the entries from a position on, or `None` if some of them were dropped.
    pub fn since(&self, position: u64) -> Option<&[T]> {
        let skip = position.checked_sub(self.base)? as usize;
        self.entries.get(skip..)
    }
}

#[cfg(test)]
mod tests;
