//! Bodies of requests.
//!
//! Binds and events are most of what is sent. Their texts are nearly always plain, so that writing them
//! is copying; with a serialiser it took more than twice as many instructions.

use bytes::Bytes;
use engine::object::Uid;

/// JSON that is being written, piece by piece.
pub(crate) struct JsonWriter(Vec<u8>);

impl JsonWriter {
    /// Begins with a piece of JSON as it is.
    pub(crate) fn new(raw: &str) -> Self {
        // So many are enough for most, which would otherwise grow step by step.
        Self(Vec::with_capacity(768)).raw(raw)
    }

    /// A piece of JSON as it is.
    pub(crate) fn raw(mut self, raw: &str) -> Self {
        self.0.extend_from_slice(raw.as_bytes());
        self
    }

    /// A string.
    pub(crate) fn string(self, text: &str) -> Self {
        self.string_of(&[text])
    }

    /// A string of several pieces.
    pub(crate) fn string_of(mut self, texts: &[&str]) -> Self {
        self.0.push(b'"');
        for text in texts {
            if needs_no_escapes(text) {
                self.0.extend_from_slice(text.as_bytes());
            } else {
                // A string can be written, and stands in quotes then.
                let quoted = serde_json::to_vec(text).unwrap_or_default();
                self.0.extend_from_slice(
                    quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default(),
                );
            }
        }
        self.0.push(b'"');
        self
    }

    /// A string that is a uid.
    pub(crate) fn uid(self, uid: &Uid) -> Self {
        self.string(uid.text(&mut [0; Uid::TEXT_BYTES]))
    }

    /// A member that is a version, unless there is none: written, it would be one that never was.
    pub(crate) fn version(self, member: &'static str, version: u64) -> Self {
        if version == 0 {
            return self;
        }
        self.raw(member).string(itoa::Buffer::new().format(version))
    }

    /// A piece that was written, to be part of others.
    pub(crate) fn into_string(self) -> String {
        String::from_utf8(self.0).unwrap_or_default()
    }

    /// What was written.
    pub(crate) fn end(self, raw: &'static str) -> Bytes {
        self.raw(raw).0.into()
    }
}

/// Whether a text stands in quotes as it is.
fn needs_no_escapes(text: &str) -> bool {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    // Of eight bytes, the highest bits of those that are odd. Bytes above an odd one may look odd, too.
    let odd = |bytes: &[u8; 8]| {
        let word = u64::from_le_bytes(*bytes);
        let (quote, slash) = (word ^ (ONES * 0x22), word ^ (ONES * 0x5c));
        let control = word.wrapping_sub(ONES * 0x20) & !word;
        let quote = quote.wrapping_sub(ONES) & !quote;
        let slash = slash.wrapping_sub(ONES) & !slash;
        (control | quote | slash) & (ONES << 7)
    };
    let (words, rest) = text.as_bytes().as_chunks();
    let mut last = [b' '; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().fold(odd(&last), |all, word| all | odd(word)) == 0
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_byte_is_plain_or_not_wherever_it_is() {
        for byte in 0..128 {
            let odd = byte < 0x20 || byte == b'"' || byte == b'\\';
            for place in 0..20 {
                let mut text = "é23456789012345678é".to_owned();
                text.insert(if place < 2 { 0 } else { place }, byte.into());
                assert_eq!(needs_no_escapes(&text), !odd, "{text:?}");
            }
        }
        assert!(needs_no_escapes(""));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(one in ".{0,40}", other in "[ -~\\x00-\\x1f\"]{0,9}", number: u64) {
            let written = JsonWriter::new("{\"a\":").string_of(&[&one, &other]).version(",\"v\":", number);
            let written = written.raw(",\"b\":").uid(&Uid::from(&*one)).end("}");
            let mut wanted = json!({"a": format!("{one}{other}"), "b": one});
            if number > 0 {
                wanted["v"] = number.to_string().into();
            }
            prop_assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), wanted);
        }
    }
}
