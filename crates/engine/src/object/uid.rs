//! UIDs of objects, in 16 bytes if they are UUIDs.

use std::fmt;

use uuid::Uuid;
use uuid::fmt::Hyphenated;

use super::Text;

/// The uid of an object.
///
/// API servers assign lower-case hyphenated UUIDs, which are stored as 16 bytes because there may
/// be a million and they are compared often. Any other text, as users write it in files, is stored
/// unchanged.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Form);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Form {
    Uuid(Uuid),
    Other(Text),
}

impl Uid {
    /// Returns `true` if the uid is unset.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, Form::Other(text) if text.is_empty())
    }

    /// Returns the text, formatted into the buffer if it is a UUID.
    pub fn text<'a>(&'a self, buffer: &'a mut [u8; Self::TEXT_BYTES]) -> &'a str {
        match &self.0 {
            Form::Uuid(uuid) => uuid.hyphenated().encode_lower(buffer),
            Form::Other(text) => text,
        }
    }

    /// Length of the text of a UUID.
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

/// Parses a UUID in the one form that formats back to the same text.
fn uuid(text: &str) -> Option<Uuid> {
    let uuid = Uuid::try_parse(text).ok()?;
    (uuid.hyphenated().encode_lower(&mut [0; Uid::TEXT_BYTES]) == text).then_some(uuid)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_canonical_uuids_are_stored_as_uuids() {
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
            "0123456789abcdef0123456789abcdef",
            "{01234567-89ab-cdef-0123-456789abcdef}",
            "urn:uuid:01234567-89ab-cdef-0123-456789abcdef",
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
    fn every_position_of_a_uuid_accepts_only_its_characters() {
        let uuid = "01234567-89ab-cdef-0123-456789abcdef";
        for (position, original) in uuid.char_indices() {
            for character in (0..128_u8).map(char::from) {
                let mut text = uuid.to_owned();
                text.replace_range(position..=position, character.encode_utf8(&mut [0; 4]));
                let is_digit = matches!(character, '0'..='9' | 'a'..='f');
                let expected = if original == '-' { character == '-' } else { is_digit };
                let uid = Uid::from(&*text);
                assert_eq!(matches!(uid.0, Form::Uuid(_)), expected, "{text}");
                assert_eq!(uid.to_string(), text);
            }
        }
    }

    #[test]
    fn uuids_are_ordered_like_their_texts() {
        let digit = |digit: char| format!("{digit}1234567-89ab-cdef-0123-456789abcd{digit}f");
        let texts: Vec<String> = "0123456789abcdef".chars().map(digit).collect();
        assert!(texts.is_sorted());
        assert!(texts.iter().map(|text| Uid::from(text.as_str())).is_sorted());
    }

    proptest! {
        #[test]
        fn text_survives_a_round_trip(text in prop_oneof![any::<String>(), "[0-9a-fA-F-]{30,40}"]) {
            prop_assert_eq!(Uid::from(&*text).to_string(), text);
        }

        #[test]
        fn uuids_survive_a_round_trip(number: u128) {
            let text = Uuid::from_u128(number).to_string();
            let uid = Uid::from(&*text);
            prop_assert!(matches!(uid.0, Form::Uuid(_)));
            prop_assert_eq!(uid.to_string(), text);
        }
    }
}
