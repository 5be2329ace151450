//! Bytes of a stream, cut into lines.

use super::decoder::EventTooLarge;

/// What was received of a stream and not taken yet.
pub(super) struct LineDecoder {
    limit: usize,
    bytes: Vec<u8>,
    /// Bytes that were taken already.
    taken: usize,
    /// Bytes that are known to hold no line end.
    searched: usize,
    /// The rest of a line that is too long is thrown away as it comes.
    skipping: bool,
}

impl LineDecoder {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, bytes: Vec::new(), taken: 0, searched: 0, skipping: false }
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.bytes.drain(..self.taken);
        self.searched -= self.taken;
        self.taken = 0;
        self.bytes.extend_from_slice(data);
    }

    /// The next line without its end, once it is there completely. One that is too long is told once.
    pub(super) fn next_line(&mut self) -> Option<Result<&[u8], EventTooLarge>> {
        loop {
            let rest = &self.bytes[self.searched..];
            let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.bytes.len();
                if !self.skipping && self.bytes.len() - self.taken <= self.limit {
                    return None;
                }
                self.taken = self.bytes.len();
                let told = std::mem::replace(&mut self.skipping, true);
                return (!told).then_some(Err(EventTooLarge));
            };
            let line = self.taken..self.searched + length;
            self.searched += length + 1;
            self.taken = self.searched;
            match (std::mem::take(&mut self.skipping), line.len() > self.limit) {
                (true, _) => {}
                (false, true) => return Some(Err(EventTooLarge)),
                (false, false) => return Some(Ok(&self.bytes[line])),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str, cuts: usize, limit: usize) -> Vec<Result<String, EventTooLarge>> {
        let mut lines = LineDecoder::new(limit);
        let mut read = Vec::new();
        for chunk in text.as_bytes().chunks(cuts) {
            lines.push(chunk);
            while let Some(line) = lines.next_line() {
                read.push(line.map(|line| String::from_utf8(line.to_vec()).unwrap()));
            }
        }
        read
    }

    #[test]
    fn an_unfinished_line_is_not_taken() {
        assert_eq!(read("one\ntwo\nthr", 2, 10), [Ok("one".into()), Ok("two".into())]);
        assert_eq!(read("", 1, 10), []);
        assert_eq!(read("\n\n", 1, 10), [Ok(String::new()), Ok(String::new())]);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_they_are_cut(text in "[ab\n]{0,60}", cut in 1..70_usize) {
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            let expected: Vec<Result<String, EventTooLarge>> = match complete {
                "" if !text.contains('\n') => Vec::new(),
                lines => lines
                    .split('\n')
                    .map(|line| if line.len() > 5 { Err(EventTooLarge) } else { Ok(line.to_owned()) })
                    .collect(),
            };
            let mut told = read(&text, cut, 5);
            // The last one may already be known to be too long.
            if text.rsplit('\n').next().is_some_and(|rest| rest.len() > 5) {
                prop_assert_eq!(told.pop(), Some(Err(EventTooLarge)));
            }
            prop_assert_eq!(told, expected);
        }
    }
}
