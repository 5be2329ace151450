//! The plugin trait.

use std::cmp::Ordering;

use crate::bitset::NodeSet;
use crate::cycle::what_if::{Candidate, PostFilter};
use crate::index::{NodeIdx, PodIdx};
use crate::object::{AnnotationKeys, Text};
use crate::state::State;
use crate::state::plugin_states::InitialState;

use super::class::Class;
use super::effects::{BindContext, Effects};
use super::event::{Event, Subscription};
use super::filter::Filter;
use super::preparation::Preparation;
use super::rejection::{Reason, Rejection};
use super::scorer::Scorer;

/// Extension points, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "upstream's extension points, by their names")]
pub enum Point {
    PreEnqueue,
    QueueSort,
    PreFilter,
    Filter,
    PostFilter,
    PreScore,
    Score,
    Reserve,
    Permit,
    PreBind,
    Bind,
    PostBind,
    PlacementGenerate,
    PlacementScore,
}

/// Result of [`Plugin::prepare_filter`].
pub enum PreFilterResult {
    /// The plugin does not filter this class.
    Skip,
    /// No node is feasible.
    Reject(Rejection),
    /// The filter of this class.
    Filter(Box<dyn Filter>),
    /// Restricts the nodes to a set, and filters them further if a filter is given.
    Narrow(NodeSet, Option<Box<dyn Filter>>),
}

/// The part of one plugin in the evaluation key of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyPart {
    /// The plugin depends on the whole namespace and all labels: the class shares no evaluation.
    Whole,
    /// The plugin depends on these numbers only; without any, neither on namespace nor on labels.
    Fields(Vec<u32>),
}

impl KeyPart {
    /// The plugin depends neither on namespace nor on labels.
    pub const NOTHING: Self = Self::Fields(Vec::new());

    /// Returns [`Self::NOTHING`] if the plugin is independent of namespace and labels, otherwise
    /// [`Self::Whole`].
    pub fn nothing_if(is_independent: bool) -> Self {
        if is_independent { Self::NOTHING } else { Self::Whole }
    }
}

/// The fields by which QueueSort orders two pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueKey {
    /// Priority.
    pub priority: i32,
    /// Time of arrival in the queue or of the last failure, in nanoseconds since the epoch.
    pub timestamp: i64,
    /// What the plugin said of the pod when it entered the queue.
    pub traits: QueueTraits,
}

/// Fields for QueueSort plugins that order by more than priority and time. Their meaning is up to
/// the plugin.
///
/// They are computed when a pod enters the queue or is updated, since an order that changes while
/// pods wait breaks the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueTraits {
    /// Size, such as the dominant share of the largest node in millionths.
    pub size: u32,
    /// Group; zero for pods without one.
    pub group: u64,
}

/// Result of a PostFilter plugin.
pub enum PostFilterOutcome {
    /// The plugin found no way; the next plugin runs.
    Unschedulable {
        /// Reasons, in the plugin's order.
        reasons: Vec<Reason>,
        /// Set to clear the nominated node as well.
        clear_nomination: bool,
    },
    /// The pod is nominated for a node and the victims are evicted. No further plugin runs.
    Nominate {
        /// The node.
        node: NodeIdx,
        /// Pods to evict.
        victims: Vec<PodIdx>,
    },
    /// Extenders select among these candidates first. No further plugin runs.
    AskExtenders(Vec<Candidate>),
    /// The plugin failed. No further plugin runs.
    Error(Reason),
}

/// Access for Reserve plugins.
pub struct Reservation<'a> {
    /// The state, with the pod assumed on the node.
    pub state: &'a mut State,
    /// The pod.
    pub pod: PodIdx,
    /// Its node.
    pub node: NodeIdx,
    /// Effects on other pods, and reports.
    pub effects: &'a mut Effects,
}

/// Result of a Permit plugin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Allows the pod.
    Allow,
    /// Holds the pod back until it is allowed or rejected, at most for the timeout.
    Wait {
        /// Nanoseconds; capped at 15 minutes.
        timeout: i64,
    },
    /// Rejects the pod.
    Deny(Rejection),
}

/// A volume operation that precedes binding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeRequest {
    /// Writes `spec.claimRef` of a volume.
    BindVolume {
        /// Name of the volume.
        volume: Text,
        /// Namespace of the claim.
        namespace: Text,
        /// Name of the claim.
        claim: Text,
    },
    /// Writes the selected-node annotation of a claim, which makes its driver provision a volume.
    Provision {
        /// Namespace of the claim.
        namespace: Text,
        /// Name of the claim.
        claim: Text,
        /// The node.
        node: Text,
    },
}

/// A scheduling plugin. All methods but the first two have defaults; implement those you need.
///
/// Profiles are shared with threads that plan moves, so plugins are `Send + Sync` and have no
/// mutable fields.
pub trait Plugin: Send + Sync {
    /// Returns the name used in configuration files.
    fn name(&self) -> &str;

