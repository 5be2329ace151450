//! Kubernetes' protobuf encoding, deserialized into the same types as JSON.
//!
//! ```text
//! bytes + schema (field numbers, names, shapes) ──► serde, with JSON's names ──► any type
//! ```
//!
//! Fields that the schema does not list are skipped unparsed. The schema is not recursive, so the
//! depth of reading is bounded by the depth of the schema.

mod read;
pub mod schema;
#[cfg(test)]
pub(crate) mod tests;
pub mod wire;

pub use read::{Error, MessageDeserializer};

/// The descriptor of a message.
#[derive(Debug)]
pub struct Message {
    /// Its name in the protobuf definitions.
    pub name: &'static str,
    /// The fields that are read, by number.
    pub fields: &'static [Field],
    /// The numbers of these fields as a bit set.
    pub numbers: u64,
}

/// The descriptor of a field.
#[derive(Debug)]
pub struct Field {
    /// Field number.
    pub number: u32,
    /// Name in JSON and in the protobuf definitions.
    pub name: &'static str,
    /// Type of the value.
    pub shape: Shape,
}

/// The type of a field.
#[derive(Debug)]
pub enum Shape {
    /// A string.
    Text,
    /// A signed integer.
    Int,
    /// A boolean.
    Bool,
    /// A quantity; in JSON a string.
    Quantity,
    /// A time; in JSON a string, or `null` if it is zero.
    Time,
    /// A nested message.
    Message(&'static Message),
    /// A nested message whose fields belong to the enclosing object in JSON.
    Inline(&'static Message),
    /// A repeated field.
    List(&'static Self),
    /// A map with string keys.
    Map(&'static Self),
}

impl Message {
    /// Returns `true` if the field is read.
    pub(crate) fn reads(&self, number: u32) -> bool {
        self.numbers.checked_shr(number).is_some_and(|numbers| numbers & 1 == 1)
    }

    /// Returns the number of a field. Only for constants, where an unknown name does not compile.
    pub(crate) const fn number_of(&self, name: &str) -> u32 {
        let mut index = 0;
        while index < self.fields.len() {
            if is_equal(self.fields[index].name.as_bytes(), name.as_bytes()) {
                return self.fields[index].number;
            }
            index += 1;
        }
        panic!("the schema has no field of this name")
    }

    /// Returns the field with this number, if it is read.
    pub(crate) fn field(&self, number: u32) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.number == number)
    }

    /// Returns the message type of a field or of its list elements.
    pub(crate) fn nested(&self, number: u32) -> Option<&'static Self> {
        match self.field(number)?.shape {
            Shape::Message(inner) | Shape::Inline(inner) => Some(inner),
            Shape::List(&Shape::Message(inner)) => Some(inner),
            _ => None,
        }
    }
}

/// Compares in constants, where `==` is not available.
const fn is_equal(one: &[u8], other: &[u8]) -> bool {
    match (one, other) {
        ([], []) => true,
        ([first, one @ ..], [second, other @ ..]) => *first == *second && is_equal(one, other),
        _ => false,
    }
}
