//! Builds profiles from a configuration and the registered plugins.

use api::config::{
    ConfigProblem, Configuration, ExpandedProfile, ExtensionPoint, PluginArgs, expand,
};
use engine::framework::{Extender, Plugin, Point, Profile};

use crate::simple::{self, NodePlugin};
use crate::table::TABLE;

/// Builds a plugin from its arguments, or returns the error in them.
pub type PluginFactory = Box<dyn Fn(Option<&PluginArgs>) -> Result<Box<dyn Plugin>, String>>;

/// The plugins of a scheduler: those of the table and custom ones.
pub struct Registry {
    entries: Vec<RegisteredPlugin>,
}

struct RegisteredPlugin {
    name: String,
    points: &'static [Point],
    build: PluginFactory,
}

impl RegisteredPlugin {
    /// Returns the plugin if it says of itself what it was registered with.
    fn checked(&self, plugin: Box<dyn Plugin>) -> Result<Box<dyn Plugin>, String> {
        let sorted = |points: &[Point]| {
            let mut points = points.to_vec();
            points.sort_unstable();
            points.dedup();
            points
        };
        if plugin.name() != self.name {
            Err(format!("it is registered as {:?} but names itself {:?}", self.name, plugin.name()))
        } else if sorted(plugin.points()) != sorted(self.points) {
            let (registered, own) = (self.points, plugin.points());
            Err(format!("it is registered for {registered:?} but implements {own:?}"))
        } else {
            Ok(plugin)
        }
    }
}

impl Default for Registry {
    /// Returns a registry with the plugins of the table.
    fn default() -> Self {
        let entries = TABLE.iter().map(|entry| RegisteredPlugin {
            name: entry.name.to_owned(),
            points: entry.points,
            build: Box::new(|args| Ok((entry.build)(args))),
        });
        Self { entries: entries.collect() }
    }
}

impl Registry {
    /// Adds a custom plugin in short form; it replaces a registered plugin of the same name.
    #[must_use]
    pub fn with_plugin<P: NodePlugin>(self) -> Self {
        let build: PluginFactory = Box::new(|args| P::new(args).map(simple::plugin));
        self.with(P::NAME, P::POINTS, build)
    }

    /// Adds a custom plugin; it replaces a registered plugin of the same name. Profiles are refused if
    /// the built plugin says another name or other points.
    pub fn with(mut self, name: &str, points: &'static [Point], build: PluginFactory) -> Self {
        self.entries.retain(|entry| entry.name != name);
        self.entries.push(RegisteredPlugin { name: name.to_owned(), points, build });
        self
    }

    /// Returns `true` if a plugin of this name is registered.
    pub fn contains(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns `true` if a plugin of this name is registered and implements an extension point.
    pub fn implements(&self, name: &str, point: ExtensionPoint) -> bool {
        self.find(name).is_some_and(|entry| entry.points.iter().any(|p| config_point(*p) == point))
    }

    /// Builds the profiles of a configuration, or returns all problems found in it.
    pub fn profiles(
        &self,
        configuration: &Configuration,
    ) -> Result<Vec<Profile>, Vec<ConfigProblem>> {
        let mut profiles = Vec::new();
        let mut problems = Vec::new();
        for (position, profile) in configuration.profiles.iter().enumerate() {
            let implements = |name: &str, point| self.implements(name, point);
            let expanded = expand(profile, &implements, &|name| self.contains(name));
            let built = expanded.and_then(|expanded| self.build(profile, &expanded));
            match built {
                Ok(mut built) => {
                    built.percentage_of_nodes_to_score = profile
                        .percentage_of_nodes_to_score
                        .or(configuration.percentage_of_nodes_to_score);
                    built.add_extenders(extenders(configuration));
                    profiles.push(built);
                }
                Err(found) => problems.extend(found.into_iter().map(|problem| ConfigProblem {
                    path: format!("profiles[{position}].{}", problem.path),
                    message: problem.message,
                })),
            }
        }
        if problems.is_empty() { Ok(profiles) } else { Err(problems) }
    }

    fn find(&self, name: &str) -> Option<&RegisteredPlugin> {
        self.entries.iter().find(|entry| entry.name == name)
    }

    fn build(
        &self,
        profile: &api::config::Profile,
        expanded: &ExpandedProfile,
    ) -> Result<Profile, Vec<ConfigProblem>> {
        let mut problems = Vec::new();
        let mut plugins = Vec::new();
        let mut names = Vec::new();
        for name in expanded.plugins() {
            let Some(entry) = self.find(name) else { continue };
            match (entry.build)(profile.args(name)).and_then(|plugin| entry.checked(plugin)) {
                Ok(plugin) => {
                    plugins.push(plugin);
                    names.push(name);
                }
                Err(message) => problems.push(ConfigProblem {
                    path: "pluginConfig".to_owned(),
                    message: format!("initializing plugin {name:?}: {message}"),
                }),
            }
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let position = |name: &str| names.iter().position(|other| *other == name);
        let points = POINTS.iter().map(|point| {
            let at = expanded.at(config_point(*point));
            (*point, at.iter().filter_map(|name| position(name)).collect())
        });
        let score = expanded.at(ExtensionPoint::Score).iter();
        let weight = |name: &String| expanded.weight(ExtensionPoint::Score, name).unwrap_or(1);
        Ok(Profile {
            name: profile.scheduler_name.clone(),
            points: points.collect(),
            weights: score.map(weight).collect(),
            plugins,
            percentage_of_nodes_to_score: None,
            extenders: Vec::new(),
        })
    }
}

/// Returns the extenders in the engine's form, in the order in which they are called.
fn extenders(configuration: &Configuration) -> Vec<Extender> {
    let extenders = configuration.extenders_in_order().into_iter().map(|extender| Extender {
        managed: extender.managed_resources.iter().map(|managed| (*managed.name).into()).collect(),
        filters: !extender.filter_verb.is_empty(),
        scores: !extender.prioritize_verb.is_empty(),
        preempts: !extender.preempt_verb.is_empty(),
        binds: !extender.bind_verb.is_empty(),
    });
    extenders.collect()
}

const POINTS: [Point; 14] = [
    Point::PreEnqueue,
    Point::QueueSort,
    Point::PreFilter,
    Point::Filter,
    Point::PostFilter,
    Point::PreScore,
    Point::Score,
    Point::Reserve,
    Point::Permit,
    Point::PreBind,
    Point::Bind,
    Point::PostBind,
    Point::PlacementGenerate,
    Point::PlacementScore,
];

fn config_point(point: Point) -> ExtensionPoint {
    match point {
        Point::PreEnqueue => ExtensionPoint::PreEnqueue,
        Point::QueueSort => ExtensionPoint::QueueSort,
        Point::PreFilter => ExtensionPoint::PreFilter,
        Point::Filter => ExtensionPoint::Filter,
        Point::PostFilter => ExtensionPoint::PostFilter,
        Point::PreScore => ExtensionPoint::PreScore,
        Point::Score => ExtensionPoint::Score,
        Point::Reserve => ExtensionPoint::Reserve,
        Point::Permit => ExtensionPoint::Permit,
        Point::PreBind => ExtensionPoint::PreBind,
        Point::Bind => ExtensionPoint::Bind,
        Point::PostBind => ExtensionPoint::PostBind,
        Point::PlacementGenerate => ExtensionPoint::PlacementGenerate,
        Point::PlacementScore => ExtensionPoint::PlacementScore,
    }
}
