//! A snapshot as changes of the engine, and an engine filled from it.

use engine::change::{Change, Storage};
use engine::engine::{Engine, Settings};
use engine::framework::Profile;

use super::Objects;

impl Objects {
    /// Returns the objects as changes, those that pods refer to before the pods.
    pub fn into_changes(self) -> impl Iterator<Item = Change> {
        let storage = (self.persistent_volumes.into_iter().map(Storage::Volume))
            .chain(self.persistent_volume_claims.into_iter().map(Storage::Claim))
            .chain(self.storage_classes.into_iter().map(Storage::Class))
            .chain(self.csi_nodes.into_iter().map(Storage::CsiNode))
            .chain(self.csi_drivers.into_iter().map(Storage::CsiDriver))
            .chain(self.csi_storage_capacities.into_iter().map(Storage::Capacity))
            .chain(self.volume_attachments.into_iter().map(Storage::Attachment));
        let device_classes = self.device_classes.into_iter().map(|class| Change::DeviceClass {
            name: class.name,
            extended_resource: class.extended_resource.unwrap_or_default(),
        });
        (self.namespaces.into_iter().map(Change::Namespace))
            .chain(self.workloads.into_iter().map(|workload| Change::Workload(workload.into())))
            .chain(self.disruption_budgets.into_iter().map(|budget| Change::Budget(budget.into())))
            .chain(storage.map(|storage| Change::Storage(storage.into())))
            .chain(device_classes)
            .chain(self.nodes.into_iter().map(|node| Change::Node(node.into())))
            .chain(self.pods.into_iter().map(|pod| Change::Pod(Box::new(pod))))
    }

    /// Returns an engine with these profiles and objects that has scheduled nothing.
    pub fn into_engine(self, profiles: Vec<Profile>) -> Engine {
        let mut engine = Engine::new(profiles, Settings::default());
        // No attempt is made, so the commands are of no interest.
        let mut commands = Vec::new();
        for change in self.into_changes() {
            engine.apply(change, 0, &mut commands);
        }
        engine
    }
}
