//! What each profile expands to, as data for a table or for JSON.

use serde::Serialize;

use super::args::PluginArgs;
use super::configuration::{Configuration, Profile};
use super::expand::{Expanded, expand_all};
use super::point::ExtensionPoint;
use super::problem::Problem;

/// A profile as it will run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileView {
    /// The name pods choose it by.
    pub scheduler_name: String,
    /// The share of nodes, the profile's own or that of the scheduler; absent is all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Every extension point, in order.
    pub points: Vec<PointView>,
    /// The arguments of the plugins that have any.
    pub args: Vec<ArgsView>,
}

/// The plugins of an extension point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointView {
    /// The extension point.
    pub point: ExtensionPoint,
    /// The plugins, in the order they are called.
    pub plugins: Vec<PluginView>,
}

/// A plugin at an extension point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PluginView {
    /// The plugin.
    pub name: String,
    /// Its weight, where scores are weighted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
}

/// The arguments of a plugin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ArgsView {
    /// The plugin.
    pub name: String,
    /// Its arguments, defaults included.
    pub args: PluginArgs,
}

/// Shows every profile, or says why one cannot be expanded.
pub fn show(
    config: &Configuration,
    implements: &dyn Fn(&str, ExtensionPoint) -> bool,
    known: &dyn Fn(&str) -> bool,
) -> Result<Vec<ProfileView>, Vec<Problem>> {
    let expanded = expand_all(config, implements, known)?;
    Ok(config
        .profiles
        .iter()
        .zip(&expanded)
        .map(|(profile, expanded)| view(config, profile, expanded))
        .collect())
}

fn view(config: &Configuration, profile: &Profile, expanded: &Expanded) -> ProfileView {
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
