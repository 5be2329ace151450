//! Kubernetes' protobuf form, read by the same types as JSON.
//!
//! ```text
//! bytes + schema (numbers, names, shapes) ──► serde, with the names of JSON ──► any type
//! ```
//!
//! What the schema does not name is skipped without being looked at. It has no message within itself,
//! so that reading never goes deeper than the schema does.

mod read;
pub mod schema;
#[cfg(test)]
pub(crate) mod tests;
pub mod wire;

pub use read::{Error, Reader};

/// A message of the schema.
#[derive(Debug)]
pub struct Message {
    /// Its name in the definitions.
    pub name: &'static str,
    /// The fields that are read, by number.
    pub fields: &'static [Field],
    /// Their numbers, as bits.
    pub numbers: u64,
}

/// A field of a message.
#[derive(Debug)]
pub struct Field {
    /// Its number.
    pub number: u32,
    /// Its name, in JSON and in the definitions.
    pub name: &'static str,
    /// What it holds.
    pub shape: Shape,
}

/// What a field holds.
#[derive(Debug)]
pub enum Shape {
    /// A string.
    Text,
    /// A signed integer.
    Int,
    /// True or false.
    Bool,
    /// A quantity, in JSON a string.
    Quantity,
    /// A time, in JSON a string, or `null` when it is zero.
    Time,
    /// An object.
    Message(&'static Message),
    /// An object whose fields stand among those of the one around it in JSON.
    Inline(&'static Message),
    /// Any number of these.
    List(&'static Self),
    /// Any number of these, by a string.
    Map(&'static Self),
}

impl Message {
    /// Whether a field is read.
    pub(crate) fn reads(&self, number: u32) -> bool {
        self.numbers.checked_shr(number).is_some_and(|numbers| numbers & 1 == 1)
    }

    pub(crate) fn field(&self, number: u32) -> Option<&'static Field> {
        self.fields.iter().find(|field| field.number == number)
    }

    /// The message that a field is, or a list of.
    pub(crate) fn inner(&self, number: u32) -> Option<&'static Self> {
        match self.field(number)?.shape {
            Shape::Message(inner) | Shape::Inline(inner) => Some(inner),
            Shape::List(&Shape::Message(inner)) => Some(inner),
            _ => None,
        }
    }
}
