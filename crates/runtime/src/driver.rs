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

use crate::bind::Window;
use crate::execute::{Known, Order};
use crate::metrics::{AttemptResult, CacheSize, Metrics, PendingPods};
use crate::resources::Page;
use crate::timing::Sampler;
use crate::traces::{self, Traces};

mod liveness;
#[cfg(test)]
mod tests;

pub use liveness::{Liveness, STEP_MAX};

/// Inputs that may wait; then watches wait.
pub const INPUTS_MAX: usize = 1024;

/// Orders that may wait; then the engine waits.
pub const ORDERS_MAX: usize = 1024;

/// Inputs taken over before decisions are made again, so that neither starves the other.
const INPUTS_AT_ONCE: usize = 512;

/// Decisions made before inputs are looked at again.
const DECISIONS_AT_ONCE: usize = 64;

/// How often numbers are shown that are not worth showing after every step.
const SHOWN_EVERY: Duration = Duration::from_millis(500);

/// Time between audits of what is kept, which are made while there is nothing else to do.
const AUDIT_EVERY: Duration = Duration::from_mins(5);

/// After an audit that took long the next one waits this many times as long: one percent of the time.
const AUDIT_REST: u32 = 100;

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
        reply: oneshot::Sender<Page>,
    },
    /// Make no more decisions and end.
    Stop,
}

/// What others may know of the loop.
#[derive(Debug, Default)]
pub struct DriverStatus {
    /// Binds under way.
    pub binding: AtomicUsize,
    /// Whether decisions are made.
    pub leading: AtomicBool,
    /// Whether the loop goes round.
    pub liveness: Liveness,
}

/// The engine and its surroundings.
pub struct Driver {
    engine: Engine,
    orders: mpsc::Sender<Order>,
    window: Arc<Window>,
    status: Arc<DriverStatus>,
    metrics: Metrics,
    sampler: Sampler,
    /// Times of events, by [`Handled`].
    handling: [Histogram; EVENTS.len()],
    clock: Clock,
    /// Attempts whose binding is under way; each ends with its `Bound`.
    attempts: Map<Uid, Attempt>,
    traces: Traces,
    /// Spans of those of them that are traced.
    spans: Map<Uid, traces::Attempt>,
    /// Binds that wait for room in the window: those of pods whose volumes became ready.
    held: VecDeque<Command>,
    shown: Instant,
    audit: Audit,
    /// Profiles and plugins of which it was shown how many pods they keep waiting.
    blocked: HashSet<(usize, PluginPosition)>,
    /// Kinds that must be complete before the first decision.
    kinds: usize,
    synced: usize,
    leading: bool,
    stopped: bool,
    binding: usize,
    commands: Vec<Command>,
    /// Commands to be handed over.
    outgoing: VecDeque<Command>,
}

/// Events whose handling is timed, in the order of [`EVENTS`].
#[derive(Clone, Copy)]
enum Handled {
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
struct Audit {
    /// When the next one begins.
    due: Instant,
    /// Where the present one stands, and what it took so far.
    part: Option<AuditPart>,
    took: Duration,
    /// The present one found something.
    failed: bool,
    /// It was asked for, and does not wait until there is nothing else to do.
    asked: bool,
}

impl Audit {
    fn due(due: Instant) -> Self {
        Self { due, part: None, took: Duration::ZERO, failed: false, asked: false }
    }
}

/// An attempt whose binding is under way.
#[derive(Clone, Debug)]
struct Attempt {
    pod: PodName,
    node: Text,
    begun: Instant,
    /// Which attempt of the pod it is.
    number: u32,
    /// When the pod was first ready to be scheduled, by the engine's clock.
    first: i64,
    /// No event had brought the pod back, only that it had waited long.
    flushed: bool,
}

/// Nanoseconds since the epoch that never go back, whatever happens to the wall clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    started: Instant,
    epoch: i64,
}

