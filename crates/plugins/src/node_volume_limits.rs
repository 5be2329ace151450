//! NodeVolumeLimits: rejects nodes on which the volume limit of a CSI driver would be exceeded.

mod handles;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use api::config::PluginArgs;
use engine::framework::event::{Object, PodView};
use engine::framework::{
    Action, Class, Event, Filter, KeyPart, NodeVerdict, Plugin, Point, PreFilterResult,
    Preparation, Rejection, Resource, Subscription,
};
use engine::index::NodeIdx;
use engine::object::{CsiNode, PodSpec, Text, Volume, VolumeAttachment};
use engine::state::driver_limits::DriverLimits;
use engine::state::{Areas, State};

use crate::csi_migration;
use crate::volume_claims::{Consumer, event_concerns, not_found};

use handles::{DriverHandle, HandleError, PodIdentity, handle_of_volume};

pub(crate) const NAME: &str = "NodeVolumeLimits";
pub(crate) const POINTS: &[Point] = &[Point::PreFilter, Point::Filter];
pub(crate) const DOC: &str =
    "Rejects nodes on which the volume limit of a CSI driver would be exceeded.";

const LIMIT_EXCEEDED: NodeVerdict = NodeVerdict(1);
const LOOKUP_FAILED: NodeVerdict = NodeVerdict(2);
const EXISTING_POD_FAILED: NodeVerdict = NodeVerdict(3);

pub(crate) fn build(_args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    Box::new(NodeVolumeLimits)
}

struct NodeVolumeLimits;

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn evaluation_key(&self, class: &Class, _state: &State) -> KeyPart {
        KeyPart::nothing_if(!class.spec.has_claims())
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        if !has_countable_volumes(&class.spec) {
            return PreFilterResult::Skip;
        }
        preparation.depends_on(Areas::VOLUMES);
        let limits = preparation.state.driver_limits();
        let consumer = Consumer::of_class(preparation.state, class);
        let unregistered = demands(&consumer, preparation.state, false, &limits).err();
        let registered = demands(&consumer, preparation.state, true, &limits);
        if unregistered.is_none() && registered.as_ref().is_ok_and(Vec::is_empty) {
            return PreFilterResult::Skip;
        }
        PreFilterResult::Filter(Box::new(VolumeLimitsFilter { limits, unregistered, registered }))
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        vec![
            Subscription { resource: Resource::CsiNode, action: Action::ADD },
            Subscription { resource: Resource::CsiNode, action: Action::UPDATE },
            Subscription { resource: Resource::Pod, action: Action::DELETE },
            Subscription { resource: Resource::PersistentVolumeClaim, action: Action::ADD },
            // Beyond upstream: until a claim is bound it counts for the driver of its class; it may then be
            // bound to a volume of another driver or to one that the node already has.
            Subscription { resource: Resource::PersistentVolumeClaim, action: Action::UPDATE },
            Subscription { resource: Resource::PersistentVolume, action: Action::ADD },
            Subscription { resource: Resource::VolumeAttachment, action: Action::DELETE },
        ]
    }

    fn hint(&self, _state: &State, class: &Class, event: &Event) -> bool {
        match event.object {
            Object::CsiNode { old: Some(old), new: Some(new) } => limit_rose(old, new),
            Object::Pod { old: Some(deleted), .. } => frees_volumes(&deleted),
            Object::PersistentVolumeClaim { old: Some(old), new: Some(new) } => {
                old.volume_name != new.volume_name
            }
            Object::PersistentVolumeClaim { .. } => event_concerns(class, event),
            Object::VolumeAttachment { old: Some(deleted), .. } => {
                may_use_driver(&class.spec, deleted)
            }
            _ => true,
        }
    }
}

