//! Profiles: plugins in the order of each extension point.

use std::sync::Arc;

use crate::object::AnnotationKeys;
use crate::state::State;

use super::class::Class;
use super::extender::{Extender, Extenders};
use super::plugin::{KeyPart, Plugin, Point};

/// Position of a plugin in [`Profile::plugins`].
pub type PluginPosition = usize;

/// A configured scheduler name with its plugins.
pub struct Profile {
    /// `schedulerName`.
    pub name: String,
    /// All plugins in use, each once.
    pub plugins: Vec<Box<dyn Plugin>>,
    /// Plugins by extension point, in order.
    pub points: Vec<(Point, Vec<PluginPosition>)>,
    /// Weights of the Score plugins, in the order of [`Point::Score`].
    pub weights: Vec<i64>,
    /// `percentageOfNodesToScore`; `None` scores all nodes, zero means upstream's adaptive
    /// percentage.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Extenders, in call order.
    pub extenders: Vec<Extender>,
}

impl Profile {
    /// Returns the plugins of an extension point, in order.
    pub fn at(&self, point: Point) -> &[PluginPosition] {
        self.points.iter().find(|(p, _)| *p == point).map_or(&[], |(_, plugins)| plugins)
    }

    /// Returns the fields of namespace and labels that the evaluation of a class depends on; `None`
    /// if it depends on all of them.
    pub(crate) fn evaluation_key(&self, class: &Class, state: &State) -> Option<Arc<[u32]>> {
        let mut key = Vec::new();
        let points = [Point::PreFilter, Point::Filter, Point::PreScore, Point::Score];
        for plugin in &self.plugins {
            if plugin.points().iter().any(|point| points.contains(point)) {
                let KeyPart::Fields(fields) = plugin.evaluation_key(class, state) else {
                    return None;
                };
                key.extend(fields);
                key.push(u32::MAX);
            }
        }
        Some(key.into())
    }

    /// Adds extenders to the profile.
    pub fn add_extenders(&mut self, extenders: Vec<Extender>) {
        if !extenders.is_empty() {
            self.plugins.push(Box::new(Extenders));
            self.extenders = extenders;
        }
    }

    /// Returns the pseudo-plugin that rejections by extenders are attributed to.
    pub(crate) fn extender_plugin(&self) -> Option<PluginPosition> {
        if self.extenders.is_empty() { None } else { self.plugins.len().checked_sub(1) }
    }

    /// Returns the keys of the annotations that the plugins of these profiles read.
    pub fn annotations(profiles: &[Self]) -> AnnotationKeys {
        let mut all = AnnotationKeys::default();
        for plugin in profiles.iter().flat_map(|profile| &profile.plugins) {
            let AnnotationKeys { pods, nodes } = plugin.annotations();
            all.pods.extend(pods);
            all.nodes.extend(nodes);
        }
        all
    }

    /// Returns the name of a plugin.
    pub fn plugin_name(&self, position: PluginPosition) -> &str {
        self.plugins[position].name()
    }
}
