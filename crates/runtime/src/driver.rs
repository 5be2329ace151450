//! The loop around the engine, on a thread of its own.
//!
//! Each turn applies the waiting inputs, makes decisions and sends the commands that follow. An audit
//! runs in parts while no bind is in flight and no decision can be made.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use engine::change::Change;
use engine::command::Command;
use engine::engine::{Engine, Fork};
use engine::framework::profile::PluginPosition;
use engine::map::Map;
use engine::object::Uid;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::bind::BindWindow;
use crate::execute::TracedCommand;
use crate::metrics::Metrics;
use crate::resources::PodPage;
use crate::timing;
use crate::traces::{AttemptSpan, Traces};

mod attempts;
mod audit;
mod binds;
mod clock;
mod dispatch;
mod event_timing;
mod gauges;
mod liveness;
#[cfg(test)]
mod tests;

use attempts::BindingAttempt;
use audit::{AUDIT_INTERVAL, AuditProgress};
use binds::Binds;
use event_timing::EventHistograms;

pub use clock::EngineClock;
pub(crate) use dispatch::send;
pub use liveness::{EngineStuck, Liveness, STEP_TIME_MAX};

/// Capacity of the channel of inputs; a full channel makes reflectors wait.
pub const INPUTS_MAX: usize = 1024;

/// Capacity of the channel of commands; a full channel makes the engine wait.
pub const COMMANDS_MAX: usize = 1024;

/// Inputs applied per turn at most, so that a flood of events does not starve decisions.
const INPUTS_PER_TURN_MAX: usize = 512;

/// Decisions per turn at most, so that inputs do not become stale.
const DECISIONS_PER_TURN_MAX: usize = 64;

/// Input of the loop.
#[derive(Debug)]
pub enum Input {
    /// A change for the engine.
    Change(Change),
    /// The first list of one more kind is complete.
    Synced,
    /// Leadership was gained (`true`) or lost.
    Lead(bool),
    /// Requests an audit of the incremental state, with a log line about the result.
    Audit,
    /// Requests a page of pods for `/metrics/resources`.
    Pods {
        /// Position of the first pod.
        from: usize,
        /// Receives the page.
        reply: oneshot::Sender<PodPage>,
    },
    /// Requests a copy of the engine's state, for planning on another thread.
    Fork {
        /// Receives the copy.
        reply: oneshot::Sender<Fork>,
    },
    /// Ends the loop without further decisions.
    Stop,
}

/// Status of the loop, readable from other threads.
#[derive(Debug, Default)]
pub struct DriverStatus {
    /// Number of binds in flight.
    pub binds_in_flight: AtomicUsize,
    /// The loop makes decisions, since this process leads.
    pub leading: AtomicBool,
    /// Detects a step that does not end.
    pub liveness: Liveness,
}

/// The engine with its inputs, its outputs and its metrics.
pub struct Driver {
    engine: Engine,
    executor: mpsc::Sender<TracedCommand>,
    binds: Binds,
    status: Arc<DriverStatus>,
    metrics: Metrics,
    event_seconds: EventHistograms,
    clock: EngineClock,
    /// Attempts whose bind is in flight; `Change::Bound` ends them.
    attempts: Map<Uid, BindingAttempt>,
    /// Pods whose bind was answered since the last dispatch.
    answered: Vec<Uid>,
    traces: Traces,
    /// Trace spans of `attempts`, as far as those are sampled.
    spans: Map<Uid, AttemptSpan>,
    gauges_published: Instant,
    audit: AuditProgress,
    /// Profiles and plugins whose gauge of rejected pods exists.
    blocking_plugins: HashSet<(usize, PluginPosition)>,
    /// Kinds whose first list must be complete before the first decision.
    kinds_required: usize,
    kinds_synced: usize,
    leading: bool,
    stopped: bool,
    /// Commands that the engine issued and that are not sent.
    commands: Vec<Command>,
}

impl Driver {
    /// Creates a loop that starts to decide once the first lists of `kinds` kinds are complete.
    pub fn new(
        mut engine: Engine,
        executor: mpsc::Sender<TracedCommand>,
        window: Arc<BindWindow>,
        status: Arc<DriverStatus>,
        metrics: Metrics,
        clock: EngineClock,
        kinds: usize,
    ) -> Self {
        timing::measure(&mut engine);
        Self {
            engine,
            event_seconds: event_timing::event_histograms(&metrics),
            executor,
            binds: Binds::new(window),
            status,
            metrics,
            clock,
            attempts: Map::default(),
            answered: Vec::new(),
            traces: Traces::off(),
            spans: Map::default(),
            gauges_published: Instant::now(),
            audit: AuditProgress::due(Instant::now() + AUDIT_INTERVAL),
            blocking_plugins: HashSet::new(),
            kinds_required: kinds,
            kinds_synced: 0,
            leading: false,
            stopped: false,
            commands: Vec::new(),
        }
    }

