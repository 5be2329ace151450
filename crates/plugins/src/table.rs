//! The table of plugins: registration, defaults, documentation and tests read it.

use api::config::PluginArgs;
use engine::framework::{Plugin, Point};

/// One plugin.
pub struct Entry {
    /// Name, as in configuration files.
    pub name: &'static str,
    /// Extension points that it implements.
    pub points: &'static [Point],
    /// Makes the plugin from its checked arguments (defaults when the configuration gives none).
    pub build: fn(Option<&PluginArgs>) -> Box<dyn Plugin>,
    /// What it decides, in one sentence.
    pub doc: &'static str,
}

macro_rules! entries {
    ($($($module:ident)::+,)*) => {
        &[$(Entry {
            name: crate::$($module)::+::NAME,
            points: crate::$($module)::+::POINTS,
            build: crate::$($module)::+::build,
            doc: crate::$($module)::+::DOC,
        }),*]
    };
}

/// All in-tree plugins, by name.
pub const TABLE: &[Entry] = entries![
    default_binder,
    node_declared_features,
    node_name,
    node_ports,
    node_unschedulable,
    priority_sort,
    scheduling_gates,
    taint_toleration,
];

/// Finds a plugin by name.
pub fn find(name: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.name == name)
}
