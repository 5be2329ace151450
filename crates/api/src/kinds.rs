//! The table of kinds: everything that the API server, snapshots and permissions must know of a
//! kind.
//!
//! The scheduler watches, `explain` lists and snapshots read the kinds of this table. How the
//! engine keeps them is the row in its own table of kinds.

use engine::change::Change;
use engine::object::{ClusterObject, ObjectKind, ObjectName, Uid, WorkloadKind};

use crate::lower::{
    self, Lower as _, Lowered, LoweringCache, RawBudget, RawCsiDriver, RawCsiNode,
    RawCsiStorageCapacity, RawDaemonSet, RawDeployment, RawDeviceClass, RawJob, RawMapWorkload,
    RawNamespace, RawNode, RawPersistentVolume, RawPersistentVolumeClaim, RawPod, RawSet,
    RawStorageClass, RawVolumeAttachment, Source,
};
use crate::protobuf::{Message, schema};

/// A kind of objects.
#[derive(Debug)]
pub struct Kind {
    /// Value of `kind`.
    pub name: &'static str,
    /// URL path of the list of all objects.
    pub path: &'static str,
    /// Set if its objects belong to namespaces.
    pub namespaced: bool,
    /// Schema of the protobuf form.
    pub message: &'static Message,
    /// Field selector of lists and watches; empty selects all objects.
    pub field_selector: &'static str,
    /// Who needs the right to list and watch the kind.
    pub needed: Needed,
    /// Clusters may lack the kind; a 404 then counts as an empty list.
    pub is_optional: bool,
    /// Lowers an object to a change.
    pub lower: LowerFn,
    /// Returns the change for a deleted object.
    pub gone: GoneFn,
}

/// Who needs the right to list and watch a kind. Snapshots read all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needed {
    /// Every scheduler. The ClusterRoles `system:kube-scheduler` and `system:volume-scheduler`
    /// grant the right.
    Always,
    /// Only a scheduler that moves pods, which needs rights beyond those of kube-scheduler.
    ForMoves,
}

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

/// Lowers an object, with a cache for pods and nodes. Returns no change if the object does not
/// count (any more) or cannot be read; the latter is a problem.
pub type LowerFn = fn(Source<'_>, &mut LoweringCache) -> Lowered<Change>;

/// Returns the change for a deleted object.
pub type GoneFn = fn(ObjectKey<'_>) -> Change;

impl Kind {
    /// Returns the API group, empty for the core group.
    pub fn group(&self) -> &'static str {
        let group = self.path.strip_prefix("/apis/").and_then(|path| path.split('/').next());
        group.unwrap_or_default()
    }

    /// Returns the name of the resource in paths and permissions, such as `pods`.
    pub fn resource(&self) -> &'static str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// Returns all messages that are read, each once.
pub fn messages() -> Vec<&'static Message> {
    let mut found = Vec::new();
    let kinds = KINDS.iter().map(|kind| kind.message);
    for message in kinds.chain([&schema::LIST_META, &schema::STATUS]) {
        add_messages(message, &mut found);
    }
    found
}

fn add_messages(message: &'static Message, found: &mut Vec<&'static Message>) {
    if found.iter().any(|other| std::ptr::eq(*other, message)) {
        return;
    }
    found.push(message);
    for nested in message.fields.iter().filter_map(|field| message.nested(field.number)) {
        add_messages(nested, found);
    }
}

/// Returns the kinds that every scheduler watches.
pub fn watched() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().filter(|kind| kind.needed == Needed::Always)
}

/// A row of a kind that every scheduler watches and that its table of the engine keeps: its name,
/// its kind in the engine, its raw type, its list and its schema.
macro_rules! kind {
    ($name:literal, $kind:ident, $raw:ty, $path:literal, $message:expr) => {
        kind!($name, $kind, $raw, $path, $message, |object| ClusterObject::$kind(object.into()))
    };
    ($name:literal, $kind:ident, $raw:ty, $path:literal, $message:expr, $wrap:expr) => {
        Kind {
            name: $name,
            path: $path,
            namespaced: <$raw>::NAMESPACED,
            message: &$message,
            field_selector: "",
            needed: Needed::Always,
            is_optional: false,
            lower: |source, _| {
                let (object, problems) = lower::object::<$raw>($name, source);
                (object.map($wrap).map(Change::Object), problems)
            },
            gone: |key| {
                let (namespace, name) = (key.namespace.into(), key.name.into());
                Change::ObjectGone(ObjectName { kind: ObjectKind::$kind, namespace, name })
            },
        }
    };
}

