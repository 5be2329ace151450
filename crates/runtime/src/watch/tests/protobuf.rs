//! Encoder of namespaces, lists and `Status` objects, by the field numbers of Kubernetes' definitions.

use serde_json::Value;

pub(super) const TYPE: &str = "application/vnd.kubernetes.protobuf";
pub(super) const STREAM_TYPE: &str = "application/vnd.kubernetes.protobuf;stream=watch";

/// Encodes a watch event with its length in front.
pub(super) fn frame(event: &str, object: &Value) -> Vec<u8> {
    let object = if event == "ERROR" { status(object) } else { namespace(object) };
    let event = [bytes(1, event.as_bytes()), bytes(2, &bytes(1, &with_envelope(&object)))].concat();
    let length = u32::try_from(event.len()).unwrap();
    [&length.to_be_bytes()[..], &event].concat()
}

/// Encodes a page of a list.
pub(super) fn list(meta: &Value, items: &[Value]) -> Vec<u8> {
    let meta = [text(2, &meta["resourceVersion"]), text(3, &meta["continue"])].concat();
    let items = items.iter().flat_map(|item| bytes(2, &namespace(item)));
    with_envelope(&bytes(1, &meta).into_iter().chain(items).collect::<Vec<u8>>())
}

fn namespace(object: &Value) -> Vec<u8> {
    let meta = &object["metadata"];
    let annotations = meta["annotations"].as_object().into_iter().flatten();
    let annotations = annotations
        .flat_map(|(key, value)| bytes(12, &[bytes(1, key.as_bytes()), text(2, value)].concat()));
    let mut fields = [text(1, &meta["name"]), text(5, &meta["uid"])].concat();
    fields.extend(text(6, &meta["resourceVersion"]));
    fields.extend(annotations);
    bytes(1, &fields)
}

fn status(object: &Value) -> Vec<u8> {
    let mut fields = text(4, &object["reason"]);
    fields.push(6 << 3);
    varint(&mut fields, object["code"].as_u64().unwrap());
    fields
}

/// Adds the envelope of Kubernetes: the magic number and `runtime.Unknown`.
fn with_envelope(object: &[u8]) -> Vec<u8> {
    [b"k8s\0", &*bytes(1, b""), &bytes(2, object)].concat()
}

fn text(number: u8, value: &Value) -> Vec<u8> {
    bytes(number, value.as_str().unwrap_or("").as_bytes())
}

fn bytes(number: u8, inner: &[u8]) -> Vec<u8> {
    let mut field = vec![number << 3 | 2];
    varint(&mut field, inner.len() as u64);
    field.extend(inner);
    field
}

fn varint(field: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        field.push(number as u8 | 0x80);
        number >>= 7;
    }
    field.push(number as u8);
}
