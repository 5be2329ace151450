//! Nodes for which a volume can be provisioned for a claim.

use engine::index::NodeIdx;
use engine::object::{CsiStorageCapacity, NodeTerm, PersistentVolumeClaim, Selector};
use engine::state::State;
use engine::state::volumes::Volumes;

use crate::volume_topology::NodeLabels;

/// Provisioner of classes whose volumes are created by hand.
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Conditions of provisioning a volume.
pub(super) enum ProvisioningRules {
    /// The class has no provisioner.
    Never,
    /// A volume can be provisioned where the class allows it and enough storage is free.
    Where {
        /// `allowedTopologies`; empty allows every node.
        topologies: Box<[NodeTerm]>,
        /// Selectors of the nodes with enough free storage; `None` if the driver does not report it.
        storage: Option<Vec<Selector>>,
    },
}

impl ProvisioningRules {
    /// Returns the rules for a claim.
    pub(super) fn new(claim: &PersistentVolumeClaim, volumes: &Volumes) -> Self {
        let Some(class) = volumes.classes.get(claim.class()) else { return Self::Never };
        if class.provisioner.is_empty() || *class.provisioner == *NO_PROVISIONER {
            return Self::Never;
        }
        let reports_capacity =
            volumes.drivers.get(&class.provisioner).is_some_and(|d| d.storage_capacity);
        let size = claim.request.filter(|_| reports_capacity);
        let storage = size.map(|size| {
            let suffices = |capacity: &&CsiStorageCapacity| {
                capacity.storage_class == class.name
                    && volume_limit(capacity).is_some_and(|limit| limit >= size)
            };
            let capacities = volumes.capacities.values().filter(suffices);
            capacities.filter_map(|capacity| capacity.node_topology.clone()).collect()
        });
        Self::Where { topologies: class.allowed_topologies.clone(), storage }
    }
}

/// Returns the size of the largest volume that can still be provisioned.
pub(super) fn volume_limit(capacity: &CsiStorageCapacity) -> Option<i64> {
    capacity.maximum_volume_size.or(capacity.capacity)
}

/// [`ProvisioningRules`] with labels resolved to label columns.
pub(super) enum ResolvedProvisioning {
    /// See [`ProvisioningRules::Never`].
    Never,
    /// See [`ProvisioningRules::Where`].
    Where { topologies: Option<NodeLabels>, storage: Option<NodeLabels> },
}

/// Result of [`ResolvedProvisioning::outcome`].
pub(super) enum ProvisioningOutcome {
    /// A volume can be provisioned.
    Possible,
    /// The class does not provision volumes for the node.
    Impossible,
    /// There is not enough free storage.
    NotEnoughSpace,
}

impl ResolvedProvisioning {
    /// Resolves the labels of rules to label columns.
    pub(super) fn new(rules: &ProvisioningRules, state: &mut State) -> Self {
        let ProvisioningRules::Where { topologies, storage } = rules else { return Self::Never };
        let topologies = (!topologies.is_empty()).then(|| NodeLabels::of_terms(topologies, state));
        let storage = storage.as_ref().map(|storage| NodeLabels::of_selectors(storage, state));
        Self::Where { topologies, storage }
    }

    /// Returns whether a volume can be provisioned for a node.
    pub(super) fn outcome(&self, state: &State, node: NodeIdx) -> ProvisioningOutcome {
        let Self::Where { topologies, storage } = self else {
            return ProvisioningOutcome::Impossible;
        };
        let accept = |labels: &Option<NodeLabels>| {
            labels.as_ref().is_none_or(|labels| labels.accept(state, node))
        };
        if !accept(topologies) {
            ProvisioningOutcome::Impossible
        } else if !accept(storage) {
            ProvisioningOutcome::NotEnoughSpace
        } else {
            ProvisioningOutcome::Possible
        }
    }
}
