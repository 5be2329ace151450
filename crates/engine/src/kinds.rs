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
            Namespace(crate::object::Namespace) "Namespace" in namespaces, NAMESPACES, [];
            Service(crate::object::Workload) "Service" in services, WORKLOADS, [];
            ReplicationController(crate::object::Workload) "ReplicationController" in replication_controllers, WORKLOADS, [];
            ReplicaSet(crate::object::Workload) "apps/ReplicaSet" in replica_sets, WORKLOADS, [];
            StatefulSet(crate::object::Workload) "apps/StatefulSet" in stateful_sets, WORKLOADS, [];
            Deployment(crate::object::Deployment) "apps/Deployment" in deployments, NONE, [];
            DaemonSet(crate::object::DaemonSet) "apps/DaemonSet" in daemon_sets, NONE, [];
            Job(crate::object::Job) "batch/Job" in jobs, NONE, [];
            PodDisruptionBudget(crate::object::DisruptionBudget) "policy/PodDisruptionBudget" in budgets, NONE, [];
            PersistentVolume(crate::object::PersistentVolume) "PersistentVolume" in volumes.volumes, VOLUMES, [ADD UPDATE];
            PersistentVolumeClaim(crate::object::PersistentVolumeClaim) "PersistentVolumeClaim" in volumes.claims, VOLUMES, [ADD UPDATE];
            StorageClass(crate::object::StorageClass) "storage.k8s.io/StorageClass" in volumes.classes, VOLUMES, [ADD UPDATE];
            CsiNode(crate::object::CsiNode) "storage.k8s.io/CSINode" in volumes.csi_nodes, VOLUMES, [ADD UPDATE];
            CsiDriver(crate::object::CsiDriver) "storage.k8s.io/CSIDriver" in volumes.drivers, VOLUMES, [ADD UPDATE];
            CsiStorageCapacity(crate::object::CsiStorageCapacity) "storage.k8s.io/CSIStorageCapacity" in volumes.capacities, VOLUMES, [ADD UPDATE];
            // A deleted attachment frees one of the volumes that its node can attach.
            VolumeAttachment(crate::object::VolumeAttachment) "storage.k8s.io/VolumeAttachment" in volumes.attachments, VOLUMES, [ADD UPDATE DELETE];
            DeviceClass(crate::object::DeviceClass) "resource.k8s.io/DeviceClass" in device_classes, DEVICES, [ADD UPDATE];
        }
    };
}

pub(crate) use with_kinds;
