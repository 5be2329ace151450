//! The table of watched kinds.

use api::lower::{self, Lowered, LoweringCache, Problem, Source};
use api::protobuf::{Message, schema};
use engine::change::{Change, Storage, StorageName};
use engine::object::{Uid, Workload, WorkloadKind};

/// Identifies an object within its kind.
#[derive(Clone, Copy, Debug)]
pub struct ObjectKey<'a> {
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Uid, which differs from that of earlier objects of the same name.
    pub uid: &'a Uid,
}

/// One watched kind.
pub struct WatchedKind {
    /// Value of `kind`.
    pub name: &'static str,
    /// URL path of the list.
    pub path: &'static str,
    /// Schema of the protobuf form.
    pub message: &'static Message,
    /// Field selector of lists and watches; empty selects all objects.
    pub field_selector: &'static str,
    /// Lowers an object to a change.
    pub lower: LowerFn,
    /// Returns the change for a deleted object.
    pub gone: GoneFn,
    /// Clusters may lack the kind; a 404 then counts as an empty list.
    pub is_optional: bool,
}

/// Lowers an object, with a cache for pods and nodes. Returns no change if the object does not count (any
/// more) or cannot be read; the latter is a problem.
pub type LowerFn = fn(Source<'_>, &mut LoweringCache) -> (Option<Change>, Vec<Problem>);

/// Returns the change for a deleted object.
pub type GoneFn = fn(ObjectKey<'_>) -> Change;

const fn kind(
    name: &'static str,
    path: &'static str,
    message: &'static Message,
    lower: LowerFn,
    gone: GoneFn,
) -> WatchedKind {
    WatchedKind { name, path, message, field_selector: "", lower, gone, is_optional: false }
}

fn change<T>(
    (object, problems): Lowered<T>,
    wrap: fn(T) -> Change,
) -> (Option<Change>, Vec<Problem>) {
    (object.map(wrap), problems)
}

fn storage<T>(
    (object, problems): Lowered<T>,
    wrap: fn(T) -> Storage,
) -> (Option<Change>, Vec<Problem>) {
    (object.map(|object| Change::Storage(Box::new(wrap(object)))), problems)
}

fn workload(workload: Workload) -> Change {
    Change::Workload(workload.into())
}

fn workload_gone(kind: WorkloadKind, key: ObjectKey<'_>) -> Change {
    Change::WorkloadGone { kind, namespace: key.namespace.into(), name: key.name.into() }
}

/// All watched kinds; their order has no meaning.
pub const KINDS: &[WatchedKind] = &[
    kind(
        "Node",
        "/api/v1/nodes",
        &schema::NODE,
        |source, lowering_cache| {
            change(lowering_cache.node(source), |node| Change::Node(node.into()))
        },
        |key| Change::NodeGone(key.name.into()),
    ),
    WatchedKind {
        field_selector: "status.phase!=Succeeded,status.phase!=Failed",
        ..kind(
            "Pod",
            "/api/v1/pods",
            &schema::POD,
            |source, lowering_cache| {
                change(lowering_cache.pod(source), |pod| Change::Pod(Box::new(pod)))
            },
            |key| Change::PodGone { uid: key.uid.clone() },
        )
    },
    kind(
        "Namespace",
        "/api/v1/namespaces",
        &schema::NAMESPACE,
        |source, _| change(lower::namespace(source), Change::Namespace),
        |key| Change::NamespaceGone(key.name.into()),
    ),
    kind(
        "Service",
        "/api/v1/services",
        &schema::SERVICE,
        |source, _| change(lower::service(source), workload),
        |key| workload_gone(WorkloadKind::Service, key),
    ),
    kind(
        "ReplicationController",
        "/api/v1/replicationcontrollers",
        &schema::REPLICATION_CONTROLLER,
        |source, _| change(lower::replication_controller(source), workload),
        |key| workload_gone(WorkloadKind::ReplicationController, key),
    ),
    kind(
        "ReplicaSet",
        "/apis/apps/v1/replicasets",
        &schema::REPLICA_SET,
        |source, _| change(lower::replica_set(source), workload),
        |key| workload_gone(WorkloadKind::ReplicaSet, key),
    ),
    kind(
        "StatefulSet",
        "/apis/apps/v1/statefulsets",
        &schema::STATEFUL_SET,
        |source, _| change(lower::stateful_set(source), workload),
        |key| workload_gone(WorkloadKind::StatefulSet, key),
    ),
    kind(
        "PodDisruptionBudget",
        "/apis/policy/v1/poddisruptionbudgets",
        &schema::POD_DISRUPTION_BUDGET,
        |source, _| {
            change(lower::disruption_budget(source), |budget| Change::Budget(budget.into()))
        },
        |key| Change::BudgetGone { namespace: key.namespace.into(), name: key.name.into() },
    ),
    kind(
        "PersistentVolume",
        "/api/v1/persistentvolumes",
        &schema::PERSISTENT_VOLUME,
        |source, _| storage(lower::persistent_volume(source), Storage::Volume),
        |key| Change::StorageGone(StorageName::Volume(key.name.into())),
    ),
    kind(
        "PersistentVolumeClaim",
        "/api/v1/persistentvolumeclaims",
        &schema::PERSISTENT_VOLUME_CLAIM,
        |source, _| storage(lower::persistent_volume_claim(source), Storage::Claim),
        |key| {
            let (namespace, name) = (key.namespace.into(), key.name.into());
            Change::StorageGone(StorageName::Claim { namespace, name })
        },
    ),
    kind(
        "StorageClass",
        "/apis/storage.k8s.io/v1/storageclasses",
        &schema::STORAGE_CLASS,
        |source, _| storage(lower::storage_class(source), Storage::Class),
        |key| Change::StorageGone(StorageName::Class(key.name.into())),
    ),
    kind(
        "CSINode",
        "/apis/storage.k8s.io/v1/csinodes",
        &schema::CSI_NODE,
        |source, _| storage(lower::csi_node(source), Storage::CsiNode),
        |key| Change::StorageGone(StorageName::CsiNode(key.name.into())),
    ),
    kind(
        "CSIDriver",
        "/apis/storage.k8s.io/v1/csidrivers",
        &schema::CSI_DRIVER,
        |source, _| storage(lower::csi_driver(source), Storage::CsiDriver),
        |key| Change::StorageGone(StorageName::CsiDriver(key.name.into())),
    ),
    kind(
        "CSIStorageCapacity",
        "/apis/storage.k8s.io/v1/csistoragecapacities",
        &schema::CSI_STORAGE_CAPACITY,
        |source, _| storage(lower::csi_storage_capacity(source), Storage::Capacity),
        |key| {
            let (namespace, name) = (key.namespace.into(), key.name.into());
            Change::StorageGone(StorageName::Capacity { namespace, name })
        },
    ),
    kind(
        "VolumeAttachment",
        "/apis/storage.k8s.io/v1/volumeattachments",
        &schema::VOLUME_ATTACHMENT,
        |source, _| storage(lower::volume_attachment(source), Storage::Attachment),
        |key| Change::StorageGone(StorageName::Attachment(key.name.into())),
    ),
    WatchedKind {
        is_optional: true,
        ..kind(
            "DeviceClass",
            "/apis/resource.k8s.io/v1/deviceclasses",
            &schema::DEVICE_CLASS,
            |source, _| {
                change(lower::device_class(source), |class| Change::DeviceClass {
                    name: class.name,
                    extended_resource: class.extended_resource.unwrap_or_default(),
                })
            },
            |key| Change::DeviceClassGone(key.name.into()),
        )
    },
];
