//! Proof that requests have arrived at the server.
//!
//! Positions count the bytes of a connection from its beginning. A server handles frames in order, so
//! that an acknowledged PING proves the delivery of all bytes before it, and an answer the delivery of its
//! request. Without such a proof, bytes of a request may still lie in a buffer on this side or be sent
//! again by the kernel, and be carried out long after the request was given up.

use std::time::Duration;

/// What is known to have arrived.
#[derive(Debug, Default)]
pub(super) struct Delivery {
    /// Whether requests without proof end the connection when they are overdue.
    pub(super) is_required: bool,
    /// How often proof is probed for while there are requests without it.
    pub(super) probe_interval: Duration,
    /// All bytes so far.
    framed: u64,
    /// The end of the last request that is complete.
    last: u64,
    /// Up to where proof was probed for, and up to where it is there.
    probed: u64,
    proven: u64,
}

impl Delivery {
    /// So many bytes go out.
    pub(super) fn add_frame(&mut self, bytes: usize) {
        self.framed += bytes as u64;
    }

    /// A request is complete: its position.
    pub(super) fn end_request(&mut self) -> u64 {
        self.last = self.framed;
        self.last
    }

    /// A request that ends at this position has an answer.
    pub(super) fn prove(&mut self, position: u64) {
        self.proven = self.proven.max(position);
    }

    /// The payload of a PING was acknowledged. Other PINGs have payloads that are no position.
    pub(super) fn acknowledge(&mut self, payload: [u8; 8]) {
        let position = u64::from_be_bytes(payload);
        if position <= self.probed {
            self.proven = self.proven.max(position);
        }
    }

    /// The payload of a PING to be sent now, if requests need one.
    pub(super) fn next_probe(&mut self) -> Option<[u8; 8]> {
        if !self.is_required || self.last <= self.probed.max(self.proven) {
            return None;
        }
        self.probed = self.framed;
        Some(self.probed.to_be_bytes())
    }

    /// Whether proof is is_required for a request that ends at this position, and missing.
    pub(super) fn is_unproven(&self, position: u64) -> bool {
        self.is_required && position > self.proven
    }
}
