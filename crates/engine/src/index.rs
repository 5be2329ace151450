//! Dense indexes, one type per table, so that the compiler keeps them apart.

macro_rules! indexes {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// Sentinel for "none" where an `Option` would take more space.
            pub const NONE: Self = Self(u32::MAX);

            /// Returns the position in a slice.
            pub const fn at(self) -> usize {
                self.0 as usize
            }

            /// Returns `true` if the index is not [`Self::NONE`].
            pub const fn is_some(self) -> bool {
                self.0 != u32::MAX
            }
        }

        impl From<usize> for $name {
            fn from(index: usize) -> Self {
                debug_assert!(index < u32::MAX as usize);
                Self(index as u32)
            }
        }
    )*};
}

indexes! {
    /// Slot of the node table.
    NodeIdx;
    /// Slot of the pod table.
    PodIdx;
    /// An interned pod spec.
    SpecIdx;
    /// An interned namespace with labels.
    LabelSetIdx;
    /// An interned pod affinity term of at least one pod.
    TermIdx;
    /// A tally: a log of the pods that match a condition.
    TallyIdx;
    /// An interned resource name.
    ResourceIdx;
    /// An interned label key with a column in the node table.
    KeyIdx;
    /// An interned list of node taints.
    TaintsIdx;
    /// A pod class.
    ClassIdx;
    /// A value of a label key: one topology domain.
    DomainIdx;
}

impl ResourceIdx {
    /// `cpu`, in millicores.
    pub const CPU: Self = Self(0);
    /// `memory`, in bytes.
    pub const MEMORY: Self = Self(1);
    /// `ephemeral-storage`, in bytes.
    pub const EPHEMERAL: Self = Self(2);
}

#[cfg(test)]
mod tests;
