//! Feature gates: all gates of kube-scheduler, and those that affect defaults and validation of a
//! configuration.

mod table;

use std::collections::BTreeMap;

/// A feature gate of kube-scheduler.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct FeatureGate {
    /// Its name in `--feature-gates`.
    pub name: &'static str,
    /// Its maturity.
    pub stage: GateStage,
    /// Its default value.
    pub default: bool,
    /// `true` if it is locked to its default value.
    pub locked: bool,
    /// Its effect in this scheduler.
    pub effect: GateEffect,
}

/// The maturity of a feature, as in Kubernetes' feature gates.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GateStage {
    /// Experimental, off by default.
    Alpha,
    /// Complete, but may still change.
    Beta,
    /// Generally available.
    Ga,
    /// Deprecated; a later version removes it.
    Deprecated,
}

/// The effect of a feature gate in this scheduler.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum GateEffect {
    /// The gate switches the feature.
    Supported,
    /// The gate is accepted without effect: it concerns other components, or an implementation
    /// detail that does not change decisions.
    Ignored,
    /// The gate would change decisions, and only its default is implemented; any other value is
    /// rejected.
    DefaultOnly,
}

/// The gates with an effect on the configuration, with the defaults of v1.36.
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
    /// Together with `dra_resource_claim_device_status`: allows `bindingTimeout` in the arguments
    /// of DynamicResources.
    pub dra_device_binding_conditions: bool,
    /// Together with `dra_device_binding_conditions`: allows `bindingTimeout` in the arguments of
    /// DynamicResources.
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

/// The result of parsing `--feature-gates`.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ParsedGates {
    /// Values of the supported gates.
    pub gates: Gates,
    /// Gates that were set by name but are accepted without effect.
    pub ignored: Vec<&'static str>,
}

impl Gates {
    /// All feature gates of kube-scheduler, except `AllAlpha` and `AllBeta`.
    pub const ALL: &'static [FeatureGate] = &table::TABLE;

    /// Parses settings of the form `NAME=true`, optionally prefixed by `kube:`. Later settings win,
    /// and settings of single gates win over `AllAlpha` and `AllBeta`.
    pub fn parse<'a>(settings: impl IntoIterator<Item = &'a str>) -> Result<ParsedGates, String> {
        let mut set = BTreeMap::new();
        for setting in settings.into_iter().map(str::trim).filter(|setting| !setting.is_empty()) {
            let (name, value) = setting
                .split_once('=')
                .ok_or_else(|| format!("{setting:?} is not of the form NAME=true or NAME=false"))?;
            let name = name.trim();
            let name = match name.split_once(':') {
                Some(("kube", name)) => name,
                Some((component, _)) => {
                    return Err(format!(
                        "{setting:?}: there is no component {component:?}, only \"kube\""
                    ));
                }
                None => name,
            };
            let value = parse_bool(value.trim())
                .ok_or_else(|| format!("{setting:?} is not of the form NAME=true or NAME=false"))?;
            set.insert(name, value);
        }
        let all = |stage| match stage {
            GateStage::Alpha => set.get("AllAlpha").copied(),
            GateStage::Beta => set.get("AllBeta").copied(),
            GateStage::Ga | GateStage::Deprecated => None,
        };
        let is_known = |name: &str| {
            matches!(name, "AllAlpha" | "AllBeta") || Self::ALL.iter().any(|gate| gate.name == name)
        };
        if let Some(unknown) = set.keys().find(|name| !is_known(name)) {
            return Err(format!(
                "{unknown:?} is not a feature gate of Kubernetes 1.36; leave it out"
            ));
        }
        let mut parsed = ParsedGates::default();
        let mut refused = Vec::new();
        for gate in Self::ALL {
            let named = set.get(gate.name).copied();
            let Some(value) = named.or_else(|| all(gate.stage)) else { continue };
            if gate.locked && value != gate.default {
                // As upstream, `AllAlpha` and `AllBeta` skip locked gates.
                if named.is_some() {
                    return Err(format!("{}: this gate is locked to {}", gate.name, gate.default));
                }
                continue;
            }
            match gate.effect {
                GateEffect::Supported => {
                    if let Some(own) = parsed.gates.by_name(gate.name) {
                        *own = value;
                    }
                }
                GateEffect::Ignored if named.is_some() => parsed.ignored.push(gate.name),
                GateEffect::Ignored => {}
                GateEffect::DefaultOnly if value != gate.default => {
                    refused.push(format!("{}={value}", gate.name));
                }
                GateEffect::DefaultOnly => {}
            }
        }
        if refused.is_empty() {
            return Ok(parsed);
        }
        Err(format!(
            "{} would change decisions and is not supported: leave it at its default",
            refused.join(",")
        ))
    }

    /// Returns the field of a supported gate.
    fn by_name(&mut self, name: &str) -> Option<&mut bool> {
        Some(match name {
            "DynamicResourceAllocation" => &mut self.dynamic_resource_allocation,
            "NodeDeclaredFeatures" => &mut self.node_declared_features,
            "GangScheduling" => &mut self.gang_scheduling,
            "TopologyAwareWorkloadScheduling" => &mut self.topology_aware_workload_scheduling,
            "StorageCapacityScoring" => &mut self.storage_capacity_scoring,
            "DRASchedulerFilterTimeout" => &mut self.dra_scheduler_filter_timeout,
            "DRADeviceBindingConditions" => &mut self.dra_device_binding_conditions,
            "DRAResourceClaimDeviceStatus" => &mut self.dra_resource_claim_device_status,
            _ => return None,
        })
    }

    /// Returns `true` if `bindingTimeout` of DynamicResources takes effect.
    pub(super) fn has_binding_timeout(self) -> bool {
        self.dra_device_binding_conditions && self.dra_resource_claim_device_status
    }
}

/// Parses a boolean in any form that Go's `strconv.ParseBool` accepts.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
