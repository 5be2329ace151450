//! Trials: any number of pods removed from nodes and placed on nodes, and decisions in between, of
//! which nothing is left in the end.
//!
//! ```text
//! begin ─▶ remove, place, decide, check ─┬─ drop ──────▶ rolled back exactly
//!              ▲              │          └─ into_plan ─▶ rolled back; the plan can be committed
//!              └─ nest ───────┘
//! ```
//!
//! A trial changes the state as attempts do, so the cached evaluations of pod classes follow it
//! through the same logs: a step costs what the nodes it touched cost. The state records inverse
//! steps (`state/undo.rs`); rolling back makes them, which the evaluations follow as well.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use crate::bitset::NodeSet;
use crate::cycle::choose::next_random;
use crate::cycle::decide::{Decision, DecisionInputs, NodeRejection, check_node, decide};
use crate::cycle::evaluation::Evaluation;
use crate::cycle::ranking::ColumnPool;
use crate::framework::profile::PluginPosition;
use crate::framework::{BindContext, Effects, Permit, Point, Profile, Rejection};
use crate::index::{ClassIdx, NodeIdx, PodIdx};
use crate::object::Pod;
use crate::queue::NominationMark;
use crate::state::node_order::OrderPeek;
use crate::state::{State, UndoMark};

use super::core::Core;
use super::plan::Plan;

/// What decisions advance beside the state.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DecisionCursor {
    /// Position in the visiting order at which the next visit begins.
    pub(super) visit_start: usize,
    /// State of the random numbers.
    pub(super) random: u64,
    /// Set if random numbers choose among ties.
    pub(super) is_seeded: bool,
}

/// A trial on an engine or on a fork. Dropping it rolls everything back.
///
/// Extenders are not asked, and Permit plugins only by [`Self::permit`]: a trial places a pod where
/// the filters and the Reserve plugins let it go. Effects of plugins are ignored. Columns, tallies and evaluations that a trial creates stay as
/// caches.
pub struct Trial<'a> {
    core: &'a mut Core,
    column_pool: &'a mut ColumnPool,
    cursor: DecisionCursor,
    log: TrialLog,
    begin: Level,
    order: OrderPeek,
}

/// What a roll-back needs beside the undo log of the state.
#[derive(Default)]
struct TrialLog {
    /// Nominations that ended because their pod was placed.
    nominations: Vec<NominationMark>,
    /// Runs of the Reserve plugins.
    reservations: Vec<ReserveRun>,
    /// Pods that were removed or placed, with the node before; `NONE` if it had none.
    moves: Vec<(PodIdx, NodeIdx)>,
    /// Classes acquired for decisions, as often as they were.
    classes: Vec<ClassIdx>,
    /// Pods that were added.
    added: Vec<PodIdx>,
}

/// A run of the Reserve plugins of a profile, by [`Trial::place`], or of their Unreserve, by
/// [`Trial::remove`].
///
/// Rolling back runs the opposite on the state of that time. What plugins keep in the state needs
/// no such inverse, but a plugin may count elsewhere what it reserved.
struct ReserveRun {
    pod: PodIdx,
    node: NodeIdx,
    profile: usize,
    kind: ReserveKind,
    /// The state after Reserve, or before Unreserve.
    state: UndoMark,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReserveKind {
    Reserve,
    Unreserve,
}

/// A point to which a trial rolls back.
struct Level {
    state: UndoMark,
    cursor: DecisionCursor,
    nominations: usize,
    reservations: usize,
    moves: usize,
    classes: usize,
    added: usize,
}

impl<'a> Trial<'a> {
    pub(super) fn new(
        core: &'a mut Core,
        column_pool: &'a mut ColumnPool,
        cursor: DecisionCursor,
    ) -> Self {
        let order = core.state.nodes.peek_order();
        let state = core.state.start_undo_log();
        let log = TrialLog::default();
        let begin = Level::of(&log, state, cursor);
        Self { core, column_pool, cursor, log, begin, order }
    }

    /// Returns the state with the changes of the trial.
    pub fn state(&self) -> &State {
        &self.core.state
    }

    /// Returns the profiles.
    pub fn profiles(&self) -> &[Profile] {
        &self.core.profiles
    }

    /// Adds a pod that does not exist, without a node. It goes with the trial.
    pub fn add(&mut self, pod: Pod) -> PodIdx {
        debug_assert!(self.core.state.pods.find(&pod.uid).is_none(), "the pod exists");
        let added = self.core.state.add_pod(Pod { node: "".into(), ..pod });
        self.log.added.push(added);
        added
    }

