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
    let hyphens = [8, 13, 18, 23].map(|place| text[place]);
    let mut digits = [0; 32];
    digits[..8].copy_from_slice(&text[..8]);
    digits[8..12].copy_from_slice(&text[9..13]);
    digits[12..16].copy_from_slice(&text[14..18]);
    digits[16..20].copy_from_slice(&text[19..23]);
    digits[20..].copy_from_slice(&text[24..]);
    let mut bytes = [0; 16];
    let mut wrong = u64::from(hyphens != *b"----");
    let words = bytes.as_chunks_mut().0.iter_mut().zip(digits.as_chunks().0);
    for (bytes, digits) in words {
        let digits = u64::from_le_bytes(*digits);
        let values = values(digits);
        wrong |= values & (EACH * 0xf0) | digits_of(values) ^ digits;
        *bytes = in_pairs(values).to_le_bytes();
    }
    (wrong == 0).then(|| Uuid::from_bytes(bytes))
}

/// One in each of eight bytes.
const EACH: u64 = u64::from_le_bytes([1; 8]);

/// The values of eight digits; of what is none, anything below 32.
fn values(digits: u64) -> u64 {
    let letters = digits >> 6 & EACH;
    (digits & (EACH * 0xf)) + letters * 9
}

/// The digits of eight values.
fn digits_of(values: u64) -> u64 {
    let letters = (values + EACH * 6) >> 4 & EACH;
    values + EACH * u64::from(b'0') + letters * u64::from(b'a' - b'0' - 10)
}

/// Four bytes of eight values, the higher one of each first.
fn in_pairs(values: u64) -> u32 {
    let pairs = (values << 4 | values >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    (fours | fours >> 16) as u32
}

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
            "01234567-89ab-cdef-0123_456789abcdef",
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
    fn every_character_is_a_digit_or_not_wherever_it_is() {
        let uuid = "01234567-89ab-cdef-0123-456789abcdef";
        for (place, was) in uuid.char_indices() {
            for character in (0..128_u8).map(char::from) {
                let mut text = uuid.to_owned();
                text.replace_range(place..=place, character.encode_utf8(&mut [0; 4]));
                let is_digit = matches!(character, '0'..='9' | 'a'..='f');
                let is_right = if was == '-' { character == '-' } else { is_digit };
                let uid = Uid::from(&*text);
                assert_eq!(matches!(uid.0, Form::Uuid(_)), is_right, "{text}");
                assert_eq!(uid.to_string(), text);
            }
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
