//! VolumeBinding: rejects nodes that cannot use the pod's volumes, and has volumes bound or provisioned for
//! unbound claims.

mod claims;
mod finder;
mod matching;
mod provisioning;
#[cfg(test)]
mod tests;

use api::config::PluginArgs;
use engine::framework::event::Object;
use engine::framework::{
    Action, BindContext, Class, Event, Filter, KeyPart, Plugin, Point, PreFilterResult,
    Preparation, Rejection, Reservation, Resource, Subscription, VolumeRequest,
};
use engine::object::{CsiDriver, CsiStorageCapacity, InlineDisk, PodSpec, Volume};
use engine::state::{Areas, State};

use crate::volume_claims::{Consumer, claim_name, event_concerns};

use finder::VolumeFinder;
use provisioning::volume_limit;

pub(crate) const NAME: &str = "VolumeBinding";
pub(crate) const POINTS: &[Point] = &[
    Point::PreFilter,
    Point::Filter,
    Point::PreScore,
    Point::Score,
    Point::Reserve,
    Point::PreBind,
];
pub(crate) const DOC: &str = "Rejects nodes that cannot use the pod's volumes; binds or provisions volumes for unbound claims.";

const DEFAULT_TIMEOUT_SECONDS: i64 = 600;
const NANOS_PER_SECOND: i64 = 1_000_000_000;

pub(crate) fn build(args: Option<&PluginArgs>) -> Box<dyn Plugin> {
    let seconds = match args {
        Some(PluginArgs::VolumeBinding(args)) => args.bind_timeout_seconds,
        _ => DEFAULT_TIMEOUT_SECONDS,
    };
    Box::new(VolumeBinding { timeout: seconds.saturating_mul(NANOS_PER_SECOND) })
}

struct VolumeBinding {
    /// Time-out of binding and provisioning, in nanoseconds.
    timeout: i64,
}

/// Without `prepare_score`: upstream's score depends on a feature gate that is off by default.
impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        NAME
    }

    fn points(&self) -> &'static [Point] {
        POINTS
    }

    fn filter_without_pre_filter(&self) -> Option<&'static str> {
        Some("not found")
    }

    fn evaluation_key(&self, class: &Class, _state: &State) -> KeyPart {
        KeyPart::nothing_if(!class.spec.has_claims())
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        if !has_claims(&class.spec) {
            return PreFilterResult::Skip;
        }
        preparation.depends_on(Areas::VOLUMES);
        let consumer = Consumer::of_class(preparation.state, class);
        match VolumeFinder::new(&consumer, preparation.state) {
            Err(rejection) => PreFilterResult::Reject(rejection),
            Ok(finder) => {
                if finder.has_delayed() {
                    preparation.depends_on(Areas::CLAIMS_IN_USE);
                }
                if finder.passes_everywhere() {
                    return PreFilterResult::Skip;
                }
                PreFilterResult::Filter(Box::new(finder))
            }
        }
    }

    fn reserve(&self, reservation: &mut Reservation) -> Result<(), Rejection> {
        let Reservation { state, pod, node, .. } = reservation;
        if !has_claims(state.spec(*pod)) {
            return Ok(());
        }
        let consumer = Consumer::of_pod(state, *pod);
        let mut finder = VolumeFinder::new(&consumer, state)?;
        if !finder.has_delayed() {
            return Ok(());
        }
        let verdict = finder.check(state, *node);
        if !verdict.passes() {
            return Err(finder.rejection(state, *node, verdict));
        }
        let reserved = finder.reserved(state.nodes.name(*node));
        state.reserve_volumes(*pod, reserved);
        Ok(())
    }

    fn unreserve(&self, reservation: &mut Reservation) {
        reservation.state.forget_volumes(reservation.pod);
    }

    fn pre_bind(&self, context: &mut BindContext) -> Vec<VolumeRequest> {
        let BindContext { state, pod, .. } = *context;
        let Some(reserved) = state.volumes.reserved(&state.pods.get(pod).uid) else {
            return Vec::new();
        };
        let bindings = reserved.bindings.iter().map(|binding| VolumeRequest::BindVolume {
            volume: binding.volume.clone(),
            namespace: binding.claim.namespace.clone(),
            claim: binding.claim.name.clone(),
        });
        let provisions = reserved.provisions.iter().map(|provision| VolumeRequest::Provision {
            namespace: provision.claim.0.clone(),
            claim: provision.claim.1.clone(),
            node: provision.node.clone(),
        });
        bindings.chain(provisions).collect()
    }

    fn pre_bind_timeout(&self) -> i64 {
        self.timeout
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        let add_or_update = Action::ADD.with(Action::UPDATE);
        vec![
            Subscription { resource: Resource::StorageClass, action: add_or_update },
            Subscription { resource: Resource::PersistentVolumeClaim, action: add_or_update },
            Subscription { resource: Resource::PersistentVolume, action: add_or_update },
            Subscription {
                resource: Resource::Node,
                action: Action::ADD.with(Action::UPDATE_NODE_LABEL),
            },
            Subscription { resource: Resource::CsiNode, action: add_or_update },
            Subscription { resource: Resource::CsiDriver, action: Action::UPDATE },
            Subscription { resource: Resource::CsiStorageCapacity, action: add_or_update },
        ]
    }

    fn hint(&self, _state: &State, class: &Class, event: &Event) -> bool {
        match event.object {
            Object::StorageClass { old: Some(old), new: Some(new) } => {
                old.allowed_topologies != new.allowed_topologies
            }
            Object::PersistentVolumeClaim { .. } => event_concerns(class, event),
            Object::CsiNode { old: Some(old), new: Some(new) } => {
                old.migrated_plugins != new.migrated_plugins
            }
            Object::CsiDriver { old: Some(old), new: Some(new) } => {
                stopped_reporting_capacity(&class.spec, old, new)
            }
            Object::CsiStorageCapacity { old: Some(old), new: Some(new) } => limit_rose(old, new),
            _ => true,
        }
    }
}

fn has_claims(spec: &PodSpec) -> bool {
    spec.volumes.iter().any(|volume| claim_name(volume).is_some())
}

/// Returns `true` if a driver that the pod may use no longer reports its free storage.
///
/// Upstream considers only pods with inline volumes of the driver, though claims wait for storage as well.
fn stopped_reporting_capacity(spec: &PodSpec, old: &CsiDriver, new: &CsiDriver) -> bool {
    let may_use = |volume: &Volume| match volume {
        Volume::Claim { .. } | Volume::Ephemeral { .. } => true,
        Volume::Inline(InlineDisk::Csi { driver }) => *driver == new.name,
        Volume::Inline(_) => false,
    };
    old.storage_capacity && !new.storage_capacity && spec.volumes.iter().any(may_use)
}

fn limit_rose(old: &CsiStorageCapacity, new: &CsiStorageCapacity) -> bool {
    volume_limit(new) > volume_limit(old)
}
