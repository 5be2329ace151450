//! The state of the cluster, in tables made for scheduling.
//!
//! ```text
//! pods ──▶ label sets ──▶ tallies (logs of pods) ◀─── followed by prepared filters and scorers
//!   ├────▶ specs ──▶ terms ──┘
//!   └────▶ nodes (columns, log of pod changes) ◀───── read by prepared filters and scorers
//! ```

mod areas;
mod audit;
#[cfg(any(test, feature = "testing"))]
mod content;
pub mod domains;
pub mod driver_limits;
pub mod images;
pub mod label_sets;
pub mod lowest;
pub mod node_order;
pub mod nodes;
mod objects;
pub mod plugin_states;
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
mod undo;
pub mod volumes;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::index::PodIdx;
use crate::object::{
    DaemonSet, Deployment, DeviceClass, DisruptionBudget, Job, Namespace, Workload,
};
use crate::stopwatch::Stopwatch;

use driver_limits::DriverLimits;
use images::Images;
use label_sets::LabelSets;
use lowest::LowestPriorities;
use nodes::Nodes;
use plugin_states::PluginStates;
use pods::Pods;
use resources::ResourceNames;
use specs::Specs;
use table::Table;
use tallies::Tallies;
use terms::Terms;
use topology::Topology;
use undo::UndoStep;
use volumes::Volumes;

pub use areas::{Areas, Versions};
pub(crate) use undo::UndoMark;

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
    /// State that plugins keep.
    pub plugin_states: PluginStates,
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
    /// Pods that wait on Permit plugins.
    waiting_on_permit: BTreeSet<PodIdx>,
    /// Time of the change that is being applied, in nanoseconds since the epoch.
    now: i64,
    /// Inverse steps of the open trial; `None` without one.
    undo: Option<Vec<UndoStep>>,
    /// Measures the calls of plugins, which all have the state.
    pub(crate) stopwatch: Stopwatch,
}

impl State {
    /// Returns the time of the change that is being applied, in nanoseconds since the epoch.
    ///
    /// A filter or scorer that reads it says until when its results hold: see
    /// [`Preparation::valid_until`](crate::framework::Preparation::valid_until).
    pub fn now(&self) -> i64 {
        self.now
    }

    /// Iterates over the pods that have a node but wait on Permit plugins, which may allow or reject
    /// them: see [`Effects`](crate::framework::Effects).
    pub fn waiting_on_permit(&self) -> impl Iterator<Item = PodIdx> {
        self.waiting_on_permit.iter().copied()
    }

    /// Marks a pod as waiting on Permit plugins, or not.
    pub(crate) fn set_waiting_on_permit(&mut self, pod: PodIdx, waits: bool) {
        if waits {
            self.waiting_on_permit.insert(pod);
        } else {
            self.waiting_on_permit.remove(&pod);
        }
    }

    /// Sets the time of the change that is being applied.
    pub(crate) fn set_now(&mut self, now: i64) {
        self.now = now;
    }

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
