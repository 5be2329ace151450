//! Objects of the kinds in the table of kinds: all but nodes and pods.

use std::sync::Arc;

use super::Text;
use crate::kinds::with_kinds;

/// An object that is stored by namespace and name.
pub trait Stored: PartialEq {
    /// Returns namespace and name; the namespace of a cluster-scoped object is empty.
    fn key(&self) -> (Text, Text);

    /// Returns `true` if an update from `old` changes no decision.
    fn decides_like(&self, old: &Self) -> bool {
        self == old
    }
}

macro_rules! define {
    ($($kind:ident($object:ty) $label:literal
        in $($table:ident).+, $areas:ident, [$($event:ident)*];)*) => {
        /// Kind of a [`ClusterObject`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[expect(missing_docs, reason = "one variant per kind, named after it")]
        pub enum ObjectKind {
            $($kind),*
        }

        impl ObjectKind {
            /// All kinds.
            pub const ALL: &[Self] = &[$(Self::$kind),*];
        }

        /// An object that is neither a node nor a pod. Clones share it.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "one variant per kind, named after it")]
        pub enum ClusterObject {
            $($kind(Arc<$object>)),*
        }

        impl ClusterObject {
            /// Returns its kind.
            pub fn kind(&self) -> ObjectKind {
                match self {
                    $(Self::$kind(_) => ObjectKind::$kind),*
                }
            }

            fn key(&self) -> (Text, Text) {
                match self {
                    $(Self::$kind(object) => object.key()),*
                }
            }
        }
    };
}

with_kinds!(define);

/// Identity of a [`ClusterObject`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectName {
    /// Kind.
    pub kind: ObjectKind,
    /// Namespace; empty if the kind is cluster-scoped.
    pub namespace: Text,
    /// Name.
    pub name: Text,
}

impl ClusterObject {
    /// Returns its identity.
    pub fn name(&self) -> ObjectName {
        let (namespace, name) = self.key();
        ObjectName { kind: self.kind(), namespace, name }
    }
}
