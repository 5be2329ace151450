//! The supported versions of the configuration.

/// The API group of the configuration and of plugin arguments.
pub(super) const GROUP: &str = "kubescheduler.config.k8s.io";
/// The kind of a configuration file.
pub(super) const KIND: &str = "KubeSchedulerConfiguration";

/// A supported version of `kubescheduler.config.k8s.io`, oldest first.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Version {
    /// Converted to v1; upstream removed it in 1.28.
    V1beta2,
    /// Converted to v1; upstream removed it in 1.29.
    V1beta3,
    /// The current version.
    V1,
}

impl Version {
    /// Every supported version.
    pub const ALL: [Self; 3] = [Self::V1beta2, Self::V1beta3, Self::V1];

    /// Returns group and version, as in `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1beta2 => "kubescheduler.config.k8s.io/v1beta2",
            Self::V1beta3 => "kubescheduler.config.k8s.io/v1beta3",
            Self::V1 => "kubescheduler.config.k8s.io/v1",
        }
    }

    /// Returns the version with this `apiVersion`.
    pub fn parse(api_version: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|version| version.api_version() == api_version)
    }

    /// Returns the version without its group, such as `v1beta3`.
    pub(super) fn short(self) -> &'static str {
        match self {
            Self::V1beta2 => "v1beta2",
            Self::V1beta3 => "v1beta3",
            Self::V1 => "v1",
        }
    }
}
