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
pub mod table;
pub mod taints;
pub mod tallies;
pub mod terms;
pub mod topology;
pub mod volumes;

use std::sync::Arc;

use crate::object::{
    DaemonSet, Deployment, DeviceClass, DisruptionBudget, Job, Namespace, Workload,
};

use driver_limits::DriverLimits;
use images::Images;
use label_sets::LabelSets;
use lowest::LowestPriorities;
use nodes::Nodes;
use pods::Pods;
use resources::ResourceNames;
use specs::Specs;
use table::Table;
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
    namespaces: Table<Namespace>,
    services: Table<Workload>,
    /// ReplicationControllers.
    pub replication_controllers: Table<Workload>,
    /// ReplicaSets.
    pub replica_sets: Table<Workload>,
    /// StatefulSets.
    pub stateful_sets: Table<Workload>,
    /// Deployments; empty unless they are watched.
    pub deployments: Table<Deployment>,
    /// DaemonSets; empty unless they are watched.
    pub daemon_sets: Table<DaemonSet>,
    /// Jobs; empty unless they are watched.
    pub jobs: Table<Job>,
    budgets: Table<DisruptionBudget>,
    device_classes: Table<DeviceClass>,
    versions: Versions,
    /// Computed on first use; dropped when nodes or volumes change.
    driver_limits: Option<Arc<DriverLimits>>,
}

impl State {
    /// Returns the current versions of all areas.
    pub fn versions(&self) -> Versions {
        let mut versions = self.versions;
        versions.0[Areas::TERMS.position()] = self.terms.version();
        versions.0[Areas::PODS.position()] = self.nodes.pod_changes().end();
        versions
    }

    /// Invalidates what was prepared from these areas, whose objects have changed.
    pub(crate) fn invalidate(&mut self, areas: Areas) {
        if areas.contains(Areas::VOLUMES) && self.volumes.drop_outdated() {
            self.bump(Areas::CLAIMS_IN_USE);
        }
        self.bump(areas);
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
