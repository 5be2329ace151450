//! Scheduling attempts, from the decision to the result: their metrics and their traces.

use engine::command::{AttemptHistory, Command, PodRef};
use engine::framework::Point;
use engine::object::Text;
use opentelemetry::trace::SpanContext;
use tokio::time::Instant;
use tracing::debug_span;

use super::Driver;
use crate::metrics::AttemptResult;

/// An attempt whose bind is in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct BindingAttempt {
    /// Start of the attempt.
    begun: Instant,
    history: AttemptHistory,
}

impl Driver {
    /// Records the progress of an attempt that a command reports. `attempt` is the start of the attempt
    /// in which the engine issued it, or `None` if it follows from another input. Returns the trace of
    /// the attempt if the command is its bind.
    pub(super) fn record_attempt(
        &mut self,
        command: &Command,
        attempt: Option<Instant>,
    ) -> Option<SpanContext> {
        match command {
            Command::Bind { pod, node, history, .. } => {
                let _span = attempt_span(pod).entered();
                tracing::debug!(%node, "binding");
                let begun = attempt.unwrap_or_else(Instant::now);
                self.attempts.insert(pod.uid.clone(), BindingAttempt { begun, history: *history });
                let span = self.traces.begin_attempt(pod, &pod.scheduler, begun)?;
                let trace = span.context();
                self.spans.insert(pod.uid.clone(), span);
                return Some(trace);
            }
            Command::ReportScheduled { pod, node } => self.record_scheduled(pod, node),
            Command::ReportFailure { pod, reason, message, .. } => {
                let result = match *reason {
                    "Unschedulable" => AttemptResult::Unschedulable,
                    _ => AttemptResult::Error,
                };
                self.record_failure(pod, result, message, attempt);
            }
            _ => {}
        }
        None
    }

    fn record_scheduled(&mut self, pod: &PodRef, node: &Text) {
        let _span = attempt_span(pod).entered();
        tracing::debug!(%node, "scheduled");
        if let Some(span) = self.spans.remove(&pod.uid) {
            span.placed("scheduled", node);
        }
        let Some(BindingAttempt { begun, history }) = self.attempts.remove(&pod.uid) else {
            return;
        };
        if history.was_flushed {
            self.metrics.count_scheduled_after_flush();
        }
        let now = Instant::now();
        let since_ready = self.clock.time(now).saturating_sub(history.initial_attempt);
        self.metrics.observe_scheduled(history.attempts, since_ready as f64 / 1e9);
        let seconds = now.saturating_duration_since(begun).as_secs_f64();
        self.metrics.observe_attempt(&pod.scheduler, AttemptResult::Scheduled, seconds);
    }

    fn record_failure(
        &mut self,
        pod: &PodRef,
        result: AttemptResult,
        message: &str,
        attempt: Option<Instant>,
    ) {
        let _span = attempt_span(pod).entered();
        tracing::debug!(result = result.name(), "{message}");
        let binding = self.attempts.remove(&pod.uid).map(|attempt| attempt.begun);
        let begun = binding.or(attempt).unwrap_or_else(Instant::now);
        let span = self.spans.remove(&pod.uid);
        if let Some(span) = span.or_else(|| self.traces.begin_attempt(pod, &pod.scheduler, begun)) {
            span.failed(result.name(), message);
        }
        // PostFilter plugins ran only if this very attempt found no feasible node.
        if attempt.is_some()
            && result == AttemptResult::Unschedulable
            && self.has_post_filter(&pod.scheduler)
        {
            self.metrics.count_preemption_attempt();
        }
        self.metrics.observe_attempt(&pod.scheduler, result, begun.elapsed().as_secs_f64());
    }

    /// Returns `true` if the profile has a PostFilter plugin.
    fn has_post_filter(&self, profile: &str) -> bool {
        let profile = self.engine.profiles().iter().find(|known| known.name == profile);
        profile.is_some_and(|profile| !profile.at(Point::PostFilter).is_empty())
    }
}

fn attempt_span(pod: &PodRef) -> tracing::Span {
    let scheduler = &pod.scheduler;
    debug_span!("attempt", namespace = %pod.namespace, pod = %pod.name, %scheduler)
}
