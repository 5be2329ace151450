//! Received frames.

use super::{ConnectionState, PartialHeaderBlock};
use crate::Error;
use crate::frame::{Frame, flag, frame_type, setting};
use crate::hpack::ResponseHead;

/// Maximum size of the header block of a response, in bytes.
const RESPONSE_HEADER_BLOCK_BYTES_MAX: usize = 64 << 10;

/// Maximum size of unwritten output, in bytes. A server that sends PING or SETTINGS frames and does not
/// read the acknowledgements would otherwise use up the memory.
pub(super) const OUTPUT_BYTES_MAX: usize = 4 << 20;

impl ConnectionState {
    /// Handles all complete frames and returns how many bytes they have. There may be output
    /// afterwards. After an error the connection must be closed.
    pub(crate) fn receive(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        // The driver reads and writes in one poll: it must not be woken for output of its own.
        self.writer = None;
        let mut rest = bytes;
        while let Some((frame, after)) = Frame::split_first(rest)? {
            self.receive_frame(&frame)?;
            rest = after;
        }
        if self.output.len() > OUTPUT_BYTES_MAX {
            return Err(Error::OutputTooLarge);
        }
        Ok(bytes.len() - rest.len())
    }

    fn receive_frame(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        if let Some(partial) = &self.partial_header_block
            && (frame.frame_type != frame_type::CONTINUATION
                || frame.stream_id != partial.stream_id)
        {
            return Err(Error::InvalidFrame("a header block is not continued"));
        }
        match frame.frame_type {
            frame_type::DATA => self.receive_data(frame),
            frame_type::HEADERS => {
                let fragment = frame.header_block_fragment()?;
                let end_stream = frame.has(flag::END_STREAM);
                if frame.has(flag::END_HEADERS) {
                    return self.receive_header_block(frame.stream_id, end_stream, fragment);
                }
                self.partial_header_block = Some(PartialHeaderBlock {
                    stream_id: frame.stream_id,
                    end_stream,
                    block: fragment.to_vec(),
                });
                Ok(())
            }
            frame_type::CONTINUATION => self.receive_continuation(frame),
            frame_type::RST_STREAM => {
                self.fail_stream(frame.stream_id, Error::StreamReset(frame.first_u32()?));
                Ok(())
            }
            frame_type::SETTINGS if frame.has(flag::ACK) => Ok(()),
            frame_type::SETTINGS => self.receive_settings(frame),
            frame_type::PUSH_PROMISE => {
                Err(Error::InvalidFrame("the server pushes, which SETTINGS_ENABLE_PUSH forbids"))
            }
            frame_type::PING => self.receive_ping(frame),
            frame_type::GOAWAY => {
                self.receive_goaway(frame.first_u31()?);
                Ok(())
            }
            frame_type::WINDOW_UPDATE => {
                self.receive_window_update(frame.stream_id, frame.first_u31()?);
                Ok(())
            }
            // PRIORITY, and types of extensions, which must be ignored.
            _ => Ok(()),
        }
    }

    fn receive_data(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        // Padding counts for flow control.
        let length = frame.payload.len() as u32;
        let id = frame.stream_id;
        self.receive_window.receive(length)?;
        let data = frame.unpadded()?;
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_open()) else {
            self.consume_on_connection(length);
            return Ok(());
        };
        stream.receive_window.receive(length)?;
        let mut consumed = length - data.len() as u32;
        if stream.discard_body {
            consumed = length;
        } else {
            stream.data.extend_from_slice(data);
            stream.wake_reader();
        }
        if frame.has(flag::END_STREAM) {
            self.end_stream(id);
        }
        self.consume(id, consumed);
        Ok(())
    }

    fn receive_continuation(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        let Some(mut partial) = self.partial_header_block.take() else {
            return Err(Error::InvalidFrame("a CONTINUATION frame without HEADERS"));
        };
        partial.block.extend_from_slice(frame.payload);
        if partial.block.len() > RESPONSE_HEADER_BLOCK_BYTES_MAX {
            return Err(Error::InvalidHeaderBlock("the header block of a response is too large"));
        }
        if frame.has(flag::END_HEADERS) {
            return self.receive_header_block(frame.stream_id, partial.end_stream, &partial.block);
        }
        self.partial_header_block = Some(partial);
        Ok(())
    }

    fn receive_header_block(
        &mut self,
        id: u32,
        end_stream: bool,
        block: &[u8],
    ) -> Result<(), Error> {
        let Some(stream) = self.streams.get_mut(&id).filter(|stream| stream.is_open()) else {
            return Ok(());
        };
        // Trailers are not read, and neither are informational responses.
        if !stream.has_response_head {
            let head = ResponseHead::decode(block, stream.status_only, &mut self.huffman_cache)?;
            if !head.status.is_informational() {
                self.delivery.prove(stream.end_position);
                stream.discard_body = stream.status_only && head.status.is_success();
                stream.response_head = Some(head);
                stream.has_response_head = true;
            }
        }
        if !stream.discard_body {
            stream.wake_reader();
        }
        if end_stream {
            self.end_stream(id);
        }
        Ok(())
    }

    fn receive_settings(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        for (identifier, value) in frame.settings()? {
            match identifier {
                setting::MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = value as usize,
                setting::INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - self.initial_send_window;
                    self.initial_send_window = value.into();
                    let started = self.streams.values_mut().filter(|stream| stream.is_started());
                    started.for_each(|stream| stream.send_window += change);
                }
                _ => {}
            }
        }
        self.write_frame(frame_type::SETTINGS, flag::ACK, 0, &[]);
        self.send_data();
        self.start_queued_streams();
        Ok(())
    }

    fn receive_ping(&mut self, frame: &Frame<'_>) -> Result<(), Error> {
        let Ok(payload) = <[u8; 8]>::try_from(frame.payload) else {
            return Err(Error::InvalidFrame("the payload of a PING has not 8 bytes"));
        };
        if frame.has(flag::ACK) {
            self.delivery.acknowledge(payload);
        } else {
            self.write_frame(frame_type::PING, flag::ACK, 0, &payload);
        }
        Ok(())
    }

    /// Fails the streams that the server does not process: those beyond the last one it names, and those
    /// that are not started.
    fn receive_goaway(&mut self, last_stream_id: u32) {
        self.closing = true;
        for id in std::mem::take(&mut self.queued) {
            self.fail_stream(id, Error::GoAway);
        }
        let refused: Vec<u32> =
            self.streams.keys().copied().filter(|id| *id > last_stream_id).collect();
        for id in refused {
            self.fail_stream(id, Error::GoAway);
        }
    }

    fn receive_window_update(&mut self, id: u32, increment: u32) {
        if id == 0 {
            self.send_window += i64::from(increment);
        } else if let Some(stream) = self.streams.get_mut(&id) {
            stream.send_window += i64::from(increment);
        }
        self.send_data();
    }
}
