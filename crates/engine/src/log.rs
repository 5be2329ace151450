//! A bounded log that many readers follow, each with a cursor of its own.

/// A log of changes. A reader that fell behind the kept part must start from scratch.
#[derive(Clone, Debug)]
pub struct Log<T> {
    entries: Vec<T>,
    /// Position of the first kept entry.
    base: u64,
    limit: usize,
}

impl<T> Log<T> {
    /// A log that keeps at least the last `limit` entries.
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

    /// Position after the last entry.
    pub fn end(&self) -> u64 {
        self.base + self.entries.len() as u64
    }

    /// The entries from a position on, or `None` when some of them are gone.
    pub fn since(&self, position: u64) -> Option<&[T]> {
        let skip = position.checked_sub(self.base)? as usize;
        self.entries.get(skip..)
    }
}
