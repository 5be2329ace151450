//! Arguments of the in-tree plugins, with their defaults and validation.

mod default_preemption;
mod dynamic_resources;
mod inter_pod_affinity;
mod node_affinity;
mod node_resources_balanced_allocation;
mod node_resources_fit;
mod pod_topology_spread;
mod scoring;
mod volume_binding;

pub use default_preemption::DefaultPreemptionArgs;
pub use dynamic_resources::DynamicResourcesArgs;
pub use inter_pod_affinity::InterPodAffinityArgs;
pub use node_affinity::{
    NodeAffinity, NodeAffinityArgs, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    Operator, PreferredSchedulingTerm,
};
pub use node_resources_balanced_allocation::NodeResourcesBalancedAllocationArgs;
pub use node_resources_fit::{
    NodeResourcesFitArgs, RequestedToCapacityRatio, ScoringStrategy, ScoringStrategyType,
};
pub use pod_topology_spread::{
    DefaultingType, NodeInclusionPolicy, PodTopologySpreadArgs, TopologySpreadConstraint,
    WhenUnsatisfiable,
};
pub use scoring::{ResourceSpec, UtilizationShapePoint};
pub use volume_binding::VolumeBindingArgs;

use serde::{Serialize, Serializer};

use super::fields::Fields;
use super::gates::Gates;
use super::problem::ProblemSink;
use super::tree::Tree;
use super::version::{GROUP, Version};

/// The arguments of a plugin.
#[derive(Clone, Debug, PartialEq)]
pub enum PluginArgs {
    /// Arguments of DefaultPreemption.
    DefaultPreemption(DefaultPreemptionArgs),
    /// Arguments of DynamicResources.
    DynamicResources(DynamicResourcesArgs),
    /// Arguments of InterPodAffinity.
    InterPodAffinity(InterPodAffinityArgs),
    /// Arguments of NodeAffinity.
    NodeAffinity(NodeAffinityArgs),
    /// Arguments of NodeResourcesBalancedAllocation.
    NodeResourcesBalancedAllocation(NodeResourcesBalancedAllocationArgs),
    /// Arguments of NodeResourcesFit.
    NodeResourcesFit(NodeResourcesFitArgs),
    /// Arguments of PodTopologySpread.
    PodTopologySpread(PodTopologySpreadArgs),
    /// Arguments of VolumeBinding.
    VolumeBinding(VolumeBindingArgs),
    /// Arguments of an out-of-tree plugin, or of an in-tree plugin that takes none; kept as
    /// written.
    Other(serde_json::Value),
}

impl PluginArgs {
    /// The plugins that have a type for their arguments.
    pub(super) const PLUGINS: [&'static str; 8] = [
        "DefaultPreemption",
        "DynamicResources",
        "InterPodAffinity",
        "NodeAffinity",
        "NodeResourcesBalancedAllocation",
        "NodeResourcesFit",
        "PodTopologySpread",
        "VolumeBinding",
    ];

    /// Returns the default arguments of a plugin that has a type for them.
    pub fn default_of(plugin: &str, gates: Gates) -> Option<Self> {
        let sink = ProblemSink::default();
        let fields = Fields::open(Tree::Null, String::new(), &sink);
        Self::typed(plugin, fields, gates)
    }

    /// Reads the arguments of a plugin. Returns `None` only for plugins without a type for them.
    pub(super) fn read(
        plugin: &str,
        args: Option<Tree>,
        path: String,
        version: Version,
        gates: Gates,
        sink: &ProblemSink,
    ) -> Option<Self> {
        if !Self::PLUGINS.contains(&plugin) {
            return args.map(|args| Self::Other(args.into_value(&path, sink)));
        }
        let mut fields = Fields::open(args.unwrap_or(Tree::Null), path, sink);
        check_type(plugin, &mut fields, version);
        Self::typed(plugin, fields, gates)
    }

