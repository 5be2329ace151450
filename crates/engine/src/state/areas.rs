//! Areas of the state and their versions.

/// Parts of the state that change rarely. A prepared filter or scorer is valid for one version of
/// the areas that it read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Areas(u32);

impl Areas {
    /// No area.
    pub const NONE: Self = Self(0);
    /// Nodes that are added, deleted or changed, except for their pods.
    pub const NODES: Self = Self(1);
    /// Namespaces and their labels.
    pub const NAMESPACES: Self = Self(2);
    /// Services and controllers.
    pub const WORKLOADS: Self = Self(4);
    /// Volumes, claims, storage classes and CSI drivers.
    pub const VOLUMES: Self = Self(8);
    /// The set of affinity terms of existing pods; the number of pods per term does not count.
    pub const TERMS: Self = Self(16);
    /// Device classes.
    pub const DEVICES: Self = Self(32);
    /// Pods that are placed on a node or removed from one.
    pub const PODS: Self = Self(64);
    /// Claims used by pods on nodes, and the volumes and claims of assumed pods.
    pub const CLAIMS_IN_USE: Self = Self(128);

    /// Areas that determine which evaluation keys are equal.
    pub const EVALUATION_KEY: Self = Self::NAMESPACES.with(Self::WORKLOADS).with(Self::TERMS);

    pub(super) const ALL: [Self; 8] = [
        Self::NODES,
        Self::NAMESPACES,
        Self::WORKLOADS,
        Self::VOLUMES,
        Self::TERMS,
        Self::DEVICES,
        Self::PODS,
        Self::CLAIMS_IN_USE,
    ];

    /// Returns the position of a single area in [`Versions`] and [`Self::ALL`].
    pub(super) const fn position(self) -> usize {
        self.0.trailing_zeros() as usize
    }

    /// Returns the union.
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns `true` if all areas of the other are contained.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Versions of all areas at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Versions(pub(super) [u64; Areas::ALL.len()]);

impl Versions {
    /// Returns `true` if the given areas have equal versions in both.
    pub fn agree(&self, other: &Self, areas: Areas) -> bool {
        Areas::ALL
            .iter()
            .zip(self.0.iter().zip(&other.0))
            .all(|(area, (mine, others))| !areas.contains(*area) || mine == others)
    }
}