    /// Sends traces of attempts.
    #[must_use]
    pub fn with_traces(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Runs until [`Input::Stop`] or until all senders of inputs are dropped.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        self.run_until_stopped(&mut inputs).await;
        self.leading = false;
        self.publish_gauges();
        self.status.liveness.wait_for_input();
    }

    async fn run_until_stopped(&mut self, inputs: &mut mpsc::Receiver<Input>) {
        let mut waiting = Vec::with_capacity(INPUTS_PER_TURN_MAX);
        let status = Arc::clone(&self.status);
        while !self.stopped {
            status.liveness.begin_step();
            let idle = self.is_idle() && inputs.is_empty();
            if self.audit.requested || idle && self.audit.due <= Instant::now() {
                self.run_audit_part();
                tokio::task::yield_now().await;
            } else if !self.can_decide() {
                let wait = self.time_until_next_work();
                status.liveness.wait_for_input();
                tokio::select! {
                    count = inputs.recv_many(&mut waiting, INPUTS_PER_TURN_MAX) => {
                        if count == 0 {
                            return;
                        }
                    }
                    () = sleep(wait) => {}
                }
                status.liveness.begin_step();
            }
            if waiting.is_empty() && !inputs.is_empty() {
                inputs.recv_many(&mut waiting, INPUTS_PER_TURN_MAX).await;
            }
            // Reading the clock costs about 25 ns, so the end of one input is the start of the next.
            let mut now = Instant::now();
            for input in waiting.drain(..) {
                now = self.handle_input(input, now);
            }
            if self.stopped {
                return;
            }
            self.tick(now);
            timing::record(&mut self.engine, &self.metrics);
            self.dispatch(None).await;
            for _ in 0..DECISIONS_PER_TURN_MAX {
                if !self.can_decide() {
                    break;
                }
                status.liveness.begin_step();
                let begun = Instant::now();
                self.schedule(begun);
                self.metrics.observe_algorithm(begun.elapsed().as_secs_f64());
                timing::record(&mut self.engine, &self.metrics);
                self.dispatch(Some(begun)).await;
            }
            self.publish_gauges();
        }
    }

    /// Returns the time until the next deadline of the engine or the next audit, at most a minute.
    fn time_until_next_work(&self) -> Duration {
        let deadline = self.engine.next_deadline();
        let wait = deadline.map_or(i64::MAX, |at| at.saturating_sub(self.clock.now()));
        let wait = Duration::from_nanos(wait.max(0) as u64).min(Duration::from_mins(1));
        if self.is_idle() {
            wait.min(self.audit.due.saturating_duration_since(Instant::now()))
        } else {
            wait
        }
    }

    /// Returns `true` if no bind is in flight and no decision can be made.
    fn is_idle(&self) -> bool {
        self.binds.in_flight() == 0 && !self.can_decide()
    }

    fn can_decide(&self) -> bool {
        self.leading
            && self.kinds_synced >= self.kinds_required
            && self.binds.has_room()
            && self.engine.queue().has_next()
    }

    /// Handles an input. Returns the present time if the handling was timed, otherwise `begun`.
    fn handle_input(&mut self, input: Input, begun: Instant) -> Instant {
        match input {
            Input::Change(change) => {
                if let Change::Bound { uid, .. } = &change {
                    self.binds.answered();
                    self.answered.push(uid.clone());
                }
                let event = self.timed_event(&change);
                self.apply(change, begun);
                if let Some(event) = event {
                    let ended = Instant::now();
                    let took = ended.duration_since(begun).as_secs_f64();
                    self.event_seconds[event].observe(took);
                    return ended;
                }
            }
            Input::Synced => self.kinds_synced += 1,
            Input::Lead(leading) => self.leading = leading,
            Input::Pods { from, reply } => {
                // Fails if the HTTP request was cancelled.
                let _ = reply.send(PodPage::new(self.engine.state(), from));
            }
            Input::Fork { reply } => {
                // Fails if the planner no longer waits.
                let _ = reply.send(self.engine.fork());
            }
            Input::Stop => self.stopped = true,
            // Runs in parts in the next turns, so that decisions wait for one part at most.
            Input::Audit => self.audit = AuditProgress::requested(begun),
        }
        begun
    }

    fn tick(&mut self, now: Instant) {
        self.engine.tick(self.clock.time(now), &mut self.commands);
    }

    fn schedule(&mut self, now: Instant) {
        self.engine.schedule(self.clock.time(now), &mut self.commands);
    }

    fn apply(&mut self, change: Change, now: Instant) {
        self.engine.apply(change, self.clock.time(now), &mut self.commands);
    }
}
