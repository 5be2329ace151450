//! The state of the cluster, in tables made for scheduling.
//!
//! ```text
//! pods ──▶ label sets ──▶ tallies (logs of pods) ◀─── followed by prepared filters and scorers
//!   ├────▶ specs ──▶ terms ──┘
//!   └────▶ nodes (columns, log of pod changes) ◀───── read by prepared filters and scorers
//! ```

mod areas;
mod audit;
pub mod domains;
pub mod driver_limits;
pub mod images;
pub mod label_sets;
pub mod lowest;
pub mod node_order;
pub mod nodes;
mod objects;
pub mod pods;
pub mod resources;
pub mod selector_index;
pub mod specs;
mod sums;
pub mod taints;
pub mod tallies;
pub mod terms;
pub mod topology;
pub mod volumes;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::object::{DisruptionBudget, Namespace, Text, Workload, WorkloadKind};
use crate::stopwatch::Stopwatch;

use driver_limits::DriverLimits;
use images::Images;
use label_sets::LabelSets;
use lowest::LowestPriorities;
use nodes::Nodes;
use pods::Pods;
use resources::ResourceNames;
use specs::Specs;
use tallies::Tallies;
use terms::Terms;
use topology::Topology;
use volumes::Volumes;

pub use areas::{Areas, Versions};

/// All tables of the state.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// Nodes.
    pub nodes: Nodes,
    /// Pods.
    pub pods: Pods,
    /// Lowest pod priority on each node.
    pub lowest_priorities: LowestPriorities,
    /// Interned pod specs.
    pub specs: Specs,
    /// Interned namespaces with labels.
    pub label_sets: LabelSets,
    /// Interned affinity terms of existing pods.
    pub terms: Terms,
    /// Logs of the pods per selector or term.
    pub tallies: Tallies,
    /// Label columns of nodes.
    pub topology: Topology,
    /// Images present on nodes.
    pub images: Images,
    /// Interned resource names.
    pub resources: ResourceNames,
    /// Storage objects.
    pub volumes: Volumes,
    namespaces: BTreeMap<Text, Namespace>,
    workloads: BTreeMap<(Text, WorkloadKind, Text), Workload>,
    budgets: BTreeMap<(Text, Text), DisruptionBudget>,
    /// Extended resource name by device class name.
    device_classes: BTreeMap<Text, Text>,
    versions: Versions,
    /// Computed on first use; dropped when nodes or volumes change.
    driver_limits: Option<Arc<DriverLimits>>,
    /// Measures the calls of plugins, which all have the state.
    pub(crate) stopwatch: Stopwatch,
}

impl State {
    /// Returns the current versions of all areas.
    pub fn versions(&self) -> Versions {
        let mut versions = self.versions;
        versions.0[Areas::TERMS.position()] = self.terms.version();
        versions.0[Areas::PODS.position()] = self.nodes.pod_changes().end();
        versions
    }

    /// Increments the versions of areas.
    fn bump(&mut self, area: Areas) {
        if area.contains(Areas::NODES) || area.contains(Areas::VOLUMES) {
            self.driver_limits = None;
        }
        for (position, candidate) in Areas::ALL.iter().enumerate() {
            if area.contains(*candidate) {
                self.versions.0[position] += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests;
