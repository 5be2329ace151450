//! How long the parts of an attempt take, by a clock that is handed in. Nothing is decided by it.

use crate::cycle::decide::Decision;

/// Tells the time since whenever, in nanoseconds.
pub type Clock = fn() -> u64;

/// Stands still unless it is given a clock.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch {
    clock: Option<Clock>,
    times: AttemptTimes,
}

/// Times of one attempt, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptTimes {
    /// Preparing filters, and bringing the feasible nodes up to date.
    pub filter: Option<u64>,
    /// Preparing scorers, bringing scores up to date, and choosing.
    pub score: Option<u64>,
    /// Position of the pod's profile, and what came of it in upstream's word for it; `None` when no
    /// attempt was made that could be timed.
    pub attempt: Option<(usize, &'static str)>,
}

impl Stopwatch {
    /// Begins anew, with a clock or without.
    pub(crate) fn set(&mut self, clock: Option<Clock>) {
        *self = Self { clock, times: AttemptTimes::default() };
    }

    /// What was measured.
    pub(crate) fn times(&self) -> AttemptTimes {
        self.times
    }

    pub(crate) fn now(&self) -> Option<u64> {
        self.clock.map(|clock| clock())
    }

    pub(crate) fn filtered(&mut self, since: Option<u64>) {
        if let Some(passed) = self.since(since) {
            *self.times.filter.get_or_insert(0) += passed;
        }
    }

    pub(crate) fn scored(&mut self, since: Option<u64>) {
        if let Some(passed) = self.since(since) {
            *self.times.score.get_or_insert(0) += passed;
        }
    }

    pub(crate) fn decided(&mut self, profile: usize, decision: &Decision) {
        if self.clock.is_some() {
            let status = match decision {
                Decision::Node { .. } => "Success",
                Decision::NoNodes | Decision::Unschedulable(_) => "Unschedulable",
                Decision::Error(_) => "Error",
            };
            self.times.attempt = Some((profile, status));
        }
    }

    fn since(&self, begun: Option<u64>) -> Option<u64> {
        Some(self.now()?.saturating_sub(begun?))
    }
}

#[cfg(test)]
mod tests;