    /// Returns the extension points that the plugin implements.
    fn points(&self) -> &'static [Point];

    /// Returns the plugin's state for an empty cluster, if it has one. The first profile with the
    /// plugin provides it for all.
    fn initial_state(&self) -> Option<InitialState> {
        None
    }

    /// Returns the keys of the annotations that the plugin reads. Pods and nodes keep no others; those
    /// of a pod are part of its class: `class.spec.annotations` and `node.annotations`.
    fn annotations(&self) -> AnnotationKeys {
        AnnotationKeys::default()
    }

    /// Admits the pod to the active queue or gates it until one of [`Plugin::subscriptions`]
    /// happens, or until the time of [`Rejection::until`].
    fn pre_enqueue(&self, _state: &State, _pod: PodIdx) -> Result<(), Rejection> {
        Ok(())
    }

    /// Returns what [`Plugin::queue_order`] compares beside priority and time.
    fn queue_traits(&self, _state: &State, _pod: PodIdx) -> QueueTraits {
        QueueTraits::default()
    }

    /// Orders two pods of the queue.
    fn queue_order(&self, _a: &QueueKey, _b: &QueueKey) -> Ordering {
        Ordering::Equal
    }

    /// Prepares the filter for a class (upstream's PreFilter).
    fn prepare_filter(&self, _class: &Class, _preparation: &mut Preparation) -> PreFilterResult {
        PreFilterResult::Skip
    }

    /// Returns what the filter and the scorer of a class depend on in its namespace and labels.
    /// Classes of one spec with equal evaluation keys share one evaluation. [`KeyPart::Whole`], the
    /// default, is always correct.
    ///
    /// May read [`Areas::EVALUATION_KEY`](crate::state::Areas::EVALUATION_KEY) of the state.
    fn evaluation_key(&self, _class: &Class, _state: &State) -> KeyPart {
        KeyPart::Whole
    }

    /// Returns the error for profiles that enable the plugin's Filter but not its PreFilter; `None`
    /// if it does not need PreFilter.
    fn filter_without_pre_filter(&self) -> Option<&'static str> {
        None
    }

    /// Returns the error for profiles that enable the plugin's Score but not its PreScore; `None`
    /// if it does not need PreScore.
    fn score_without_pre_score(&self) -> Option<&'static str> {
        None
    }

    /// Prepares the scorer for a class (upstream's PreScore); `None` if the plugin does not score
    /// it.
    fn prepare_score(
        &self,
        _class: &Class,
        _preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        None
    }

    /// Looks for a way to make room for a pod without feasible nodes.
    fn post_filter(&self, _cycle: &mut PostFilter) -> PostFilterOutcome {
        PostFilterOutcome::Unschedulable { reasons: Vec::new(), clear_nomination: false }
    }

    /// Reserves resources for an assumed pod.
    fn reserve(&self, _reservation: &mut Reservation) -> Result<(), Rejection> {
        Ok(())
    }

    /// Releases reserved resources. Called for all Reserve plugins, even if their `reserve` did not
    /// run.
    fn unreserve(&self, _reservation: &mut Reservation) {}

    /// Allows, delays or rejects the binding of a pod.
    fn permit(&self, _context: &mut BindContext) -> Permit {
        Permit::Allow
    }

    /// Returns the writes that must precede binding; empty if none (upstream's preflight `Skip`).
    fn pre_bind(&self, _context: &mut BindContext) -> Vec<VolumeRequest> {
        Vec::new()
    }

    /// Returns the time-out of the writes of [`Plugin::pre_bind`], in nanoseconds.
    fn pre_bind_timeout(&self) -> i64 {
        0
    }

    /// Returns `true` if the plugin binds the pod, by the usual command.
    fn binds(&self, _state: &State, _pod: PodIdx, _node: NodeIdx) -> bool {
        false
    }

    /// Called after the pod was bound.
    fn post_bind(&self, _context: &mut BindContext) {}

    /// Returns the events that may make a pod schedulable that this plugin rejected.
    fn subscriptions(&self) -> Vec<Subscription> {
        Vec::new()
    }

    /// Queueing hint: returns `false` only if the event certainly does not make pods of the class
    /// schedulable.
    ///
    /// Called once per class; events of the waiting pod itself have [`Event::own`] set.
    fn hint(&self, _state: &State, _class: &Class, _event: &Event) -> bool {
        true
    }

    /// Queueing hint with effects, for plugins that act on events. Calls [`Plugin::hint`] by
    /// default.
    fn hint_with_effects(
        &self,
        state: &State,
        class: &Class,
        event: &Event,
        _effects: &mut Effects,
    ) -> bool {
        self.hint(state, class, event)
    }
}
