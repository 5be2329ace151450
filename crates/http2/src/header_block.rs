//! Heads of requests and answers (RFC 7541), with nothing remembered from one to the next.
//!
//! We tell the server to use no table, so that what is not read can be skipped without a look.

use anyhow::{Context as _, Result, bail};
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, RETRY_AFTER};
use http::{Method, Response, StatusCode};

use crate::huffman;

/// Places in the table that both sides have.
mod static_table {
    pub(super) const AUTHORITY: u8 = 1;
    pub(super) const METHOD: u8 = 2;
    pub(super) const GET: u8 = 2;
    pub(super) const POST: u8 = 3;
    pub(super) const PATH: u8 = 4;
    pub(super) const HTTPS: u8 = 7;
    pub(super) const STATUS: u8 = 8;
    pub(super) const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    pub(super) const ACCEPT: u8 = 19;
    pub(super) const CONTENT_TYPE: u8 = 31;
    pub(super) const RETRY_AFTER: u8 = 53;
    pub(super) const LAST: usize = 61;
}

/// What is asked for.
pub struct RequestHead<'a> {
    pub method: &'a Method,
    pub authority: &'a str,
    /// What stands before the path.
    pub prefix: &'a str,
    pub path: &'a str,
    pub accept: &'a str,
    pub content_type: Option<&'a str>,
    /// Headers that are written already.
    pub more: &'a [u8],
}

impl RequestHead<'_> {
    /// Writes the head of a request.
    pub fn write(&self, out: &mut Vec<u8>) {
        match *self.method {
            Method::GET => out.push(0x80 | static_table::GET),
            Method::POST => out.push(0x80 | static_table::POST),
            _ => text_of(static_table::METHOD, self.method.as_str(), out),
        }
        out.push(0x80 | static_table::HTTPS);
        text_of(static_table::AUTHORITY, self.authority, out);
        integer(4, static_table::PATH.into(), out);
        integer(7, self.prefix.len() + self.path.len(), out);
        out.extend_from_slice(self.prefix.as_bytes());
        out.extend_from_slice(self.path.as_bytes());
        text_of(static_table::ACCEPT, self.accept, out);
        if let Some(form) = self.content_type {
            text_of(static_table::CONTENT_TYPE, form, out);
        }
        out.extend_from_slice(self.more);
    }
}

/// Writes a header that nobody on the way may keep.
pub fn write_secret(name: &HeaderName, value: &HeaderValue, out: &mut Vec<u8>) {
    out.push(0x10);
    text(name.as_str().as_bytes(), out);
    text(value.as_bytes(), out);
}

fn text_of(name: u8, value: &str, out: &mut Vec<u8>) {
    integer(4, name.into(), out);
    text(value.as_bytes(), out);
}

fn text(value: &[u8], out: &mut Vec<u8>) {
    integer(7, value.len(), out);
    out.extend_from_slice(value);
}

/// A number that begins in the low bits of a byte whose others are zero.
fn integer(bits: u32, number: usize, out: &mut Vec<u8>) {
    let most = (1 << bits) - 1;
    if number < most {
        out.push(number as u8);
        return;
    }
    out.push(most as u8);
    let mut rest = number - most;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// What is read of the head of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: StatusCode,
    pub headers: Vec<(HeaderName, HeaderValue)>,
}

/// Texts that were read last, huffman_coded and read. Nearly all answers have the same ones, and to read such a
/// code takes longer than all else that is done with a head.
#[derive(Debug, Default)]
pub(super) struct HuffmanCache {
    texts: [Option<(Box<[u8]>, HeaderValue)>; 4],
    next: usize,
}

impl HuffmanCache {
    /// `None` if it is no text.
    fn read(&mut self, text: &StringLiteral<'_>) -> Option<HeaderValue> {
        if !text.huffman_coded {
            return HeaderValue::from_bytes(text.bytes).ok();
        }
        let mut known = self.texts.iter().flatten();
        if let Some((_, value)) = known.find(|(huffman_coded, _)| **huffman_coded == *text.bytes) {
            return Some(value.clone());
        }
        let value = HeaderValue::try_from(text.read()?).ok()?;
        if text.bytes.len() <= CACHED_STRING_BYTES_MAX {
            self.texts[self.next] = Some((text.bytes.into(), value.clone()));
            self.next = (self.next + 1) % self.texts.len();
        }
        Some(value)
    }
}

/// Bytes of a text that is remembered.
const CACHED_STRING_BYTES_MAX: usize = 256;

