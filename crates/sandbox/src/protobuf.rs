//! Kubernetes' protobuf encoding of objects.
//!
//! Field numbers are data: `protobuf/fields.txt` lists them as in the `generated.proto` files of the
//! modules `k8s.io/api` and `k8s.io/apimachinery` v0.36.4. A line is a message: number, name and type of
//! each field; `*` marks lists, `%` maps with string keys, and `?` numbers and booleans whose zero value
//! equals absence.

mod decode;
mod encode;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::Value;

use crate::kinds::type_of;
use crate::schema::SCHEMAS;

/// Content type of the encoding.
pub(crate) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";

/// Prefix of every encoded object.
const MAGIC: &[u8] = b"k8s\0";

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1";
const CORE: &str = "io.k8s.api.core.v1";

static TABLE: LazyLock<Table> = LazyLock::new(Table::new);

struct Table {
    messages: Vec<Message>,
    by_name: HashMap<String, usize>,
}

struct Message {
    fields: Vec<Field>,
}

struct Field {
    number: u32,
    name: String,
    kind: Kind,
    many: Many,
    /// Set if the zero value equals absence.
    zero_is_absent: bool,
    /// Set if its members are inlined into the message around it.
    inline: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Many {
    One,
    List,
    Map,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Int,
    Bool,
    Bytes,
    Time,
    MicroTime,
    Quantity,
    IntOrText,
    /// JSON as bytes.
    Raw,
    /// A list of strings in a message of its own.
    Texts,
    Message(usize),
}

impl Table {
    fn new() -> Self {
        let text = include_str!("protobuf/fields.txt");
        let mut names: Vec<(String, &str, &str)> = Vec::new();
        let mut package = "";
        for line in text.lines() {
            if let Some(name) = line.strip_prefix('@') {
                package = name;
            } else if let Some((name, fields)) = line.split_once(':') {
                names.push((format!("{package}.{name}"), package, fields));
            }
        }
        let by_name: HashMap<String, usize> =
            names.iter().enumerate().map(|(index, (name, ..))| (name.clone(), index)).collect();
        let messages = names
            .iter()
            .map(|(name, package, fields)| Message {
                fields: fields
                    .split(',')
                    .filter_map(|field| read_field(name, package, field.trim(), &by_name))
                    .collect(),
            })
            .collect();
        Self { messages, by_name }
    }

    fn of_object(&self, api_version: &str, kind: &str) -> Option<usize> {
        let (group, version) = api_version.split_once('/').unwrap_or(("core", api_version));
        let group = group.split('.').next().unwrap_or_default();
        let meta = || self.by_name.get(&format!("{META}.{kind}"));
        self.by_name.get(&format!("io.k8s.api.{group}.{version}.{kind}")).or_else(meta).copied()
    }
}

fn read_field(
    message: &str,
    package: &str,
    field: &str,
    by_name: &HashMap<String, usize>,
) -> Option<Field> {
    let mut parts = field.split(' ');
    let (number, name, kind) = (parts.next()?.parse().ok()?, parts.next()?, parts.next()?);
    let (many, kind) = match kind.as_bytes().first()? {
        b'*' => (Many::List, &kind[1..]),
        b'%' => (Many::Map, &kind[1..]),
        _ => (Many::One, kind),
    };
    let (zero_is_absent, kind) = kind.strip_prefix('?').map_or((false, kind), |kind| (true, kind));
    let full = match kind.split_once('.') {
        Some(("", name)) => format!("{package}.{name}"),
        Some(("meta", name)) => format!("{META}.{name}"),
        Some(("core", name)) => format!("{CORE}.{name}"),
        _ => kind.to_owned(),
    };
    let kind = match full.strip_prefix(META).unwrap_or(&full) {
        "string" => Kind::Text,
        "int32" | "int64" => Kind::Int,
        "bool" => Kind::Bool,
        "bytes" => Kind::Bytes,
        ".Time" => Kind::Time,
        ".MicroTime" => Kind::MicroTime,
        "Quantity" => Kind::Quantity,
        "IntOrString" => Kind::IntOrText,
        "RawExtension" | ".FieldsV1" => Kind::Raw,
        ".Verbs" => Kind::Texts,
        other if other.ends_with(".ExtraValue") => Kind::Texts,
        _ => Kind::Message(*by_name.get(&full)?),
    };
    let inline =
        matches!(kind, Kind::Message(_)) && many == Many::One && SCHEMAS.lacks(message, name);
    Some(Field { number, name: name.to_owned(), kind, many, zero_is_absent, inline })
}

/// Decodes an object in its envelope.
pub(crate) fn decode(bytes: &[u8]) -> Result<Value, String> {
    decode::object(bytes)
}

/// Encodes an object, or a list of objects, in its envelope; `None` if the kind has no protobuf form.
pub(crate) fn encode(object: &Value) -> Option<Vec<u8>> {
    let (api_version, kind) = type_of(object);
    encode::object(object, api_version, kind)
}

/// Encodes a watch event, preceded by its length.
pub(crate) fn encode_change(kind: &str, object: &Value) -> Option<Vec<u8>> {
    let object = encode(object)?;
    Some(encode::change(kind, &object))
}

/// Returns `true` if the objects of a kind have a protobuf form.
pub(crate) fn has_form(api_version: &str, kind: &str) -> bool {
    TABLE.of_object(api_version, kind).is_some()
}

#[cfg(test)]
mod tests;
