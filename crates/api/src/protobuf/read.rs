//! A serde deserializer for protobuf messages.

use std::fmt;

use serde::de::{self, DeserializeSeed, IntoDeserializer as _, Visitor};
use serde::forward_to_deserialize_any;

use super::wire::{Payload, find_field, map_entry, next_field, seconds_and_nanoseconds};
use super::{Message, Shape};
use crate::lower::time;

/// The reason why bytes cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<str>);

impl Error {
    pub(crate) fn new(message: impl Into<Box<str>>) -> Self {
        Self(message.into())
    }

    pub(super) fn cut_off() -> Self {
        Self::new("unexpected end of the message")
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::new(message.to_string())
    }
}

/// Forwards every method except those for options, newtypes and the ones named to
/// `deserialize_any`: the schema decides which value is produced, not the requesting type.
macro_rules! by_shape {
    ($($more:ident)?) => {
        fn deserialize_newtype_struct<V: Visitor<'de>>(
            self,
            _: &'static str,
            visitor: V,
        ) -> Result<V::Value, Error> {
            visitor.visit_newtype_struct(self)
        }

        forward_to_deserialize_any! {
            bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
            unit_struct seq tuple tuple_struct map struct enum identifier $($more)?
        }
    };
}

/// Deserializes one message.
#[derive(Clone, Copy, Debug)]
pub struct MessageDeserializer<'de> {
    message: &'static Message,
    bytes: &'de [u8],
}

impl<'de> MessageDeserializer<'de> {
    /// Creates a deserializer for an encoded message.
    pub fn new(message: &'static Message, bytes: &'de [u8]) -> Self {
        Self { message, bytes }
    }
}

impl<'de> de::Deserializer<'de> for MessageDeserializer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(MessageAccess {
            message: self.message,
            rest: self.bytes,
            enclosing: None,
            current: None,
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    by_shape! {}
}

/// The fields of a message in encoding order. All known writers encode the elements of a list or
/// map contiguously; otherwise the deserialized type reports a duplicate field.
struct MessageAccess<'de> {
    message: &'static Message,
    rest: &'de [u8],
    /// The enclosing message and its remaining bytes while an inlined message is read.
    enclosing: Option<(&'static Message, &'de [u8])>,
    current: Option<(u32, &'static Shape, Payload<'de>)>,
}

impl<'de> MessageAccess<'de> {
    /// Returns the next value if the next field has this number.
    fn next_same(&mut self, wanted: u32) -> Result<Option<Payload<'de>>, Error> {
        let mut rest = self.rest;
        match next_field(&mut rest)? {
            Some((number, payload)) if number == wanted => {
                self.rest = rest;
                Ok(Some(payload))
            }
            _ => Ok(None),
        }
    }
}

impl<'de> de::MapAccess<'de> for MessageAccess<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        loop {
            let Some((number, payload)) = next_field(&mut self.rest)? else {
                let Some((message, rest)) = self.enclosing.take() else { return Ok(None) };
                (self.message, self.rest) = (message, rest);
                continue;
            };
            let Some(field) = self.message.field(number) else { continue };
            if let Shape::Inline(inner) = &field.shape {
                if self.enclosing.is_some() {
                    return Err(Error::new("a message is inlined within an inlined message"));
                }
                self.enclosing = Some((self.message, self.rest));
                (self.message, self.rest) = (inner, payload.bytes()?);
                continue;
            }
            self.current = Some((number, &field.shape, payload));
            let name: de::value::StrDeserializer<'_, Error> = field.name.into_deserializer();
            return seed.deserialize(name).map(Some);
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some((number, shape, payload)) = self.current.take() else {
            return Err(Error::new("a value was requested before its key"));
        };
        let (shape, is_map) = match shape {
            Shape::List(shape) => (*shape, false),
            Shape::Map(shape) => (*shape, true),
            shape => return seed.deserialize(ValueDeserializer { shape, payload }),
        };
        let values = RepeatedAccess { fields: self, number, shape, first: Some(payload) };
        seed.deserialize(RepeatedDeserializer { values, is_map })
    }
}

/// The elements of a repeated field.
struct RepeatedAccess<'a, 'de> {
    fields: &'a mut MessageAccess<'de>,
    number: u32,
    shape: &'static Shape,
    first: Option<Payload<'de>>,
}

impl<'de> RepeatedAccess<'_, 'de> {
    fn next(&mut self) -> Result<Option<Payload<'de>>, Error> {
        match self.first.take() {
            Some(payload) => Ok(Some(payload)),
            None => self.fields.next_same(self.number),
        }
    }
}

/// A list or a map.
struct RepeatedDeserializer<'a, 'de> {
    values: RepeatedAccess<'a, 'de>,
    is_map: bool,
}

impl<'de> de::Deserializer<'de> for RepeatedDeserializer<'_, 'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, Error> {
        if self.is_map {
            visitor.visit_map(EntryAccess { values: self.values, value: None })
        } else {
            visitor.visit_seq(&mut self.values)
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    by_shape! { ignored_any }
}

impl<'de> de::SeqAccess<'de> for &mut RepeatedAccess<'_, 'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some(payload) = self.next()? else { return Ok(None) };
        seed.deserialize(ValueDeserializer { shape: self.shape, payload }).map(Some)
    }
}

/// A map, encoded as a repeated message with key and value.
struct EntryAccess<'a, 'de> {
    values: RepeatedAccess<'a, 'de>,
    value: Option<Payload<'de>>,
}

impl<'de> de::MapAccess<'de> for EntryAccess<'_, 'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some(entry) = self.values.next()? else { return Ok(None) };
        let (key, value) = map_entry(entry)?;
        self.value = Some(value);
        seed.deserialize(ValueDeserializer { shape: &Shape::Text, payload: key }).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let Some(payload) = self.value.take() else {
            return Err(Error::new("a value was requested before its key"));
        };
        seed.deserialize(ValueDeserializer { shape: self.values.shape, payload })
    }
}

/// A single value.
struct ValueDeserializer<'de> {
    shape: &'static Shape,
    payload: Payload<'de>,
}

impl ValueDeserializer<'_> {
    /// Returns `true` for the zero time, which JSON writes as `null`.
    fn is_null(&self) -> Result<bool, Error> {
        match self.shape {
            Shape::Time => Ok(seconds_and_nanoseconds(self.payload)? == (0, 0)),
            _ => Ok(false),
        }
    }
}

impl<'de> de::Deserializer<'de> for ValueDeserializer<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.shape {
            Shape::Text => visitor.visit_borrowed_str(self.payload.text()?),
            Shape::Int => visitor.visit_i64(self.payload.number()?.cast_signed()),
            Shape::Bool => visitor.visit_bool(self.payload.number()? != 0),
            Shape::Quantity => match find_field(self.payload.bytes()?, 1)? {
                Some(text) => visitor.visit_borrowed_str(text.text()?),
                None => visitor.visit_borrowed_str("0"),
            },
            Shape::Time => match seconds_and_nanoseconds(self.payload)? {
                (0, 0) => visitor.visit_unit(),
                (seconds, nanos) => visitor.visit_string(time::format(seconds, nanos)),
            },
            Shape::Message(message) | Shape::Inline(message) => {
                MessageDeserializer::new(message, self.payload.bytes()?).deserialize_any(visitor)
            }
            Shape::List(_) | Shape::Map(_) => Err(Error::new("lists cannot be nested")),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null()? { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    by_shape! {}
}