impl ResponseHead {
    /// An answer with this head.
    pub fn into_response<B>(self, body: B) -> Response<B> {
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.headers);
        response
    }

    /// Reads the head of an answer; if `status_only`, nothing but the status of one that is a success.
    pub(super) fn read(
        mut block: &[u8],
        status_only: bool,
        huffman_cache: &mut HuffmanCache,
    ) -> Result<Self> {
        let (mut status, mut headers) = (None, Vec::new());
        let enough = |status: Option<u16>| status_only && matches!(status, Some(200..300));
        while !enough(status)
            && let Some(&first) = block.first()
        {
            let name = match first {
                0x80.. => {
                    let place = take_integer(&mut block, 7)?;
                    let place = check(place)?.context("a header without a name")?;
                    if let Some(number) = place
                        .checked_sub(static_table::STATUS)
                        .and_then(|place| static_table::STATUSES.get(usize::from(place)))
                    {
                        status = Some(*number);
                    }
                    continue;
                }
                0x20..0x40 => {
                    if take_integer(&mut block, 5)? > 0 {
                        bail!("the server wants to use a table of headers, against our wish");
                    }
                    continue;
                }
                // Whether the server would like it to be remembered makes no difference.
                0x40.. => FieldName::take(&mut block, 6)?,
                _ => FieldName::take(&mut block, 4)?,
            };
            let value = StringLiteral::take(&mut block)?;
            match name {
                FieldName::ExecCredentialStatus => {
                    let value = huffman_cache.read(&value).context("no status")?;
                    status = Some(value.to_str()?.parse().context("no status")?);
                }
                FieldName::Known(name) => {
                    headers.extend(huffman_cache.read(&value).map(|value| (name, value)));
                }
                FieldName::Other => {}
            }
        }
        let status = StatusCode::from_u16(status.context("an answer without a status")?)?;
        Ok(Self { status, headers })
    }
}

/// A place in the table that both sides have, if it is one.
fn check(place: usize) -> Result<Option<u8>> {
    match place {
        0 => Ok(None),
        1..=static_table::LAST => Ok(Some(place as u8)),
        _ => bail!("the server refers to a header that was not to be remembered"),
    }
}

/// The name of a header, as far as it is read.
enum FieldName {
    ExecCredentialStatus,
    Known(HeaderName),
    Other,
}

impl FieldName {
    fn take(block: &mut &[u8], bits: u32) -> Result<Self> {
        let place = take_integer(block, bits)?;
        let Some(place) = check(place)? else {
            let name = StringLiteral::take(block)?;
            // Most are others, which is known by their length.
            if !matches!(
                (name.huffman_coded, name.bytes.len()),
                (true, 5 | 8 | 9) | (false, 7 | 11 | 12)
            ) {
                return Ok(Self::Other);
            }
            return Ok(match &*name.read().unwrap_or_default() {
                ":status" => Self::ExecCredentialStatus,
                "content-type" => Self::Known(CONTENT_TYPE),
                "retry-after" => Self::Known(RETRY_AFTER),
                _ => Self::Other,
            });
        };
        Ok(match place {
            static_table::CONTENT_TYPE => Self::Known(CONTENT_TYPE),
            static_table::RETRY_AFTER => Self::Known(RETRY_AFTER),
            place if place.checked_sub(static_table::STATUS).is_some_and(|place| place < 7) => {
                Self::ExecCredentialStatus
            }
            _ => Self::Other,
        })
    }
}

/// A text as it stands there.
struct StringLiteral<'a> {
    huffman_coded: bool,
    bytes: &'a [u8],
}

impl<'a> StringLiteral<'a> {
    fn take(block: &mut &'a [u8]) -> Result<Self> {
        let huffman_coded = block.first().is_some_and(|first| first & 0x80 > 0);
        let length = take_integer(block, 7)?;
        let (bytes, rest) = block.split_at_checked(length).context("a head is cut off")?;
        *block = rest;
        Ok(Self { huffman_coded, bytes })
    }

    /// `None` if it is no text.
    fn read(&self) -> Option<String> {
        if self.huffman_coded {
            huffman::read(self.bytes)
        } else {
            str::from_utf8(self.bytes).ok().map(str::to_owned)
        }
    }
}