    /// Removes a pod from its node, if it has one.
    pub fn remove(&mut self, pod: PodIdx) {
        let record = self.core.state.pods.get(pod);
        let (node, assumed) = (record.node, record.assumed);
        if !node.is_some() {
            return;
        }
        self.log.moves.push((pod, node));
        if assumed && let Some(profile) = self.profile_of(pod) {
            self.note_run(pod, node, profile, ReserveKind::Unreserve);
            self.core.unreserve(profile, pod, node, |_, _, _| ());
        }
        self.core.state.displace(pod);
    }

    /// Places a pod without a node on an existing node, as an attempt does: assumes it, ends its
    /// nomination and runs the Reserve plugins. Filters are not asked: see [`Self::check`].
    ///
    /// Returns the rejection of a Reserve plugin; the pod is not placed then.
    pub fn place(&mut self, pod: PodIdx, node: NodeIdx) -> Result<(), Rejection> {
        self.place_and_note(pod, node, |_, _| ())
    }

    /// As [`Self::place`]; passes the verdict of every Reserve plugin that was asked to `note`.
    pub(super) fn place_and_note(
        &mut self,
        pod: PodIdx,
        node: NodeIdx,
        mut note: impl FnMut(PluginPosition, Option<&Rejection>),
    ) -> Result<(), Rejection> {
        debug_assert!(self.core.state.nodes.present().contains(node), "the node exists");
        let before = self.level();
        self.log.moves.push((pod, NodeIdx::NONE));
        self.core.state.assume(pod, node);
        if let Some(nomination) = self.core.nominator.mark(pod) {
            self.log.nominations.push(nomination);
            self.core.nominator.remove(pod);
            self.core.state.set_nominated(pod, NodeIdx::NONE);
        }
        let Some(position) = self.profile_of(pod) else { return Ok(()) };
        let profiles = Arc::clone(&self.core.profiles);
        let mut reserved = Ok(());
        for plugin in profiles[position].at(Point::Reserve) {
            // Effects on other pods are no part of a trial.
            (reserved, _) = self.core.reserve_by(position, *plugin, pod, node);
            note(*plugin, reserved.as_ref().err());
            if reserved.is_err() {
                break;
            }
        }
        self.note_run(pod, node, position, ReserveKind::Reserve);
        if reserved.is_err() {
            self.roll_back(&before);
        }
        reserved
    }

    fn note_run(&mut self, pod: PodIdx, node: NodeIdx, profile: usize, kind: ReserveKind) {
        let state = self.core.state.undo_mark();
        self.log.reservations.push(ReserveRun { pod, node, profile, kind, state });
    }

    /// Decides where a pod without a node would go, with some nodes excluded.
    ///
    /// Costs as much as the decision of an attempt, by the same cached evaluation.
    pub fn decide(&mut self, pod: PodIdx, excluded: &NodeSet) -> Decision {
        let decision = self.with_evaluation(pod, |trial, profile, evaluation| {
            let draw = trial.cursor.is_seeded.then(|| next_random(&mut trial.cursor.random));
            let mut inputs = DecisionInputs {
                nominator: &trial.core.nominator,
                excluded: (!excluded.is_empty()).then_some(excluded),
                start: &mut trial.cursor.visit_start,
                draw,
                column_pool: trial.column_pool,
            };
            decide(profile, evaluation, &mut trial.core.state, pod, &mut inputs)
        });
        decision.unwrap_or_else(|| Decision::Error(NO_PROFILE.to_owned()))
    }

    /// Runs all filters for a pod without a node on one node, also with the pods nominated for it.
    pub fn check(&mut self, pod: PodIdx, node: NodeIdx) -> Result<(), NodeRejection> {
        let checked = self.with_evaluation(pod, |trial, profile, evaluation| {
            let Core { state, nominator, .. } = &mut *trial.core;
            check_node(profile, evaluation, state, nominator, pod, node)
        });
        checked.unwrap_or_else(|| {
            Err(NodeRejection { plugin: None, rejection: Rejection::unresolvable(NO_PROFILE) })
        })
    }

    /// Asks the Permit plugins about a placed pod. Returns the answers of those that were asked: a
    /// denial is the last.
    pub fn permit(&self, pod: PodIdx) -> Vec<(PluginPosition, Permit)> {
        let Some(profile) = self.profile_of(pod).map(|position| &self.core.profiles[position])
        else {
            return Vec::new();
        };
        let node = self.core.state.pods.get(pod).node;
        let mut answers = Vec::new();
        for plugin in profile.at(Point::Permit) {
            let (state, effects) = (&self.core.state, &mut Effects::default());
            let mut context = BindContext { state, pod, node, effects };
            let answer = profile.plugins[*plugin].permit(&mut context);
            let is_denied = matches!(answer, Permit::Deny(_));
            answers.push((*plugin, answer));
            if is_denied {
                break;
            }
        }
        answers
    }

