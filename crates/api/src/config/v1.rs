//! The v1 form of the configuration, with fields absent that the file omits.

use serde::{Serialize, Serializer, ser::SerializeMap};

use super::args::PluginArgs;
use super::duration::Duration;
use super::extender::Extender;
use super::point::ExtensionPoint;

/// A configuration file, without `apiVersion` and `kind`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeSchedulerConfiguration {
    /// Number of goroutines in upstream's scheduler.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parallelism: Option<i32>,
    /// Settings of leader election.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_election: Option<LeaderElection>,
    /// Connection to the API server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_connection: Option<ClientConnection>,
    /// Serves profiling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_profiling: Option<bool>,
    /// Profiles lock contention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enable_contention_profiling: Option<bool>,
    /// Percentage of nodes after which filtering stops; 0 is adaptive, absent means all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Initial backoff of an unschedulable pod in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_initial_backoff_seconds: Option<i64>,
    /// Maximum backoff in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_max_backoff_seconds: Option<i64>,
    /// The scheduling profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<Profile>,
    /// The HTTP extenders, shared by all profiles.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub extenders: Vec<Extender>,
    /// Delays filling the caches until this replica becomes the leader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_cache_until_active: Option<bool>,
}

/// A profile as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Profile {
    /// The name by which pods select this profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// Overrides the percentage of the scheduler.
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
    /// The set that applies to every extension point a plugin implements.
    pub multi_point: PluginSet,
    /// The sets of the extension points, in the order of [`ExtensionPoint::ALL`].
    points: [PluginSet; ExtensionPoint::ALL.len()],
}

impl Plugins {
    /// Returns the set of an extension point.
    pub fn at(&self, point: ExtensionPoint) -> &PluginSet {
        &self.points[point as usize]
    }

    /// Returns the set of an extension point for modification.
    pub fn at_mut(&mut self, point: ExtensionPoint) -> &mut PluginSet {
        &mut self.points[point as usize]
    }

    /// Returns every set with its key: `multiPoint` first, then the extension points in order.
    pub fn sets(&self) -> impl Iterator<Item = (&'static str, &PluginSet)> {
        let points = ExtensionPoint::ALL.into_iter().map(|point| (point.key(), self.at(point)));
        std::iter::once(("multiPoint", &self.multi_point)).chain(points)
    }

    /// Returns every set with its key for modification.
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

/// The plugins enabled and disabled at an extension point.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PluginSet {
    /// Plugins enabled in addition to the defaults, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<Plugin>,
    /// Defaults that are disabled; `*` means all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<Plugin>,
}

impl PluginSet {
    /// Returns `true` if a plugin is disabled by name.
    pub fn disables(&self, name: &str) -> bool {
        self.disabled.iter().any(|plugin| plugin.name == name)
    }

    /// Returns `true` if all defaults are disabled.
    pub fn disables_all(&self) -> bool {
        self.disables("*")
    }

    /// Returns `true` if a plugin is listed as enabled.
    pub fn enables(&self, name: &str) -> bool {
        self.enabled.iter().any(|plugin| plugin.name == name)
    }
}

/// A plugin by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Plugin {
    /// The name it is registered under.
    pub name: String,
    /// Its weight in scoring; zero or absent means one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i32>,
}

/// The arguments of a plugin; in-tree plugins get defaults for omitted fields.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PluginConfig {
    /// The plugin.
    pub name: String,
    /// Its arguments; absent only for out-of-tree plugins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<PluginArgs>,
}

/// Leader election as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderElection {
    /// Elects a leader among replicas.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub leader_elect: Option<bool>,
    /// Time after which a lease that was not renewed expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_duration: Option<Duration>,
    /// Time after which the leader gives up renewing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renew_deadline: Option<Duration>,
    /// Interval between attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_period: Option<Duration>,
    /// The type of lock; only `leases` remains.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_lock: Option<String>,
    /// The name of the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_name: Option<String>,
    /// The namespace of the lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_namespace: Option<String>,
}

/// Connection to the API server as written.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClientConnection {
    /// The kubeconfig file with address and credentials; empty means in-cluster configuration.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubeconfig: Option<String>,
    /// The `Accept` header; empty means the content type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accept_content_types: Option<String>,
    /// The `Content-Type` of requests.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// Sustained requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub qps: Option<f32>,
    /// Requests allowed in a burst above the sustained rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub burst: Option<i32>,
}
