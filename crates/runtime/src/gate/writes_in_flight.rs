//! Count of the writes that were sent and may still land.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use tokio::time::Instant;

use super::GateClosed;
use crate::lease::MARGIN;

/// The writes of a gate.
#[derive(Debug, Default)]
pub(super) struct WritesInFlight(Mutex<InFlightState>);

#[derive(Debug, Default)]
struct InFlightState {
    /// Number of writes without a response.
    unanswered: usize,
    /// Time after which no write without a response can land.
    may_land_until: Option<Instant>,
}

/// A write in flight. Unless it is [`InFlightWrite::answered`], it may land until [`MARGIN`] after its start.
#[derive(Debug)]
pub struct InFlightWrite {
    in_flight: Arc<WritesInFlight>,
    begun: Instant,
    may_land: bool,
}

impl WritesInFlight {
    pub(super) fn begin(this: &Arc<Self>) -> InFlightWrite {
        this.lock().unanswered += 1;
        InFlightWrite { in_flight: Arc::clone(this), begun: Instant::now(), may_land: true }
    }

    pub(super) fn is_settled(&self, now: Instant) -> bool {
        let state = self.lock();
        state.unanswered == 0
            && state.may_land_until.is_none_or(|may_land_until| may_land_until <= now)
    }

    fn lock(&self) -> MutexGuard<'_, InFlightState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl InFlightWrite {
    /// Records the status of the response. After a 5xx or 408 the write may still land.
    pub fn answered(mut self, status: StatusCode) {
        self.may_land = status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT;
    }

    /// Records that the write was not sent.
    pub(crate) fn not_sent(mut self) -> GateClosed {
        self.may_land = false;
        GateClosed
    }
}

impl Drop for InFlightWrite {
    fn drop(&mut self) {
        let mut state = self.in_flight.lock();
        state.unanswered -= 1;
        if self.may_land {
            state.may_land_until = state.may_land_until.max(Some(self.begun + MARGIN));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Gate;
    use crate::lease::Fence;

    #[tokio::test(start_paused = true)]
    async fn a_gate_is_settled_when_every_write_was_answered_or_is_too_old_to_land() {
        let gate = Gate::from(Fence::always());
        assert!(gate.is_settled(Instant::now()), "nothing was sent");
        let begun = Instant::now();
        let [refused, failed, lost] = [
            gate.begin_write().await.unwrap(),
            gate.begin_write().await.unwrap(),
            gate.begin_write().await.unwrap(),
        ];
        refused.answered(StatusCode::CONFLICT);
        assert!(!gate.is_settled(begun + 2 * MARGIN), "two have no response");
        failed.answered(StatusCode::GATEWAY_TIMEOUT);
        drop(lost);
        assert!(!gate.is_settled(begun), "two may still land");
        assert!(gate.is_settled(begun + MARGIN));
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_gate_refuses_writes_and_does_not_count_them() {
        let gate = Gate::from(Fence::always());
        let answered = gate.begin_write().await.unwrap();
        gate.close();
        assert_eq!(gate.begin_write().await.unwrap_err(), GateClosed);
        answered.answered(StatusCode::OK);
        assert!(gate.is_settled(Instant::now()));
    }
}
