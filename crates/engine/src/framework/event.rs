//! Cluster events that may make a waiting pod schedulable.

use crate::index::PodIdx;
use crate::kinds::with_kinds;
use crate::object::{ClusterObject, Labels, Node, ObjectKind, PodSpec, Uid};
use crate::state::State;

/// Set of upstream's action bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Action(pub u32);

impl Action {
    /// No action.
    pub const NONE: Self = Self(0);
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
    /// Requests of a pod decreased.
    pub const UPDATE_POD_SCALE_DOWN: Self = Self(512);
    /// Tolerations of a pod changed.
    pub const UPDATE_POD_TOLERATION: Self = Self(1024);
    /// A pod lost its last scheduling gate.
    pub const UPDATE_POD_SCHEDULING_GATES_ELIMINATED: Self = Self(2048);
    /// A resource claim was generated for a pod.
    pub const UPDATE_POD_GENERATED_RESOURCE_CLAIM: Self = Self(4096);
    /// All updates.
    pub const UPDATE: Self = Self(8191 - 3);
    /// All actions.
    pub const ALL: Self = Self(8191);

    /// Returns the union.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns `true` if the sets have an action in common.
    pub const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// Events for which a plugin's queueing hint is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Subscription {
    /// Kind of object; `Pod` includes assigned and waiting pods.
    pub resource: Resource,
    /// Actions.
    pub action: Action,
}

/// The pod of an event, also after it was removed from the state.
#[derive(Clone, Copy, Debug)]
pub struct PodView<'a> {
    /// Namespace.
    pub namespace: &'a str,
    /// Name.
    pub name: &'a str,
    /// UID.
    pub uid: &'a Uid,
    /// Labels.
    pub labels: &'a Labels,
    /// Spec.
    pub spec: &'a PodSpec,
    /// Set if the pod has a node.
    pub assigned: bool,
    /// Set if the pod is nominated for a node.
    pub nominated: bool,
    /// Set if the pod has scheduling gates.
    pub gated: bool,
}

impl<'a> PodView<'a> {
    /// Returns the view of a pod in the state.
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

macro_rules! define {
    ($($kind:ident($object:ty) $label:literal
        in $($table:ident).+, $areas:ident, [$($event:ident)*];)*) => {
        /// Kind of the object of an event.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Resource {
            /// Any pod; in events, a pod that is neither assigned nor waiting.
            Pod,
            /// A pod with a node.
            AssignedPod,
            /// A pod in the queue.
            UnschedulablePod,
            /// A node.
            Node,
            $(
                #[doc = concat!("`", $label, "`.")]
                $kind,
            )*
            /// A ResourceClaim.
            ResourceClaim,
            /// A ResourceSlice.
            ResourceSlice,
            /// Any object: timeouts and forced activation.
            Wildcard,
        }

        impl Resource {
            /// Returns upstream's name.
            pub fn name(self) -> &'static str {
                match self {
                    Self::Pod => "Pod",
                    Self::AssignedPod => "AssignedPod",
                    Self::UnschedulablePod => "UnschedulablePod",
                    Self::Node => "Node",
                    $(Self::$kind => $label,)*
                    Self::ResourceClaim => "resource.k8s.io/ResourceClaim",
                    Self::ResourceSlice => "resource.k8s.io/ResourceSlice",
                    Self::Wildcard => "*",
                }
            }
        }

        impl ObjectKind {
            /// Returns the kind of its events.
            pub fn resource(self) -> Resource {
                match self {
                    $(Self::$kind => Resource::$kind),*
                }
            }

            /// Returns the actions that are events.
            pub fn events(self) -> Action {
                match self {
                    $(Self::$kind => Action::NONE $(.with(Action::$event))*),*
                }
            }
        }

        /// The object of an event: its version before and after.
        #[derive(Clone, Copy, Debug)]
        #[expect(missing_docs, reason = "`old` and `new` are the versions before and after")]
        pub enum Object<'a> {
            /// No object.
            None,
            /// A node.
            Node { old: Option<&'a Node>, new: Option<&'a Node> },
            /// A pod.
            Pod { old: Option<PodView<'a>>, new: Option<PodView<'a>> },
            $(
                #[doc = concat!("`", $label, "`.")]
                $kind { old: Option<&'a $object>, new: Option<&'a $object> },
            )*
        }

        impl<'a> Object<'a> {
            /// Returns both versions of an object of this kind.
            pub fn versions(
                kind: ObjectKind,
                old: Option<&'a ClusterObject>,
                new: Option<&'a ClusterObject>,
            ) -> Self {
                match kind {
                    $(ObjectKind::$kind => {
                        let object = |object: &'a ClusterObject| match object {
                            ClusterObject::$kind(object) => Some(&**object),
                            _ => None,
                        };
                        Self::$kind { old: old.and_then(object), new: new.and_then(object) }
                    })*
                }
            }
        }
    };
}

with_kinds!(define);

/// A cluster event about one object.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Kind of object.
    pub resource: Resource,
    /// The action, a single bit.
    pub action: Action,
    /// The object.
    pub object: Object<'a>,
    /// Set if the object is the waiting pod itself.
    pub own: bool,
}

impl Subscription {
    /// Returns `true` if the subscription covers an event.
    pub fn covers(&self, event: &Event) -> bool {
        let pods = matches!(
            event.resource,
            Resource::Pod | Resource::AssignedPod | Resource::UnschedulablePod
        );
        let same = self.resource == event.resource
            || self.resource == Resource::Wildcard
            || self.resource == Resource::Pod && pods;
        // As upstream, also compares the numbers: a wider event than subscribed is not covered.
        same && self.action.meets(event.action) && event.action <= self.action
    }
}
