//! The protobuf wire format, and Kubernetes' envelope around an encoded object.

use super::Error;

/// Magic number at the start of Kubernetes' protobuf envelope.
const MAGIC: &[u8] = b"k8s\0";

/// The value of a field on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload<'a> {
    /// A varint.
    Number(u64),
    /// A length-delimited or fixed-width value: a string, a message or other bytes.
    Bytes(&'a [u8]),
}

impl<'a> Payload<'a> {
    /// Returns the bytes.
    pub fn bytes(self) -> Result<&'a [u8], Error> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err(Error::new("found a number, expected bytes")),
        }
    }

    /// Returns the number.
    pub fn number(self) -> Result<u64, Error> {
        match self {
            Self::Number(number) => Ok(number),
            Self::Bytes(_) => Err(Error::new("found bytes, expected a number")),
        }
    }

    /// Returns the text.
    pub fn text(self) -> Result<&'a str, Error> {
        let bytes = self.bytes()?;
        str::from_utf8(bytes).map_err(|_| Error::new("found bytes that are not UTF-8"))
    }
}

/// Removes the next field and returns its number and its value, or `None` at the end.
// Inlined, because an object has dozens of fields and this is most of the work per field.
#[inline(always)]
pub fn next_field<'a>(rest: &mut &'a [u8]) -> Result<Option<(u32, Payload<'a>)>, Error> {
    if rest.is_empty() {
        return Ok(None);
    }
    let tag = varint(rest)?;
    let number = u32::try_from(tag >> 3).map_err(|_| Error::new("a field number is too large"))?;
    let payload = match tag & 7 {
        0 => Payload::Number(varint(rest)?),
        1 => Payload::Bytes(take(rest, 8)?),
        2 => {
            let length = varint(rest)?;
            let length = usize::try_from(length).map_err(|_| Error::cut_off())?;
            Payload::Bytes(take(rest, length)?)
        }
        5 => Payload::Bytes(take(rest, 4)?),
        kind => return Err(Error::new(format!("unknown wire type {kind}"))),
    };
    Ok(Some((number, payload)))
}

/// Returns the value of a non-repeated field; as protobuf requires, the last occurrence counts.
pub fn find_field(mut message: &[u8], wanted: u32) -> Result<Option<Payload<'_>>, Error> {
    let mut found = None;
    while let Some((number, payload)) = next_field(&mut message)? {
        if number == wanted {
            found = Some(payload);
        }
    }
    Ok(found)
}

/// Returns key and value of an encoded map entry; an omitted one is empty.
pub fn map_entry(entry: Payload<'_>) -> Result<(Payload<'_>, Payload<'_>), Error> {
    let (mut key, mut value) = (Payload::Bytes(&[]), Payload::Bytes(&[]));
    let mut rest = entry.bytes()?;
    while let Some((number, payload)) = next_field(&mut rest)? {
        match number {
            1 => key = payload,
            2 => value = payload,
            _ => {}
        }
    }
    Ok((key, value))
}

/// Returns seconds and nanoseconds of an encoded time.
pub fn seconds_and_nanoseconds(payload: Payload<'_>) -> Result<(i64, i64), Error> {
    let (mut seconds, mut nanos) = (0, 0);
    let mut time = payload.bytes()?;
    while let Some((number, payload)) = next_field(&mut time)? {
        match number {
            1 => seconds = payload.number()?.cast_signed(),
            2 => nanos = payload.number()?.cast_signed(),
            _ => {}
        }
    }
    Ok((seconds, nanos))
}

/// Returns the object inside Kubernetes' envelope (`runtime.Unknown`).
pub fn strip_envelope(bytes: &[u8]) -> Result<&[u8], Error> {
    let Some(unknown) = bytes.strip_prefix(MAGIC) else {
        return Err(Error::new("the magic number of Kubernetes' protobuf envelope is missing"));
    };
    find_field(unknown, 2)?.map_or(Ok(&[]), Payload::bytes)
}

/// Returns the type and the object of a watch event.
pub fn watch_event(event: &[u8]) -> Result<(&str, &[u8]), Error> {
    let (mut kind, mut object) = ("", None);
    let mut rest = event;
    while let Some((number, payload)) = next_field(&mut rest)? {
        match number {
            1 => kind = payload.text()?,
            2 => object = find_field(payload.bytes()?, 1)?,
            _ => {}
        }
    }
    let Some(object) = object else { return Err(Error::new("the watch event has no object")) };
    Ok((kind, strip_envelope(object.bytes()?)?))
}

#[inline(always)]
fn varint(rest: &mut &[u8]) -> Result<u64, Error> {
    // Nearly all numbers take one byte.
    if let Some((byte, after)) = rest.split_first()
        && byte & 0x80 == 0
    {
        *rest = after;
        return Ok(u64::from(*byte));
    }
    // Lengths of messages mostly take two bytes.
    if let Some(([low, high], after)) = rest.split_first_chunk()
        && high & 0x80 == 0
    {
        *rest = after;
        return Ok(u64::from(low & 0x7f) | u64::from(*high) << 7);
    }
    long_varint(rest)
}

#[cold]
fn long_varint(rest: &mut &[u8]) -> Result<u64, Error> {
    let mut number = 0;
    for position in 0..10 {
        let Some((byte, after)) = rest.split_first() else { return Err(Error::cut_off()) };
        *rest = after;
        number |= u64::from(byte & 0x7f) << (7 * position);
        if byte & 0x80 == 0 {
            return Ok(number);
        }
    }
    Err(Error::new("a varint is longer than 10 bytes"))
}

#[inline(always)]
fn take<'a>(rest: &mut &'a [u8], length: usize) -> Result<&'a [u8], Error> {
    let (taken, after) = rest.split_at_checked(length).ok_or_else(Error::cut_off)?;
    *rest = after;
    Ok(taken)
}
