//! JSON bodies of requests.

use bytes::Bytes;
use serde::Serialize;

/// Initial capacity of a body, in bytes: enough for most bindings and events.
const CAPACITY_BYTES: usize = 768;

/// Serializes the body of a request. The types of bodies have string keys only and cannot fail.
pub(crate) fn json_body(value: &impl Serialize) -> Bytes {
    let mut body = Vec::with_capacity(CAPACITY_BYTES);
    serde_json::to_writer(&mut body, value).expect("a body of strings and numbers serializes");
    body.into()
}
