//! The engine: changes in, commands out.
//!
//! ```text
//! Change ─▶ apply ─┬─ cluster      nodes, namespaces, volumes, …  ─▶ state, and events for the queue
//!                  ├─ pods         pods added, updated, deleted   ─▶ state and queue
//!                  ├─ attempt      the next pod: filter, score, assume, reserve, permit
//!                  ├─ extenders    attempts that wait for extenders
//!                  ├─ binding      volumes, bind, and their failures
//!                  ├─ effects      of plugins on other pods
//!                  ├─ preemption   deletion of victims
//!                  ├─ evictions    as disruption budgets permit
//!                  └─ nominations  space kept free for preemptors
//! trial  what if, over many pods and nodes ─▶ rolled back, or a plan ─▶ commit
//! ```

mod attempt;
mod audit;
mod binding;
mod cluster;
#[cfg(any(test, feature = "testing"))]
mod content;
mod core;
mod decisions;
mod effects;
mod evictions;
mod explain;
mod extenders;
mod fork;
mod nominations;
mod plan;
mod pods;
mod preemption;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod trial;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::change::Change;
use crate::command::{Command, PodRef};
use crate::cycle::choose::next_random;
use crate::cycle::ranking::ColumnPool;
use crate::framework::Profile;
use crate::index::PodIdx;
use crate::map::Map;
use crate::object::Uid;
use crate::queue::{Nominator, Queue, QueueConfig, Subscriptions};
use crate::state::State;
use crate::stopwatch::{Clock, Measurements};

use self::core::Core;
use binding::{BindingCycle, ConfirmedBind};
use extenders::ExtenderCall;
use nominations::Nominations;
use trial::DecisionCursor;

pub use audit::AuditPart;
pub use evictions::{EvictionRequest, EvictionState};
pub use fork::Fork;
pub use plan::{Committed, Move, Plan};
pub use trial::{Nested, Trial};

/// Settings of an engine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settings {
    /// Durations of the queue.
    pub queue: QueueConfig,
    /// Seed of the random numbers: equal seeds and equal changes give equal commands. With a seed,
    /// random numbers choose among ties; without one they start at zero and upstream's rule
    /// chooses.
    pub seed: Option<u64>,
}

/// The scheduler as a state machine.
pub struct Engine {
    core: Core,
    queue: Queue,
    /// Commands of the change that is being applied.
    commands: Vec<Command>,
    /// Pods in their binding cycle.
    bindings: Map<PodIdx, BindingCycle>,
    /// Binds that the watch has confirmed and the API server has not answered yet.
    confirmed_binds: Map<Uid, ConfirmedBind>,
    /// The last requested eviction of each pod that has one.
    evictions: Map<Uid, EvictionState>,
    /// Pods with an open extender call.
    extender_calls: Map<PodIdx, ExtenderCall>,
    /// Pods that wait until an extender call is closed.
    waiting_for_slot: VecDeque<PodIdx>,
    /// Ticket of the last command that has one.
    last_ticket: u64,
    /// Nominations of waiting pods, as decided and as shown by the API server.
    nominations: Nominations,
    cursor: DecisionCursor,
    column_pool: ColumnPool,
}

impl Engine {
    /// Creates an engine for an empty cluster.
    pub fn new(profiles: Vec<Profile>, settings: Settings) -> Self {
        let queue = Queue::new(settings.queue, Subscriptions::of(&profiles));
        Self {
            core: Core::new(profiles),
            queue,
            commands: Vec::new(),
            bindings: Map::default(),
            confirmed_binds: Map::default(),
            evictions: Map::default(),
            extender_calls: Map::default(),
            waiting_for_slot: VecDeque::new(),
            last_ticket: 0,
            nominations: Nominations::default(),
            cursor: DecisionCursor {
                visit_start: 0,
                random: settings.seed.unwrap_or(0),
                is_seeded: settings.seed.is_some(),
            },
            column_pool: ColumnPool::default(),
        }
    }

    /// Returns the state of the cluster.
    pub fn state(&self) -> &State {
        &self.core.state
    }

    /// Returns the scheduling queue.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns the nominated pods.
    pub fn nominator(&self) -> &Nominator {
        &self.core.nominator
    }

    /// Returns the profiles.
    pub fn profiles(&self) -> &Arc<[Profile]> {
        &self.core.profiles
    }

    /// Sets or removes the clock that measures attempts and calls of plugins.
    pub fn set_clock(&mut self, clock: Option<Clock>) {
        self.core.state.stopwatch.set_clock(clock);
    }

    /// Returns and resets what was measured. With a clock, they must be taken regularly.
    pub fn take_measurements(&mut self) -> Measurements {
        self.core.state.stopwatch.take()
    }

    /// Applies a change at time `now` (nanoseconds since the epoch) and appends commands.
    pub fn apply(&mut self, change: Change, now: i64, commands: &mut Vec<Command>) {
        self.step(now, commands, |engine| engine.apply_change(change));
    }

    /// Handles the deadlines that have passed at time `now`: backoff, permits, flushes.
    pub fn tick(&mut self, now: i64, commands: &mut Vec<Command>) {
        self.step(now, commands, |engine| {
            engine.queue.tick(&engine.core, now);
            engine.expire_permits();
        });
    }

    /// Makes a scheduling attempt for the next pod at time `now`. Returns `false` if none is due.
    pub fn schedule(&mut self, now: i64, commands: &mut Vec<Command>) -> bool {
        self.step(now, commands, Self::attempt)
    }

    /// Runs one step, which appends its commands.
    fn step<T>(
        &mut self,
        now: i64,
        commands: &mut Vec<Command>,
        step: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.core.state.set_now(now);
        std::mem::swap(&mut self.commands, commands);
        let result = step(self);
        self.apply_effects();
        std::mem::swap(&mut self.commands, commands);
        result
    }

    fn apply_change(&mut self, change: Change) {
        match change {
            Change::Pod(pod) => self.set_pod(*pod),
            Change::PodGone { uid } => self.remove_pod(&uid),
            Change::Bound { uid, failure } => self.bind_answered(&uid, failure),
            Change::VolumesReady { uid, ticket, failure } => {
                self.volumes_ready(&uid, ticket, failure);
            }
            Change::Permission { uid, plugin, denied } => {
                self.permit_answered(&uid, &plugin, denied);
            }
            Change::VictimHandled { preemptor, victim, failure } => {
                self.victim_handled(&preemptor, &victim, failure.is_some());
            }
            Change::Evicted { uid, outcome } => self.eviction_answered(&uid, outcome),
            Change::ExtendersAnswered { uid, ticket, verdict } => {
                self.extenders_answered(&uid, ticket, verdict);
            }
            Change::ExtendersAnsweredAboutVictims { uid, ticket, candidates } => {
                self.extenders_answered_about_victims(&uid, ticket, candidates);
            }
            other => self.change_cluster(other),
        }
    }

    /// Returns the time of the next work for [`Self::tick`].
    pub fn next_deadline(&self) -> Option<i64> {
        let permits = self.permit_deadline();
        self.queue.next_deadline().into_iter().chain(permits).min()
    }

    /// Returns a pod as commands name it.
    fn pod_ref(&self, pod: PodIdx) -> PodRef {
        self.core.state.pod_ref(pod)
    }

    /// Returns the next random number.
    fn next_random(&mut self) -> u64 {
        next_random(&mut self.cursor.random)
    }
}
