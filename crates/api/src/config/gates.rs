//! Feature gates: all that kube-scheduler knows, and those that change how a configuration is
//! defaulted and validated.

mod table;

use std::collections::BTreeMap;

/// A feature gate of kube-scheduler.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Gate {
    /// Its name, as in `--feature-gates`.
    pub name: &'static str,
    /// How far it is.
    pub stage: Stage,
    /// Its value unless it is set.
    pub default: bool,
    /// Whether it cannot be set to anything else.
    pub locked: bool,
    /// What it does here.
    pub effect: Effect,
}

/// How far a feature is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// Tried out.
    Alpha,
    /// Nearly done.
    Beta,
    /// Done.
    Ga,
    /// On its way out.
    Deprecated,
}

/// What a feature gate does in this scheduler.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Effect {
    /// It switches the feature.
    Acts,
    /// It concerns other components, or the way in which a scheduler works without changing what it
    /// decides.
    Elsewhere,
    /// It changes decisions, which here are those of its default; another value is refused.
    Decides,
}

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

/// What `--feature-gates` comes to.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Parsed {
    /// The gates that act.
    pub gates: Gates,
    /// Gates that were set and do nothing here.
    pub elsewhere: Vec<&'static str>,
}

impl Gates {
    /// All gates that kube-scheduler knows, but for `AllAlpha` and `AllBeta`.
    pub const ALL: &'static [Gate] = &table::TABLE;

    /// Reads settings of the form `NAME=true`, with an optional `kube:` before it. Later ones win,
    /// and gates by name win over `AllAlpha` and `AllBeta`.
    pub fn parse<'a>(settings: impl IntoIterator<Item = &'a str>) -> Result<Parsed, String> {
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
            Stage::Alpha => set.get("AllAlpha").copied(),
            Stage::Beta => set.get("AllBeta").copied(),
            Stage::Ga | Stage::Deprecated => None,
        };
        let is_known = |name: &str| {
            matches!(name, "AllAlpha" | "AllBeta") || Self::ALL.iter().any(|gate| gate.name == name)
        };
        if let Some(unknown) = set.keys().find(|name| !is_known(name)) {
            return Err(format!("{unknown:?} is no feature gate of Kubernetes 1.36; leave it out"));
        }
        let mut parsed = Parsed::default();
        let mut refused = Vec::new();
        for gate in Self::ALL {
            let named = set.get(gate.name).copied();
            let Some(value) = named.or_else(|| all(gate.stage)) else { continue };
            if gate.locked && value != gate.default {
                // What stands for many gates leaves those alone that cannot be set.
                if named.is_some() {
                    return Err(format!("{}: this gate is locked to {}", gate.name, gate.default));
                }
                continue;
            }
            match gate.effect {
                Effect::Acts => {
                    if let Some(own) = parsed.gates.by_name(gate.name) {
                        *own = value;
                    }
                }
                Effect::Elsewhere if named.is_some() => parsed.elsewhere.push(gate.name),
                Effect::Elsewhere => {}
                Effect::Decides if value != gate.default => {
                    refused.push(format!("{}={value}", gate.name));
                }
                Effect::Decides => {}
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

    /// A gate that acts, by its name.
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

    /// Whether `bindingTimeout` of DynamicResources has an effect.
    pub(super) fn binding_timeout(self) -> bool {
        self.dra_device_binding_conditions && self.dra_resource_claim_device_status
    }
}

/// A truth value in any of the forms that Go takes.
pub fn parse_bool(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
