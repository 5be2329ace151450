//! The loop around the engine, on a thread of its own.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use engine::change::Change;
use engine::command::{Command, PodName};
use engine::engine::{AuditPart, Engine};
use engine::framework::profile::PluginPosition;
use engine::framework::{Action, Point, Resource};
use engine::index::PodIdx;
use engine::map::Map;
use engine::object::{Text, Uid};
use engine::queue::{EventLabel, QueuedPod};
use prometheus::Histogram;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use crate::bind::BindWindow;
use crate::execute::{PodCommand, PodVersion};
use crate::metrics::{AttemptResult, CacheSize, Metrics, PendingPods};
use crate::resources::PodPage;
use crate::timing::Sampler;
use crate::traces::{AttemptSpan, Traces};

mod liveness;
#[cfg(test)]
mod tests;

pub use liveness::{Liveness, STEP_TIME_MAX};

/// Inputs that may wait; then watches wait.
pub const INPUTS_MAX: usize = 1024;

/// Orders that may wait; then the engine waits.
pub const COMMANDS_MAX: usize = 1024;

/// Inputs taken over before decisions are made again, so that neither starves the other.
const INPUTS_PER_TURN_MAX: usize = 512;

/// Decisions made before inputs are looked at again.
const DECISIONS_PER_TURN_MAX: usize = 64;

/// How often numbers are shown that are not worth showing after every step.
const GAUGES_INTERVAL: Duration = Duration::from_millis(500);

/// Time between audits of what is kept, which are made while there is nothing else to do.
const AUDIT_INTERVAL: Duration = Duration::from_mins(5);

/// After an audit that took long the next one waits this many times as long: one percent of the time.
const AUDIT_INTERVAL_FACTOR: u32 = 100;

/// What the loop is told.
#[derive(Debug)]
pub enum Input {
    /// For the engine.
    Change(Change),
    /// One more kind was seen completely.
    Synced,
    /// Whether decisions may be made.
    Lead(bool),
    /// Compare what is kept with what comes out from scratch, and tell.
    Audit,
    /// Show the pods from a place on.
    Pods {
        /// The place.
        from: usize,
        /// Who wants to know.
        reply: oneshot::Sender<PodPage>,
    },
    /// Make no more decisions and end.
    Stop,
}

/// What others may know of the loop.
#[derive(Debug, Default)]
pub struct DriverStatus {
    /// Binds under way.
    pub binds_in_flight: AtomicUsize,
    /// Whether decisions are made.
    pub leading: AtomicBool,
    /// Whether the loop goes round.
    pub liveness: Liveness,
}

/// The engine and its surroundings.
pub struct Driver {
    engine: Engine,
    executor: mpsc::Sender<PodCommand>,
    window: Arc<BindWindow>,
    status: Arc<DriverStatus>,
    metrics: Metrics,
    sampler: Sampler,
    /// Times of events, by [`TimedEvent`].
    event_seconds: [Histogram; EVENTS.len()],
    clock: EngineClock,
    /// Attempts whose binding is under way; each ends with its `Bound`.
    attempts: Map<Uid, BindingAttempt>,
    traces: Traces,
    /// Spans of those of them that are traced.
    spans: Map<Uid, AttemptSpan>,
    /// Binds that wait for room in the window: those of pods whose volumes became ready.
    binds_over_window: VecDeque<Command>,
    gauges_published: Instant,
    audit: AuditProgress,
    /// Profiles and plugins of which it was shown how many pods they keep waiting.
    blocking_plugins: HashSet<(usize, PluginPosition)>,
    /// Kinds that must be complete before the first decision.
    kinds_required: usize,
    kinds_synced: usize,
    leading: bool,
    stopped: bool,
    binds_in_flight: usize,
    commands: Vec<Command>,
    /// Commands to be handed over.
    outgoing: VecDeque<Command>,
}

/// Events whose handling is timed, in the command of [`EVENTS`].
#[derive(Clone, Copy)]
enum TimedEvent {
    NodeAdd,
    NodeUpdate,
    NodeDelete,
    PendingAdd,
    PendingUpdate,
    PendingDelete,
    AssignedAdd,
    AssignedUpdate,
    AssignedDelete,
}

const EVENTS: [(Resource, Action); 9] = [
    (Resource::Node, Action::ADD),
    (Resource::Node, Action::UPDATE),
    (Resource::Node, Action::DELETE),
    (Resource::UnschedulablePod, Action::ADD),
    (Resource::UnschedulablePod, Action::UPDATE),
    (Resource::UnschedulablePod, Action::DELETE),
    (Resource::AssignedPod, Action::ADD),
    (Resource::AssignedPod, Action::UPDATE),
    (Resource::AssignedPod, Action::DELETE),
];

