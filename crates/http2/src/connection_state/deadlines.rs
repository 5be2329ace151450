//! Deadlines of requests.

use tokio::time::Instant;

use super::ConnectionState;
use crate::Error;
use crate::frame::{CANCEL, frame_type};

impl ConnectionState {
    /// Adds the deadline of a stream; drops those of closed streams at the front.
    pub(super) fn add_deadline(&mut self, deadline: Instant, id: u32) {
        while let Some((_, id)) = self.deadlines.front()
            && !self.streams.contains_key(id)
        {
            self.deadlines.pop_front();
        }
        // Most timeouts are equal, so a new deadline usually belongs at the end.
        let earlier = self.deadlines.iter().rev().position(|(other, _)| *other <= deadline);
        let place = self.deadlines.len() - earlier.unwrap_or(self.deadlines.len());
        self.deadlines.insert(place, (deadline, id));
        if self.check_at.is_none_or(|check_at| deadline < check_at) {
            self.wake_writer();
        }
    }

    /// Returns when the driver must poll again to check deadlines, if that is earlier than the time it
    /// knows.
    pub(crate) fn next_check(&mut self, now: Instant) -> Option<Instant> {
        let (mut at, _) = *self.deadlines.front()?;
        if let Some(interval) = self.delivery.probe_interval() {
            at = at.min(now + interval);
        }
        if self.check_at.is_some_and(|check_at| check_at <= at) {
            return None;
        }
        self.check_at = Some(at);
        self.check_at
    }

    /// Returns `true` if deadlines must be checked. A deadline can pass before any check is scheduled for
    /// it: the stream may be newer than the last poll, and the process may have been paused since.
    pub(crate) fn is_check_due(&self, now: Instant) -> bool {
        self.check_at.is_some_and(|check_at| check_at <= now)
            || self.deadlines.front().is_some_and(|(deadline, _)| *deadline <= now)
    }

    /// Fails the streams that passed their deadline and were not started.
    pub(crate) fn cancel_unsent(&mut self, now: Instant) {
        if !self.is_check_due(now) {
            return;
        }
        let overdue = self.deadlines.iter().take_while(|(deadline, _)| *deadline <= now);
        let is_queued = |id: &u32| self.streams.get(id).is_some_and(|stream| !stream.is_started());
        for id in overdue.map(|(_, id)| *id).filter(is_queued).collect::<Vec<_>>() {
            self.queued.retain(|queued| *queued != id);
            self.fail_stream(id, Error::DeadlineExceeded);
        }
    }

    /// Fails all streams that passed their deadline. On a fenced connection, also sends a PING where
    /// the delivery of a request is not proven. After an error, nothing more may be written to the
    /// transport, and what the kernel holds must be discarded.
    pub(crate) fn expire_overdue(&mut self, now: Instant) -> Result<(), Error> {
        if !self.is_check_due(now) {
            return Ok(());
        }
        self.cancel_unsent(now);
        self.check_at = None;
        while let Some((deadline, id)) = self.deadlines.front().copied() {
            let open = self.streams.get(&id).filter(|stream| stream.is_open());
            if open.is_some() && deadline > now {
                break;
            }
            self.deadlines.pop_front();
            let Some(stream) = open else { continue };
            if self.delivery.is_unproven(stream.end_position) {
                return Err(Error::DeliveryUnproven);
            }
            self.write_frame(frame_type::RST_STREAM, 0, id, &CANCEL.to_be_bytes());
            self.fail_stream(id, Error::DeadlineExceeded);
        }
        if !self.deadlines.is_empty()
            && let Some(payload) = self.delivery.next_probe()
        {
            self.write_frame(frame_type::PING, 0, 0, &payload);
        }
        Ok(())
    }
}
