//! The engine: changes in, commands out.
//!
//! ```text
//! Change ─▶ apply ─┬─ cluster      nodes, namespaces, volumes, …  ─▶ state, and events for the queue
//!                  ├─ pods         pods added, updated, deleted   ─▶ state and queue
//!                  ├─ attempt      the next pod: filter, score, assume, reserve, permit
//!                  ├─ extenders    attempts that wait for extenders
//!                  ├─ binding      volumes, bind, and their failures
//!                  ├─ preemption   eviction of victims
//!                  └─ nominations  space kept free for preemptors
//! ```

/// Borrows the parts of the engine that the queue reads, so that the queue itself stays mutable.
macro_rules! context_of {
    ($engine:expr) => {
        $crate::engine::context::Context {
            state: &$engine.state,
            profiles: &$engine.profiles,
            classes: &$engine.classes,
            preemptions: &$engine.preemptions,
        }
    };
}

mod attempt;
mod audit;
mod binding;
mod cluster;
mod context;
mod decisions;
mod extenders;
mod nominations;
mod pods;
mod preemption;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use crate::change::Change;
use crate::classes::Classes;
use crate::command::{Command, PodName};
use crate::cycle::choose::next_random;
use crate::cycle::explain::{Explanation, class_of, explain};
use crate::cycle::post_filter::PostFilterInput;
use crate::cycle::ranking::ColumnPool;
use crate::framework::Profile;
use crate::index::PodIdx;
use crate::map::Map;
use crate::object::Pod;
use crate::queue::{Nominator, Queue, QueueConfig, Subscriptions};
use crate::state::State;
use crate::stopwatch::{AttemptTimes, Clock, Stopwatch};

use binding::BindingCycle;
use extenders::ExtenderCall;
use nominations::Nominations;
use preemption::Preemption;

pub use audit::AuditPart;

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
    state: State,
    profiles: Arc<[Profile]>,
    queue: Queue,
    classes: Classes,
    /// Pods in their binding cycle.
    bindings: Map<PodIdx, BindingCycle>,
    /// The part of `bindings` that waits for a permit.
    waiting_on_permit: BTreeSet<PodIdx>,
    /// Pods with an open extender call.
    extender_calls: Map<PodIdx, ExtenderCall>,
    /// Pods that wait until an extender call is closed.
    waiting_for_slot: VecDeque<PodIdx>,
    /// Ticket of the last command that has one.
    last_ticket: u64,
    /// Preemptors that wait for evictions.
    preemptions: Map<PodIdx, Preemption>,
    /// Nominations of waiting pods, as decided and as shown by the API server.
    nominations: Nominations,
    /// Position in the visiting order at which the next visit begins.
    visit_start: usize,
    column_pool: ColumnPool,
    stopwatch: Stopwatch,
    random: u64,
    /// Set if random numbers choose among ties.
    is_seeded: bool,
}

impl Engine {
    /// Creates an engine for an empty cluster.
    pub fn new(profiles: Vec<Profile>, settings: Settings) -> Self {
        let queue = Queue::new(settings.queue, Subscriptions::of(&profiles));
        Self {
            state: State::default(),
            profiles: profiles.into(),
            queue,
            classes: Classes::default(),
            bindings: Map::default(),
            waiting_on_permit: BTreeSet::new(),
            extender_calls: Map::default(),
            waiting_for_slot: VecDeque::new(),
            last_ticket: 0,
            preemptions: Map::default(),
            nominations: Nominations::default(),
            visit_start: 0,
            column_pool: ColumnPool::default(),
            stopwatch: Stopwatch::default(),
            random: settings.seed.unwrap_or(0),
            is_seeded: settings.seed.is_some(),
        }
    }

    /// Returns the state of the cluster.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the scheduling queue.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Returns the profiles.
    pub fn profiles(&self) -> &Arc<[Profile]> {
        &self.profiles
    }