/// Returns `true` if a pod has volumes that may count.
fn has_countable_volumes(spec: &PodSpec) -> bool {
    spec.volumes.iter().any(|volume| match volume {
        Volume::Claim { .. } | Volume::Ephemeral { .. } => true,
        Volume::Inline(disk) => csi_migration::is_migratable(disk),
    })
}

/// Returns `true` if the limit of a driver rose. Upstream misses limits that were removed.
fn limit_rose(old: &CsiNode, new: &CsiNode) -> bool {
    let limit = |node: &CsiNode, driver: &str| {
        node.drivers.iter().find(|d| *d.name == *driver).map(|driver| driver.limit)
    };
    let rose = new.drivers.iter().any(|driver| match limit(old, &driver.name) {
        None | Some(None) => driver.limit.is_some_and(|limit| limit > 0),
        Some(Some(before)) => driver.limit.is_none_or(|limit| limit > before),
    });
    rose || old.drivers.iter().any(|d| d.limit.is_some() && limit(new, &d.name).is_none())
}

fn frees_volumes(deleted: &PodView) -> bool {
    (deleted.assigned || deleted.nominated) && has_countable_volumes(deleted.spec)
}

fn may_use_driver(spec: &PodSpec, deleted: &VolumeAttachment) -> bool {
    spec.volumes.iter().any(|volume| match volume {
        Volume::Claim { .. } | Volume::Ephemeral { .. } => true,
        Volume::Inline(disk) => match csi_migration::inline_handle(disk) {
            Some(Err(_)) => true,
            _ => csi_migration::inline_driver(disk) == Some(&deleted.attacher),
        },
    })
}

/// Volumes of one driver that a pod needs.
struct VolumeDemand {
    driver: Text,
    /// Index of the driver among those with limits.
    limited: Option<usize>,
    handles: Vec<Text>,
}

/// Returns the volumes that a pod needs by driver, on nodes with a CSINode (`registered`) or without.
fn demands(
    consumer: &Consumer,
    state: &State,
    registered: bool,
    limits: &DriverLimits,
) -> Result<Vec<VolumeDemand>, Rejection> {
    let mut demands: Vec<VolumeDemand> = Vec::new();
    for volume in &consumer.spec.volumes {
        let pod = PodIdentity {
            namespace: &consumer.namespace,
            name: &consumer.name,
            uid: &consumer.uid,
        };
        let found =
            handle_of_volume(volume, &pod, registered, &state.volumes).map_err(|problem| {
                match problem {
                    HandleError::ClaimNotFound(name) => Rejection::unresolvable(format!(
                        "looking up PVC {}/{name}: {}",
                        consumer.namespace,
                        not_found(name)
                    )),
                    HandleError::Other(text) => Rejection::error(text),
                }
            })?;
        let Some((driver, handle)) = found else { continue };
        let position = demands.iter().position(|d| *d.driver == *driver).unwrap_or_else(|| {
            let limited = limits.driver(driver);
            demands.push(VolumeDemand { driver: driver.into(), limited, handles: Vec::new() });
            demands.len() - 1
        });
        let handles = &mut demands[position].handles;
        if !handles.iter().any(|known| **known == *handle) {
            handles.push(handle.into());
        }
    }
    Ok(demands)
}

/// Compares the volumes of a node with the limits of its drivers.
struct VolumeLimitsFilter {
    limits: Arc<DriverLimits>,
    /// Rejection by nodes without a CSINode, if any.
    unregistered: Option<Rejection>,
    /// Volumes needed on nodes with a CSINode, or their rejection.
    registered: Result<Vec<VolumeDemand>, Rejection>,
}

impl VolumeLimitsFilter {
    fn lookup_failure(&self, node: NodeIdx) -> Option<&Rejection> {
        if self.limits.is_registered(node) {
            self.registered.as_ref().err()
        } else {
            self.unregistered.as_ref()
        }
    }

