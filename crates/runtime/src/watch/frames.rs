//! Bytes of a stream, cut into frames: each has its length in front, in four bytes.

use super::pieces::TooLong;

const HEAD: usize = 4;

/// What was received of a stream and not taken yet.
pub(super) struct Frames {
    limit: usize,
    bytes: Vec<u8>,
    /// Bytes that were taken already.
    taken: usize,
    /// Bytes of a frame that is too long, to be thrown away as they come.
    skipping: usize,
}

impl Frames {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, bytes: Vec::new(), taken: 0, skipping: 0 }
    }

    pub(super) fn push(&mut self, data: &[u8]) {
        self.bytes.drain(..self.taken);
        self.taken = 0;
        let skipped = self.skipping.min(data.len());
        self.skipping -= skipped;
        self.bytes.extend_from_slice(&data[skipped..]);
    }

    /// The next frame, once it is there completely. One that is too long is told once.
    pub(super) fn next_frame(&mut self) -> Option<Result<&[u8], TooLong>> {
        let rest = &self.bytes[self.taken..];
        let (head, rest) = rest.split_first_chunk::<HEAD>()?;
        let length = u32::from_be_bytes(*head) as usize;
        if length > self.limit {
            let there = rest.len().min(length);
            self.taken += HEAD + there;
            self.skipping = length - there;
            return Some(Err(TooLong));
        }
        let frame = rest.get(..length)?;
        self.taken += HEAD + length;
        Some(Ok(frame))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(stream: &[u8], cut: usize) -> Vec<Result<Vec<u8>, TooLong>> {
        let mut frames = Frames::new(5);
        let mut read = Vec::new();
        for chunk in stream.chunks(cut) {
            frames.push(chunk);
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
                expected.push(if length <= 5 { Ok(frame) } else { Err(TooLong) });
            }
            prop_assert_eq!(read(&stream, cut), expected);
        }
    }
}
