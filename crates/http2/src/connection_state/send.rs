//! Frames to be sent, as far as concurrency and send windows of the server allow.

use super::ConnectionState;
use crate::frame::{self, FRAME_HEADER_BYTES, MAX_FRAME_SIZE, flag, frame_type};

impl ConnectionState {
    /// Sends HEADERS of queued streams up to `SETTINGS_MAX_CONCURRENT_STREAMS`.
    pub(super) fn start_queued_streams(&mut self) {
        while self.active_streams < self.max_concurrent_streams
            && let Some(id) = self.queued.pop_front()
        {
            let Some(stream) = self.streams.get_mut(&id) else { continue };
            let Some(header_block) = stream.unsent_header_block.take() else { continue };
            stream.send_window = self.initial_send_window;
            let has_body = !stream.unsent_body.is_empty();
            self.active_streams += 1;
            let end_stream = if has_body { 0 } else { flag::END_STREAM };
            self.write_header_block(id, end_stream, &header_block);
            if has_body {
                self.blocked_on_window.push_back(id);
                self.send_data();
            } else {
                self.mark_sent(id);
            }
        }
    }

    /// Sends a header block as HEADERS and, beyond [`MAX_FRAME_SIZE`], CONTINUATION frames. No other
    /// frame may come between them.
    fn write_header_block(&mut self, id: u32, end_stream: u8, header_block: &[u8]) {
        let first = header_block.len().min(MAX_FRAME_SIZE);
        let (first, rest) = header_block.split_at(first);
        let end_headers = |is_last| if is_last { flag::END_HEADERS } else { 0 };
        let flags = end_stream | end_headers(rest.is_empty());
        self.write_frame(frame_type::HEADERS, flags, id, first);
        let mut fragments = rest.chunks(MAX_FRAME_SIZE).peekable();
        while let Some(fragment) = fragments.next() {
            let flags = end_headers(fragments.peek().is_none());
            self.write_frame(frame_type::CONTINUATION, flags, id, fragment);
        }
    }

    /// Sends DATA frames up to the send windows.
    pub(super) fn send_data(&mut self) {
        for _ in 0..self.blocked_on_window.len() {
            let Some(id) = self.blocked_on_window.pop_front() else { return };
            while let Some(stream) = self.streams.get_mut(&id) {
                let window = stream.send_window.min(self.send_window);
                let length = window.clamp(0, MAX_FRAME_SIZE as i64) as usize;
                let length = length.min(stream.unsent_body.len());
                if length == 0 {
                    self.blocked_on_window.push_back(id);
                    break;
                }
                let data = stream.unsent_body.split_to(length);
                stream.send_window -= length as i64;
                self.send_window -= length as i64;
                let is_last = stream.unsent_body.is_empty();
                let flags = if is_last { flag::END_STREAM } else { 0 };
                self.write_frame(frame_type::DATA, flags, id, &data);
                if is_last {
                    self.mark_sent(id);
                    break;
                }
            }
        }
    }

    /// Notes that all frames of a request are in the output.
    fn mark_sent(&mut self, id: u32) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.end_position = self.delivery.end_request();
        }
    }

    pub(super) fn write_settings(&mut self, settings: &[(u16, u32)]) {
        let mut payload = Vec::new();
        for (identifier, value) in settings {
            payload.extend_from_slice(&identifier.to_be_bytes());
            payload.extend_from_slice(&value.to_be_bytes());
        }
        self.write_frame(frame_type::SETTINGS, 0, 0, &payload);
    }

    pub(super) fn write_window_update(&mut self, id: u32, increment: u32) {
        self.write_frame(frame_type::WINDOW_UPDATE, 0, id, &increment.to_be_bytes());
    }

    pub(super) fn write_frame(
        &mut self,
        frame_type: u8,
        flags: u8,
        stream_id: u32,
        payload: &[u8],
    ) {
        frame::write_frame(frame_type, flags, stream_id, payload, &mut self.output);
        self.delivery.add_bytes(FRAME_HEADER_BYTES + payload.len());
        self.wake_writer();
    }
}
