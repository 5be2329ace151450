//! The extension points of the scheduling framework.

use serde::{Serialize, Serializer};

/// A place in the scheduling of a pod where plugins are called, in the order a pod meets them.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ExtensionPoint {
    /// Before a pod enters the active queue.
    PreEnqueue,
    /// The order of the active queue.
    QueueSort,
    /// Once per pod before filtering.
    PreFilter,
    /// Once per pod and node.
    Filter,
    /// When no node passed the filters.
    PostFilter,
    /// Once per pod before scoring.
    PreScore,
    /// Once per pod and feasible node.
    Score,
    /// When a node was chosen.
    Reserve,
    /// Before binding; may hold the pod.
    Permit,
    /// Work before the pod is bound.
    PreBind,
    /// The binding itself.
    Bind,
    /// After the pod was bound.
    PostBind,
    /// The candidate placements of a pod group.
    PlacementGenerate,
    /// Ranks the placements of a pod group.
    PlacementScore,
}

impl ExtensionPoint {
    /// Every extension point, in order.
    pub const ALL: [Self; 14] = [
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::PreScore,
        Self::Score,
        Self::Reserve,
        Self::Permit,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
        Self::PlacementGenerate,
        Self::PlacementScore,
    ];

    /// The order in which upstream fills the points; it decides which point an error names.
    pub(super) const BUILD_ORDER: [Self; 14] = [
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::Reserve,
        Self::PreScore,
        Self::Score,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
        Self::Permit,
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PlacementGenerate,
        Self::PlacementScore,
    ];

    /// The key of this point in a configuration file.
    pub fn key(self) -> &'static str {
        match self {
            Self::PreEnqueue => "preEnqueue",
            Self::QueueSort => "queueSort",
            Self::PreFilter => "preFilter",
            Self::Filter => "filter",
            Self::PostFilter => "postFilter",
            Self::PreScore => "preScore",
            Self::Score => "score",
            Self::Reserve => "reserve",
            Self::Permit => "permit",
            Self::PreBind => "preBind",
            Self::Bind => "bind",
            Self::PostBind => "postBind",
            Self::PlacementGenerate => "placementGenerate",
            Self::PlacementScore => "placementScore",
        }
    }

    /// The name of the plugin type in upstream's messages, such as `FilterPlugin`.
    pub fn type_name(self) -> &'static str {
        match self {
            Self::PreEnqueue => "PreEnqueuePlugin",
            Self::QueueSort => "QueueSortPlugin",
            Self::PreFilter => "PreFilterPlugin",
            Self::Filter => "FilterPlugin",
            Self::PostFilter => "PostFilterPlugin",
            Self::PreScore => "PreScorePlugin",
            Self::Score => "ScorePlugin",
            Self::Reserve => "ReservePlugin",
            Self::Permit => "PermitPlugin",
            Self::PreBind => "PreBindPlugin",
            Self::Bind => "BindPlugin",
            Self::PostBind => "PostBindPlugin",
            Self::PlacementGenerate => "PlacementGeneratePlugin",
            Self::PlacementScore => "PlacementScorePlugin",
        }
    }

    /// Whether the weight of a plugin counts at this point.
    pub fn weighs(self) -> bool {
        matches!(self, Self::Score | Self::PlacementScore)
    }
}

impl Serialize for ExtensionPoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.key())
    }
}
