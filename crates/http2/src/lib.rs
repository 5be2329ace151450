//! An HTTP/2 client (RFC 9113) for many small requests over one connection.
//!
//! ```text
//! Request ──► ConnectionState ──► bytes ──► Driver ──► socket
//!                   ▲                         │
//! ResponseStream ◄──┴───────── bytes ◄────────┘
//! ```
//!
//! `ConnectionState` is the protocol as a state machine without I/O: streams, flow control, deadlines.
//! `Driver` is the tokio task that moves bytes between it and the socket; all requests that are waiting
//! leave in one write. Caller and task share the state behind a mutex, so that a request costs no
//! channel and no task of its own.
//!
//! # Limitations
//!
//! - No server push (`SETTINGS_ENABLE_PUSH` is 0) and no priorities.
//! - No HPACK dynamic table in either direction (`SETTINGS_HEADER_TABLE_SIZE` is 0). Requests are not
//!   Huffman-coded. Of a response, the decoder reads `:status`, `content-type` and `retry-after`.
//! - Trailers and informational responses (1xx) are skipped.
//! - A request has one body, known in advance, and a header block of at most 1 MiB.
//! - `SETTINGS_MAX_FRAME_SIZE` stays at 16 KiB in both directions.
//! - The scheme is `https`. TLS and ALPN are set up by the caller; there is no upgrade from HTTP/1.1.
//! - A connection is never replaced and a request is never repeated; both are up to the caller.

#![warn(missing_docs)]

mod connection;
mod connection_state;
mod driver;
mod error;
mod flow_control;
mod frame;
mod hpack;
mod stream;

pub use connection::{Connection, ConnectionOptions, Request, ResponseStream};
pub use error::Error;
pub use hpack::{NeverIndexedFields, ResponseHead};
