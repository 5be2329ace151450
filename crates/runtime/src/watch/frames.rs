//! Bytes of a stream, cut into frames: each has its length in front, in four bytes.

use bytes::Bytes;

use super::decoder::EventTooLarge;

const HEAD: usize = 4;

/// Bytes that are kept for frames that come in pieces.
const BEGUN_BYTES: usize = 16 << 10;

/// What was received of a stream and not taken yet.
pub(super) struct FrameDecoder {
    limit: usize,
    data: Bytes,
    /// Bytes of it that were taken already.
    taken: usize,
    /// A frame that came in pieces, as far as it is there.
    begun: Vec<u8>,
    /// It is complete, and was taken.
    begun_taken: bool,
    /// Bytes of a frame that is too long, to be thrown away as they come.
    skipping: usize,
}

impl FrameDecoder {
    pub(super) fn new(limit: usize) -> Self {
        let (data, begun) = (Bytes::new(), Vec::new());
        Self { limit, data, taken: 0, begun, begun_taken: false, skipping: 0 }
    }

    /// To be called when there is no next frame any more.
    pub(super) fn push(&mut self, data: Bytes) {
        debug_assert_eq!(self.taken, self.data.len(), "what is not taken would be lost");
        self.data = data;
        self.taken = self.skipping.min(self.data.len());
        self.skipping -= self.taken;
    }

    /// The next frame, once it is there completely. One that is too long is told once.
    pub(super) fn next_frame(&mut self) -> Option<Result<&[u8], EventTooLarge>> {
        if std::mem::take(&mut self.begun_taken) {
            // A large one is rare, and would be kept for as long as the watch goes on.
            self.begun.clear();
            self.begun.shrink_to(BEGUN_BYTES);
        }
        if self.begun.is_empty() {
            let rest = &self.data[self.taken..];
            if let Some((head, rest)) = rest.split_first_chunk::<HEAD>() {
                let length = u32::from_be_bytes(*head) as usize;
                if length > self.limit {
                    self.taken += HEAD;
                    return Some(Err(self.skip(length)));
                }
                if rest.len() >= length {
                    let begin = self.taken + HEAD;
                    self.taken = begin + length;
                    return Some(Ok(&self.data[begin..self.taken]));
                }
            }
        }
        self.complete()
    }

    /// Adds what is there to the frame that is begun.
    fn complete(&mut self) -> Option<Result<&[u8], EventTooLarge>> {
        self.fetch(HEAD);
        let Some(head) = self.begun.first_chunk::<HEAD>() else { return self.exhausted() };
        let length = u32::from_be_bytes(*head) as usize;
        if length > self.limit {
            self.begun.clear();
            return Some(Err(self.skip(length)));
        }
        self.fetch(HEAD + length);
        if self.begun.len() < HEAD + length {
            return self.exhausted();
        }
        self.begun_taken = true;
        Some(Ok(&self.begun[HEAD..]))
    }

    /// Everything is taken. Who sent the data can use its memory again.
    fn exhausted<T>(&mut self) -> Option<T> {
        self.data = Bytes::new();
        self.taken = 0;
        None
    }

    /// Copies until so many bytes are there, if they are.
    fn fetch(&mut self, wanted: usize) {
        let rest = &self.data[self.taken..];
        let more = wanted.saturating_sub(self.begun.len()).min(rest.len());
        self.begun.extend_from_slice(&rest[..more]);
        self.taken += more;
    }

    /// Throws a frame away whose head was taken.
    fn skip(&mut self, length: usize) -> EventTooLarge {
        let there = length.min(self.data.len() - self.taken);
        self.taken += there;
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
    fn an_unfinished_frame_is_not_taken() {
        assert_eq!(read(&[0, 0, 0, 1, 7, 0, 0, 0, 2, 8], 3), [Ok(vec![7])]);
        assert_eq!(read(&[0, 0, 0, 0, 0, 0], 3), [Ok(vec![])]);
    }

    proptest! {
        #[test]
        fn frames_do_not_depend_on_how_they_are_cut(
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
