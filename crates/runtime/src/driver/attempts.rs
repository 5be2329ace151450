//! Scheduling attempts, from the decision to the result: their metrics and their traces.

use engine::command::{Command, PodName};
use engine::framework::Point;
use engine::index::PodIdx;
use engine::object::Text;
use engine::queue::QueuedPod;
use tokio::time::Instant;
use tracing::debug_span;

use super::Driver;
use crate::execute::PodCommand;
use crate::metrics::AttemptResult;

/// An attempt whose bind is in flight.
#[derive(Clone, Debug)]
pub(super) struct BindingAttempt {
    /// Name of the pod.
    pub(super) pod: PodName,
    /// Node to which the pod is being bound.
    pub(super) node: Text,
    /// Start of the attempt.
    begun: Instant,
    /// Number of the attempt among those of its pod, from 1.
    number: u32,
    /// When the pod could first be tried, by the engine's clock.
    initial_attempt: i64,
    /// The pod left the unschedulable pods because it had waited the maximum time, not because of an
    /// event.
    flushed: bool,
}

impl Driver {
    /// Records the progress of an attempt that a command reports. `attempt` is the start of the attempt
    /// in which the engine issued it, or `None` if it follows from another input.
    pub(super) fn record_attempt(
        &mut self,
        command: &mut PodCommand,
        index: Option<PodIdx>,
        attempt: Option<Instant>,
    ) {
        let PodCommand { command: issued, scheduler, .. } = &*command;
        match issued {
            Command::Bind { pod, node, .. } => {
                let _span = attempt_span(pod, scheduler).entered();
                tracing::debug!(%node, "binding");
                self.binds_in_flight += 1;
                let begun = attempt.unwrap_or_else(Instant::now);
                let ready = self.begin_binding(pod, index, node, begun);
                let span = self.traces.begin_attempt(pod, scheduler, begun);
                let trace = span.as_ref().map(crate::traces::AttemptSpan::context);
                if let Some(span) = span {
                    self.spans.insert(pod.uid.clone(), span);
                }
                (command.ready, command.trace) = (Some(ready), trace);
            }
            Command::ReportScheduled { pod, node } => self.record_scheduled(pod, node, scheduler),
            Command::ReportFailure { pod, reason, message, .. } => {
                let result = match *reason {
                    "Unschedulable" => AttemptResult::Unschedulable,
                    _ => AttemptResult::Error,
                };
                self.record_failure(pod, result, message, scheduler, attempt);
            }
            _ => {}
        }
    }

    /// Remembers an attempt that has reached its bind. Returns when its pod could first be tried.
    fn begin_binding(
        &mut self,
        pod: &PodName,
        index: Option<PodIdx>,
        node: &Text,
        begun: Instant,
    ) -> Instant {
        let queued = index.and_then(|pod| self.engine.queue().get(pod));
        let initial_attempt = queued.and_then(QueuedPod::initial_attempt);
        let initial_attempt = initial_attempt.unwrap_or_else(|| self.clock.now());
        let attempt = BindingAttempt {
            pod: pod.clone(),
            node: node.clone(),
            begun,
            number: queued.map_or(1, |queued| queued.attempts.max(1)),
            initial_attempt,
            flushed: queued.is_some_and(|queued| queued.was_flushed),
        };
        self.attempts.insert(pod.uid.clone(), attempt);
        self.clock.instant(initial_attempt)
    }

    fn record_scheduled(&mut self, pod: &PodName, node: &Text, scheduler: &Text) {
        let _span = attempt_span(pod, scheduler).entered();
        tracing::debug!(%node, "scheduled");
        if let Some(span) = self.spans.remove(&pod.uid) {
            span.placed("scheduled", node);
        }
        let Some(attempt) = self.attempts.remove(&pod.uid) else { return };
        if attempt.flushed {
            self.metrics.count_scheduled_after_flush();
        }
        let now = Instant::now();
        let since_ready = self.clock.time(now).saturating_sub(attempt.initial_attempt);
        self.metrics.observe_scheduled(attempt.number, since_ready as f64 / 1e9);
        let seconds = now.saturating_duration_since(attempt.begun).as_secs_f64();
        self.metrics.observe_attempt(scheduler, AttemptResult::Scheduled, seconds);
    }

    fn record_failure(
        &mut self,
        pod: &PodName,
        result: AttemptResult,
        message: &str,
        scheduler: &Text,
        attempt: Option<Instant>,
    ) {
        let _span = attempt_span(pod, scheduler).entered();
        tracing::debug!(result = result.name(), "{message}");
        let binding = self.attempts.remove(&pod.uid).map(|attempt| attempt.begun);
        let begun = binding.or(attempt).unwrap_or_else(Instant::now);
        let span = self.spans.remove(&pod.uid);
        if let Some(span) = span.or_else(|| self.traces.begin_attempt(pod, scheduler, begun)) {
            span.failed(result.name(), message);
        }
        // PostFilter plugins ran only if this very attempt found no feasible node.
        if attempt.is_some()
            && result == AttemptResult::Unschedulable
            && self.has_post_filter(scheduler)
        {
            self.metrics.count_preemption_attempt();
        }
        self.metrics.observe_attempt(scheduler, result, begun.elapsed().as_secs_f64());
    }

    /// Returns `true` if the profile has a PostFilter plugin.
    fn has_post_filter(&self, profile: &str) -> bool {
        let profile = self.engine.profiles().iter().find(|known| known.name == profile);
        profile.is_some_and(|profile| !profile.at(Point::PostFilter).is_empty())
    }
}

fn attempt_span(pod: &PodName, scheduler: &Text) -> tracing::Span {
    debug_span!("attempt", namespace = %pod.namespace, pod = %pod.name, %scheduler)
}
