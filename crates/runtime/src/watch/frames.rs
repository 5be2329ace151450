//! Decoder of length-delimited frames: four bytes of length (big-endian), then the frame.

use bytes::Bytes;

use super::decoder::EventTooLarge;

/// Length of a frame's header, in bytes.
const HEADER_BYTES: usize = 4;

/// Capacity that the buffer of partial frames keeps, in bytes.
const PARTIAL_CAPACITY_MAX: usize = 16 << 10;

/// Cuts received bytes into frames, without a copy unless a frame spans two pieces of data.
pub(super) struct FrameDecoder {
    limit: usize,
    data: Bytes,
    /// Number of bytes of `data` that were consumed.
    consumed: usize,
    /// Header and received part of a frame that spans several pieces of data.
    partial: Vec<u8>,
    /// The frame in `partial` is complete and was returned.
    partial_returned: bool,
    /// Number of bytes of an oversized frame that are still to be discarded.
    skipping: usize,
}

impl FrameDecoder {
    pub(super) fn new(limit: usize) -> Self {
        let (data, partial) = (Bytes::new(), Vec::new());
        Self { limit, data, consumed: 0, partial, partial_returned: false, skipping: 0 }
    }

    /// Adds data; all frames of the data before it must have been consumed.
    pub(super) fn push(&mut self, data: Bytes) {
        debug_assert_eq!(
            self.consumed,
            self.data.len(),
            "data that was not consumed would be lost"
        );
        self.data = data;
        self.consumed = self.skipping.min(self.data.len());
        self.skipping -= self.consumed;
    }

    /// Returns the next frame if it is complete, or one error for a frame above the limit.
    pub(super) fn next_frame(&mut self) -> Option<Result<&[u8], EventTooLarge>> {
        if std::mem::take(&mut self.partial_returned) {
            // Large frames are rare; the buffer would live as long as the watch.
            self.partial.clear();
            self.partial.shrink_to(PARTIAL_CAPACITY_MAX);
        }
        if self.partial.is_empty() {
            let rest = &self.data[self.consumed..];
            if let Some((head, rest)) = rest.split_first_chunk::<HEADER_BYTES>() {
                let length = u32::from_be_bytes(*head) as usize;
                if length > self.limit {
                    self.consumed += HEADER_BYTES;
                    return Some(Err(self.skip(length)));
                }
                if rest.len() >= length {
                    let begin = self.consumed + HEADER_BYTES;
                    self.consumed = begin + length;
                    return Some(Ok(&self.data[begin..self.consumed]));
                }
            }
        }
        self.complete_partial()
    }

    /// Continues the partial frame with the rest of the data.
    fn complete_partial(&mut self) -> Option<Result<&[u8], EventTooLarge>> {
        self.fetch(HEADER_BYTES);
        let Some(head) = self.partial.first_chunk::<HEADER_BYTES>() else {
            return self.exhausted();
        };
        let length = u32::from_be_bytes(*head) as usize;
        if length > self.limit {
            self.partial.clear();
            return Some(Err(self.skip(length)));
        }
        self.fetch(HEADER_BYTES + length);
        if self.partial.len() < HEADER_BYTES + length {
            return self.exhausted();
        }
        self.partial_returned = true;
        Some(Ok(&self.partial[HEADER_BYTES..]))
    }

    /// Drops the consumed data, so that the connection can reuse its memory.
    fn exhausted<T>(&mut self) -> Option<T> {
        self.data = Bytes::new();
        self.consumed = 0;
        None
    }

    /// Copies data until the partial frame has `wanted` bytes or the data ends.
    fn fetch(&mut self, wanted: usize) {
        let rest = &self.data[self.consumed..];
        let more = wanted.saturating_sub(self.partial.len()).min(rest.len());
        self.partial.extend_from_slice(&rest[..more]);
        self.consumed += more;
    }

    /// Discards a frame whose header was consumed.
    fn skip(&mut self, length: usize) -> EventTooLarge {
        let there = length.min(self.data.len() - self.consumed);
        self.consumed += there;
        self.skipping = length - there;
        EventTooLarge
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(stream: &[u8], cut: usize) -> Vec<Result<Vec<u8>, EventTooLarge>> {
        let mut frames = FrameDecoder::new(5);
        let mut read = Vec::new();
        for chunk in stream.chunks(cut) {
            frames.push(Bytes::copy_from_slice(chunk));
            while let Some(frame) = frames.next_frame() {
                read.push(frame.map(<[u8]>::to_vec));
            }
        }
        read
    }

    #[test]
    fn an_incomplete_frame_is_not_returned() {
        assert_eq!(read(&[0, 0, 0, 1, 7, 0, 0, 0, 2, 8], 3), [Ok(vec![7])]);
        assert_eq!(read(&[0, 0, 0, 0, 0, 0], 3), [Ok(vec![])]);
    }

    proptest! {
        #[test]
        fn frames_do_not_depend_on_how_the_data_is_split(
            lengths in prop::collection::vec(0..9_u8, 0..8),
            cut in 1..40_usize,
        ) {
            let mut stream = Vec::new();
            let mut expected = Vec::new();
            for length in lengths {
                let frame = vec![length; length.into()];
                stream.extend(u32::from(length).to_be_bytes());
                stream.extend(&frame);
                expected.push(if length <= 5 { Ok(frame) } else { Err(EventTooLarge) });
            }
            prop_assert_eq!(read(&stream, cut), expected);
        }
    }
}
