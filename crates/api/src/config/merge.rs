//! Merging of the plugin sets of a file with the defaults.

use super::v1::{Plugin, PluginSet, Plugins};

/// Merges a plugin set of a file into a default set.
///
/// A default that the file lists again keeps its position and takes the file's weight. A default
/// that the file both disables and enables moves to the end. Duplicate names are kept, and the
/// expansion reports them. See `mergePluginSet` in
/// `pkg/scheduler/apis/config/v1/default_plugins.go`.
pub fn merge_plugin_set(defaults: &PluginSet, custom: &PluginSet) -> PluginSet {
    let disabled: Vec<Plugin> = custom
        .disabled
        .iter()
        .chain(&defaults.disabled)
        .map(|plugin| Plugin { name: plugin.name.clone(), weight: None })
        .collect();
    let is_disabled = |name: &str| disabled.iter().any(|plugin| plugin.name == name);

    let mut enabled = Vec::new();
    let mut replacing = vec![false; custom.enabled.len()];
    if !is_disabled("*") {
        for plugin in defaults.enabled.iter().filter(|plugin| !is_disabled(&plugin.name)) {
            // Of several entries with the same name the last one replaces the default.
            match custom.enabled.iter().rposition(|other| other.name == plugin.name) {
                Some(position) => {
                    replacing[position] = true;
                    enabled.push(custom.enabled[position].clone());
                }
                None => enabled.push(plugin.clone()),
            }
        }
    }
    let added = custom.enabled.iter().zip(&replacing).filter(|(_, replaces)| !**replaces);
    enabled.extend(added.map(|(plugin, _)| plugin.clone()));
    PluginSet { enabled, disabled }
}

/// Merges the plugin sets of all extension points.
pub(super) fn merge_plugins(defaults: &Plugins, custom: &Plugins) -> Plugins {
    let mut merged = defaults.clone();
    let sets = merged.sets_mut().zip(custom.sets());
    for ((_, set), (_, custom)) in sets {
        *set = merge_plugin_set(set, custom);
    }
    merged
}
