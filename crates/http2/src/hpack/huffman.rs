//! The Huffman code of strings (RFC 7541, appendix B).
//!
//! The code is canonical: codes of one length are consecutive in the order of their symbols, and follow
//! all shorter ones. The lengths alone define it.

/// Symbols by the length of their code in bits. Symbols with longer codes occur in no field that is
/// decoded.
const SYMBOLS_BY_LENGTH: [(u32, &[u8]); 10] = [
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

/// Decodes a string; `None` if it has other symbols or invalid padding.
pub(super) fn decode(bytes: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(bytes.len() * 8 / 5);
    let mut rest = bytes.iter();
    // The low `count` bits are not decoded yet.
    let (mut bits, mut count) = (0_u32, 0);
    loop {
        while count <= 24
            && let Some(byte) = rest.next()
        {
            bits = bits << 8 | u32::from(*byte);
            count += 8;
        }
        let undecoded = bits & ones(count);
        // The padding of the last byte is ones.
        if count < 8 && undecoded == ones(count) {
            return Some(text);
        }
        let (symbol, length) = first_symbol(undecoded, count)?;
        text.push(char::from(symbol));
        count -= length;
    }
}

/// Returns the first symbol of `count` bits and the length of its code.
fn first_symbol(bits: u32, count: u32) -> Option<(u8, u32)> {
    let (mut first_code, mut previous_length) = (0, SYMBOLS_BY_LENGTH[0].0);
    for (length, symbols) in SYMBOLS_BY_LENGTH {
        first_code <<= length - previous_length;
        let code = bits >> count.checked_sub(length)?;
        if let Some(symbol) = symbols.get((code - first_code) as usize) {
            return Some((*symbol, length));
        }
        first_code += symbols.len() as u32;
        previous_length = length;
    }
    None
}

/// Returns a number whose low `count` bits are ones.
fn ones(count: u32) -> u32 {
    u32::MAX.checked_shr(32 - count).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use proptest::prelude::*;

    use super::*;

    /// Encodes by the same table, in a different way.
    fn encode(text: &str) -> Vec<u8> {
        let mut bits = String::new();
        for character in text.bytes() {
            let (mut code, mut before) = (0, 5);
            for (length, symbols) in SYMBOLS_BY_LENGTH {
                code <<= length - before;
                if let Some(place) = symbols.iter().position(|known| *known == character) {
                    let width = length as usize;
                    write!(bits, "{:0width$b}", code + place).unwrap();
                }
                code += symbols.len();
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

    #[test]
    fn the_examples_of_rfc_7541_are_decoded() {
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
            assert_eq!(decode(&bytes).as_deref(), Some(text));
        }
    }

    #[test]
    fn invalid_codes_and_padding_are_rejected() {
        for bytes in [&[0xff][..], &[0xff, 0xff, 0xff, 0xff], &[0x00, 0x00, 0x00]] {
            // A whole byte of ones is no padding, and neither are zeros.
            assert!(decode(bytes).is_none_or(|text| !text.is_empty()), "{bytes:?}");
        }
        assert_eq!(decode(&[0xff; 4]), None);
        assert_eq!(decode(&[]), Some(String::new()));
    }

    proptest! {
        #[test]
        fn strings_are_decoded_as_encoded(text in "[ -\\[\\]-~]{0,60}") {
            prop_assert_eq!(decode(&encode(&text)), Some(text));
        }

        #[test]
        fn no_string_panics(bytes: Vec<u8>) {
            let _ = decode(&bytes);
        }
    }
}