fn take_integer(block: &mut &[u8], bits: u32) -> Result<usize> {
    let (&first, mut rest) = block.split_first().context("a head is cut off")?;
    let most = (1 << bits) - 1;
    let mut number = usize::from(first & most);
    if number == usize::from(most) {
        // Longer ones would be larger than any head.
        for shift in [0, 7, 14, 21] {
            let (&byte, after) = rest.split_first().context("a head is cut off")?;
            rest = after;
            number += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                *block = rest;
                return Ok(number);
            }
        }
        bail!("a number in a head is too large");
    }
    *block = rest;
    Ok(number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head(status: u16, headers: &[(HeaderName, &'static str)]) -> ResponseHead {
        let headers = headers.iter();
        let headers =
            headers.map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
        ResponseHead { status: StatusCode::from_u16(status).unwrap(), headers }
    }

    #[test]
    fn heads_are_read_in_every_form() {
        let read = |block: &[u8]| {
            let mut huffman_cache = HuffmanCache::default();
            let heads =
                [(); 2].map(|()| ResponseHead::read(block, false, &mut huffman_cache).unwrap());
            assert_eq!(heads[0], heads[1], "the second time as the first");
            heads.into_iter().next().unwrap()
        };
        // Nothing is to be remembered; 200.
        assert_eq!(read(&[0x20, 0x88]), head(200, &[]));
        // 201 by Huffman, to be remembered; a date by its place, skipped; a type in plain letters.
        let mut block = vec![0x48, 0x82, 0x10, 0x03, 0x61, 0x01, b'x', 0x0f, 0x10, 0x03];
        block.extend(b"a/b");
        assert_eq!(read(&block), head(201, &[(CONTENT_TYPE, "a/b")]));
        let status_only =
            |block: &[u8]| ResponseHead::read(block, true, &mut HuffmanCache::default()).unwrap();
        assert_eq!(status_only(&block), head(201, &[]));
        assert_eq!(status_only(b"\x08\x03409\x0f\x10\x03a/b"), head(409, &[(CONTENT_TYPE, "a/b")]));
        // With names in full, by Huffman and in plain letters.
        let mut block = vec![0x00, 0x85, 0xb8, 0x84, 0x8d, 0x36, 0xa3, 0x82, 0x10, 0x01];
        block.extend([0x00, 0x89, 0x21, 0xea, 0x49, 0x6a, 0x4a, 0xc9, 0xf5, 0x59, 0x7f, 0x03]);
        block.extend(b"a/b\x00\x88\xb0\xa9\xb3\xd2\xc3\x95\x25\xb3\x0217");
        assert_eq!(read(&block), head(200, &[(CONTENT_TYPE, "a/b"), (RETRY_AFTER, "17")]));
        let mut block = vec![0x00, 0x07];
        block.extend(b":status\x03429\x10\x0bretry-after\x0217\x00\x03odd\x01\xff");
        assert_eq!(read(&block), head(429, &[(RETRY_AFTER, "17")]));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (block, why) in [
            (&[][..], "an answer without a status"),
            (&[0x3f, 0x01, 0x88], "a table of headers"),
            (&[0xbe], "not to be remembered"),
            (&[0x7e, 0x00], "not to be remembered"),
            (&[0x80], "a header without a name"),
            (&[0x08, 0x03, b'4'], "cut off"),
            (&[0x08, 0x01, b'x'], "no status"),
            (&[0x0f, 0xff, 0xff, 0xff, 0xff, 0x7f], "too large"),
        ] {
            let error = ResponseHead::read(block, false, &mut HuffmanCache::default())
                .unwrap_err()
                .to_string();
            assert!(error.contains(why), "{block:?}: {error}");
        }
    }

    #[test]
    fn texts_are_read_right_whether_remembered_or_not() {
        let mut huffman_cache = HuffmanCache::default();
        for number in (100_u16..999).chain(100..999) {
            let digit = |place: u32| b"012"[usize::from(number / 10_u16.pow(place) % 3)];
            // Codes of 0, 1 and 2 are their numbers in five bits.
            let bits =
                [2, 1, 0].iter().fold(0, |bits, place| bits << 5 | u32::from(digit(*place) - b'0'));
            let huffman_coded = ((bits << 1 | 1) as u16).to_be_bytes();
            let text = StringLiteral { huffman_coded: true, bytes: &huffman_coded };
            let wanted = [2, 1, 0].map(|place| char::from(digit(place))).iter().collect::<String>();
            assert_eq!(huffman_cache.read(&text).unwrap(), wanted);
        }
        let plain = StringLiteral { huffman_coded: false, bytes: b"text/plain" };
        assert_eq!(huffman_cache.read(&plain).unwrap(), "text/plain");
        let (mut long, none) = (vec![0; CACHED_STRING_BYTES_MAX + 1], [0xff; 4]);
        long[CACHED_STRING_BYTES_MAX] = 1;
        assert!(huffman_cache.read(&StringLiteral { huffman_coded: true, bytes: &long }).is_some());
        assert!(huffman_cache.read(&StringLiteral { huffman_coded: true, bytes: &none }).is_none());
    }

    proptest! {
        #[test]
        fn no_bytes_panic(block: Vec<u8>) {
            let _ = ResponseHead::read(&block, false, &mut HuffmanCache::default());
            let _ = ResponseHead::read(&block, true, &mut HuffmanCache::default());
        }

        #[test]
        fn numbers_are_read_as_written(bits in 4_u32..8, number in 0_usize..1 << 28) {
            let mut block = Vec::new();
            integer(bits, number, &mut block);
            let mut rest = &block[..];
            prop_assert_eq!(take_integer(&mut rest, bits).unwrap(), number);
            prop_assert!(rest.is_empty());
        }
    }
}
