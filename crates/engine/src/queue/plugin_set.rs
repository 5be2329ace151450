//! Sets of plugins of one profile.

use crate::framework::profile::PluginPosition;

/// Maximum number of plugins in a profile, so that a set fits into 64 bits.
pub const PLUGINS_MAX: usize = 64;

const _: () = assert!(PLUGINS_MAX <= u8::MAX as usize);

/// Set of plugins of one profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginSet(u64);

impl PluginSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// Returns the set of one plugin.
    pub fn one(plugin: PluginPosition) -> Self {
        debug_assert!(plugin < PLUGINS_MAX);
        Self(1 << plugin)
    }

    /// Adds a plugin.
    pub fn insert(&mut self, plugin: PluginPosition) {
        *self = self.with(Self::one(plugin));
    }

    /// Returns `true` if the set contains a plugin.
    pub fn contains(self, plugin: PluginPosition) -> bool {
        self.meets(Self::one(plugin))
    }

    /// Returns `true` if the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the union.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the intersection.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Returns the difference.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns `true` if the sets have a plugin in common.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the plugin of the lowest position.
    pub fn first(self) -> Option<PluginPosition> {
        (!self.is_empty()).then(|| self.0.trailing_zeros() as PluginPosition)
    }

    /// Iterates over the plugins by position.
    pub fn iter(self) -> impl Iterator<Item = PluginPosition> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let plugin = Self(left).first()?;
            left &= left - 1;
            Some(plugin)
        })
    }
}

impl FromIterator<PluginPosition> for PluginSet {
    fn from_iter<I: IntoIterator<Item = PluginPosition>>(plugins: I) -> Self {
        plugins.into_iter().fold(Self::EMPTY, |set, plugin| set.with(Self::one(plugin)))
    }
}
