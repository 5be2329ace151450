//! Decoder of lines.

use super::decoder::EventTooLarge;

/// Cuts received bytes into lines.
pub(super) struct LineDecoder {
    limit: usize,
    bytes: Vec<u8>,
    /// Number of bytes that were consumed.
    consumed: usize,
    /// Number of bytes that were searched for a line end.
    searched: usize,
    /// The rest of an oversized line is being discarded.
    skipping: bool,
}

impl LineDecoder {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, bytes: Vec::new(), consumed: 0, searched: 0, skipping: false }
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.bytes.drain(..self.consumed);
        self.searched -= self.consumed;
        self.consumed = 0;
        self.bytes.extend_from_slice(data);
    }

    /// Returns the next line without its end if it is complete, or one error for a line above the limit.
    pub(super) fn next_line(&mut self) -> Option<Result<&[u8], EventTooLarge>> {
        loop {
            let rest = &self.bytes[self.searched..];
            let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
                self.searched = self.bytes.len();
                if !self.skipping && self.bytes.len() - self.consumed <= self.limit {
                    return None;
                }
                self.consumed = self.bytes.len();
                let reported = std::mem::replace(&mut self.skipping, true);
                return (!reported).then_some(Err(EventTooLarge));
            };
            let line = self.consumed..self.searched + length;
            self.searched += length + 1;
            self.consumed = self.searched;
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
    fn an_incomplete_line_is_not_returned() {
        assert_eq!(read("one\ntwo\nthr", 2, 10), [Ok("one".into()), Ok("two".into())]);
        assert_eq!(read("", 1, 10), []);
        assert_eq!(read("\n\n", 1, 10), [Ok(String::new()), Ok(String::new())]);
    }

    proptest! {
        #[test]
        fn lines_do_not_depend_on_how_the_data_is_split(text in "[ab\n]{0,60}", cut in 1..70_usize) {
            let complete = text.rfind('\n').map_or("", |end| &text[..end]);
            let expected: Vec<Result<String, EventTooLarge>> = match complete {
                "" if !text.contains('\n') => Vec::new(),
                lines => lines
                    .split('\n')
                    .map(|line| if line.len() > 5 { Err(EventTooLarge) } else { Ok(line.to_owned()) })
                    .collect(),
            };
            let mut lines = read(&text, cut, 5);
            // The last line may be oversized although its end has not arrived.
            if text.rsplit('\n').next().is_some_and(|rest| rest.len() > 5) {
                prop_assert_eq!(lines.pop(), Some(Err(EventTooLarge)));
            }
            prop_assert_eq!(lines, expected);
        }
    }
}
