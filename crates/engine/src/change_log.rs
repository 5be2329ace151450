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
mod tests {
    use super::*;

    #[test]
    fn a_reader_gets_all_entries_since_its_position_or_none() {
        let mut log = ChangeLog::new(3);
        assert_eq!(log.since(0), Some(&[][..]));
        for entry in 0..6 {
            log.push(entry);
        }
        assert_eq!((log.end(), log.since(0)), (6, Some(&[0, 1, 2, 3, 4, 5][..])));
        // The seventh entry drops the first three.
        log.push(6);
        for (position, entries) in [
            (0, None),
            (2, None),
            (3, Some(&[3, 4, 5, 6][..])),
            (6, Some(&[6][..])),
            (7, Some(&[][..])),
            (8, None),
        ] {
            assert_eq!(log.since(position), entries, "{position}");
        }
        assert_eq!(log.end(), 7);
    }
}
