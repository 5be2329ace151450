//! The plugin trait.

use std::cmp::Ordering;

use crate::bitset::NodeSet;
use crate::cycle::what_if::{Candidate, PostFilter};
use crate::index::{NodeIdx, PodIdx};
use crate::object::Text;
use crate::state::{Areas, State};

use super::class::Class;
use super::event::{Event, Subscription};
use super::filter::Filter;
use super::rejection::{Reason, Rejection};
use super::scorer::Scorer;

/// Extension points, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "upstream's names")]
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

/// What a plugin has while it prepares: the state, and a note of what it depends on.
pub struct Preparation<'a> {
    /// The state. Columns and tallies may be asked for; facts cannot be changed.
    pub state: &'a mut State,
    pub(crate) areas: Areas,
}

impl<'a> Preparation<'a> {
    /// A preparation that depends on nodes only.
    pub fn new(state: &'a mut State) -> Self {
        Self { state, areas: Areas::NODES }
    }

    /// Notes that the result is valid only for the present version of these areas.
    pub fn depends_on(&mut self, areas: Areas) {
        self.areas = self.areas.with(areas);
    }
}

/// What preparing a filter led to.
pub enum PreFilterResult {
    /// The plugin has nothing to say about this class.
    Skip,
    /// No node will do.
    Reject(Rejection),
    /// Nodes are to be filtered.
    Filter(Box<dyn Filter>),
    /// Only these nodes come into question; they are filtered further if a filter is given.
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
    /// When the pod came into the queue or last failed, in nanoseconds.
    pub timestamp: i64,
}

/// What a PostFilter plugin found.
pub enum PostFilterOutcome {
    /// Nothing could be done; other plugins go on. `clear_nomination` also takes the nominated node away.
    Unschedulable { reasons: Vec<Reason>, clear_nomination: bool },
    /// The pod is to go to this node once these pods are gone. Nobody else is asked.
    Nominate { node: NodeIdx, victims: Vec<PodIdx> },
    /// Extenders are to be asked about these before one is chosen. Nobody else is asked.
    AskExtenders(Vec<Candidate>),
    /// Something went wrong; nobody else is asked.
    Error(Reason),
}

/// A place that a plugin reserves or releases.
pub struct Reservation<'a> {
    /// The state, with the pod already on the node.
    pub state: &'a mut State,
    /// The pod.
    pub pod: PodIdx,
    /// Its node.
    pub node: NodeIdx,
}

/// What a Permit plugin says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Permit {
    /// Go on.
    Allow,
    /// Wait for somebody's word, at most this long.
    Wait {
        /// Nanoseconds; capped at 15 minutes.
        timeout: i64,
    },
    /// Do not bind.
    Deny(Rejection),
}

/// Work on volumes that must be done before a pod is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VolumeRequest {
    /// Write `spec.claimRef` of a volume.
    BindVolume {
        /// Name of the volume.
        volume: Text,
        /// Namespace of the claim.
        namespace: Text,
        /// Name of the claim.
        claim: Text,
    },
    /// Write the selected-node annotation of a claim, so that a volume is made for it.
    Provision {
        /// Namespace of the claim.
        namespace: Text,
        /// Name of the claim.
        claim: Text,
        /// The node.
        node: Text,
    },
}

/// A scheduling plugin. All methods but the first two have defaults: implement what you need.
pub trait Plugin {
    /// Name, as in configuration files.
    fn name(&self) -> &str;

    /// Extension points that the plugin implements.
    fn points(&self) -> &'static [Point];

    /// May the pod enter the queue? Otherwise it is gated until one of [`Plugin::subscriptions`] happens.
    fn pre_enqueue(&self, _state: &State, _pod: PodIdx) -> Result<(), Rejection> {
        Ok(())
    }

    /// Orders the queue.
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
    /// May read [`Areas::EVALUATION_KEY`] of the state.
    fn evaluation_key(&self, _class: &Class, _state: &State) -> KeyPart {
        KeyPart::Whole
    }

    /// What goes wrong when a profile has the plugin filter but not pre-filter; `None` when it can do without.
    fn filter_without_pre_filter(&self) -> Option<&'static str> {
        None
    }

    /// What goes wrong when a profile has the plugin score but not pre-score; `None` when it can do without.
    fn score_without_pre_score(&self) -> Option<&'static str> {
        None
    }

    /// Prepares the scorer for a class (upstream's PreScore); `None` to sit out.
    fn prepare_score(
        &self,
        _class: &Class,
        _preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        None
    }

    /// No node fits: what can be done?
    fn post_filter(&self, _cycle: &mut PostFilter) -> PostFilterOutcome {
        PostFilterOutcome::Unschedulable { reasons: Vec::new(), clear_nomination: false }
    }

    /// Takes what the pod needs on its node.
    fn reserve(&self, _reservation: &mut Reservation) -> Result<(), Rejection> {
        Ok(())
    }

    /// Gives it back. Called for all plugins, also for those whose `reserve` did not run.
    fn unreserve(&self, _reservation: &mut Reservation) {}

    /// May the pod be bound now?
    fn permit(&self, _state: &State, _pod: PodIdx, _node: NodeIdx) -> Permit {
        Permit::Allow
    }

    /// What must be written to the API server before binding. Empty: nothing (upstream's preflight `Skip`).
    fn pre_bind(&self, _state: &State, _pod: PodIdx, _node: NodeIdx) -> Vec<VolumeRequest> {
        Vec::new()
    }

    /// How long what [`Plugin::pre_bind`] asks for may take, in nanoseconds.
    fn pre_bind_timeout(&self) -> i64 {
        0
    }

    /// Whether this plugin binds the pod, by the usual command.
    fn binds(&self, _state: &State, _pod: PodIdx, _node: NodeIdx) -> bool {
        false
    }

    /// The pod was bound.
    fn post_bind(&self, _state: &State, _pod: PodIdx, _node: NodeIdx) {}

    /// Events that may make a pod fit which this plugin has turned down.
    fn subscriptions(&self) -> Vec<Subscription> {
        Vec::new()
    }

    /// Whether an event may make a pod of this class fit. Must not say no unless that is certain.
    ///
    /// Asked once per class; events of the waiting pod itself come with [`Event::own`].
    fn hint(&self, _state: &State, _class: &Class, _event: &Event) -> bool {
        true
    }
}
