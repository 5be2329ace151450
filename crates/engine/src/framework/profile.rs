//! A profile: plugins in the order of each extension point.

use super::plugin::{Plugin, Point};

/// Which of the profile's plugins.
pub type PluginPosition = usize;

/// A configured scheduler, by its name.
pub struct Profile {
    /// `schedulerName`.
    pub name: String,
    /// Every plugin in use, once.
    pub plugins: Vec<Box<dyn Plugin>>,
    /// Plugins by extension point, in order.
    pub points: Vec<(Point, Vec<PluginPosition>)>,
    /// Weights of score plugins, in the order of [`Point::Score`].
    pub weights: Vec<i64>,
    /// `percentageOfNodesToScore`: `None` visits all nodes, zero is upstream's adaptive share.
    pub percentage_of_nodes_to_score: Option<i32>,
}

impl Profile {
    /// Plugins of an extension point, in order.
    pub fn at(&self, point: Point) -> &[PluginPosition] {
        self.points.iter().find(|(p, _)| *p == point).map_or(&[], |(_, plugins)| plugins)
    }

    /// Name of a plugin.
    pub fn plugin_name(&self, position: PluginPosition) -> &str {
        self.plugins[position].name()
    }
}
