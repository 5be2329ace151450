//! The expansion of each profile, as data for a table or for JSON.

use serde::Serialize;

use super::args::PluginArgs;
use super::configuration::{Configuration, Profile};
use super::expand::{ExpandedProfile, expand_all};
use super::point::ExtensionPoint;
use super::problem::ConfigProblem;

/// An expanded profile.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileView {
    /// The name by which pods select it.
    pub scheduler_name: String,
    /// Percentage of nodes to score, from the profile or else from the scheduler; absent means all
    /// nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Every extension point, in order.
    pub points: Vec<PointView>,
    /// The arguments of the plugins that take any.
    pub args: Vec<ArgsView>,
}

/// The plugins of an extension point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointView {
    /// The extension point.
    pub point: ExtensionPoint,
    /// The plugins in the order of their calls.
    pub plugins: Vec<PluginView>,
}

/// A plugin at an extension point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PluginView {
    /// The plugin.
    pub name: String,
    /// Its weight, at extension points that use weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
}

/// The arguments of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArgsView {
    /// The plugin.
    pub name: String,
    /// Its arguments, including defaults.
    pub args: PluginArgs,
}

/// Expands every profile, or returns the problems that prevent it.
pub fn show(
    config: &Configuration,
    implements: &dyn Fn(&str, ExtensionPoint) -> bool,
    is_known: &dyn Fn(&str) -> bool,
) -> Result<Vec<ProfileView>, Vec<ConfigProblem>> {
    let expanded = expand_all(config, implements, is_known)?;
    Ok(config
        .profiles
        .iter()
        .zip(&expanded)
        .map(|(profile, expanded)| view(config, profile, expanded))
        .collect())
}

fn view(config: &Configuration, profile: &Profile, expanded: &ExpandedProfile) -> ProfileView {
    let plugin = |point: ExtensionPoint, name: &String| PluginView {
        name: name.clone(),
        weight: expanded.weight(point, name),
    };
    let point = |point: ExtensionPoint| PointView {
        point,
        plugins: expanded.at(point).iter().map(|name| plugin(point, name)).collect(),
    };
    let args = profile.plugin_config.iter().filter_map(|config| {
        let args = config.args.clone()?;
        Some(ArgsView { name: config.name.clone(), args })
    });
    ProfileView {
        scheduler_name: profile.scheduler_name.clone(),
        percentage_of_nodes_to_score: profile
            .percentage_of_nodes_to_score
            .or(config.percentage_of_nodes_to_score),
        points: ExtensionPoint::ALL.into_iter().map(point).collect(),
        args: args.collect(),
    }
}
