//! The table of kinds: all kinds of objects that the engine keeps, except nodes and pods.
//!
//! A row makes the kind an input ([`ClusterObject`](crate::object::ClusterObject)), keeps its
//! objects in a table of the [`State`](crate::state::State), and turns its changes into events for
//! queueing hints.

/// Passes the rows to a macro. Columns: kind and type of its objects; name in events, as in
/// upstream's metrics; table of the state; areas that a change invalidates; actions that are
/// events. Upstream raises no event for the other actions, since no waiting pod can profit.
macro_rules! with_kinds {
    ($define:ident) => {
        $define! {
            Namespace(Namespace) "Namespace" in namespaces, NAMESPACES, [];
            Service(Workload) "Service" in services, WORKLOADS, [];
            ReplicationController(Workload) "ReplicationController" in replication_controllers, WORKLOADS, [];
            ReplicaSet(Workload) "apps/ReplicaSet" in replica_sets, WORKLOADS, [];
            StatefulSet(Workload) "apps/StatefulSet" in stateful_sets, WORKLOADS, [];
            PodDisruptionBudget(DisruptionBudget) "policy/PodDisruptionBudget" in budgets, NONE, [];
            PersistentVolume(PersistentVolume) "PersistentVolume" in volumes.volumes, VOLUMES, [ADD UPDATE];
            PersistentVolumeClaim(PersistentVolumeClaim) "PersistentVolumeClaim" in volumes.claims, VOLUMES, [ADD UPDATE];
            StorageClass(StorageClass) "storage.k8s.io/StorageClass" in volumes.classes, VOLUMES, [ADD UPDATE];
            CsiNode(CsiNode) "storage.k8s.io/CSINode" in volumes.csi_nodes, VOLUMES, [ADD UPDATE];
            CsiDriver(CsiDriver) "storage.k8s.io/CSIDriver" in volumes.drivers, VOLUMES, [ADD UPDATE];
            CsiStorageCapacity(CsiStorageCapacity) "storage.k8s.io/CSIStorageCapacity" in volumes.capacities, VOLUMES, [ADD UPDATE];
            // A deleted attachment frees one of the volumes that its node can attach.
            VolumeAttachment(VolumeAttachment) "storage.k8s.io/VolumeAttachment" in volumes.attachments, VOLUMES, [ADD UPDATE DELETE];
            DeviceClass(DeviceClass) "resource.k8s.io/DeviceClass" in device_classes, DEVICES, [ADD UPDATE];
        }
    };
}

pub(crate) use with_kinds;
