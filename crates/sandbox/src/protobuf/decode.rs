//! Decoding of protobuf.

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Number, Value};

use super::{Field, Kind, MAGIC, Many, TABLE};
use crate::cluster::{micros, seconds};
use crate::limits::DEPTH_MAX;

type Result<T> = std::result::Result<T, String>;

/// Decodes an object in its envelope.
pub(super) fn object(bytes: &[u8]) -> Result<Value> {
    let body = bytes
        .strip_prefix(MAGIC)
        .ok_or("the body does not start with the prefix of Kubernetes' protobuf encoding")?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &[][..]);
    let mut reader = Reader(body);
    while let Some((number, value)) = reader.field()? {
        match (number, value) {
            (1, Wire::Bytes(types)) => {
                let mut types = Reader(types);
                while let Some((number, value)) = types.field()? {
                    match (number, value) {
                        (1, Wire::Bytes(text)) => api_version = utf8(text)?,
                        (2, Wire::Bytes(text)) => kind = utf8(text)?,
                        _ => {}
                    }
                }
            }
            (2, Wire::Bytes(bytes)) => raw = bytes,
            _ => {}
        }
    }
    let Some(index) = TABLE.of_object(&api_version, &kind) else {
        return Err(format!("no protobuf form of kind {kind:?} in version {api_version:?}"));
    };
    let mut members = Map::new();
    message(index, raw, &mut members, 0)?;
    members.insert("apiVersion".to_owned(), api_version.into());
    members.insert("kind".to_owned(), kind.into());
    Ok(Value::Object(members))
}

fn message(index: usize, bytes: &[u8], into: &mut Map<String, Value>, depth: usize) -> Result<()> {
    if depth > DEPTH_MAX {
        return Err("the object is nested too deeply".to_owned());
    }
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.field()? {
        let fields = &TABLE.messages[index].fields;
        // Unknown fields, such as those of newer versions, are skipped.
        let Some(field) = fields.iter().find(|field| field.number == number) else { continue };
        match (field.many, field.kind) {
            (Many::One, Kind::Message(inner)) if field.inline => {
                message(inner, wire.bytes()?, into, depth + 1)?;
            }
            (Many::One, _) => {
                let value = single(field, &wire, depth)?;
                // Empty strings and times equal absence.
                let zero = value == 0 || value == false;
                let absent =
                    value.is_null() || value.as_str() == Some("") || (zero && field.zero_is_absent);
                if !absent {
                    into.insert(field.name.clone(), value);
                }
            }
            (Many::List, _) => {
                let value = single(field, &wire, depth)?;
                if let Value::Array(items) =
                    into.entry(field.name.clone()).or_insert_with(|| Value::Array(Vec::new()))
                {
                    items.push(value);
                }
            }
            (Many::Map, _) => {
                let (key, value) = entry(field, wire.bytes()?, depth)?;
                if let Value::Object(members) =
                    into.entry(field.name.clone()).or_insert_with(|| Value::Object(Map::new()))
                {
                    members.insert(key, value);
                }
            }
        }
    }
    Ok(())
}

fn entry(field: &Field, bytes: &[u8], depth: usize) -> Result<(String, Value)> {
    let (mut key, mut value) = (String::new(), None);
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => key = utf8(wire.bytes()?)?,
            2 => value = Some(single(field, &wire, depth)?),
            _ => {}
        }
    }
    let empty = if field.kind == Kind::Text { Value::from("") } else { Value::Null };
    Ok((key, value.unwrap_or(empty)))
}