    fn typed(plugin: &str, fields: Fields<'_>, gates: Gates) -> Option<Self> {
        Some(match plugin {
            "DefaultPreemption" => Self::DefaultPreemption(DefaultPreemptionArgs::read(fields)),
            "DynamicResources" => Self::DynamicResources(DynamicResourcesArgs::read(fields, gates)),
            "InterPodAffinity" => Self::InterPodAffinity(InterPodAffinityArgs::read(fields)),
            "NodeAffinity" => Self::NodeAffinity(NodeAffinityArgs::read(fields)),
            "NodeResourcesBalancedAllocation" => Self::NodeResourcesBalancedAllocation(
                NodeResourcesBalancedAllocationArgs::read(fields),
            ),
            "NodeResourcesFit" => Self::NodeResourcesFit(NodeResourcesFitArgs::read(fields)),
            "PodTopologySpread" => Self::PodTopologySpread(PodTopologySpreadArgs::read(fields)),
            "VolumeBinding" => Self::VolumeBinding(VolumeBindingArgs::read(fields, gates)),
            _ => return None,
        })
    }

    /// Returns the kind of the arguments, such as `NodeAffinityArgs`.
    fn kind(&self) -> &'static str {
        match self {
            Self::DefaultPreemption(_) => "DefaultPreemptionArgs",
            Self::DynamicResources(_) => "DynamicResourcesArgs",
            Self::InterPodAffinity(_) => "InterPodAffinityArgs",
            Self::NodeAffinity(_) => "NodeAffinityArgs",
            Self::NodeResourcesBalancedAllocation(_) => "NodeResourcesBalancedAllocationArgs",
            Self::NodeResourcesFit(_) => "NodeResourcesFitArgs",
            Self::PodTopologySpread(_) => "PodTopologySpreadArgs",
            Self::VolumeBinding(_) => "VolumeBindingArgs",
            Self::Other(_) => "",
        }
    }
}

/// Checks `apiVersion` and `kind`, both of which are optional in arguments.
fn check_type(plugin: &str, fields: &mut Fields<'_>, version: Version) {
    let api_version = fields.text("apiVersion").unwrap_or_default();
    let kind = fields.text("kind").unwrap_or_default();
    let expected = format!("{plugin}Args");
    let group = match api_version.rsplit_once('/') {
        Some((group, _)) => group,
        None if api_version.is_empty() => GROUP,
        None => "",
    };
    if group != GROUP || !kind.is_empty() && kind != expected {
        let kind = if kind.is_empty() { &expected } else { &kind };
        let got = if group.is_empty() { kind.clone() } else { format!("{kind}.{group}") };
        let message =
            format!("args for plugin {plugin} were not of type {expected}.{GROUP}, got {got}");
        fields.sink.report(&fields.path, message);
    } else if !api_version.is_empty()
        && Version::parse(&api_version).is_none_or(|found| found > version)
    {
        let message = format!(
            "no kind {expected:?} is registered for version {api_version:?}; leave out apiVersion"
        );
        fields.sink.report(fields.child("apiVersion"), message);
    }
}

impl Serialize for PluginArgs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let kind = self.kind();
        match self {
            Self::DefaultPreemption(args) => Typed::new(kind, args).serialize(serializer),
            Self::DynamicResources(args) => Typed::new(kind, args).serialize(serializer),
            Self::InterPodAffinity(args) => Typed::new(kind, args).serialize(serializer),
            Self::NodeAffinity(args) => Typed::new(kind, args).serialize(serializer),
            Self::NodeResourcesBalancedAllocation(args) => {
                Typed::new(kind, args).serialize(serializer)
            }
            Self::NodeResourcesFit(args) => Typed::new(kind, args).serialize(serializer),
            Self::PodTopologySpread(args) => Typed::new(kind, args).serialize(serializer),
            Self::VolumeBinding(args) => Typed::new(kind, args).serialize(serializer),
            Self::Other(args) => args.serialize(serializer),
        }
    }
}

/// Arguments preceded by their version and kind.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'a, T> {
    api_version: &'static str,
    kind: &'static str,
    #[serde(flatten)]
    args: &'a T,
}

impl<'a, T> Typed<'a, T> {
    fn new(kind: &'static str, args: &'a T) -> Self {
        Self { api_version: Version::V1.api_version(), kind, args }
    }
}
