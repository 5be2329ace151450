//! Durations of the phases of an attempt, by an injected clock. No decision reads them.

use crate::cycle::decide::Decision;

/// Returns a monotonic time in nanoseconds; its origin is arbitrary.
pub type Clock = fn() -> u64;

/// Measures the current attempt; without a clock it does nothing.
#[derive(Clone, Debug, Default)]
pub struct Stopwatch {
    clock: Option<Clock>,
    times: AttemptTimes,
}

/// Durations of the phases of one attempt, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptTimes {
    /// Preparing filters and updating the feasible nodes.
    pub filter: Option<u64>,
    /// Preparing scorers, updating scores and choosing a node.
    pub score: Option<u64>,
    /// Position of the pod's profile, and upstream's name of the outcome's status; `None` if no
    /// attempt was timed.
    pub attempt: Option<(usize, &'static str)>,
}

impl Stopwatch {
    /// Resets the measurements and sets or removes the clock.
    pub(crate) fn set(&mut self, clock: Option<Clock>) {
        *self = Self { clock, times: AttemptTimes::default() };
    }

    /// Returns the measurements.
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