    /// Begins a trial inside this one, which rolls back to here.
    pub fn nest(&mut self) -> Nested<'_, 'a> {
        let level = Some(self.level());
        Nested { trial: self, level }
    }

    /// Ends the trial, rolls it back and returns its net changes.
    pub fn into_plan(self) -> Plan {
        Plan::of(&self.core.state, &self.log.moves)
    }

    pub(super) fn core(&mut self) -> &mut Core {
        self.core
    }

    /// Returns the position of the profile that a pod names.
    fn profile_of(&self, pod: PodIdx) -> Option<usize> {
        let name = &self.core.state.spec(pod).scheduler_name;
        self.core.profiles.iter().position(|profile| *profile.name == **name)
    }

    /// Runs something with the evaluation of the pod's class; `None` if the pod has no profile.
    fn with_evaluation<T>(
        &mut self,
        pod: PodIdx,
        part: impl FnOnce(&mut Self, &Profile, &mut Evaluation) -> T,
    ) -> Option<T> {
        let position = self.profile_of(pod)?;
        let profiles = Arc::clone(&self.core.profiles);
        let profile = &profiles[position];
        let Core { state, classes, .. } = &mut *self.core;
        let class = classes.acquire(state, pod, position as u32);
        self.log.classes.push(class);
        let (evaluator, mut evaluation) = classes.take_or_evaluate(state, profile, class);
        let answer = part(self, profile, &mut evaluation);
        let Core { state, classes, .. } = &mut *self.core;
        classes.keep_if_recurring(state, evaluator, evaluation);
        Some(answer)
    }

    fn level(&self) -> Level {
        Level::of(&self.log, self.core.state.undo_mark(), self.cursor)
    }

    fn roll_back(&mut self, level: &Level) {
        // Classes hold label sets and specs, which must not outlive the pods that were added.
        let Core { state, classes, profiles, .. } = &mut *self.core;
        for class in self.log.classes.drain(level.classes..) {
            classes.release(state, class);
        }
        for pod in self.log.added.drain(level.added..) {
            for profile in 0..profiles.len() {
                classes.drop_if_unused(state, pod, profile as u32);
            }
        }
        for run in self.log.reservations.drain(level.reservations..).rev() {
            let ReserveRun { pod, node, profile, kind, state } = run;
            self.core.state.undo_to(&state);
            match kind {
                ReserveKind::Reserve => self.core.unreserve(profile, pod, node, |_, _, _| ()),
                ReserveKind::Unreserve => self.core.reserve(profile, pod, node),
            }
        }
        for nomination in self.log.nominations.drain(level.nominations..).rev() {
            self.core.nominator.restore(nomination);
        }
        self.log.moves.truncate(level.moves);
        self.core.state.undo_to(&level.state);
        self.cursor = level.cursor;
    }
}

/// No profile has the scheduler name of a pod.
const NO_PROFILE: &str = "no profile has the pod's scheduler name";

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        let cursor = self.cursor;
        let begin = std::mem::replace(
            &mut self.begin,
            Level::of(&TrialLog::default(), UndoMark::default(), cursor),
        );
        self.roll_back(&begin);
        self.core.state.end_undo_log();
        self.core.state.nodes.end_peek(self.order);
    }
}

impl Level {
    fn of(log: &TrialLog, state: UndoMark, cursor: DecisionCursor) -> Self {
        Self {
            state,
            cursor,
            nominations: log.nominations.len(),
            reservations: log.reservations.len(),
            moves: log.moves.len(),
            classes: log.classes.len(),
            added: log.added.len(),
        }
    }
}

/// A trial inside a trial. Dropping it rolls back what happened since [`Trial::nest`].
pub struct Nested<'t, 'a> {
    trial: &'t mut Trial<'a>,
    /// `None` once the changes are kept.
    level: Option<Level>,
}

impl Nested<'_, '_> {
    /// Ends the inner trial and leaves its changes to the outer one.
    pub fn keep(mut self) {
        self.level = None;
    }
}

impl Drop for Nested<'_, '_> {
    fn drop(&mut self) {
        if let Some(level) = self.level.take() {
            self.trial.roll_back(&level);
        }
    }
}

impl<'a> Deref for Nested<'_, 'a> {
    type Target = Trial<'a>;

    fn deref(&self) -> &Trial<'a> {
        self.trial
    }
}

impl<'a> DerefMut for Nested<'_, 'a> {
    fn deref_mut(&mut self) -> &mut Trial<'a> {
        self.trial
    }
}
