//! Writes that were sent and may still land.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;
use tokio::time::Instant;

use super::Closed;
use crate::lease::MARGIN;

/// What is known of the writes of a gate.
#[derive(Debug, Default)]
pub(super) struct UnderWay(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Writes that wait for their answer.
    waiting: usize,
    /// When the last write that got no answer is too old to land.
    dead_by: Option<Instant>,
}

/// A write on its way. Unless it is [`Write::answered`], it may land until [`MARGIN`] after it began.
#[derive(Debug)]
pub struct Write {
    under_way: Arc<UnderWay>,
    begun: Instant,
    may_land: bool,
}

impl UnderWay {
    pub(super) fn begin(this: &Arc<Self>) -> Write {
        this.lock().waiting += 1;
        Write { under_way: Arc::clone(this), begun: Instant::now(), may_land: true }
    }

    pub(super) fn is_settled(&self, now: Instant) -> bool {
        let state = self.lock();
        state.waiting == 0 && state.dead_by.is_none_or(|dead_by| dead_by <= now)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write {
    /// The API server answered. After a 5xx or 408 it may still carry the write out.
    pub fn answered(mut self, status: StatusCode) {
        self.may_land = status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT;
    }

    /// The write was not sent at all.
    pub(crate) fn unsent(mut self) -> Closed {
        self.may_land = false;
        Closed
    }
}

impl Drop for Write {
    fn drop(&mut self) {
        let mut state = self.under_way.lock();
        state.waiting -= 1;
        if self.may_land {
            state.dead_by = state.dead_by.max(Some(self.begun + MARGIN));
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
        assert!(!gate.is_settled(begun + 2 * MARGIN), "two wait for their answers");
        failed.answered(StatusCode::GATEWAY_TIMEOUT);
        drop(lost);
        assert!(!gate.is_settled(begun), "two may still land");
        assert!(gate.is_settled(begun + MARGIN));
    }

    #[tokio::test(start_paused = true)]
    async fn a_closed_gate_lets_nothing_pass_and_counts_nothing() {
        let gate = Gate::from(Fence::always());
        let answered = gate.begin_write().await.unwrap();
        gate.close();
        assert_eq!(gate.begin_write().await.unwrap_err(), Closed);
        answered.answered(StatusCode::OK);
        assert!(gate.is_settled(Instant::now()));
    }
}
