//! Choices of requests, derived from bytes.

use serde_json::Value;

use super::templates::{NAMES, PATHS, QUERIES, bodies, oddities};

/// Bytes from which choices are derived.
pub(super) struct Source<'a>(pub(super) &'a [u8]);

impl<'a> Source<'a> {
    fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }

    pub(super) fn pick<'b, T: ?Sized>(&mut self, many: &[&'b T]) -> &'b T {
        many[self.byte() % many.len()]
    }

    fn some(&mut self, count: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        some
    }

    /// Returns a body: a template with mutated values or bytes, or arbitrary bytes.
    pub(super) fn body(&mut self) -> Vec<u8> {
        let (bodies, odd) = (bodies(), oddities());
        let kind = self.byte();
        if kind.is_multiple_of(16) {
            let count = self.byte();
            return self.some(count).to_vec();
        }
        let mut body = bodies[self.byte() % bodies.len()].clone();
        'mutations: for _ in 0..kind % 4 {
            let mut at = &mut body;
            // Descends some levels and replaces the value there.
            for _ in 0..self.byte() % 7 {
                let step = self.byte();
                at = match at {
                    Value::Object(members) => {
                        let index = step % members.len().max(1);
                        match members.values_mut().nth(index) {
                            Some(member) => member,
                            None => break 'mutations,
                        }
                    }
                    Value::Array(items) => {
                        let index = step % items.len().max(1);
                        match items.get_mut(index) {
                            Some(item) => item,
                            None => break 'mutations,
                        }
                    }
                    other => other,
                };
            }
            *at = odd[self.byte() % odd.len()].clone();
        }
        let mut text = body.to_string().into_bytes();
        if kind.is_multiple_of(5) {
            let index = (self.byte() << 8 | self.byte()) % text.len();
            text[index] = u8::try_from(self.byte()).unwrap_or_default();
        }
        if kind.is_multiple_of(23) {
            text.truncate(self.byte());
        }
        text
    }

    pub(super) fn path(&mut self) -> String {
        let kind = self.byte();
        if kind == 255 {
            let count = self.byte() % 32;
            let raw = String::from_utf8_lossy(self.some(count)).into_owned();
            return format!("/{raw}");
        }
        let path = PATHS[kind % PATHS.len()];
        if path.contains('%') { path.replacen('%', self.pick(NAMES), 1) } else { path.to_owned() }
    }

    pub(super) fn query(&mut self) -> String {
        let count = [0, 0, 1, 1, 2, 3, 5][self.byte() % 7];
        let some: Vec<&str> = (0..count).map(|_| self.pick(QUERIES)).collect();
        some.join("&")
    }
}
