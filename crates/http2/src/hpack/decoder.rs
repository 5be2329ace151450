//! Header blocks of responses, of which only some fields are decoded.

use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};

use super::{
    HUFFMAN_CODED, LONG_PREFIX_BITS, NAME_INDEX_BITS, TRUNCATED, decode_integer, huffman,
    static_table,
};
use crate::Error;

#[cfg(test)]
mod tests;

/// Prefix bits of the name index of a literal field with incremental indexing.
const INDEXING_NAME_INDEX_BITS: u32 = 6;

/// Prefix bits of a dynamic table size update.
const TABLE_SIZE_BITS: u32 = 5;

/// Bytes of a Huffman-coded value that [`HuffmanCache`] keeps.
const CACHED_VALUE_BYTES_MAX: usize = 256;

const INVALID_STATUS: Error = Error::InvalidHeaderBlock("the :status of a response is no number");

/// Status and some fields of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// `:status`.
    pub status: StatusCode,
    /// `content-type` and `retry-after`, if the response has them.
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

impl ResponseHead {
    /// Returns a response with this head.
    pub fn into_response<B>(self, body: B) -> Response<B> {
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers);
        response
    }

    /// Decodes a header block; with `status_only`, only up to the status if that is 2xx.
    pub(crate) fn decode(
        mut block: &[u8],
        status_only: bool,
        huffman_cache: &mut HuffmanCache,
    ) -> Result<Self, Error> {
        let (mut status, mut headers) = (None, Vec::new());
        let is_enough = |status: Option<u16>| status_only && matches!(status, Some(200..300));
        while !is_enough(status)
            && let Some(&first) = block.first()
        {
            let name = match first {
                0x80.. => {
                    let index = decode_integer(&mut block, LONG_PREFIX_BITS)?;
                    let index = static_index(index)?
                        .ok_or(Error::InvalidHeaderBlock("an indexed field has the index 0"))?;
                    if let Some(known) = index
                        .checked_sub(static_table::STATUS)
                        .and_then(|entry| static_table::STATUSES.get(usize::from(entry)))
                    {
                        status = Some(*known);
                    }
                    continue;
                }
                0x20..0x40 => {
                    if decode_integer(&mut block, TABLE_SIZE_BITS)? > 0 {
                        return Err(Error::InvalidHeaderBlock(
                            "the server enlarges the dynamic table, which is disabled",
                        ));
                    }
                    continue;
                }
                // With a table of size 0, incremental indexing has no effect.
                0x40.. => FieldName::decode(&mut block, INDEXING_NAME_INDEX_BITS)?,
                _ => FieldName::decode(&mut block, NAME_INDEX_BITS)?,
            };
            let value = StringLiteral::decode(&mut block)?;
            match name {
                FieldName::Status => {
                    let value = huffman_cache.value(&value).ok_or(INVALID_STATUS)?;
                    let value = value.to_str().map_err(|_| INVALID_STATUS)?;
                    status = Some(value.parse().map_err(|_| INVALID_STATUS)?);
                }
                FieldName::Known(name) => {
                    headers.extend(huffman_cache.value(&value).map(|value| (name, value)));
                }
                FieldName::Other => {}
            }
        }
        let status = status.ok_or(Error::InvalidHeaderBlock("a response has no :status"))?;
        let status = StatusCode::from_u16(status).map_err(|_| INVALID_STATUS)?;
        Ok(Self { status, headers })
    }
}

/// Checks an index against the static table; `None` for 0, which means a literal name.
fn static_index(index: usize) -> Result<Option<u8>, Error> {
    match index {
        0 => Ok(None),
        1..=static_table::LAST => Ok(Some(index as u8)),
        _ => Err(Error::InvalidHeaderBlock("an index beyond the static table")),
    }
}

/// The name of a field, as far as it matters.
enum FieldName {
    Status,
    Known(HeaderName),
    Other,
}

impl FieldName {
    /// Removes a name, whose index has a prefix of `bits` bits, from the front of a block.
    fn decode(block: &mut &[u8], bits: u32) -> Result<Self, Error> {
        let index = decode_integer(block, bits)?;
        let Some(index) = static_index(index)? else {
            let name = StringLiteral::decode(block)?;
            // The length rules out most names without decoding them.
            if !matches!(
                (name.huffman_coded, name.bytes.len()),
                (true, 5 | 8 | 9) | (false, 7 | 11 | 12)
            ) {
                return Ok(Self::Other);
            }
            return Ok(match &*name.text().unwrap_or_default() {
                ":status" => Self::Status,
                "content-type" => Self::Known(CONTENT_TYPE),
                "retry-after" => Self::Known(RETRY_AFTER),
                _ => Self::Other,
            });
        };
        Ok(match index {
            static_table::CONTENT_TYPE => Self::Known(CONTENT_TYPE),
            static_table::RETRY_AFTER => Self::Known(RETRY_AFTER),
            index if is_status(index) => Self::Status,
            _ => Self::Other,
        })
    }
}

/// Returns `true` if an entry of the static table has the name `:status`.
fn is_status(index: u8) -> bool {
    let entry = index.checked_sub(static_table::STATUS);
    entry.is_some_and(|entry| usize::from(entry) < static_table::STATUSES.len())
}

/// A string as it is encoded.
struct StringLiteral<'a> {
    huffman_coded: bool,
    bytes: &'a [u8],
}

impl<'a> StringLiteral<'a> {
    /// Removes a string from the front of a block.
    fn decode(block: &mut &'a [u8]) -> Result<Self, Error> {
        let huffman_coded = block.first().is_some_and(|first| first & HUFFMAN_CODED > 0);
        let length = decode_integer(block, LONG_PREFIX_BITS)?;
        let (bytes, rest) = block.split_at_checked(length).ok_or(TRUNCATED)?;
        *block = rest;
        Ok(Self { huffman_coded, bytes })
    }

    /// Returns the decoded string; `None` if the coding is invalid.
    fn text(&self) -> Option<String> {
        if self.huffman_coded {
            huffman::decode(self.bytes)
        } else {
            str::from_utf8(self.bytes).ok().map(str::to_owned)
        }
    }
}

/// The Huffman-coded values that were decoded last, with their text. Nearly all responses of a server
/// repeat the same few values, and decoding one takes longer than the rest of the block.
#[derive(Debug, Default)]
pub(crate) struct HuffmanCache {
    values: [Option<(Box<[u8]>, HeaderValue)>; 4],
    /// Entry that is replaced next.
    next: usize,
}

impl HuffmanCache {
    /// Returns the value of a field; `None` if it is invalid.
    fn value(&mut self, literal: &StringLiteral<'_>) -> Option<HeaderValue> {
        if !literal.huffman_coded {
            return HeaderValue::from_bytes(literal.bytes).ok();
        }
        let mut cached = self.values.iter().flatten();
        if let Some((_, value)) = cached.find(|(coded, _)| **coded == *literal.bytes) {
            return Some(value.clone());
        }
        let value = HeaderValue::try_from(literal.text()?).ok()?;
        if literal.bytes.len() <= CACHED_VALUE_BYTES_MAX {
            self.values[self.next] = Some((literal.bytes.into(), value.clone()));
            self.next = (self.next + 1) % self.values.len();
        }
        Some(value)
    }
}
