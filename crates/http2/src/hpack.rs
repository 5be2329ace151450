//! Header blocks (HPACK, RFC 7541) without the dynamic table.
//!
//! Without a dynamic table, a field that is not needed can be skipped without decoding it.

use crate::Error;

mod decoder;
mod encoder;
mod huffman;

pub(crate) use decoder::HuffmanCache;
pub use decoder::ResponseHead;
pub use encoder::NeverIndexedFields;
pub(crate) use encoder::encode_request;

/// Indices into the static table (RFC 7541, appendix A).
mod static_table {
    pub(super) const AUTHORITY: u8 = 1;
    pub(super) const METHOD: u8 = 2;
    pub(super) const METHOD_GET: u8 = 2;
    pub(super) const METHOD_POST: u8 = 3;
    pub(super) const PATH: u8 = 4;
    pub(super) const SCHEME_HTTPS: u8 = 7;
    /// First of the entries for `:status`.
    pub(super) const STATUS: u8 = 8;
    /// Values of the entries for `:status`.
    pub(super) const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    pub(super) const ACCEPT: u8 = 19;
    pub(super) const CONTENT_TYPE: u8 = 31;
    pub(super) const RETRY_AFTER: u8 = 53;
    pub(super) const LAST: usize = 61;
}

/// Prefix bits of a string's length and of an indexed field.
const LONG_PREFIX_BITS: u32 = 7;

/// Prefix bits of the name index of a literal field without indexing, or never indexed.
const NAME_INDEX_BITS: u32 = 4;

/// The first bit of a string, set if it is Huffman-coded.
const HUFFMAN_CODED: u8 = 0x80;

const TRUNCATED: Error = Error::InvalidHeaderBlock("a header block ends within a field");

/// Appends an integer with a prefix of `bits` bits (RFC 7541, section 5.1). The other bits of the first
/// byte are zero.
fn encode_integer(bits: u32, value: usize, out: &mut Vec<u8>) {
    let prefix_max = (1 << bits) - 1;
    if value < prefix_max {
        out.push(value as u8);
        return;
    }
    out.push(prefix_max as u8);
    let mut rest = value - prefix_max;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Removes an integer from the front of a block.
fn decode_integer(block: &mut &[u8], bits: u32) -> Result<usize, Error> {
    let (&first, mut rest) = block.split_first().ok_or(TRUNCATED)?;
    let prefix_max = (1 << bits) - 1;
    let mut value = usize::from(first & prefix_max);
    if value == usize::from(prefix_max) {
        // No header block is longer than what four bytes can express.
        for shift in [0, 7, 14, 21] {
            let (&byte, after) = rest.split_first().ok_or(TRUNCATED)?;
            rest = after;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                *block = rest;
                return Ok(value);
            }
        }
        return Err(Error::InvalidHeaderBlock("an integer in a header block is too large"));
    }
    *block = rest;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn integers_are_decoded_as_encoded(bits in 4_u32..8, value in 0_usize..1 << 28) {
            let mut block = Vec::new();
            encode_integer(bits, value, &mut block);
            let mut rest = &block[..];
            prop_assert_eq!(decode_integer(&mut rest, bits).unwrap(), value);
            prop_assert!(rest.is_empty());
        }
    }
}
