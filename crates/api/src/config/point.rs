//! The extension points of the scheduling framework.

use serde::{Serialize, Serializer};

/// An extension point of the scheduling framework, in the order in which a pod passes them.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum ExtensionPoint {
    /// Before a pod enters the active queue.
    PreEnqueue,
    /// Orders the active queue.
    QueueSort,
    /// Once per pod, before filtering.
    PreFilter,
    /// Once per pod and node.
    Filter,
    /// After filtering, if no node is feasible.
    PostFilter,
    /// Once per pod, before scoring.
    PreScore,
    /// Once per pod and feasible node.
    Score,
    /// After a node is selected.
    Reserve,
    /// Before binding; may make the pod wait.
    Permit,
    /// Prepares binding, such as by provisioning volumes.
    PreBind,
    /// Binds the pod.
    Bind,
    /// After the pod is bound.
    PostBind,
    /// Generates candidate placements of a pod group.
    PlacementGenerate,
    /// Scores the placements of a pod group.
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

    /// The order in which upstream builds the points, which decides the point named by an error.
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

    /// Returns the key of this point in a configuration file.
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

    /// Returns the plugin type named in upstream's messages, such as `FilterPlugin`.
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

    /// Returns `true` if plugin weights apply at this point.
    pub fn uses_weights(self) -> bool {
        matches!(self, Self::Score | Self::PlacementScore)
    }
}

impl Serialize for ExtensionPoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.key())
    }
}