    /// Sets or removes the clock that times the next attempts, and resets the measurements.
    pub fn set_clock(&mut self, clock: Option<Clock>) {
        self.stopwatch.set(clock);
    }

    /// Returns the measurements since [`Self::set_clock`].
    pub fn attempt_times(&self) -> AttemptTimes {
        self.stopwatch.times()
    }

    /// Applies a change at time `now` (nanoseconds since the epoch) and appends commands.
    pub fn apply(&mut self, change: Change, now: i64, commands: &mut Vec<Command>) {
        match change {
            Change::Pod(pod) => self.set_pod(*pod, now, commands),
            Change::PodGone { uid } => self.remove_pod(&uid, now, commands),
            Change::Bound { uid, failure } => self.bind_answered(&uid, failure, now, commands),
            Change::VolumesReady { uid, ticket, failure } => {
                self.volumes_ready(&uid, ticket, failure, now, commands);
            }
            Change::Permission { uid, plugin, denied } => {
                self.permit_answered(&uid, &plugin, denied, now, commands);
            }
            Change::VictimHandled { preemptor, victim, failure } => {
                self.victim_handled(&preemptor, &victim, failure.is_some(), now);
            }
            Change::ExtendersAnswered { uid, ticket, verdict } => {
                self.extenders_answered(&uid, ticket, verdict, now, commands);
            }
            Change::ExtendersAnsweredAboutVictims { uid, ticket, candidates } => {
                self.extenders_answered_about_victims(&uid, ticket, candidates, now, commands);
            }
            Change::Tick => {
                self.queue.tick(&context_of!(self), now);
                self.expire_permits(now, commands);
            }
            Change::Schedule { limit } => {
                let mut left = limit;
                while left > 0 && self.attempt(now, commands) {
                    left -= 1;
                }
            }
            other => self.change_cluster(other, now),
        }
    }

    /// Returns the time of the next work for [`Change::Tick`].
    pub fn next_deadline(&self) -> Option<i64> {
        let permits = self.permit_deadline();
        self.queue.next_deadline().into_iter().chain(permits).min()
    }

    /// Explains where a pod would go now, without changing anything.
    ///
    /// Returns `None` if no profile has its scheduler name.
    pub fn explain<T>(
        &mut self,
        pod: Pod,
        now: i64,
        read: impl FnOnce(&State, &Profile, Explanation) -> T,
    ) -> Option<T> {
        let profile =
            self.profiles.iter().find(|profile| *profile.name == *pod.spec.scheduler_name)?;
        let node_name = pod.node.clone();
        let known = self.state.pods.find(&pod.uid);
        let index = match known {
            Some(known) => known,
            None => self.state.add_pod(Pod { node: "".into(), ..pod }),
        };
        let home = self.state.pods.get(index).node;
        self.state.displace(index);
        let mut nominator = Nominator::default();
        let waiting = self.state.pods.iter().filter(|(_, record)| !record.node.is_some());
        for (pod, record) in waiting {
            nominator.nominate(pod, record.nominated);
        }
        let class = class_of(&self.state, index, &node_name);
        let input = PostFilterInput::new(index, &nominator, now, self.random);
        let before = self.state.nodes.peek_order();
        let explanation = explain(profile, class, &mut self.state, &input);
        let answer = read(&self.state, profile, explanation);
        self.state.nodes.end_peek(before);
        match known {
            None => self.state.remove_pod(index),
            Some(_) if home.is_some() => self.state.place(index, home),
            Some(_) => {}
        }
        Some(answer)
    }

    fn name(&self, pod: PodIdx) -> PodName {
        let record = self.state.pods.get(pod);
        PodName {
            namespace: self.state.namespace(pod).into(),
            name: record.name.clone(),
            uid: record.uid.clone(),
        }
    }

    /// Returns the next random number.
    fn next_random(&mut self) -> u64 {
        next_random(&mut self.random)
    }
}
