//! An HTTP/2 client (RFC 9113) for many small requests over one connection.

mod connection;
mod connection_state;
mod header_block;
mod huffman;

pub use connection::{Connection, Options, ResponseStream};
pub use connection_state::{NO_ANSWER, OutgoingStream};
pub use header_block::{RequestHead, ResponseHead, write_secret};
