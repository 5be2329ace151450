//! Changes of the cluster that may make a waiting pod fit.

use crate::index::PodIdx;
use crate::object::volume::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};
use crate::object::{Labels, Node, PodSpec, Uid};
use crate::state::State;

/// What happened, as upstream's action bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Action(pub u32);

impl Action {
    /// Created.
    pub const ADD: Self = Self(1);
    /// Deleted.
    pub const DELETE: Self = Self(2);
    /// Allocatable resources of a node changed.
    pub const UPDATE_NODE_ALLOCATABLE: Self = Self(4);
    /// Labels of a node changed.
    pub const UPDATE_NODE_LABEL: Self = Self(8);
    /// Taints of a node changed, or it was uncordoned.
    pub const UPDATE_NODE_TAINT: Self = Self(16);
    /// Conditions of a node changed.
    pub const UPDATE_NODE_CONDITION: Self = Self(32);
    /// Annotations of a node changed.
    pub const UPDATE_NODE_ANNOTATION: Self = Self(64);
    /// Declared features of a node changed.
    pub const UPDATE_NODE_DECLARED_FEATURE: Self = Self(128);
    /// Labels of a pod changed.
    pub const UPDATE_POD_LABEL: Self = Self(256);
    /// A pod asks for less.
    pub const UPDATE_POD_SCALE_DOWN: Self = Self(512);
    /// Tolerations of a pod changed.
    pub const UPDATE_POD_TOLERATION: Self = Self(1024);
    /// A pod lost its last scheduling gate.
    pub const UPDATE_POD_SCHEDULING_GATES_ELIMINATED: Self = Self(2048);
    /// A pod got a generated resource claim.
    pub const UPDATE_POD_GENERATED_RESOURCE_CLAIM: Self = Self(4096);
    /// Every kind of update.
    pub const UPDATE: Self = Self(8191 - 3);
    /// Everything.
    pub const ALL: Self = Self(8191);

    /// These and those.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether any bit is in both.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Which kind of object an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// Any pod; in events, one that is neither assigned nor waiting.
    Pod,
    /// A pod on a node.
    AssignedPod,
    /// A pod in the queue.
    UnschedulablePod,
    /// A node.
    Node,
    /// A PersistentVolume.
    PersistentVolume,
    /// A PersistentVolumeClaim.
    PersistentVolumeClaim,
    /// A StorageClass.
    StorageClass,
    /// A CSINode.
    CsiNode,
    /// A CSIDriver.
    CsiDriver,
    /// A CSIStorageCapacity.
    CsiStorageCapacity,
    /// A VolumeAttachment.
    VolumeAttachment,
    /// A ResourceClaim.
    ResourceClaim,
    /// A ResourceSlice.
    ResourceSlice,
    /// A DeviceClass.
    DeviceClass,
    /// Anything: timeouts and forced activation.
    Wildcard,
}

/// Events that a plugin wants to be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subscription {
    /// Kind of object; `Pod` also stands for assigned and waiting ones.
    pub resource: Resource,
    /// Actions.
    pub action: Action,
}

/// A pod as hints see it, also when it is already gone from the state.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// Uid.
    pub uid: &'a Uid,
    /// Labels.
    pub labels: &'a Labels,
    /// Spec.
    pub spec: &'a PodSpec,
    /// It is on a node.
    pub assigned: bool,
    /// It is nominated for a node.
    pub nominated: bool,
    /// It has scheduling gates.
    pub gated: bool,
}

impl<'a> PodView<'a> {
    /// A pod of the state as it is.
    pub fn of(state: &'a State, pod: PodIdx) -> Self {
        let record = state.pods.get(pod);
        Self {
            namespace: state.namespace(pod),
            name: &record.name,
            uid: &record.uid,
            labels: state.labels(pod),
            spec: state.spec(pod),
            assigned: record.node.is_some(),
            nominated: record.nominated.is_some(),
            gated: !record.gates.is_empty(),
        }
    }
}

/// Old and new version of the object an event is about.
#[derive(Clone, Copy, Debug)]
pub enum Object<'a> {
    /// Nothing to look at.
    None,
    /// A node.
    Node { old: Option<&'a Node>, new: Option<&'a Node> },
    /// A pod.
    Pod { old: Option<PodView<'a>>, new: Option<PodView<'a>> },
    /// A PersistentVolume.
    PersistentVolume { old: Option<&'a PersistentVolume>, new: Option<&'a PersistentVolume> },
    /// A PersistentVolumeClaim.
    PersistentVolumeClaim {
        old: Option<&'a PersistentVolumeClaim>,
        new: Option<&'a PersistentVolumeClaim>,
    },
    /// A StorageClass.
    StorageClass { old: Option<&'a StorageClass>, new: Option<&'a StorageClass> },
    /// A CSINode.
    CsiNode { old: Option<&'a CsiNode>, new: Option<&'a CsiNode> },
    /// A CSIDriver.
    CsiDriver { old: Option<&'a CsiDriver>, new: Option<&'a CsiDriver> },
    /// A CSIStorageCapacity.
    CsiStorageCapacity { old: Option<&'a CsiStorageCapacity>, new: Option<&'a CsiStorageCapacity> },
    /// A VolumeAttachment.
    VolumeAttachment { old: Option<&'a VolumeAttachment>, new: Option<&'a VolumeAttachment> },
}

/// Something that happened to one object.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Kind of object.
    pub resource: Resource,
    /// One action.
    pub action: Action,
    /// The object.
    pub object: Object<'a>,
    /// The event is about the waiting pod itself.
    pub own: bool,
}

impl Subscription {
    /// Whether an event falls under this subscription.
    pub fn covers(&self, event: &Event) -> bool {
        let pods = matches!(
            event.resource,
            Resource::Pod | Resource::AssignedPod | Resource::UnschedulablePod
        );
        let same = self.resource == event.resource
            || self.resource == Resource::Wildcard
            || self.resource == Resource::Pod && pods;
        // Upstream compares the numbers too: an event wider than the subscription is not covered.
        same && self.action.meets(event.action) && event.action <= self.action
    }
}