    /// Returns `true` if the volumes fit even if none of them is shared: an upper bound that avoids comparing
    /// handles.
    fn fits_easily(&self, demands: &[VolumeDemand], state: &State, node: NodeIdx) -> bool {
        let volumes = state.nodes.volumes(node);
        let at_most = volumes.claims as usize + self.limits.attached(node).len();
        // Inline volumes may have errors, which must be reported.
        volumes.others == 0
            && demands.iter().all(|demand| {
                let limit = demand.limited.and_then(|driver| self.limits.limit(driver, node));
                limit.is_none_or(|l| {
                    at_most + demand.handles.len() <= usize::try_from(l).unwrap_or(0)
                })
            })
    }

    /// Returns `true` if the volumes fit, or the error about a volume of a pod on the node.
    fn fits(&self, demands: &[VolumeDemand], state: &State, node: NodeIdx) -> Result<bool, String> {
        let in_use = in_use(state, node)?;
        Ok(demands.iter().all(|demand| {
            let Some(limit) = demand.limited.and_then(|d| self.limits.limit(d, node)) else {
                return true;
            };
            let uses =
                |handle: &str| in_use.iter().any(|(d, h)| *d == &*demand.driver && h == handle);
            let used = in_use.iter().filter(|(driver, _)| *driver == &*demand.driver).count();
            let attached = self.limits.attached(node).iter();
            let only_attached =
                attached.filter(|a| a.driver == demand.driver && !uses(&a.handle)).count();
            // As upstream, a volume that is attached but used by no pod counts again when it is new.
            let new = demand.handles.iter().filter(|handle| !uses(handle)).count();
            new == 0 || (used + only_attached + new) as i64 <= i64::from(limit)
        }))
    }
}

/// Returns the volumes that the pods of a node use, each once.
fn in_use(state: &State, node: NodeIdx) -> Result<Vec<DriverHandle<'_>>, String> {
    let mut in_use: Vec<DriverHandle> = Vec::new();
    for pod in state.nodes.pods(node) {
        let spec = state.spec(*pod);
        if spec.volumes.is_empty() {
            continue;
        }
        let record = state.pods.get(*pod);
        let pod =
            PodIdentity { namespace: state.namespace(*pod), name: &record.name, uid: &record.uid };
        for volume in &spec.volumes {
            match handle_of_volume(volume, &pod, true, &state.volumes) {
                Ok(Some(handle)) if !in_use.contains(&handle) => in_use.push(handle),
                Ok(_) | Err(HandleError::ClaimNotFound(_)) => {}
                Err(HandleError::Other(text)) => return Err(text),
            }
        }
    }
    Ok(in_use)
}

impl Filter for VolumeLimitsFilter {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        if self.lookup_failure(node).is_some() {
            return LOOKUP_FAILED;
        }
        let Ok(demands) = &self.registered else { return NodeVerdict::PASS };
        if demands.is_empty()
            || !self.limits.is_limited(node)
            || self.fits_easily(demands, state, node)
        {
            return NodeVerdict::PASS;
        }
        match self.fits(demands, state, node) {
            Ok(true) => NodeVerdict::PASS,
            Ok(false) => LIMIT_EXCEEDED,
            Err(_) => EXISTING_POD_FAILED,
        }
    }

    fn rejection(&self, state: &State, node: NodeIdx, verdict: NodeVerdict) -> Rejection {
        if let Some(lookup_failure) = self.lookup_failure(node)
            && verdict == LOOKUP_FAILED
        {
            return lookup_failure.clone();
        }
        if verdict == EXISTING_POD_FAILED
            && let Err(problem) = in_use(state, node)
        {
            return Rejection::error(problem);
        }
        Rejection::unschedulable("node(s) exceed max volume count")
    }

    fn rejection_varies(&self, verdict: NodeVerdict) -> bool {
        verdict != LIMIT_EXCEEDED
    }

    fn reads_pods(&self) -> bool {
        self.registered.as_ref().is_ok_and(|demands| !demands.is_empty())
    }
}
