//! On which nodes a volume can be made for a claim.

use engine::index::NodeIdx;
use engine::object::{CsiStorageCapacity, NodeTerm, PersistentVolumeClaim, Selector};
use engine::state::State;
use engine::state::volumes::Volumes;

use crate::volume_topology::NodeLabels;

/// Provisioner of classes whose volumes people make.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// What must hold for a volume to be made.
pub(super) enum ProvisioningRules {
    /// No volume is ever made.
    Never,
    /// One is made where the class allows it and storage is left.
    Where {
        /// `allowedTopologies`; empty allows every node.
        topologies: Box<[NodeTerm]>,
        /// Nodes from which enough storage can be reached; `None` when nobody keeps count.
        storage: Option<Vec<Selector>>,
    },
}

impl ProvisioningRules {
    /// The rules for a claim.
    pub(super) fn new(claim: &PersistentVolumeClaim, volumes: &Volumes) -> Self {
        let Some(class) = volumes.classes.get(claim.class()) else { return Self::Never };
        if class.provisioner.is_empty() || *class.provisioner == *NO_PROVISIONER {
            return Self::Never;
        }
        let counts = volumes.drivers.get(&class.provisioner).is_some_and(|d| d.storage_capacity);
        let size = claim.request.filter(|_| counts);
        let storage = size.map(|size| {
            let suits = |capacity: &&CsiStorageCapacity| {
                capacity.storage_class == class.name
                    && volume_limit(capacity).is_some_and(|limit| limit >= size)
            };
            let capacities = volumes.capacities.values().filter(suits);
            capacities.filter_map(|capacity| capacity.node_topology.clone()).collect()
        });
        Self::Where { topologies: class.allowed_topologies.clone(), storage }
    }
}

/// The largest volume that can still be made.
pub(super) fn volume_limit(capacity: &CsiStorageCapacity) -> Option<i64> {
    capacity.maximum_volume_size.or(capacity.capacity)
}

/// ProvisioningRules with labels looked up.
pub(super) enum ResolvedProvisioning {
    /// See [`ProvisioningRules::Never`].
    Never,
    /// See [`ProvisioningRules::Where`].
    Where { topologies: Option<NodeLabels>, storage: Option<NodeLabels> },
}

/// Whether a volume can be made on a node.
pub(super) enum ProvisioningOutcome {
    /// It can.
    Possible,
    /// The class has no volume for the node.
    NotThere,
    /// Too little storage is left.
    NoStorage,
}

impl ResolvedProvisioning {
    /// Looks the labels of rules up.
    pub(super) fn new(rules: &ProvisioningRules, state: &mut State) -> Self {
        let ProvisioningRules::Where { topologies, storage } = rules else { return Self::Never };
        let topologies = (!topologies.is_empty()).then(|| NodeLabels::of_terms(topologies, state));
        let storage = storage.as_ref().map(|storage| NodeLabels::of_selectors(storage, state));
        Self::Where { topologies, storage }
    }

    /// Whether a volume can be made on a node.
    pub(super) fn outcome(&self, state: &State, node: NodeIdx) -> ProvisioningOutcome {
        let Self::Where { topologies, storage } = self else {
            return ProvisioningOutcome::NotThere;
        };
        let accept = |labels: &Option<NodeLabels>| {
            labels.as_ref().is_none_or(|labels| labels.accept(state, node))
        };
        if !accept(topologies) {
            ProvisioningOutcome::NotThere
        } else if !accept(storage) {
            ProvisioningOutcome::NoStorage
        } else {
            ProvisioningOutcome::Possible
        }
    }
}
