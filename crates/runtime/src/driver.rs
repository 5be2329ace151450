//! The loop around the engine, on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use engine::change::Change;
use engine::command::{Command, PodName};
use engine::engine::Engine;
use tokio::sync::mpsc;

use crate::bind::Window;
use crate::execute::Order;

/// Inputs that may wait; then watches wait.
pub const INPUTS_MAX: usize = 8192;

/// Orders that may wait; then the engine waits.
pub const ORDERS_MAX: usize = 8192;

/// Inputs taken over before decisions are made again, so that neither starves the other.
const INPUTS_AT_ONCE: usize = 4096;

/// Decisions made before inputs are looked at again.
const DECISIONS_AT_ONCE: usize = 64;

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
    /// Make no more decisions and end.
    Stop,
}

/// What others may know of the loop.
#[derive(Debug, Default)]
pub struct DriverStatus {
    /// Kinds seen completely.
    pub synced: AtomicUsize,
    /// Binds under way.
    pub binding: AtomicUsize,
    /// Pods bound since the start.
    pub bound: AtomicUsize,
    /// Pods that wait, by queue: active, backoff, unschedulable, gated.
    pub pending: [AtomicUsize; 4],
}

/// The engine and its surroundings.
pub struct Driver {
    engine: Engine,
    orders: mpsc::Sender<Order>,
    window: Arc<Window>,
    status: Arc<DriverStatus>,
    clock: Clock,
    /// Kinds that must be complete before the first decision.
    kinds: usize,
    synced: usize,
    leading: bool,
    stopped: bool,
    binding: usize,
    commands: Vec<Command>,
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
        self.epoch.saturating_add(self.started.elapsed().as_nanos() as i64)
    }
}

impl Driver {
    /// A loop that begins to decide once this many kinds are complete.
    pub fn new(
        engine: Engine,
        orders: mpsc::Sender<Order>,
        window: Arc<Window>,
        status: Arc<DriverStatus>,
        kinds: usize,
    ) -> Self {
        Self {
            engine,
            orders,
            window,
            status,
            clock: Clock::start(),
            kinds,
            synced: 0,
            leading: false,
            stopped: false,
            binding: 0,
            commands: Vec::new(),
        }
    }

    /// Runs until it is stopped or all senders of inputs are gone.
    pub async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let mut taken = Vec::with_capacity(INPUTS_AT_ONCE);
        loop {
            if !self.can_decide() {
                let deadline = self.engine.next_deadline();
                let wait = deadline.map_or(i64::MAX, |at| at.saturating_sub(self.clock.now()));
                let wait = Duration::from_nanos(wait.max(0) as u64).min(Duration::from_mins(1));
                tokio::select! {
                    count = inputs.recv_many(&mut taken, INPUTS_AT_ONCE) => {
                        if count == 0 {
                            return;
                        }
                    }
                    () = tokio::time::sleep(wait) => {}
                }
            } else if !inputs.is_empty() {
                inputs.recv_many(&mut taken, INPUTS_AT_ONCE).await;
            }
            for input in taken.drain(..) {
                self.take(input);
            }
            if self.stopped {
                return;
            }
            self.apply(Change::Tick);
            if self.can_decide() {
                let room = self.window.size().saturating_sub(self.binding);
                self.apply(Change::Schedule { limit: room.min(DECISIONS_AT_ONCE) });
            }
            self.hand_over().await;
            self.show();
        }
    }

    fn can_decide(&self) -> bool {
        self.leading
            && self.synced >= self.kinds
            && self.binding < self.window.size()
            && self.engine.queue().has_next()
    }

    fn take(&mut self, input: Input) {
        match input {
            Input::Change(change) => {
                self.binding -= usize::from(matches!(change, Change::Bound { .. }));
                self.apply(change);
            }
            Input::Synced => self.synced += 1,
            Input::Lead(leading) => self.leading = leading,
            Input::Stop => self.stopped = true,
            Input::Audit => match self.engine.audit() {
                Ok(()) => tracing::info!("the audit found nothing wrong"),
                Err(wrong) => tracing::error!("the audit found: {wrong}"),
            },
        }
    }

    fn apply(&mut self, change: Change) {
        self.engine.apply(change, self.clock.now(), &mut self.commands);
    }

    async fn hand_over(&mut self) {
        let commands = std::mem::take(&mut self.commands);
        for command in commands {
            self.binding += usize::from(matches!(command, Command::Bind { .. }));
            if matches!(command, Command::ReportScheduled { .. }) {
                self.status.bound.fetch_add(1, Ordering::Relaxed);
            }
            let order = self.order(command);
            if self.orders.send(order).await.is_err() {
                return;
            }
        }
    }

    fn order(&self, command: Command) -> Order {
        let pod = subject(&command);
        let state = self.engine.state();
        match state.pods.find(&pod.uid) {
            Some(found) => Order {
                scheduler: state.spec(found).scheduler_name.clone(),
                generation: state.pods.get(found).generation,
                command,
            },
            None => Order { command, scheduler: "".into(), generation: 0 },
        }
    }

    fn show(&self) {
        self.status.synced.store(self.synced, Ordering::Relaxed);
        self.status.binding.store(self.binding, Ordering::Relaxed);
        let counts = self.engine.queue().counts();
        let counts = [counts.active, counts.backoff, counts.unschedulable, counts.gated];
        for (shown, count) in self.status.pending.iter().zip(counts) {
            shown.store(count, Ordering::Relaxed);
        }
    }
}

/// The pod on whose behalf a command is given.
fn subject(command: &Command) -> &PodName {
    match command {
        Command::Bind { pod, .. }
        | Command::PrepareVolumes { pod, .. }
        | Command::Nominate { pod, .. }
        | Command::ReportFailure { pod, .. }
        | Command::Warn { pod, .. }
        | Command::ReportScheduled { pod, .. } => pod,
        Command::Evict { preemptor, .. } => preemptor,
    }
}
