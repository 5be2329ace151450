//! Flow-control windows (RFC 9113, section 5.2).

use crate::Error;

/// Bytes of a window before SETTINGS or WINDOW_UPDATE frames change it.
pub(crate) const DEFAULT_WINDOW_BYTES: u32 = 65_535;

/// Bytes of DATA that the server may send, on one stream or on all streams of a connection.
#[derive(Debug, Default)]
pub(crate) struct ReceiveWindow {
    /// Bytes when nothing is under way.
    size: u32,
    /// Bytes that the server may still send.
    available: i64,
    /// Bytes that were consumed and not yet returned by a WINDOW_UPDATE.
    consumed: u32,
}

impl ReceiveWindow {
    pub(crate) fn new(size: u32) -> Self {
        Self { size, available: size.into(), consumed: 0 }
    }

    /// Subtracts received bytes; fails if the server was not allowed to send them.
    pub(crate) fn receive(&mut self, bytes: u32) -> Result<(), Error> {
        self.available -= i64::from(bytes);
        if self.available < 0 { Err(Error::FlowControl) } else { Ok(()) }
    }

    /// Notes consumed bytes. Returns the increment for a WINDOW_UPDATE once half of the window is
    /// consumed, so that few of these frames are sent.
    pub(crate) fn consume(&mut self, bytes: u32) -> Option<u32> {
        self.consumed += bytes;
        if self.consumed == 0 || self.consumed < self.size / 2 {
            return None;
        }
        self.available += i64::from(self.consumed);
        Some(std::mem::take(&mut self.consumed))
    }

    /// Returns the bytes that are available or consumed, which is the size while no received byte waits.
    #[cfg(test)]
    pub(crate) fn accounted(&self) -> i64 {
        i64::from(self.consumed) + self.available
    }
}
