//! The configuration as written: what a file leaves out stays out.

use serde::{Serialize, Serializer, ser::SerializeMap};

use super::args::PluginArgs;
use super::duration::Duration;
use super::extender::Extender;
use super::point::ExtensionPoint;

/// The file, without `apiVersion` and `kind`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeSchedulerConfiguration {
    /// How many goroutines upstream would use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i32>,
    /// Settings of leader election.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_election: Option<LeaderElection>,
    /// How to reach the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_connection: Option<ClientConnection>,
    /// Whether profiling is served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_profiling: Option<bool>,
    /// Whether lock contention is profiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_contention_profiling: Option<bool>,
    /// The share of nodes after which filtering stops; 0 is adaptive, absent is all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// The first backoff of a pod that could not be scheduled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_initial_backoff_seconds: Option<i64>,
    /// The longest backoff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_max_backoff_seconds: Option<i64>,
    /// The scheduling profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    /// The HTTP extenders, shared by all profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extenders: Vec<Extender>,
    /// Whether caches are filled only once this replica leads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_cache_until_active: Option<bool>,
}

/// A profile as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// The name pods choose this profile by.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Overrides the value of the whole scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// The plugins enabled and disabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Plugins>,
    /// The arguments of plugins.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugin_config: Vec<PluginConfig>,
}

/// The plugin sets of a profile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plugins {
    /// The set that applies to every point a plugin implements.
    pub multi_point: PluginSet,
    /// The sets of the single points, in the order of [`ExtensionPoint::ALL`].
    points: [PluginSet; ExtensionPoint::ALL.len()],
}

impl Plugins {
    /// The set of one extension point.
    pub fn at(&self, point: ExtensionPoint) -> &PluginSet {
        &self.points[point as usize]
    }

    /// The set of one extension point, to change it.
    pub fn at_mut(&mut self, point: ExtensionPoint) -> &mut PluginSet {
        &mut self.points[point as usize]
    }

    /// Every set with its key: `multiPoint` first, then the points in order.
    pub fn sets(&self) -> impl Iterator<Item = (&'static str, &PluginSet)> {
        let points = ExtensionPoint::ALL.into_iter().map(|point| (point.key(), self.at(point)));
        std::iter::once(("multiPoint", &self.multi_point)).chain(points)
    }

    /// Every set with its key, to change it.
    pub(super) fn sets_mut(&mut self) -> impl Iterator<Item = (&'static str, &mut PluginSet)> {
        let points = ExtensionPoint::ALL.into_iter().map(ExtensionPoint::key).zip(&mut self.points);
        std::iter::once(("multiPoint", &mut self.multi_point)).chain(points)
    }
}

impl Serialize for Plugins {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (key, set) in self.sets().filter(|(_, set)| **set != PluginSet::default()) {
            map.serialize_entry(key, set)?;
        }
        map.end()
    }
}

/// What is enabled and disabled at an extension point.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PluginSet {
    /// Enabled beside the defaults, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<Plugin>,
    /// Defaults that are switched off; `*` is all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<Plugin>,
}

impl PluginSet {
    /// Whether a plugin is disabled by its own name.
    pub fn disables(&self, name: &str) -> bool {
        self.disabled.iter().any(|plugin| plugin.name == name)
    }

    /// Whether all defaults are disabled.
    pub fn disables_all(&self) -> bool {
        self.disables("*")
    }

    /// Whether a plugin is listed as enabled.
    pub fn enables(&self, name: &str) -> bool {
        self.enabled.iter().any(|plugin| plugin.name == name)
    }
}

/// A plugin by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plugin {
    /// The name it is registered under.
    pub name: String,
    /// Its weight in scoring; zero or absent is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// The arguments of a plugin, completed with defaults where the plugin is in-tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PluginConfig {
    /// The plugin.
    pub name: String,
    /// Its arguments; absent only for plugins that are not in-tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<PluginArgs>,
}

/// Leader election as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderElection {
    /// Whether replicas elect a leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_elect: Option<bool>,
    /// How long a lease lasts without renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_duration: Option<Duration>,
    /// How long the leader tries to renew before it gives up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renew_deadline: Option<Duration>,
    /// The time between tries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_period: Option<Duration>,
    /// The kind of lock; only `leases` is left.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_lock: Option<String>,
    /// The name of the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// The namespace of the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_namespace: Option<String>,
}

/// The client connection as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientConnection {
    /// The file with the address and credentials; empty is in-cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<String>,
    /// The `Accept` header; empty is the content type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_content_types: Option<String>,
    /// The `Content-Type` of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Sustained requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qps: Option<f32>,
    /// Requests above that in a burst.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<i32>,
}
