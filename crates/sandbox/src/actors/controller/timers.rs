//! Timers of objects.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::Key;

/// At most one timer per object, indexed by object and by time. [`Timers::take_due`] takes time
/// proportional to the timers that are due, not to all timers.
#[derive(Debug, Default)]
pub(super) struct Timers {
    by_key: BTreeMap<Key, Instant>,
    by_time: BTreeSet<(Instant, Key)>,
}

impl Timers {
    /// Sets the timer of an object and replaces an earlier one.
    pub(super) fn set(&mut self, key: Key, at: Instant) {
        self.forget(&key);
        self.by_time.insert((at, key.clone()));
        self.by_key.insert(key, at);
    }

    /// Removes the timer of an object.
    pub(super) fn forget(&mut self, key: &Key) {
        if let Some((key, at)) = self.by_key.remove_entry(key) {
            self.by_time.remove(&(at, key));
        }
    }

    /// Returns when the timer of an object expires.
    pub(super) fn get(&self, key: &Key) -> Option<Instant> {
        self.by_key.get(key).copied()
    }

    /// Returns the earliest expiry.
    pub(super) fn next(&self) -> Option<Instant> {
        self.by_time.first().map(|(at, _)| *at)
    }

    /// Removes and returns the objects whose timers have expired.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<Key> {
        let mut due = Vec::new();
        while self.next().is_some_and(|at| at <= now)
            && let Some((_, key)) = self.by_time.pop_first()
        {
            self.by_key.remove(&key);
            due.push(key);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(name: &str) -> Key {
        (String::new(), name.to_owned())
    }

    #[test]
    fn due_objects_come_in_order_of_time_and_each_once() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut timers = Timers::default();
        for (name, at) in [("a", 3), ("b", 1), ("c", 2), ("a", 1), ("d", 9), ("e", 1)] {
            timers.set(key(name), after(at));
        }
        timers.forget(&key("e"));
        assert_eq!(timers.get(&key("a")), Some(after(1)));
        assert_eq!(timers.take_due(after(0)), Vec::<Key>::new());
        assert_eq!(timers.take_due(after(2)), [key("a"), key("b"), key("c")]);
        assert_eq!(timers.next(), Some(after(9)));
        assert_eq!(timers.by_key.len(), timers.by_time.len());
    }
}
