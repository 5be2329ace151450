//! An engine filled from a snapshot.

use api::snapshot::Objects;
use engine::change::{Change, Storage};
use engine::engine::{Engine, Settings};
use engine::framework::Profile;

/// Returns an engine with these profiles and objects.
pub fn engine(profiles: Vec<Profile>, objects: Objects) -> Engine {
    let mut engine = Engine::new(profiles, Settings::default());
    // Without `Change::Schedule`, no command is emitted.
    let mut commands = Vec::new();
    for change in changes(objects) {
        engine.apply(change, 0, &mut commands);
    }
    engine
}

/// Returns the objects as changes; those that pods refer to precede the pods.
pub fn changes(objects: Objects) -> impl Iterator<Item = Change> {
    let storage = (objects.persistent_volumes.into_iter().map(Storage::Volume))
        .chain(objects.persistent_volume_claims.into_iter().map(Storage::Claim))
        .chain(objects.storage_classes.into_iter().map(Storage::Class))
        .chain(objects.csi_nodes.into_iter().map(Storage::CsiNode))
        .chain(objects.csi_drivers.into_iter().map(Storage::CsiDriver))
        .chain(objects.csi_storage_capacities.into_iter().map(Storage::Capacity))
        .chain(objects.volume_attachments.into_iter().map(Storage::Attachment));
    let devices = objects.device_classes.into_iter().map(|class| Change::DeviceClass {
        name: class.name,
        extended_resource: class.extended_resource.unwrap_or_default(),
    });
    (objects.namespaces.into_iter().map(Change::Namespace))
        .chain(objects.workloads.into_iter().map(|workload| Change::Workload(workload.into())))
        .chain(objects.disruption_budgets.into_iter().map(|budget| Change::Budget(budget.into())))
        .chain(storage.map(|storage| Change::Storage(storage.into())))
        .chain(devices)
        .chain(objects.nodes.into_iter().map(|node| Change::Node(node.into())))
        .chain(objects.pods.into_iter().map(|pod| Change::Pod(Box::new(pod))))
}
