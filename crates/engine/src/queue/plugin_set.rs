//! Sets of plugins of one profile.

use crate::framework::profile::PluginPosition;

/// Plugins that one profile may have: a set of them is one machine word.
pub const PLUGINS_MAX: usize = 64;

const _: () = assert!(PLUGINS_MAX <= u8::MAX as usize);

/// A set of plugins of one profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PluginSet(u64);

impl PluginSet {
    /// No plugin.
    pub const EMPTY: Self = Self(0);

    /// One plugin.
    pub fn one(plugin: PluginPosition) -> Self {
        debug_assert!(plugin < PLUGINS_MAX);
        Self(1 << plugin)
    }

    /// Adds a plugin.
    pub fn insert(&mut self, plugin: PluginPosition) {
        *self = self.with(Self::one(plugin));
    }

    /// Whether a plugin is in.
    pub fn contains(self, plugin: PluginPosition) -> bool {
        self.meets(Self::one(plugin))
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// These and those.
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those in both.
    pub fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// These but not those.
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether some plugin is in both.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// The first plugin.
    pub fn first(self) -> Option<PluginPosition> {
        (!self.is_empty()).then(|| self.0.trailing_zeros() as PluginPosition)
    }

    /// The plugins in order.
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
