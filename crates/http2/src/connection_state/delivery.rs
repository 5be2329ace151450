//! Proof that requests were received by the server, for fenced connections.
//!
//! A position counts the bytes of the connection from its start. The server handles frames in order, so
//! that the acknowledgement of a PING proves that all bytes before it were received, and a response
//! proves it for its request. Without such a proof, bytes of a request may still lie in a buffer on this
//! side, or the kernel may retransmit them long after the deadline of the request.

use std::time::Duration;

/// Positions in the output, and the one up to which delivery is proven.
#[derive(Debug)]
pub(super) struct Delivery {
    /// Time between two probes; `None` if the connection is not fenced.
    probe_interval: Option<Duration>,
    /// Position of the end of all output.
    framed: u64,
    /// Position of the end of the last complete request.
    last_request: u64,
    /// Position of the last probe.
    probed: u64,
    /// Position up to which everything was received.
    proven: u64,
}

impl Delivery {
    pub(super) fn new(probe_interval: Option<Duration>) -> Self {
        Self { probe_interval, framed: 0, last_request: 0, probed: 0, proven: 0 }
    }

    /// Returns the time between two probes; `None` if the connection is not fenced.
    pub(super) fn probe_interval(&self) -> Option<Duration> {
        self.probe_interval
    }

    /// Counts bytes of output.
    pub(super) fn add_bytes(&mut self, bytes: usize) {
        self.framed += bytes as u64;
    }

    /// Returns the position of a request that ends here.
    pub(super) fn end_request(&mut self) -> u64 {
        self.last_request = self.framed;
        self.last_request
    }

    /// Notes the response to a request that ends at this position.
    pub(super) fn prove(&mut self, position: u64) {
        self.proven = self.proven.max(position);
    }

    /// Notes the acknowledgement of a PING. Other payloads than those of probes are larger than any
    /// position.
    pub(super) fn acknowledge(&mut self, payload: [u8; 8]) {
        let position = u64::from_be_bytes(payload);
        if position <= self.probed {
            self.proven = self.proven.max(position);
        }
    }

    /// Returns the payload of a PING to be sent now; `None` if all requests are proven or probed for.
    pub(super) fn next_probe(&mut self) -> Option<[u8; 8]> {
        if self.probe_interval.is_none() || self.last_request <= self.probed.max(self.proven) {
            return None;
        }
        self.probed = self.framed;
        Some(self.probed.to_be_bytes())
    }

    /// Returns `true` if the connection is fenced and a request that ends at this position is not proven
    /// to have been received.
    pub(super) fn is_unproven(&self, position: u64) -> bool {
        self.probe_interval.is_some() && position > self.proven
    }
}
