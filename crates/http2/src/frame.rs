//! Frames (RFC 9113, sections 4 and 6): their header, types, flags and settings.

use crate::Error;

/// The client connection preface.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Bytes of a frame header: length, type, flags, stream identifier.
pub(crate) const FRAME_HEADER_BYTES: usize = 9;

/// `SETTINGS_MAX_FRAME_SIZE`: bytes of a payload. Neither side changes the default.
pub(crate) const MAX_FRAME_SIZE: usize = 16_384;

/// Bytes of the priority fields of a HEADERS frame.
const PRIORITY_BYTES: usize = 5;

/// The error code CANCEL: the stream is no longer needed.
pub(crate) const CANCEL: u32 = 8;

/// The highest bit of stream identifiers and window increments, which is reserved.
const RESERVED_BIT: u32 = 1 << 31;

/// Frame types.
pub(crate) mod frame_type {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PUSH_PROMISE: u8 = 5;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// Frame flags.
pub(crate) mod flag {
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// Identifiers of settings.
pub(crate) mod setting {
    pub(crate) const HEADER_TABLE_SIZE: u16 = 1;
    pub(crate) const ENABLE_PUSH: u16 = 2;
    pub(crate) const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub(crate) const INITIAL_WINDOW_SIZE: u16 = 4;
}

/// A received frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) frame_type: u8,
    pub(crate) flags: u8,
    pub(crate) stream_id: u32,
    pub(crate) payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Splits the first frame off; `None` if it is not complete.
    pub(crate) fn split_first(bytes: &'a [u8]) -> Result<Option<(Self, &'a [u8])>, Error> {
        let Some((header, _)) = bytes.split_first_chunk::<FRAME_HEADER_BYTES>() else {
            return Ok(None);
        };
        let [_, _, _, frame_type, flags, s0, s1, s2, s3] = *header;
        let Some((frame, rest)) = bytes.split_at_checked(frame_length(bytes)?) else {
            return Ok(None);
        };
        let payload = &frame[FRAME_HEADER_BYTES..];
        let stream_id = u32::from_be_bytes([s0, s1, s2, s3]) & !RESERVED_BIT;
        Ok(Some((Self { frame_type, flags, stream_id, payload }, rest)))
    }

    /// Returns `true` if the flag is set.
    pub(crate) fn has(&self, flag: u8) -> bool {
        self.flags & flag > 0
    }

    /// Returns the payload of a DATA or HEADERS frame without its padding.
    pub(crate) fn unpadded(&self) -> Result<&'a [u8], Error> {
        const TOO_SHORT: Error = Error::InvalidFrame("a frame is shorter than its padding");
        if !self.has(flag::PADDED) {
            return Ok(self.payload);
        }
        let (padding, rest) = self.payload.split_first().ok_or(TOO_SHORT)?;
        let length = rest.len().checked_sub(usize::from(*padding)).ok_or(TOO_SHORT)?;
        Ok(&rest[..length])
    }

    /// Returns the header block fragment of a HEADERS frame.
    pub(crate) fn header_block_fragment(&self) -> Result<&'a [u8], Error> {
        let fragment = self.unpadded()?;
        if !self.has(flag::PRIORITY) {
            return Ok(fragment);
        }
        fragment
            .get(PRIORITY_BYTES..)
            .ok_or(Error::InvalidFrame("a HEADERS frame is shorter than its priority fields"))
    }

    /// Returns the first four bytes of the payload: an error code, a stream identifier or an
    /// increment.
    pub(crate) fn first_u32(&self) -> Result<u32, Error> {
        let bytes = self.payload.first_chunk();
        bytes
            .map(|bytes| u32::from_be_bytes(*bytes))
            .ok_or(Error::InvalidFrame("a frame has less than four bytes"))
    }

    /// Returns [`Self::first_u32`] without the reserved bit.
    pub(crate) fn first_u31(&self) -> Result<u32, Error> {
        self.first_u32().map(|value| value & !RESERVED_BIT)
    }

    /// Returns identifiers and values of a SETTINGS frame.
    pub(crate) fn settings(&self) -> Result<impl Iterator<Item = (u16, u32)> + use<'a>, Error> {
        let (settings, rest) = self.payload.as_chunks::<6>();
        if !rest.is_empty() {
            return Err(Error::InvalidFrame("a SETTINGS frame ends within a setting"));
        }
        Ok(settings.iter().map(|[n0, n1, v0, v1, v2, v3]| {
            (u16::from_be_bytes([*n0, *n1]), u32::from_be_bytes([*v0, *v1, *v2, *v3]))
        }))
    }
}

/// Returns the bytes of the frame that starts here, with its header; those of a header if not even
/// that is complete.
pub(crate) fn frame_length(bytes: &[u8]) -> Result<usize, Error> {
    let Some([l0, l1, l2, ..]) = bytes.first_chunk::<FRAME_HEADER_BYTES>() else {
        return Ok(FRAME_HEADER_BYTES);
    };
    let length = u32::from_be_bytes([0, *l0, *l1, *l2]) as usize;
    if length > MAX_FRAME_SIZE {
        return Err(Error::FrameTooLarge(length));
    }
    Ok(FRAME_HEADER_BYTES + length)
}

/// Appends a frame.
pub(crate) fn write_frame(
    frame_type: u8,
    flags: u8,
    stream_id: u32,
    payload: &[u8],
    out: &mut Vec<u8>,
) {
    let [_, l0, l1, l2] = (payload.len() as u32).to_be_bytes();
    let [s0, s1, s2, s3] = stream_id.to_be_bytes();
    out.extend_from_slice(&[l0, l1, l2, frame_type, flags, s0, s1, s2, s3]);
    out.extend_from_slice(payload);
}
