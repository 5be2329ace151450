//! Dense indexes: one type for each table, so that they cannot be mixed up.

macro_rules! indexes {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u32);

        impl $name {
            /// Stands for "none" where an `Option` would cost space.
            pub const NONE: Self = Self(u32::MAX);

            /// As an index into a slice.
            pub const fn at(self) -> usize {
                self.0 as usize
            }

            /// Whether it is not [`Self::NONE`].
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
    /// A slot of the node table.
    NodeIdx;
    /// A slot of the pod table.
    PodIdx;
    /// An interned pod spec.
    SpecIdx;
    /// An interned pair of namespace and labels.
    LabelSetIdx;
    /// An interned pod affinity term that some pod carries.
    TermIdx;
    /// A running count of pods per node.
    TallyIdx;
    /// A resource name.
    ResourceIdx;
    /// A label key with a column.
    KeyIdx;
    /// A list of taints that nodes have.
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