/// The audit that is made bit by bit.
struct AuditProgress {
    /// When the next one begins.
    due: Instant,
    /// Where the present one stands, and what it took so far.
    part: Option<AuditPart>,
    elapsed: Duration,
    /// The present one found something.
    failed: bool,
    /// It was asked for, and does not wait until there is nothing else to do.
    requested: bool,
}

impl AuditProgress {
    fn due(due: Instant) -> Self {
        Self { due, part: None, elapsed: Duration::ZERO, failed: false, requested: false }
    }
}

/// An attempt whose binding is under way.
#[derive(Clone, Debug)]
struct BindingAttempt {
    pod: PodName,
    node: Text,
    begun: Instant,
    /// Which attempt of the pod it is.
    number: u32,
    /// When the pod was first ready to be scheduled, by the engine's clock.
    initial_attempt: i64,
    /// No event had brought the pod back, only that it had waited long.
    flushed: bool,
}

/// Nanoseconds since the epoch that never go back, whatever happens to the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct EngineClock {
    started: Instant,
    epoch: i64,
}

impl EngineClock {
    /// A clock that is right now.
    pub fn start() -> Self {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Self { started: Instant::now(), epoch: since.as_nanos() as i64 }
    }

    /// What time it is.
    pub fn now(&self) -> i64 {
        self.time(Instant::now())
    }

    /// What time it was.
    fn time(&self, instant: Instant) -> i64 {
        let since = instant.saturating_duration_since(self.started);
        self.epoch.saturating_add(since.as_nanos() as i64)
    }

    /// When it was that time; the start if it was before.
    fn instant(&self, time: i64) -> Instant {
        let since = time.saturating_sub(self.epoch).max(0);
        self.started.checked_add(Duration::from_nanos(since as u64)).unwrap_or(self.started)
    }
}

impl Driver {
    /// A loop that begins to decide once this many kinds are complete.
    pub fn new(
        engine: Engine,
        executor: mpsc::Sender<PodCommand>,
        window: Arc<BindWindow>,
        status: Arc<DriverStatus>,
        metrics: Metrics,
        sampler: Sampler,
        kinds: usize,
    ) -> Self {
        let event_seconds = EVENTS.map(|(resource, action)| {
            metrics.event_handling_histogram(&EventLabel::of(resource, action))
        });
        Self {
            engine,
            sampler,
            event_seconds,
            executor,
            window,
            status,
            metrics,
            clock: EngineClock::start(),
            attempts: Map::default(),
            traces: Traces::off(),
            spans: Map::default(),
            binds_over_window: VecDeque::new(),
            gauges_published: Instant::now(),
            audit: AuditProgress::due(Instant::now() + AUDIT_INTERVAL),
            blocking_plugins: HashSet::new(),
            kinds_required: kinds,
            kinds_synced: 0,
            leading: false,
            stopped: false,
            binds_in_flight: 0,
            commands: Vec::new(),
            outgoing: VecDeque::new(),
        }
    }

    /// Tells of attempts.
    #[must_use]
    pub fn traced(self, traces: Traces) -> Self {
        Self { traces, ..self }
    }

