//! Detection of an engine thread that is stuck: it counts its steps, and a task on another thread
//! compares the counts.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// Longest duration of one step of the loop, after which the process gives up its lease and ends. A
/// decision takes milliseconds and an audit of 150,000 pods takes seconds, also on a slow machine.
pub const STEP_TIME_MAX: Duration = Duration::from_mins(1);

/// Time between checks of the step counter.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// A step of the loop exceeded [`STEP_TIME_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the engine has not finished one step for {} s", STEP_TIME_MAX.as_secs())]
pub struct EngineStuck;

/// Step counter of the loop. The time in which the loop waits for input is no step.
#[derive(Debug, Default)]
pub struct Liveness {
    /// Grows with every step and is odd during a step. Only the engine's thread writes it.
    steps: AtomicU64,
    stuck: AtomicBool,
}

impl Liveness {
    /// Starts a step.
    pub(super) fn begin_step(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        self.steps.store((steps | 1).wrapping_add(2), Ordering::Relaxed);
    }

    /// Ends the last step, since the loop waits for input.
    pub(super) fn wait_for_input(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        self.steps.store(steps & !1, Ordering::Relaxed);
    }

    /// Fails if one step has taken longer than [`STEP_TIME_MAX`].
    pub fn check(&self) -> Result<(), EngineStuck> {
        if self.stuck.load(Ordering::Relaxed) { Err(EngineStuck) } else { Ok(()) }
    }

    /// Waits until one step has taken longer than [`STEP_TIME_MAX`].
    ///
    /// Counts checks instead of reading the clock, so that a process which was suspended does not take
    /// its engine for stuck.
    pub async fn watch(&self) -> EngineStuck {
        let (mut last, mut checks) = (0, 0);
        loop {
            sleep(CHECK_INTERVAL).await;
            let steps = self.steps.load(Ordering::Relaxed);
            let same = steps % 2 == 1 && steps == last;
            checks = if same { checks + 1 } else { 0 };
            last = steps;
            if CHECK_INTERVAL * checks >= STEP_TIME_MAX {
                self.stuck.store(true, Ordering::Relaxed);
                return EngineStuck;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, timeout};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_step_that_does_not_end_is_noticed_after_a_minute() {
        let liveness = Liveness::default();
        liveness.begin_step();
        let begun = Instant::now();
        assert!(liveness.watch().await.to_string().contains("60 s"));
        let took = begun.elapsed();
        assert!(took >= STEP_TIME_MAX && took <= STEP_TIME_MAX + 2 * CHECK_INTERVAL, "{took:?}");
        assert!(liveness.check().is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn an_engine_that_waits_or_makes_steps_is_not_stuck() {
        let liveness = Liveness::default();
        let hour = Duration::from_hours(1);
        assert!(timeout(hour, liveness.watch()).await.is_err(), "no step has begun");
        liveness.begin_step();
        liveness.wait_for_input();
        assert!(timeout(hour, liveness.watch()).await.is_err(), "it waits for input");
        let busy = async {
            for _ in 0..100 {
                liveness.begin_step();
                sleep(STEP_TIME_MAX.saturating_sub(2 * CHECK_INTERVAL)).await;
            }
        };
        tokio::select! {
            error = liveness.watch() => panic!("{error}"),
            () = busy => {}
        }
        assert_eq!(liveness.check(), Ok(()));
    }
}
