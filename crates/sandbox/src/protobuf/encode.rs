//! Encoding of protobuf.

use base64::Engine as _;
use jiff::Timestamp;
use serde_json::{Map, Value};

use super::{Field, Kind, MAGIC, Many, TABLE};

/// Encodes an object in its envelope.
pub(super) fn object(object: &Value, api_version: &str, kind: &str) -> Option<Vec<u8>> {
    let index = TABLE.of_object(api_version, kind)?;
    let mut raw = Vec::with_capacity(1024);
    message(index, object.as_object()?, &mut raw);
    let mut types = Vec::with_capacity(32);
    bytes(&mut types, 1, api_version.as_bytes());
    bytes(&mut types, 2, kind.as_bytes());
    let mut out = Vec::with_capacity(raw.len() + 64);
    out.extend_from_slice(MAGIC);
    bytes(&mut out, 1, &types);
    bytes(&mut out, 2, &raw);
    bytes(&mut out, 3, b"");
    bytes(&mut out, 4, b"");
    Some(out)
}

/// Encodes a watch event with an object in its envelope, preceded by its length.
pub(super) fn change(kind: &str, object: &[u8]) -> Vec<u8> {
    let mut raw = Vec::with_capacity(object.len() + 8);
    bytes(&mut raw, 1, object);
    let mut event = Vec::with_capacity(raw.len() + 24);
    bytes(&mut event, 1, kind.as_bytes());
    bytes(&mut event, 2, &raw);
    let mut out = Vec::with_capacity(event.len() + 4);
    out.extend_from_slice(&(event.len() as u32).to_be_bytes());
    out.extend_from_slice(&event);
    out
}

fn message(index: usize, object: &Map<String, Value>, out: &mut Vec<u8>) {
    for field in &TABLE.messages[index].fields {
        if field.inline {
            if let Kind::Message(inner) = field.kind {
                let mut raw = Vec::new();
                message(inner, object, &mut raw);
                bytes(out, field.number, &raw);
            }
            continue;
        }
        match (object.get(&field.name), field.many) {
            (None | Some(Value::Null), _) => {}
            (Some(value), Many::One) => single(field, field.number, value, out),
            (Some(Value::Array(items)), Many::List) => {
                for item in items {
                    single(field, field.number, item, out);
                }
            }
            (Some(Value::Object(members)), Many::Map) => {
                for (key, value) in members {
                    let mut entry = Vec::new();
                    bytes(&mut entry, 1, key.as_bytes());
                    single(field, 2, value, &mut entry);
                    bytes(out, field.number, &entry);
                }
            }
            _ => {}
        }
    }
}

fn single(field: &Field, number: u32, value: &Value, out: &mut Vec<u8>) {
    let text = value.as_str().unwrap_or_default();
    match field.kind {
        Kind::Text => bytes(out, number, text.as_bytes()),
        Kind::Int => int(out, number, value.as_i64().unwrap_or(0)),
        Kind::Bool => int(out, number, i64::from(value.as_bool().unwrap_or(false))),
        Kind::Bytes => {
            let raw = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
            bytes(out, number, &raw);
        }
        Kind::Time | Kind::MicroTime => {
            let mut raw = Vec::new();
            if let Ok(time) = text.parse::<Timestamp>() {
                int(&mut raw, 1, time.as_second());
                int(&mut raw, 2, i64::from(time.subsec_nanosecond()));
            }
            bytes(out, number, &raw);
        }
        Kind::Quantity => {
            let mut raw = Vec::new();
            bytes(&mut raw, 1, text.as_bytes());
            bytes(out, number, &raw);
        }
        Kind::IntOrText => {
            let mut raw = Vec::new();
            if let Some(whole) = value.as_i64() {
                int(&mut raw, 1, 0);
                int(&mut raw, 2, whole);
                bytes(&mut raw, 3, b"");
            } else {
                int(&mut raw, 1, 1);
                int(&mut raw, 2, 0);
                bytes(&mut raw, 3, text.as_bytes());
            }
            bytes(out, number, &raw);
        }
        Kind::Raw => {
            let mut raw = Vec::new();
            bytes(&mut raw, 1, value.to_string().as_bytes());
            bytes(out, number, &raw);
        }
        Kind::Texts => {
            let mut raw = Vec::new();
            for item in value.as_array().into_iter().flatten() {
                bytes(&mut raw, 1, item.as_str().unwrap_or_default().as_bytes());
            }
            bytes(out, number, &raw);
        }
        Kind::Message(index) => {
            let mut raw = Vec::new();
            if let Some(object) = value.as_object() {
                message(index, object, &mut raw);
            }
            bytes(out, number, &raw);
        }
    }
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push((value as u8) | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn int(out: &mut Vec<u8>, number: u32, value: i64) {
    varint(out, u64::from(number) << 3);
    varint(out, value as u64);
}

fn bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    varint(out, (u64::from(number) << 3) | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}
