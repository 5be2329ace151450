//! The Huffman code of header texts (RFC 7541, appendix B).
//!
//! It is canonical: codes of one length follow each other in the order of their characters, after all
//! shorter ones. So it is told by which characters have which length.

/// Characters by the length of their code. Longer ones are of characters that no header has which is
/// read here.
const LENGTHS: [(u32, &[u8]); 10] = [
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\0$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
];

/// The text; `None` if it is not of such characters.
pub(super) fn read(bytes: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(bytes.len() * 8 / 5);
    let mut rest = bytes.iter();
    // Bits that are not read yet, the next one as the highest of `count`.
    let (mut bits, mut count) = (0_u32, 0);
    loop {
        while count <= 24
            && let Some(byte) = rest.next()
        {
            bits = bits << 8 | u32::from(*byte);
            count += 8;
        }
        let left = bits & low(count);
        // What fills the last byte up are ones.
        if count < 8 && left == low(count) {
            return Some(text);
        }
        let (character, length) = first(left, count)?;
        text.push(char::from(character));
        count -= length;
    }
}

/// The first character of so many bits, and the length of its code.
fn first(bits: u32, count: u32) -> Option<(u8, u32)> {
    // The first code of a length.
    let (mut first, mut before) = (0, LENGTHS[0].0);
    for (length, characters) in LENGTHS {
        first <<= length - before;
        let code = bits >> count.checked_sub(length)?;
        if let Some(character) = characters.get((code - first) as usize) {
            return Some((*character, length));
        }
        first += characters.len() as u32;
        before = length;
    }
    None
}

/// So many ones.
fn low(count: u32) -> u32 {
    u32::MAX.checked_shr(32 - count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// Written from the table, the other way round.
    fn write(text: &str) -> Vec<u8> {
        let mut bits = String::new();
        for character in text.bytes() {
            let (mut code, mut before) = (0, 5);
            for (length, characters) in LENGTHS {
                code <<= length - before;
                if let Some(place) = characters.iter().position(|known| *known == character) {
                    let width = length as usize;
                    write!(bits, "{:0width$b}", code + place).unwrap();
                }
                code += characters.len();
                before = length;
            }
        }
        let bytes: Vec<char> = bits.chars().collect();
        bytes
            .chunks(8)
            .map(|byte| {
                let byte: String = byte.iter().collect();
                u8::from_str_radix(&format!("{byte:1<8}"), 2).unwrap()
            })
            .collect()
    }

    /// The examples of RFC 7541, appendix C.
    #[test]
    fn examples() {
        for (bytes, text) in [
            ("f1e3c2e5f23a6ba0ab90f4ff", "www.example.com"),
            ("a8eb10649cbf", "no-cache"),
            ("25a849e95bb8e8b4bf", "custom-value"),
            ("6402", "302"),
            ("640eff", "307"),
            ("d07abe941054d444a8200595040b8166e082a62d1bff", "Mon, 21 Oct 2013 20:13:21 GMT"),
            ("9d29ad171863c78f0b97c8e9ae82ae43d3", "https://www.example.com"),
        ] {
            let bytes: Vec<u8> = (0..bytes.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&bytes[at..at + 2], 16).unwrap())
                .collect();
            assert_eq!(read(&bytes).as_deref(), Some(text));
        }
    }

    #[test]
    fn what_is_no_text_is_none() {
        for bytes in [&[0xff][..], &[0xff, 0xff, 0xff, 0xff], &[0x00, 0x00, 0x00]] {
            // A whole byte of ones is no filling, and neither are zeros.
            assert!(read(bytes).is_none_or(|text| !text.is_empty()), "{bytes:?}");
        }
        assert_eq!(read(&[0xff; 4]), None);
        assert_eq!(read(&[]), Some(String::new()));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(text in "[ -\\[\\]-~]{0,60}") {
            prop_assert_eq!(read(&write(&text)), Some(text));
        }

        #[test]
        fn no_bytes_panic(bytes: Vec<u8>) {
            let _ = read(&bytes);
        }
    }
}
