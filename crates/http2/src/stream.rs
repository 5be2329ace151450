//! One stream: a request and its response.

use std::task::{Context, Waker};

use bytes::{Bytes, BytesMut};

use crate::flow_control::ReceiveWindow;
use crate::{Error, ResponseHead};

/// A request and what has arrived of its response.
#[derive(Default)]
pub(crate) struct Stream {
    /// Header block of the request until it is sent.
    pub(crate) unsent_header_block: Option<Vec<u8>>,
    /// Part of the request body that is not sent yet.
    pub(crate) unsent_body: Bytes,
    /// Position in the connection's bytes at which the request ends; zero until all of it is sent.
    pub(crate) end_position: u64,
    /// Bytes of DATA that the server accepts on this stream; negative after a smaller
    /// `SETTINGS_INITIAL_WINDOW_SIZE`.
    pub(crate) send_window: i64,
    pub(crate) receive_window: ReceiveWindow,
    /// Head of the response until it is read.
    pub(crate) response_head: Option<ResponseHead>,
    /// The final (not 1xx) head has arrived.
    pub(crate) has_response_head: bool,
    /// Only the status of a successful response is wanted.
    pub(crate) status_only: bool,
    /// DATA is discarded as it arrives.
    pub(crate) discard_body: bool,
    /// DATA that is not read yet.
    pub(crate) data: BytesMut,
    /// Bytes of `data` that are counted as consumed already, because the reader waits for all of it.
    pub(crate) data_consumed: u32,
    pub(crate) state: StreamState,
    /// Task that waits for the response.
    pub(crate) reader: Option<Waker>,
}

/// Stage of the response.
#[derive(Default)]
pub(crate) enum StreamState {
    /// More may arrive.
    #[default]
    Open,
    /// END_STREAM has arrived.
    Ended,
    /// Nothing more arrives.
    Failed(Error),
}

impl Stream {
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, StreamState::Open)
    }

    /// Returns `true` if the HEADERS frame of the request was sent.
    pub(crate) fn is_started(&self) -> bool {
        self.unsent_header_block.is_none()
    }

    pub(crate) fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// Notes the task to be woken by [`Self::wake_reader`].
    pub(crate) fn register_reader(&mut self, context: &Context<'_>) {
        match &mut self.reader {
            Some(reader) => reader.clone_from(context.waker()),
            none => *none = Some(context.waker().clone()),
        }
    }

    /// Returns all data that has arrived, without copying it.
    pub(crate) fn take_data(&mut self) -> Bytes {
        // Splitting an empty buffer would give away its allocation.
        if self.data.is_empty() { Bytes::new() } else { self.data.split().freeze() }
    }

    /// Fails an open stream.
    pub(crate) fn fail(&mut self, error: Error) {
        self.state = StreamState::Failed(error);
        self.wake_reader();
    }
}
