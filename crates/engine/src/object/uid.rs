//! What tells an object from all others, for good.

use std::fmt;

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::Text;

/// The uid of an object.
///
/// API servers give UUIDs, which are kept as the numbers that they are: there may be a million, and
/// they are compared all the time. Anything else, as people write it in files, is kept as it is.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Form {
    Uuid(Uuid),
    Other(Text),
}

impl Uid {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Other(text) if text.is_empty())
    }

    /// Its text, for which the buffer may be used.
    pub fn text<'a>(&'a self, buffer: &'a mut [u8; Self::TEXT_BYTES]) -> &'a str {
        match &self.0 {
            Form::Uuid(uuid) => uuid.hyphenated().encode_lower(buffer),
            Form::Other(text) => text,
        }
    }

    /// Bytes of the text of a UUID.
    pub const TEXT_BYTES: usize = Hyphenated::LENGTH;
}

impl Default for Uid {
    fn default() -> Self {
        Self(Form::Other(Text::default()))
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self(uuid(text).map_or_else(|| Form::Other(text.into()), Form::Uuid))
    }
}

impl From<Text> for Uid {
    fn from(text: Text) -> Self {
        Self(uuid(&text).map_or_else(|| Form::Other(text), Form::Uuid))
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        Text::from(text).into()
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.text(&mut [0; Self::TEXT_BYTES]))
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// The UUID that a text is, if it would come out again as it is.
fn uuid(text: &str) -> Option<Uuid> {
    let text: &[u8; Hyphenated::LENGTH] = text.as_bytes().try_into().ok()?;
    let mut wrong = 0;
    for hyphen in [8, 13, 18, 23] {
        wrong |= text[hyphen] ^ b'-';
    }
    let mut bytes = [0; 16];
    for (byte, place) in bytes.iter_mut().zip(DIGITS_AT) {
        let high = VALUES[usize::from(text[place])];
        let low = VALUES[usize::from(text[place + 1])];
        wrong |= (high | low) & 0xf0;
        *byte = high << 4 | low & 0xf;
    }
    (wrong == 0).then(|| Uuid::from_bytes(bytes))
}

/// Where the digits of each byte are.
const DIGITS_AT: [usize; 16] = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];

/// The values of digits, above 15 of what is none.
static VALUES: [u8; 256] = {
    let mut values = [u8::MAX; 256];
    let mut value = 0;
    while value < 16 {
        values[b"0123456789abcdef"[value as usize] as usize] = value;
        value += 1;
    }
    values
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids_come_out_as_they_went_in() {
        let uuid = "01234567-89ab-cdef-0123-456789abcdef";
        let others = [
            "",
            "uid-default-a",
            "01234567-89AB-cdef-0123-456789abcdef",
            "01234567-89ab-cdef-0123-456789abcde",
            "01234567-89ab-cdef-0123-456789abcdef0",
            "01234567089ab-cdef-0123-456789abcdef",
            "01234567-89ab-cdef-0123-45678-abcdef",
            "01234567-89ab-cdef-0123-456789abcdeg",
            "01234567-89ab-cdef-0123-456789abcdé",
        ];
        for text in [uuid].iter().chain(&others) {
            let uid = Uid::from(*text);
            assert_eq!(uid.to_string(), *text);
            assert_eq!(format!("{uid:?}"), format!("{text:?}"));
            assert_eq!(uid, Uid::from(text.to_string()));
            assert_eq!(matches!(uid.0, Form::Uuid(_)), *text == uuid, "{text}");
            assert_eq!(uid.is_empty(), text.is_empty());
        }
    }

    #[test]
    fn uuids_are_in_the_order_of_their_text() {
        let digit = |digit: char| format!("{digit}1234567-89ab-cdef-0123-456789abcd{digit}f");
        let texts: Vec<String> = "0123456789abcdef".chars().map(digit).collect();
        assert!(texts.is_sorted());
        assert!(texts.iter().map(|text| Uid::from(text.as_str())).is_sorted());
    }
}