fn single(field: &Field, wire: &Wire<'_>, depth: usize) -> Result<Value> {
    Ok(match field.kind {
        Kind::Text => utf8(wire.bytes()?)?.into(),
        Kind::Int => wire.int()?.into(),
        Kind::Bool => (wire.int()? != 0).into(),
        Kind::Bytes => base64::engine::general_purpose::STANDARD.encode(wire.bytes()?).into(),
        Kind::Time | Kind::MicroTime => time(wire.bytes()?, field.kind)?,
        Kind::Quantity => first_text(wire.bytes()?)?.into(),
        Kind::IntOrText => int_or_text(wire.bytes()?)?,
        Kind::Raw => {
            let mut reader = Reader(wire.bytes()?);
            let mut value = Value::Null;
            while let Some((number, wire)) = reader.field()? {
                if number == 1 {
                    value =
                        serde_json::from_slice(wire.bytes()?).map_err(|error| error.to_string())?;
                }
            }
            value
        }
        Kind::Texts => {
            let mut reader = Reader(wire.bytes()?);
            let mut items = Vec::new();
            while let Some((_, wire)) = reader.field()? {
                items.push(utf8(wire.bytes()?)?.into());
            }
            Value::Array(items)
        }
        Kind::Message(index) => {
            let mut members = Map::new();
            message(index, wire.bytes()?, &mut members, depth + 1)?;
            Value::Object(members)
        }
    })
}

fn time(bytes: &[u8], kind: Kind) -> Result<Value> {
    let (mut whole, mut nanos) = (0, 0);
    let mut reader = Reader(bytes);
    while let Some((number, wire)) = reader.field()? {
        match number {
            1 => whole = wire.int()?,
            2 => nanos = wire.int()?,
            _ => {}
        }
    }
    if whole == 0 && nanos == 0 {
        return Ok(Value::Null);
    }
    let nanos = i32::try_from(nanos).unwrap_or(0);
    let time = Timestamp::new(whole, nanos).map_err(|error| error.to_string())?;
    Ok(if kind == Kind::MicroTime { micros(time) } else { seconds(time) }.into())
}

fn first_text(bytes: &[u8]) -> Result<String> {
    let mut reader = Reader(bytes);
    match reader.field()? {
        Some((1, wire)) => utf8(wire.bytes()?),
        _ => Ok(String::new()),
    }
}

fn int_or_text(bytes: &[u8]) -> Result<Value> {
    let (mut kind, mut number, mut text) = (0, 0, String::new());
    let mut reader = Reader(bytes);
    while let Some((field, wire)) = reader.field()? {
        match field {
            1 => kind = wire.int()?,
            2 => number = wire.int()?,
            3 => text = utf8(wire.bytes()?)?,
            _ => {}
        }
    }
    Ok(if kind == 1 { text.into() } else { Value::Number(Number::from(number)) })
}

fn utf8(bytes: &[u8]) -> Result<String> {
    String::from_utf8(bytes.to_vec()).map_err(|_| "a string is not UTF-8".to_owned())
}

/// A value on the wire.
enum Wire<'a> {
    Int(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn bytes(&self) -> Result<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Int(_) => Err("found a number instead of a string or message".to_owned()),
        }
    }

    fn int(&self) -> Result<i64> {
        match self {
            Self::Int(number) => Ok(*number as i64),
            Self::Bytes(_) => Err("found a string or message instead of a number".to_owned()),
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn varint(&mut self) -> Result<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first().ok_or("the message is truncated")?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err("a varint is too long".to_owned())
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("the message is truncated")?;
        self.0 = rest;
        Ok(taken)
    }

    /// Returns the next field, or `None` at the end.
    fn field(&mut self) -> Result<Option<(u32, Wire<'a>)>> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| "a field number is too large")?;
        let wire = match tag & 7 {
            0 => Wire::Int(self.varint()?),
            1 => Wire::Bytes(self.take(8)?),
            2 => {
                let length =
                    usize::try_from(self.varint()?).map_err(|_| "a length is too large")?;
                Wire::Bytes(self.take(length)?)
            }
            5 => Wire::Bytes(self.take(4)?),
            other => return Err(format!("unknown wire type {other}")),
        };
        Ok(Some((number, wire)))
    }
}
