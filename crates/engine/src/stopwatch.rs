//! Durations of attempts and of calls of plugins, by an injected clock. No decision reads them.
//!
//! One of ten attempts is measured, as upstream samples them. Filters and scorers are kept up to date
//! node by node over many attempts, so that a single plugin has no duration at Filter and Score within
//! one attempt; [`AttemptTimes`] has their sum.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::cycle::decide::Decision;
use crate::object::Text;
use crate::queue::EventLabel;

mod calls;

/// Returns a monotonic time in nanoseconds; its origin is arbitrary.
pub type Clock = fn() -> u64;

/// One of this number of attempts, queueing hints and PreEnqueue calls is measured.
const SAMPLING_RATIO: u32 = 10;

/// Measures attempts and calls of plugins; without a clock it does nothing.
///
/// Calls are recorded through `&self`, since most plugins are called with the state that holds the
/// stopwatch. A mutex, and no `RefCell`, so that the state remains `Sync`; only one thread locks it.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    clock: Option<Clock>,
    /// An attempt is in progress that is measured.
    is_timing: bool,
    /// State of the xorshift generator that chooses the attempts.
    random: u32,
    times: AttemptTimes,
    /// Calls outside of attempts until the next one that is measured.
    calls_to_skip: AtomicU32,
    calls: Mutex<Vec<PluginCall>>,
}

/// Durations of the phases of one attempt, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttemptTimes {
    /// Preparing filters and updating the feasible nodes.
    pub filter: Option<u64>,
    /// Preparing scorers, updating scores and choosing a node.
    pub score: Option<u64>,
    /// Position of the pod's profile, and upstream's name of the outcome's status; `None` if no
    /// attempt was measured.
    pub attempt: Option<(usize, &'static str)>,
}

/// One call of a plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PluginCall {
    /// Name of the profile.
    pub profile: Text,
    /// Name of the plugin.
    pub plugin: Text,
    /// What was called.
    pub called: Called,
    /// Upstream's name of the result.
    pub status: &'static str,
    /// Duration; `None` for a call of PreFilter or PreScore that was not measured. These are recorded
    /// always, since upstream counts them.
    pub nanoseconds: Option<u64>,
}

/// What was called of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Called {
    /// An extension point, by upstream's name.
    Point(&'static str),
    /// The queueing hint for an event.
    Hint(EventLabel),
}

/// What was measured since the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Measurements {
    /// Phases of the last attempt, if it was measured.
    pub times: AttemptTimes,
    /// Calls of plugins, in order.
    pub calls: Vec<PluginCall>,
}

impl Stopwatch {
    /// Sets or removes the clock.
    pub(crate) fn set_clock(&mut self, clock: Option<Clock>) {
        *self = Self { clock, ..Self::default() };
    }

    /// Returns and resets the measurements.
    pub(crate) fn take(&mut self) -> Measurements {
        let calls = self.calls.get_mut().unwrap_or_else(PoisonError::into_inner);
        Measurements { times: std::mem::take(&mut self.times), calls: std::mem::take(calls) }
    }

    /// Begins an attempt, which is measured with a probability of one tenth.
    pub(crate) fn begin_attempt(&mut self) {
        if self.clock.is_none() {
            return;
        }
        // Random, since pods often come in multiples of ten.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.is_timing = self.random.is_multiple_of(SAMPLING_RATIO);
        self.times = AttemptTimes::default();
    }

    /// Ends an attempt.
    pub(crate) fn end_attempt(&mut self) {
        self.is_timing = false;
    }

    /// Returns the time if the present attempt is measured.
    pub(crate) fn now(&self) -> Option<u64> {
        if !self.is_timing {
            return None;
        }
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
        if self.is_timing {
            let status = match decision {
                Decision::Node { .. } => "Success",
                Decision::NoNodes | Decision::Unschedulable(_) => "Unschedulable",
                Decision::Error(_) => "Error",
            };
            self.times.attempt = Some((profile, status));
        }
    }

    /// Returns the time if a call outside of attempts is to be measured.
    fn now_if_sampled(&self) -> Option<u64> {
        let clock = self.clock?;
        let left = self.calls_to_skip.load(Ordering::Relaxed);
        let next = left.checked_sub(1).unwrap_or(SAMPLING_RATIO - 1);
        self.calls_to_skip.store(next, Ordering::Relaxed);
        (left == 0).then(clock)
    }

    fn since(&self, begun: Option<u64>) -> Option<u64> {
        Some(self.clock?().saturating_sub(begun?))
    }

    fn record(&self, call: PluginCall) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }
}

impl Default for Stopwatch {
    fn default() -> Self {
        Self {
            clock: None,
            is_timing: false,
            random: 0x9e37_79b9,
            times: AttemptTimes::default(),
            calls_to_skip: AtomicU32::new(0),
            calls: Mutex::default(),
        }
    }
}

/// A copy of a state is not that of a running scheduler: it measures nothing.
impl Clone for Stopwatch {
    fn clone(&self) -> Self {
        Self::default()
    }
}

#[cfg(test)]
mod tests;
