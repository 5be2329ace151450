//! Why a request or a connection failed.

use std::io;
use std::sync::Arc;

/// Why a request or a connection failed.
///
/// All streams of a connection fail with a clone of the connection's error. The text of an error is
/// complete: it has no [`source`](std::error::Error::source).
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The connection accepts no more requests: the server sent GOAWAY, the connection ended, or its
    /// stream identifiers are used up.
    #[error("the connection accepts no more requests")]
    NotAccepted,
    /// The header block of a request is larger than servers accept; it has this many bytes.
    #[error("the header block of the request has {0} bytes, which is more than servers accept")]
    RequestHeadTooLarge(usize),
    /// The deadline of the request passed.
    #[error("the server did not answer")]
    DeadlineExceeded,
    /// The response has more bytes than the given limit.
    #[error("the response is larger than {0} bytes")]
    ResponseTooLarge(usize),
    /// The stream ended without a response.
    #[error("the response has no header block")]
    MissingResponseHead,
    /// The server sent RST_STREAM with this error code.
    #[error("the server reset the stream (code {0})")]
    StreamReset(u32),
    /// The server sent GOAWAY and did not process the request.
    #[error("the server closes the connection")]
    GoAway,
    /// The connection was closed.
    #[error("the connection was closed")]
    Closed,
    /// The server sent nothing, not even the acknowledgement of a PING.
    #[error("the server did not acknowledge a PING")]
    PingTimeout,
    /// The connection failed for this reason.
    #[error("the connection broke off: {0}")]
    ConnectionFailed(Box<Error>),
    /// Reading or writing failed.
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// A frame is larger than `SETTINGS_MAX_FRAME_SIZE`; it has this many bytes.
    #[error("a frame of {0} bytes")]
    FrameTooLarge(usize),
    /// A frame is malformed or not allowed at this place.
    #[error("{0}")]
    InvalidFrame(&'static str),
    /// The header block of a response is malformed, or uses the dynamic table, which is disabled.
    #[error("{0}")]
    InvalidHeaderBlock(&'static str),
    /// The server sent more DATA than a flow-control window allows.
    #[error("the server exceeded a flow-control window")]
    FlowControl,
    /// The server sends frames that need acknowledgements faster than it reads those.
    #[error("the server does not read the acknowledgements of its PING and SETTINGS frames")]
    OutputTooLarge,
    /// A request on a fenced connection passed its deadline, and its delivery is not proven.
    #[error("an overdue request may still arrive")]
    DeliveryUnproven,
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}