impl Clock {
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
        orders: mpsc::Sender<Order>,
        window: Arc<Window>,
        status: Arc<DriverStatus>,
        metrics: Metrics,
        sampler: Sampler,
        kinds: usize,
    ) -> Self {
        let handling = EVENTS
            .map(|(resource, action)| metrics.event_handling(&EventLabel::of(resource, action)));
        Self {
            engine,
            sampler,
            handling,
            orders,
            window,
            status,
            metrics,
            clock: Clock::start(),
            attempts: Map::default(),
            traces: Traces::off(),
            spans: Map::default(),
            held: VecDeque::new(),
            shown: Instant::now(),
            audit: Audit::due(Instant::now() + AUDIT_EVERY),
            blocked: HashSet::new(),
            kinds,
            synced: 0,
            leading: false,
            stopped: false,
            binding: 0,
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
        self.decide(&mut inputs).await;
        self.leading = false;
        self.show();
        self.status.liveness.wait_for_input();
    }

    async fn decide(&mut self, inputs: &mut mpsc::Receiver<Input>) {
        let mut taken = Vec::with_capacity(INPUTS_AT_ONCE);
        let status = Arc::clone(&self.status);
        while !self.stopped {
            status.liveness.begin_step();
            let idle = self.is_idle() && inputs.is_empty();
            if self.audit.asked || idle && self.audit.due <= Instant::now() {
                self.audit_part();
                tokio::task::yield_now().await;
            } else if !self.can_decide() {
                let wait = self.time_to_wait();
                status.liveness.wait_for_input();
                tokio::select! {
                    count = inputs.recv_many(&mut taken, INPUTS_AT_ONCE) => {
                        if count == 0 {
                            return;
                        }
                    }
                    () = sleep(wait) => {}
                }
                status.liveness.begin_step();
            }
            if taken.is_empty() && !inputs.is_empty() {
                inputs.recv_many(&mut taken, INPUTS_AT_ONCE).await;
            }
            // To read a clock is not for nothing: where one thing ends, the next one begins.
            let mut now = Instant::now();
            for input in taken.drain(..) {
                now = self.take(input, now);
            }
            if self.stopped {
                return;
            }
            self.apply(Change::Tick, now);
            self.hand_over(None).await;
            for _ in 0..DECISIONS_AT_ONCE {
                if !self.can_decide() {
                    break;
                }
                status.liveness.begin_step();
                let begun = Instant::now();
                self.sampler.begin(&mut self.engine);
                self.apply(Change::Schedule { limit: 1 }, begun);
                self.metrics.algorithm(begun.elapsed().as_secs_f64());
                self.sampler.end(&mut self.engine);
                self.hand_over(Some(begun)).await;
            }
            self.show();
        }
    }

    /// Until something is to be done without being told.
    fn time_to_wait(&self) -> Duration {
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
        self.binding == 0 && !self.can_decide()
    }

    /// Does one part of the audit that is due.
    fn audit_part(&mut self) {
        let begun = Instant::now();
        let part = self.audit.part.take().unwrap_or_default();
        let (next, found) = self.engine.audit_part(part);
        self.audit.took += begun.elapsed();
        if let Err(wrong) = found {
            tracing::error!("the audit found: {wrong}");
            self.metrics.invariant_violated();
            self.audit.failed = true;
        }
        if next.is_some() {
            self.audit.part = next;
            return;
        }
        let Audit { took, failed, asked, .. } = self.audit;
        self.metrics.audited(!failed);
        if asked && !failed {
            tracing::info!("the audit found nothing wrong");
        }
        let rest = AUDIT_EVERY.max(took.saturating_mul(AUDIT_REST));
        self.audit = Audit::due(Instant::now() + rest);
    }

    fn can_decide(&self) -> bool {
        self.leading
            && self.synced >= self.kinds
            && self.binding < self.window.size()
            && self.engine.queue().has_next()
    }

    /// Takes an input over. What time it is then, unless that hardly took any.
    fn take(&mut self, input: Input, begun: Instant) -> Instant {
        match input {
            Input::Change(Change::Bound { uid, failure }) => self.bound(&uid, failure, begun),
            Input::Change(change) => {
                let event = self.event(&change);
                self.apply(change, begun);
                if let Some(event) = event {
                    let ended = Instant::now();
                    let took = ended.duration_since(begun).as_secs_f64();
                    self.handling[event as usize].observe(took);
                    return ended;
                }
            }
            Input::Synced => self.synced += 1,
            Input::Lead(leading) => self.leading = leading,
            Input::Pods { from, reply } => {
                // Whoever asked may have gone.
                let _ = reply.send(Page::new(self.engine.state(), from));
            }
            Input::Stop => self.stopped = true,
            // Made part by part in the next turns, so that no decision waits for all of it.
            Input::Audit => self.audit = Audit { asked: true, ..Audit::due(begun) },
        }
        begun
    }

    /// What happens to a pod or a node by a change.
    fn event(&self, change: &Change) -> Option<Handled> {
        let state = self.engine.state();
        let placed = |uid: &Uid| {
            let record = state.pods.get(state.pods.find(uid)?);
            Some(record.node.is_some() && !record.assumed)
        };
        Some(match change {
            Change::Node(node) => match state.nodes.find(&node.name) {
                Some(index) if state.nodes.present().contains(index) => Handled::NodeUpdate,
                _ => Handled::NodeAdd,
            },
            Change::NodeGone(_) => Handled::NodeDelete,
            Change::Pod(pod) => match (pod.node.is_empty(), placed(&pod.uid)) {
                (true, None) => Handled::PendingAdd,
                (true, Some(_)) => Handled::PendingUpdate,
                (false, Some(true)) => Handled::AssignedUpdate,
                (false, _) => Handled::AssignedAdd,
            },
            Change::PodGone { uid } if placed(uid)? => Handled::AssignedDelete,
            Change::PodGone { .. } => Handled::PendingDelete,
            _ => return None,
        })
    }

    /// A bind ended. The engine says nothing of a pod that the watch showed first.
    fn bound(&mut self, uid: &Uid, failure: Option<Text>, now: Instant) {
        self.binding = self.binding.saturating_sub(1);
        let (before, failed) = (self.commands.len(), failure.is_some());
        self.apply(Change::Bound { uid: uid.clone(), failure }, now);
        if self.commands[before..].iter().any(|command| subject(command).uid == *uid) {
            return;
        }
        if failed {
            self.attempts.remove(uid);
            self.spans.remove(uid);
        } else if let Some(Attempt { pod, node, .. }) = self.attempts.get_mut(uid) {
            // Nobody looks at them in an attempt that ends.
            let (pod, node) = (std::mem::take(pod), std::mem::take(node));
            self.commands.push(Command::ReportScheduled { pod, node });
        }
    }

    fn apply(&mut self, change: Change, now: Instant) {
        self.engine.apply(change, self.clock.time(now), &mut self.commands);
    }

    /// Hands commands over; `attempt` is when the attempt began that they come from.
    async fn hand_over(&mut self, attempt: Option<Instant>) {
        let mut victims = 0;
        while let Some(command) = self.next_command() {
            let pod = self.engine.state().pods.find(&subject(&command).uid);
            let mut order = self.order(command, pod);
            let preempts =
                matches!(order.command, Command::Evict { .. } | Command::ReportPreempted { .. });
            victims += usize::from(preempts);
            self.count(&mut order, pod, attempt);
            // Mostly there is room, and nothing is copied to wait for it.
            if let Err(refused) = self.orders.try_send(order)
                && !hand_later(&self.orders, refused).await
            {
                // Nobody does anything any more.
                self.stopped = true;
                return;
            }
        }
        if victims > 0 {
            self.metrics.preemption_victims(victims);
        }
    }

    /// The next command that may be given. A bind waits for room in the window, and fails when this
    /// process does not lead any more: then nothing new is begun.
    fn next_command(&mut self) -> Option<Command> {
        loop {
            self.outgoing.extend(self.commands.drain(..));
            let room = self.binding < self.window.size() || !self.leading;
            let command = match self.held.pop_front_if(|_| room) {
                Some(command) => command,
                None => self.outgoing.pop_front()?,
            };
            match command {
                Command::Bind { pod, .. } if !self.leading => {
                    let failure = Some("this process does not lead any more".into());
                    self.apply(Change::Bound { uid: pod.uid, failure }, Instant::now());
                }
                command @ Command::Bind { .. } if !room => self.held.push_back(command),
                command => return Some(command),
            }
        }
    }

    fn count(&mut self, order: &mut Order, known: Option<PodIdx>, attempt: Option<Instant>) {
        let uid = &subject(&order.command).uid;
        match &order.command {
            Command::Bind { pod, node, .. } => {
                self.binding += 1;
                let begun = attempt.unwrap_or_else(Instant::now);
                order.ready = Some(self.note_attempt(pod, known, node, begun));
                if let Some(span) = self.traces.attempt(pod, &order.scheduler, begun) {
                    order.trace = Some(span.context());
                    self.spans.insert(pod.uid.clone(), span);
                }
            }
            Command::ReportScheduled { node, .. } => {
                if let Some(span) = self.spans.remove(uid) {
                    span.placed("scheduled", node);
                }
                if let Some(Attempt { begun, number, first, flushed, .. }) =
                    self.attempts.remove(uid)
                {
                    if flushed {
                        self.metrics.scheduled_after_flush();
                    }
                    let now = Instant::now();
                    let waited = self.clock.time(now).saturating_sub(first) as f64 / 1e9;
                    self.metrics.scheduled(number, waited);
                    let seconds = now.saturating_duration_since(begun).as_secs_f64();
                    self.metrics.attempt(&order.scheduler, AttemptResult::Scheduled, seconds);
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
                    span.or_else(|| self.traces.attempt(pod, &order.scheduler, begun))
                {
                    span.failed(result.name(), message);
                }
                // No node was found in this very attempt: then plugins were asked to make room.
                if attempt.is_some()
                    && result == AttemptResult::Unschedulable
                    && self.makes_room(&order.scheduler)
                {
                    self.metrics.preemption_attempt();
                }
                self.metrics.attempt(&order.scheduler, result, begun.elapsed().as_secs_f64());
            }
            _ => {}
        }
    }

    /// Whether a profile has a plugin that can make room.
    fn makes_room(&self, profile: &str) -> bool {
        let profile = self.engine.profiles().iter().find(|known| known.name == profile);
        profile.is_some_and(|profile| !profile.at(Point::PostFilter).is_empty())
    }

    /// Notes an attempt that has come to its bind. Since when the pod could be tried.
    fn note_attempt(
        &mut self,
        pod: &PodName,
        known: Option<PodIdx>,
        node: &Text,
        begun: Instant,
    ) -> Instant {
        let queued = known.and_then(|pod| self.engine.queue().get(pod));
        let number = queued.map_or(1, |queued| queued.attempts.max(1));
        let first = queued.and_then(QueuedPod::initial_attempt);
        let first = first.unwrap_or_else(|| self.clock.now());
        let flushed = queued.is_some_and(|queued| queued.was_flushed);
        let attempt =
            Attempt { pod: pod.clone(), node: node.clone(), begun, number, first, flushed };
        self.attempts.insert(pod.uid.clone(), attempt);
        self.clock.instant(first)
    }

    /// A command with what is known of its pod.
    fn order(&self, command: Command, pod: Option<PodIdx>) -> Order {
        let state = self.engine.state();
        let known = |pod: PodIdx| {
            let record = state.pods.get(pod);
            Known { generation: record.generation, version: record.resource_version }
        };
        let scheduler = pod.map(|pod| state.spec(pod).scheduler_name.clone());
        let victim = match &command {
            Command::Evict { victim, .. } | Command::ReportPreempted { victim, .. } => {
                state.pods.find(&victim.uid).map(known)
            }
            _ => None,
        };
        Order {
            scheduler: scheduler.unwrap_or_default(),
            known: pod.map(known).unwrap_or_default(),
            victim: victim.unwrap_or_default(),
            ready: None,
            trace: None,
            command,
        }
    }

    fn show(&mut self) {
        self.status.binding.store(self.binding, Ordering::Relaxed);
        // Whoever sees this also sees how many binds were under way then.
        self.status.leading.store(self.leading, Ordering::Release);
        if self.shown.elapsed() < SHOWN_EVERY {
            return;
        }
        self.shown = Instant::now();
        let counts = self.engine.queue().counts();
        self.metrics.pending(PendingPods {
            active: counts.active,
            backoff: counts.backoff,
            unschedulable: counts.unschedulable,
            gated: counts.gated,
        });
        self.metrics.incoming_totals(&self.engine.queue().counters);
        let mut in_flight: BTreeMap<EventLabel, usize> = BTreeMap::new();
        for event in self.engine.queue().in_flight_events() {
            *in_flight.entry(event).or_default() += 1;
        }
        self.metrics.in_flight(&in_flight, counts.in_flight);
        self.show_blocked();
        self.metrics.binds_in_flight(self.binding);
        let state = self.engine.state();
        self.metrics.cache_size(CacheSize {
            nodes: state.nodes.count(),
            pods: state.pods.count(),
            assumed_pods: self.binding,
        });
    }

    /// Plugins that never stood in anybody's way are not shown.
    fn show_blocked(&mut self) {
        for (index, profile) in self.engine.profiles().iter().enumerate() {
            for plugin in 0..profile.plugins.len() {
                let pods = self.engine.queue().blocked_by(index, plugin);
                if pods > 0 {
                    self.blocked.insert((index, plugin));
                } else if !self.blocked.contains(&(index, plugin)) {
                    continue;
                }
                self.metrics.unschedulable(profile.plugin_name(plugin), &profile.name, pods);
            }
        }
    }
}

/// Hands something over, whether there is room for it at once or not. Whether somebody takes it.
pub(crate) async fn hand<T>(to: &mpsc::Sender<T>, thing: T) -> bool {
    match to.try_send(thing) {
        Ok(()) => true,
        Err(refused) => hand_later(to, refused).await,
    }
}

/// Hands over what there was no room for. Whether somebody takes it.
async fn hand_later<T>(to: &mpsc::Sender<T>, refused: TrySendError<T>) -> bool {
    match refused {
        TrySendError::Full(thing) => to.send(thing).await.is_ok(),
        TrySendError::Closed(_) => false,
    }
}

/// The pod on whose behalf a command is given.
fn subject(command: &Command) -> &PodName {
    match command {
        Command::Bind { pod, .. }
        | Command::Consult { pod, .. }
        | Command::ConsultOnVictims { pod, .. }
        | Command::PrepareVolumes { pod, .. }
        | Command::Nominate { pod, .. }
        | Command::ReportFailure { pod, .. }
        | Command::Warn { pod, .. }
        | Command::ReportScheduled { pod, .. } => pod,
        Command::Evict { preemptor, .. } | Command::ReportPreempted { preemptor, .. } => preemptor,
    }
}