    /// Runs until it is stopped or all senders of inputs are gone.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        self.run_until_stopped(&mut inputs).await;
        self.leading = false;
        self.publish_gauges();
        self.status.liveness.wait_for_input();
    }

    async fn run_until_stopped(&mut self, inputs: &mut mpsc::Receiver<Input>) {
        let mut taken = Vec::with_capacity(INPUTS_PER_TURN_MAX);
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
                    count = inputs.recv_many(&mut taken, INPUTS_PER_TURN_MAX) => {
                        if count == 0 {
                            return;
                        }
                    }
                    () = sleep(wait) => {}
                }
                status.liveness.begin_step();
            }
            if taken.is_empty() && !inputs.is_empty() {
                inputs.recv_many(&mut taken, INPUTS_PER_TURN_MAX).await;
            }
            // To read a clock is not for nothing: where one thing ends, the next one begins.
            let mut now = Instant::now();
            for input in taken.drain(..) {
                now = self.handle_input(input, now);
            }
            if self.stopped {
                return;
            }
            self.apply(Change::Tick, now);
            self.dispatch(None).await;
            for _ in 0..DECISIONS_PER_TURN_MAX {
                if !self.can_decide() {
                    break;
                }
                status.liveness.begin_step();
                let begun = Instant::now();
                self.sampler.begin(&mut self.engine);
                self.apply(Change::Schedule { limit: 1 }, begun);
                self.metrics.observe_algorithm(begun.elapsed().as_secs_f64());
                self.sampler.end(&mut self.engine);
                self.dispatch(Some(begun)).await;
            }
            self.publish_gauges();
        }
    }

    /// Until something is to be done without being told.
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

    /// Whether nobody waits for anything that this loop could do.
    fn is_idle(&self) -> bool {
        self.binds_in_flight == 0 && !self.can_decide()
    }

    /// Does one part of the audit that is due.
    fn run_audit_part(&mut self) {
        let begun = Instant::now();
        let part = self.audit.part.take().unwrap_or_default();
        let (next, found) = self.engine.audit_part(part);
        self.audit.elapsed += begun.elapsed();
        if let Err(wrong) = found {
            tracing::error!("the audit found: {wrong}");
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
        let rest = AUDIT_INTERVAL.max(elapsed.saturating_mul(AUDIT_INTERVAL_FACTOR));
        self.audit = AuditProgress::due(Instant::now() + rest);
    }

    fn can_decide(&self) -> bool {
        self.leading
            && self.kinds_synced >= self.kinds_required
            && self.binds_in_flight < self.window.size()
            && self.engine.queue().has_next()
    }

    /// Takes an input over. What time it is then, unless that hardly took any.
    fn handle_input(&mut self, input: Input, begun: Instant) -> Instant {
        match input {
            Input::Change(Change::Bound { uid, failure }) => {
                self.handle_bound(&uid, failure, begun);
            }
            Input::Change(change) => {
                let event = self.timed_event(&change);
                self.apply(change, begun);
                if let Some(event) = event {
                    let ended = Instant::now();
                    let took = ended.duration_since(begun).as_secs_f64();
                    self.event_seconds[event as usize].observe(took);
                    return ended;
                }
            }
            Input::Synced => self.kinds_synced += 1,
            Input::Lead(leading) => self.leading = leading,
            Input::Pods { from, reply } => {
                // Whoever asked may have gone.
                let _ = reply.send(PodPage::new(self.engine.state(), from));
            }
            Input::Stop => self.stopped = true,
            // Made part by part in the next turns, so that no decision waits for all of it.
            Input::Audit => {
                self.audit = AuditProgress { requested: true, ..AuditProgress::due(begun) }
            }
        }
        begun
    }

    /// What happens to a pod or a node by a change.
    fn timed_event(&self, change: &Change) -> Option<TimedEvent> {
        let state = self.engine.state();
        let placed = |uid: &Uid| {
            let record = state.pods.get(state.pods.find(uid)?);
            Some(record.node.is_some() && !record.assumed)
        };
        Some(match change {
            Change::Node(node) => match state.nodes.find(&node.name) {
                Some(index) if state.nodes.present().contains(index) => TimedEvent::NodeUpdate,
                _ => TimedEvent::NodeAdd,
            },
            Change::NodeGone(_) => TimedEvent::NodeDelete,
            Change::Pod(pod) => match (pod.node.is_empty(), placed(&pod.uid)) {
                (true, None) => TimedEvent::PendingAdd,
                (true, Some(_)) => TimedEvent::PendingUpdate,
                (false, Some(true)) => TimedEvent::AssignedUpdate,
                (false, _) => TimedEvent::AssignedAdd,
            },
            Change::PodGone { uid } if placed(uid)? => TimedEvent::AssignedDelete,
            Change::PodGone { .. } => TimedEvent::PendingDelete,
            _ => return None,
        })
    }

    /// A bind ended. The engine says nothing of a pod that the watch showed first.
    fn handle_bound(&mut self, uid: &Uid, failure: Option<Text>, now: Instant) {
        self.binds_in_flight = self.binds_in_flight.saturating_sub(1);
        let (before, failed) = (self.commands.len(), failure.is_some());
        self.apply(Change::Bound { uid: uid.clone(), failure }, now);
        if self.commands[before..].iter().any(|command| pod_of(command).uid == *uid) {
            return;
        }
        if failed {
            self.attempts.remove(uid);
            self.spans.remove(uid);
        } else if let Some(BindingAttempt { pod, node, .. }) = self.attempts.get_mut(uid) {
            // Nobody looks at them in an attempt that ends.
            let (pod, node) = (std::mem::take(pod), std::mem::take(node));
            self.commands.push(Command::ReportScheduled { pod, node });
        }
    }

    fn apply(&mut self, change: Change, now: Instant) {
        self.engine.apply(change, self.clock.time(now), &mut self.commands);
    }

    /// Hands commands over; `attempt` is when the attempt began that they come from.
    async fn dispatch(&mut self, attempt: Option<Instant>) {
        let mut victims = 0;
        while let Some(command) = self.next_command() {
            let pod = self.engine.state().pods.find(&pod_of(&command).uid);
            let mut command = self.with_context(command, pod);
            let preempts =
                matches!(command.command, Command::Evict { .. } | Command::ReportPreempted { .. });
            victims += usize::from(preempts);
            self.record_attempt(&mut command, pod, attempt);
            // Mostly there is room, and nothing is copied to wait for it.
            if let Err(refused) = self.executor.try_send(command)
                && !send_when_full(&self.executor, refused).await
            {
                // Nobody does anything any more.
                self.stopped = true;
                return;
            }
        }
        if victims > 0 {
            self.metrics.observe_preemption_victims(victims);
        }
    }

    /// The next command that may be given. A bind waits for room in the window, and fails when this
    /// process does not lead any more: then nothing new is begun.
    fn next_command(&mut self) -> Option<Command> {
        loop {
            self.outgoing.extend(self.commands.drain(..));
            let room = self.binds_in_flight < self.window.size() || !self.leading;
            let command = match self.binds_over_window.pop_front_if(|_| room) {
                Some(command) => command,
                None => self.outgoing.pop_front()?,
            };
            match command {
                Command::Bind { pod, .. } if !self.leading => {
                    let failure = Some("this process does not lead any more".into());
                    self.apply(Change::Bound { uid: pod.uid, failure }, Instant::now());
                }
                command @ Command::Bind { .. } if !room => {
                    self.binds_over_window.push_back(command);
                }
                command => return Some(command),
            }
        }
    }

    fn record_attempt(
        &mut self,
        command: &mut PodCommand,
        index: Option<PodIdx>,
        attempt: Option<Instant>,
    ) {
        let uid = &pod_of(&command.command).uid;
        match &command.command {
            Command::Bind { pod, node, .. } => {
                self.binds_in_flight += 1;
                let begun = attempt.unwrap_or_else(Instant::now);
                command.ready = Some(self.begin_binding(pod, index, node, begun));
                if let Some(span) = self.traces.begin_attempt(pod, &command.scheduler, begun) {
                    command.trace = Some(span.context());
                    self.spans.insert(pod.uid.clone(), span);
                }
            }
            Command::ReportScheduled { node, .. } => {
                if let Some(span) = self.spans.remove(uid) {
                    span.placed("scheduled", node);
                }
                if let Some(BindingAttempt {
                    begun, number, initial_attempt: first, flushed, ..
                }) = self.attempts.remove(uid)
                {
                    if flushed {
                        self.metrics.count_scheduled_after_flush();
                    }
                    let now = Instant::now();
                    let waited = self.clock.time(now).saturating_sub(first) as f64 / 1e9;
                    self.metrics.observe_scheduled(number, waited);
                    let seconds = now.saturating_duration_since(begun).as_secs_f64();
                    self.metrics.observe_attempt(
                        &command.scheduler,
                        AttemptResult::Scheduled,
                        seconds,
                    );
                }
            }
            Command::ReportFailure { pod, reason, message, .. } => {
                let bound = self.attempts.remove(uid).map(|attempt| attempt.begun);
                let begun = bound.or(attempt).unwrap_or_else(Instant::now);
                let result = match *reason {
                    "Unschedulable" => AttemptResult::Unschedulable,
                    _ => AttemptResult::Error,
                };
                let span = self.spans.remove(uid);
                if let Some(span) =
                    span.or_else(|| self.traces.begin_attempt(pod, &command.scheduler, begun))
                {
                    span.failed(result.name(), message);
                }
                // No node was found in this very attempt: then plugins were asked to make room.
                if attempt.is_some()
                    && result == AttemptResult::Unschedulable
                    && self.has_post_filter(&command.scheduler)
                {
                    self.metrics.count_preemption_attempt();
                }
                self.metrics.observe_attempt(
                    &command.scheduler,
                    result,
                    begun.elapsed().as_secs_f64(),
                );
            }
            _ => {}
        }
    }

    /// Whether a profile has a plugin that can make room.
    fn has_post_filter(&self, profile: &str) -> bool {
        let profile = self.engine.profiles().iter().find(|known| known.name == profile);
        profile.is_some_and(|profile| !profile.at(Point::PostFilter).is_empty())
    }

    /// Notes an attempt that has come to its bind. Since when the pod could be tried.
    fn begin_binding(
        &mut self,
        pod: &PodName,
        index: Option<PodIdx>,
        node: &Text,
        begun: Instant,
    ) -> Instant {
        let queued = index.and_then(|pod| self.engine.queue().get(pod));
        let number = queued.map_or(1, |queued| queued.attempts.max(1));
        let first = queued.and_then(QueuedPod::initial_attempt);
        let first = first.unwrap_or_else(|| self.clock.now());
        let flushed = queued.is_some_and(|queued| queued.was_flushed);
        let attempt = BindingAttempt {
            pod: pod.clone(),
            node: node.clone(),
            begun,
            number,
            initial_attempt: first,
            flushed,
        };
        self.attempts.insert(pod.uid.clone(), attempt);
        self.clock.instant(first)
    }

    /// A command with what is known of its pod.
    fn with_context(&self, command: Command, pod: Option<PodIdx>) -> PodCommand {
        let state = self.engine.state();
        let version_of = |pod: PodIdx| {
            let record = state.pods.get(pod);
            PodVersion { generation: record.generation, version: record.resource_version }
        };
        let scheduler = pod.map(|pod| state.spec(pod).scheduler_name.clone());
        let victim_version = match &command {
            Command::Evict { victim, .. } | Command::ReportPreempted { victim, .. } => {
                state.pods.find(&victim.uid).map(version_of)
            }
            _ => None,
        };
        PodCommand {
            scheduler: scheduler.unwrap_or_default(),
            pod_version: pod.map(version_of).unwrap_or_default(),
            victim_version: victim_version.unwrap_or_default(),
            ready: None,
            trace: None,
            command,
        }
    }

    fn publish_gauges(&mut self) {
        self.status.binds_in_flight.store(self.binds_in_flight, Ordering::Relaxed);
        // Whoever sees this also sees how many binds were under way then.
        self.status.leading.store(self.leading, Ordering::Release);
        if self.gauges_published.elapsed() < GAUGES_INTERVAL {
            return;
        }
        self.gauges_published = Instant::now();
        let counts = self.engine.queue().counts();
        self.metrics.set_pending_pods(PendingPods {
            active: counts.active,
            backoff: counts.backoff,
            unschedulable: counts.unschedulable,
            gated: counts.gated,
        });
        self.metrics.set_incoming_totals(&self.engine.queue().counters);
        let mut in_flight: BTreeMap<EventLabel, usize> = BTreeMap::new();
        for event in self.engine.queue().in_flight_events() {
            *in_flight.entry(event).or_default() += 1;
        }
        self.metrics.set_in_flight(&in_flight, counts.in_flight);
        self.publish_blocking_plugins();
        self.metrics.set_binds_in_flight(self.binds_in_flight);
        let state = self.engine.state();
        self.metrics.set_cache_size(CacheSize {
            nodes: state.nodes.count(),
            pods: state.pods.count(),
            assumed_pods: self.binds_in_flight,
        });
    }

    /// Plugins that never stood in anybody's way are not shown.
    fn publish_blocking_plugins(&mut self) {
        for (index, profile) in self.engine.profiles().iter().enumerate() {
            for plugin in 0..profile.plugins.len() {
                let pods = self.engine.queue().blocked_by(index, plugin);
                if pods > 0 {
                    self.blocking_plugins.insert((index, plugin));
                } else if !self.blocking_plugins.contains(&(index, plugin)) {
                    continue;
                }
                self.metrics.set_unschedulable_pods(
                    profile.plugin_name(plugin),
                    &profile.name,
                    pods,
                );
            }
        }
    }
}

/// Hands something over, whether there is room for it at once or not. Whether somebody takes it.
pub(crate) async fn send<T>(to: &mpsc::Sender<T>, thing: T) -> bool {
    match to.try_send(thing) {
        Ok(()) => true,
        Err(refused) => send_when_full(to, refused).await,
    }
}

/// Hands over what there was no room for. Whether somebody takes it.
async fn send_when_full<T>(to: &mpsc::Sender<T>, refused: TrySendError<T>) -> bool {
    match refused {
        TrySendError::Full(thing) => to.send(thing).await.is_ok(),
        TrySendError::Closed(_) => false,
    }
}

/// The pod on whose behalf a command is given.
fn pod_of(command: &Command) -> &PodName {
    match command {
        Command::Bind { pod, .. }
        | Command::AskExtenders { pod, .. }
        | Command::AskExtendersAboutVictims { pod, .. }
        | Command::PrepareVolumes { pod, .. }
        | Command::Nominate { pod, .. }
        | Command::ReportFailure { pod, .. }
        | Command::Warn { pod, .. }
        | Command::ReportScheduled { pod, .. } => pod,
        Command::Evict { preemptor, .. } | Command::ReportPreempted { preemptor, .. } => preemptor,
    }
}
