//! Header blocks of requests: literal fields without Huffman coding.

use bytes::Bytes;
use http::{HeaderMap, Method};

use super::{LONG_PREFIX_BITS, NAME_INDEX_BITS, encode_integer, static_table};
use crate::Request;

/// The pattern of an indexed field.
const INDEXED: u8 = 0x80;

/// The pattern of a never-indexed literal field with a literal name.
const NEVER_INDEXED: u8 = 0x10;

/// Encoded fields that no intermediary may index, such as `authorization`; encoded once and sent with
/// many requests.
#[derive(Clone, Default)]
pub struct NeverIndexedFields(Bytes);

impl NeverIndexedFields {
    /// Returns the encoded fields.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl From<&HeaderMap> for NeverIndexedFields {
    fn from(fields: &HeaderMap) -> Self {
        let mut block = Vec::new();
        for (name, value) in fields {
            block.push(NEVER_INDEXED);
            encode_string(name.as_str().as_bytes(), &mut block);
            encode_string(value.as_bytes(), &mut block);
        }
        Self(block.into())
    }
}

impl std::fmt::Debug for NeverIndexedFields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The fields are secret.
        f.debug_tuple("NeverIndexedFields").field(&self.0.len()).finish()
    }
}

/// Appends the header block of a request.
pub(crate) fn encode_request(request: &Request<'_>, out: &mut Vec<u8>) {
    match *request.method {
        Method::GET => out.push(INDEXED | static_table::METHOD_GET),
        Method::POST => out.push(INDEXED | static_table::METHOD_POST),
        _ => encode_field(static_table::METHOD, request.method.as_str(), out),
    }
    out.push(INDEXED | static_table::SCHEME_HTTPS);
    encode_field(static_table::AUTHORITY, request.authority, out);
    encode_integer(NAME_INDEX_BITS, static_table::PATH.into(), out);
    encode_integer(LONG_PREFIX_BITS, request.path_prefix.len() + request.path.len(), out);
    out.extend_from_slice(request.path_prefix.as_bytes());
    out.extend_from_slice(request.path.as_bytes());
    encode_field(static_table::ACCEPT, request.accept, out);
    if let Some(content_type) = request.content_type {
        encode_field(static_table::CONTENT_TYPE, content_type, out);
    }
    out.extend_from_slice(request.fields.as_bytes());
}

/// Appends a literal field whose name is in the static table.
fn encode_field(name: u8, value: &str, out: &mut Vec<u8>) {
    encode_integer(NAME_INDEX_BITS, name.into(), out);
    encode_string(value.as_bytes(), out);
}

fn encode_string(value: &[u8], out: &mut Vec<u8>) {
    encode_integer(LONG_PREFIX_BITS, value.len(), out);
    out.extend_from_slice(value);
}
