//! Whether the engine still decides: its thread counts its steps, and another thread looks.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

/// How long one step of the loop may take before the process gives its lease up and ends. A decision
/// takes milliseconds and the audit of 150,000 pods takes seconds, also on a slow machine; after a
/// minute without a step, the next one is not expected any more.
pub const STEP_TIME_MAX: Duration = Duration::from_mins(1);

/// Time between looks.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Steps of the loop. An engine that waits for input is not in a step.
#[derive(Debug, Default)]
pub struct Liveness {
    /// Grows with every step; odd during a step. Only the engine's thread writes it.
    steps: AtomicU64,
    stuck: AtomicBool,
}

impl Liveness {
    /// A step begins.
    pub(super) fn begin_step(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        self.steps.store((steps | 1).wrapping_add(2), Ordering::Relaxed);
    }

    /// The last step ended, and the loop waits for input.
    pub(super) fn wait_for_input(&self) {
        let steps = self.steps.load(Ordering::Relaxed);
        self.steps.store(steps & !1, Ordering::Relaxed);
    }

    /// Fails when one step has taken longer than [`STEP_TIME_MAX`].
    pub fn check(&self) -> Result<(), String> {
        if self.stuck.load(Ordering::Relaxed) {
            return Err(format!(
                "the engine has not finished one step for {} s",
                STEP_TIME_MAX.as_secs()
            ));
        }
        Ok(())
    }

    /// Looks until one step has taken longer than [`STEP_TIME_MAX`]; the error to end with.
    ///
    /// Time is counted in looks, so that a process which was stopped for a while is not taken for
    /// one whose engine is stuck.
    pub async fn watch(&self) -> anyhow::Error {
        let (mut last, mut looks) = (0, 0);
        loop {
            sleep(CHECK_INTERVAL).await;
            let steps = self.steps.load(Ordering::Relaxed);
            let same = steps % 2 == 1 && steps == last;
            looks = if same { looks + 1 } else { 0 };
            last = steps;
            if CHECK_INTERVAL * looks >= STEP_TIME_MAX {
                self.stuck.store(true, Ordering::Relaxed);
                return anyhow::anyhow!(
                    "the engine has not finished one step for {} s; another replica may lead now",
                    STEP_TIME_MAX.as_secs()
                );
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
        assert!(timeout(hour, liveness.watch()).await.is_err(), "it has not begun");
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
