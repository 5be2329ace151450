//! Header blocks of responses.

use proptest::prelude::*;

use super::*;

fn head(status: u16, headers: &[(HeaderName, &'static str)]) -> ResponseHead {
    let headers = headers.iter();
    let headers =
        headers.map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
    ResponseHead { status: StatusCode::from_u16(status).unwrap(), headers }
}

#[test]
fn heads_are_decoded_in_every_representation() {
    let read = |block: &[u8]| {
        let mut huffman_cache = HuffmanCache::default();
        let heads =
            [(); 2].map(|()| ResponseHead::decode(block, false, &mut huffman_cache).unwrap());
        assert_eq!(heads[0], heads[1], "the cache changes nothing");
        heads.into_iter().next().unwrap()
    };
    // A table size update to 0; the indexed status 200.
    assert_eq!(read(&[0x20, 0x88]), head(200, &[]));
    // 201 Huffman-coded with incremental indexing; a date, which is skipped; a plain content-type.
    let mut block = vec![0x48, 0x82, 0x10, 0x03, 0x61, 0x01, b'x', 0x0f, 0x10, 0x03];
    block.extend(b"a/b");
    assert_eq!(read(&block), head(201, &[(CONTENT_TYPE, "a/b")]));
    let status_only =
        |block: &[u8]| ResponseHead::decode(block, true, &mut HuffmanCache::default()).unwrap();
    assert_eq!(status_only(&block), head(201, &[]));
    assert_eq!(status_only(b"\x08\x03409\x0f\x10\x03a/b"), head(409, &[(CONTENT_TYPE, "a/b")]));
    // Literal names, Huffman-coded and plain.
    let mut block = vec![0x00, 0x85, 0xb8, 0x84, 0x8d, 0x36, 0xa3, 0x82, 0x10, 0x01];
    block.extend([0x00, 0x89, 0x21, 0xea, 0x49, 0x6a, 0x4a, 0xc9, 0xf5, 0x59, 0x7f, 0x03]);
    block.extend(b"a/b\x00\x88\xb0\xa9\xb3\xd2\xc3\x95\x25\xb3\x0217");
    assert_eq!(read(&block), head(200, &[(CONTENT_TYPE, "a/b"), (RETRY_AFTER, "17")]));
    let mut block = vec![0x00, 0x07];
    block.extend(b":status\x03429\x10\x0bretry-after\x0217\x00\x03odd\x01\xff");
    assert_eq!(read(&block), head(429, &[(RETRY_AFTER, "17")]));
}

#[test]
fn invalid_header_blocks_are_errors() {
    for (block, why) in [
        (&[][..], "has no :status"),
        (&[0x3f, 0x01, 0x88], "enlarges the dynamic table"),
        (&[0xbe], "beyond the static table"),
        (&[0x7e, 0x00], "beyond the static table"),
        (&[0x80], "index 0"),
        (&[0x08, 0x03, b'4'], "ends within a field"),
        (&[0x08, 0x01, b'x'], "no number"),
        (&[0x0f, 0xff, 0xff, 0xff, 0xff, 0x7f], "too large"),
    ] {
        let error = ResponseHead::decode(block, false, &mut HuffmanCache::default())
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{block:?}: {error}");
    }
}

#[test]
fn values_are_decoded_alike_with_and_without_the_cache() {
    let mut huffman_cache = HuffmanCache::default();
    for number in (100_u16..999).chain(100..999) {
        let digit = |place: u32| b"012"[usize::from(number / 10_u16.pow(place) % 3)];
        // The codes of 0, 1 and 2 are these numbers in five bits.
        let bits =
            [2, 1, 0].iter().fold(0, |bits, place| bits << 5 | u32::from(digit(*place) - b'0'));
        let huffman_coded = ((bits << 1 | 1) as u16).to_be_bytes();
        let text = StringLiteral { huffman_coded: true, bytes: &huffman_coded };
        let wanted = [2, 1, 0].map(|place| char::from(digit(place))).iter().collect::<String>();
        assert_eq!(huffman_cache.value(&text).unwrap(), wanted);
    }
    let plain = StringLiteral { huffman_coded: false, bytes: b"text/plain" };
    assert_eq!(huffman_cache.value(&plain).unwrap(), "text/plain");
    let (mut long, none) = (vec![0; CACHED_VALUE_BYTES_MAX + 1], [0xff; 4]);
    long[CACHED_VALUE_BYTES_MAX] = 1;
    assert!(huffman_cache.value(&StringLiteral { huffman_coded: true, bytes: &long }).is_some());
    assert!(huffman_cache.value(&StringLiteral { huffman_coded: true, bytes: &none }).is_none());
}

proptest! {
    #[test]
    fn no_header_block_panics(block: Vec<u8>) {
        let _ = ResponseHead::decode(&block, false, &mut HuffmanCache::default());
        let _ = ResponseHead::decode(&block, true, &mut HuffmanCache::default());
    }
}
