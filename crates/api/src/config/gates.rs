//! The feature gates that change how a configuration is defaulted and validated.

/// Feature gates seen by the configuration, with the defaults of v1.36.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "each gate is switched on its own")]
pub struct Gates {
    /// Adds the plugin DynamicResources.
    pub dynamic_resource_allocation: bool,
    /// Adds the plugin NodeDeclaredFeatures.
    pub node_declared_features: bool,
    /// Adds the plugin GangScheduling.
    pub gang_scheduling: bool,
    /// Adds the plugins TopologyPlacementGenerator and PodGroupPodsCount.
    pub topology_aware_workload_scheduling: bool,
    /// Allows `shape` in the arguments of VolumeBinding.
    pub storage_capacity_scoring: bool,
    /// Allows `filterTimeout` in the arguments of DynamicResources.
    pub dra_scheduler_filter_timeout: bool,
    /// Allows, with the next one, `bindingTimeout` in the arguments of DynamicResources.
    pub dra_device_binding_conditions: bool,
    /// Allows, with the previous one, `bindingTimeout` in the arguments of DynamicResources.
    pub dra_resource_claim_device_status: bool,
}

impl Default for Gates {
    fn default() -> Self {
        Self {
            dynamic_resource_allocation: true,
            node_declared_features: true,
            gang_scheduling: false,
            topology_aware_workload_scheduling: false,
            storage_capacity_scoring: false,
            dra_scheduler_filter_timeout: true,
            dra_device_binding_conditions: true,
            dra_resource_claim_device_status: true,
        }
    }
}

impl Gates {
    /// Their names, as in `--feature-gates`.
    pub const NAMES: [&str; 8] = [
        "DynamicResourceAllocation",
        "NodeDeclaredFeatures",
        "GangScheduling",
        "TopologyAwareWorkloadScheduling",
        "StorageCapacityScoring",
        "DRASchedulerFilterTimeout",
        "DRADeviceBindingConditions",
        "DRAResourceClaimDeviceStatus",
    ];

    /// A gate by its name.
    pub fn by_name(&mut self, name: &str) -> Option<&mut bool> {
        let position = Self::NAMES.iter().position(|known| *known == name)?;
        let gates = [
            &mut self.dynamic_resource_allocation,
            &mut self.node_declared_features,
            &mut self.gang_scheduling,
            &mut self.topology_aware_workload_scheduling,
            &mut self.storage_capacity_scoring,
            &mut self.dra_scheduler_filter_timeout,
            &mut self.dra_device_binding_conditions,
            &mut self.dra_resource_claim_device_status,
        ];
        gates.into_iter().nth(position)
    }

    /// Whether `bindingTimeout` of DynamicResources has an effect.
    pub(super) fn binding_timeout(self) -> bool {
        self.dra_device_binding_conditions && self.dra_resource_claim_device_status
    }
}
