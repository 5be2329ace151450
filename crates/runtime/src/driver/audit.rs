//! Audits of the engine's incremental state, run in parts while the loop is idle.

use std::time::Duration;

use engine::engine::AuditPart;
use tokio::time::Instant;

use super::Driver;

/// Shortest time between audits.
pub(super) const AUDIT_INTERVAL: Duration = Duration::from_mins(5);

/// Pause after an audit in multiples of its duration, so that audits take at most 1 % of the time.
const AUDIT_INTERVAL_FACTOR: u32 = 100;

/// Progress of the present audit, or the time of the next one.
pub(super) struct AuditProgress {
    /// When the next audit starts.
    pub(super) due: Instant,
    /// Next part of the present audit.
    part: Option<AuditPart>,
    /// Time spent on the present audit.
    elapsed: Duration,
    /// The present audit found a difference.
    failed: bool,
    /// The audit was requested, so it does not wait for the loop to become idle.
    pub(super) requested: bool,
}

impl AuditProgress {
    /// Returns the progress of an audit that starts at `due`, once the loop is idle.
    pub(super) fn due(due: Instant) -> Self {
        Self { due, part: None, elapsed: Duration::ZERO, failed: false, requested: false }
    }

    /// Returns the progress of an audit that starts in the next turn of the loop.
    pub(super) fn requested(now: Instant) -> Self {
        Self { requested: true, ..Self::due(now) }
    }
}

impl Driver {
    /// Runs the next part of the audit that is due.
    pub(super) fn run_audit_part(&mut self) {
        let begun = Instant::now();
        let part = self.audit.part.take().unwrap_or_default();
        let (next, found) = self.engine.audit_part(part);
        self.audit.elapsed += begun.elapsed();
        if let Err(difference) = found {
            tracing::error!("the audit found: {difference}");
            self.metrics.count_invariant_violation();
            self.audit.failed = true;
        }
        if next.is_some() {
            self.audit.part = next;
            return;
        }
        let AuditProgress { elapsed, failed, requested, .. } = self.audit;
        self.metrics.count_audit(!failed);
        if requested && !failed {
            tracing::info!("the audit found nothing wrong");
        }
        let pause = AUDIT_INTERVAL.max(elapsed.saturating_mul(AUDIT_INTERVAL_FACTOR));
        self.audit = AuditProgress::due(Instant::now() + pause);
    }
}