/// All kinds, the most frequent first.
pub const KINDS: &[Kind] = &[
    Kind {
        name: "Pod",
        path: "/api/v1/pods",
        namespaced: RawPod::NAMESPACED,
        message: &schema::POD,
        field_selector: "status.phase!=Succeeded,status.phase!=Failed",
        needed: Needed::Always,
        is_optional: false,
        lower: |source, cache| {
            let (pod, problems) = cache.pod(source);
            (pod.map(|pod| Change::Pod(Box::new(pod))), problems)
        },
        gone: |key| Change::PodGone { uid: key.uid.clone() },
    },
    Kind {
        name: "Node",
        path: "/api/v1/nodes",
        namespaced: RawNode::NAMESPACED,
        message: &schema::NODE,
        field_selector: "",
        needed: Needed::Always,
        is_optional: false,
        lower: |source, cache| {
            let (node, problems) = cache.node(source);
            (node.map(|node| Change::Node(node.into())), problems)
        },
        gone: |key| Change::NodeGone(key.name.into()),
    },
    kind!(
        "ReplicaSet",
        ReplicaSet,
        RawSet,
        "/apis/apps/v1/replicasets",
        schema::REPLICA_SET,
        |workload| lower::of_kind(WorkloadKind::ReplicaSet, workload)
    ),
    kind!("Service", Service, RawMapWorkload, "/api/v1/services", schema::SERVICE, |workload| {
        lower::of_kind(WorkloadKind::Service, workload)
    }),
    kind!(
        "StatefulSet",
        StatefulSet,
        RawSet,
        "/apis/apps/v1/statefulsets",
        schema::STATEFUL_SET,
        |workload| lower::of_kind(WorkloadKind::StatefulSet, workload)
    ),
    kind!(
        "ReplicationController",
        ReplicationController,
        RawMapWorkload,
        "/api/v1/replicationcontrollers",
        schema::REPLICATION_CONTROLLER,
        |workload| lower::of_kind(WorkloadKind::ReplicationController, workload)
    ),
    Kind {
        needed: Needed::ForMoves,
        ..kind!(
            "Deployment",
            Deployment,
            RawDeployment,
            "/apis/apps/v1/deployments",
            lower::deployment::DEPLOYMENT
        )
    },
    Kind {
        needed: Needed::ForMoves,
        ..kind!(
            "DaemonSet",
            DaemonSet,
            RawDaemonSet,
            "/apis/apps/v1/daemonsets",
            lower::daemon_set::DAEMON_SET
        )
    },
    Kind {
        needed: Needed::ForMoves,
        ..kind!("Job", Job, RawJob, "/apis/batch/v1/jobs", lower::job::JOB)
    },
    kind!("Namespace", Namespace, RawNamespace, "/api/v1/namespaces", schema::NAMESPACE),
    kind!(
        "PodDisruptionBudget",
        PodDisruptionBudget,
        RawBudget,
        "/apis/policy/v1/poddisruptionbudgets",
        schema::POD_DISRUPTION_BUDGET
    ),
    kind!(
        "PersistentVolumeClaim",
        PersistentVolumeClaim,
        RawPersistentVolumeClaim,
        "/api/v1/persistentvolumeclaims",
        schema::PERSISTENT_VOLUME_CLAIM
    ),
    kind!(
        "PersistentVolume",
        PersistentVolume,
        RawPersistentVolume,
        "/api/v1/persistentvolumes",
        schema::PERSISTENT_VOLUME
    ),
    kind!(
        "StorageClass",
        StorageClass,
        RawStorageClass,
        "/apis/storage.k8s.io/v1/storageclasses",
        schema::STORAGE_CLASS
    ),
    kind!("CSINode", CsiNode, RawCsiNode, "/apis/storage.k8s.io/v1/csinodes", schema::CSI_NODE),
    kind!(
        "CSIDriver",
        CsiDriver,
        RawCsiDriver,
        "/apis/storage.k8s.io/v1/csidrivers",
        schema::CSI_DRIVER
    ),
    kind!(
        "CSIStorageCapacity",
        CsiStorageCapacity,
        RawCsiStorageCapacity,
        "/apis/storage.k8s.io/v1/csistoragecapacities",
        schema::CSI_STORAGE_CAPACITY
    ),
    kind!(
        "VolumeAttachment",
        VolumeAttachment,
        RawVolumeAttachment,
        "/apis/storage.k8s.io/v1/volumeattachments",
        schema::VOLUME_ATTACHMENT
    ),
    Kind {
        is_optional: true,
        ..kind!(
            "DeviceClass",
            DeviceClass,
            RawDeviceClass,
            "/apis/resource.k8s.io/v1/deviceclasses",
            schema::DEVICE_CLASS
        )
    },
];

#[cfg(test)]
mod tests;
