//! The complete and valid configuration.

use super::args::PluginArgs;
use super::duration::Duration;
use super::extender::Extender;
use super::v1::{self, PluginConfig, Plugins};

/// A configuration with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// Workers for filtering and scoring; more than zero.
    pub parallelism: i32,
    /// Settings of leader election.
    pub leader_election: LeaderElection,
    /// How to reach the API server.
    pub client_connection: ClientConnection,
    /// Whether profiling is served.
    pub enable_profiling: bool,
    /// Whether lock contention is profiled.
    pub enable_contention_profiling: bool,
    /// The share of nodes, 0 to 100, after which filtering stops; 0 is adaptive, absent is all nodes.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// The first backoff of a pod that could not be scheduled; more than zero.
    pub pod_initial_backoff_seconds: i64,
    /// The longest backoff; not less than the first.
    pub pod_max_backoff_seconds: i64,
    /// The profiles; at least one, with distinct names.
    pub profiles: Vec<Profile>,
    /// The HTTP extenders, shared by all profiles.
    pub extenders: Vec<Extender>,
    /// Whether caches are filled only once this replica leads.
    pub delay_cache_until_active: bool,
}

/// A scheduling profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name pods choose this profile by.
    pub scheduler_name: String,
    /// Overrides the value of the whole scheduler; 0 is adaptive.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// The plugin sets, merged with the defaults.
    pub plugins: Plugins,
    /// The arguments of plugins, those written first, then defaults by name.
    pub plugin_config: Vec<PluginConfig>,
}

impl Profile {
    /// The arguments of a plugin.
    pub fn args(&self, plugin: &str) -> Option<&PluginArgs> {
        self.plugin_config.iter().find(|config| config.name == plugin)?.args.as_ref()
    }
}

/// Settings of leader election.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaderElection {
    /// Whether replicas elect a leader; the rest is only checked when they do.
    pub leader_elect: bool,
    /// How long a lease lasts without renewal.
    pub lease_duration: Duration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: Duration,
    /// The time between tries.
    pub retry_period: Duration,
    /// The kind of lock, `leases`.
    pub resource_lock: String,
    /// The name of the lease.
    pub resource_name: String,
    /// The namespace of the lease.
    pub resource_namespace: String,
}

/// How to reach the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnection {
    /// The file with the address and credentials; empty is in-cluster.
    pub kubeconfig: String,
    /// The `Accept` header; empty is the content type.
    pub accept_content_types: String,
    /// The `Content-Type` of requests.
    pub content_type: String,
    /// Sustained requests per second; negative is no limit.
    pub qps: f32,
    /// Requests above that in a burst.
    pub burst: i32,
}

impl Configuration {
    /// The extenders in the order in which they are asked: first those that cannot be done without.
    pub fn extenders_in_order(&self) -> Vec<&Extender> {
        let (last, first): (Vec<_>, Vec<_>) =
            self.extenders.iter().partition(|extender| extender.ignorable);
        first.into_iter().chain(last).collect()
    }

    /// The same configuration in the written form, with every field set.
    pub fn to_v1(&self) -> v1::KubeSchedulerConfiguration {
        v1::KubeSchedulerConfiguration {
            parallelism: Some(self.parallelism),
            leader_election: Some(self.leader_election.to_v1()),
            client_connection: Some(self.client_connection.to_v1()),
            enable_profiling: Some(self.enable_profiling),
            enable_contention_profiling: Some(self.enable_contention_profiling),
            percentage_of_nodes_to_score: self.percentage_of_nodes_to_score,
            pod_initial_backoff_seconds: Some(self.pod_initial_backoff_seconds),
            pod_max_backoff_seconds: Some(self.pod_max_backoff_seconds),
            profiles: self.profiles.iter().map(Profile::to_v1).collect(),
            extenders: self.extenders.clone(),
            delay_cache_until_active: Some(self.delay_cache_until_active),
        }
    }
}

impl Profile {
    fn to_v1(&self) -> v1::Profile {
        v1::Profile {
            scheduler_name: Some(self.scheduler_name.clone()),
            percentage_of_nodes_to_score: self.percentage_of_nodes_to_score,
            plugins: Some(self.plugins.clone()),
            plugin_config: self.plugin_config.clone(),
        }
    }
}

impl LeaderElection {
    fn to_v1(&self) -> v1::LeaderElection {
        v1::LeaderElection {
            leader_elect: Some(self.leader_elect),
            lease_duration: Some(self.lease_duration),
            renew_deadline: Some(self.renew_deadline),
            retry_period: Some(self.retry_period),
            resource_lock: Some(self.resource_lock.clone()),
            resource_name: Some(self.resource_name.clone()),
            resource_namespace: Some(self.resource_namespace.clone()),
        }
    }
}

impl ClientConnection {
    fn to_v1(&self) -> v1::ClientConnection {
        v1::ClientConnection {
            kubeconfig: Some(self.kubeconfig.clone()),
            accept_content_types: Some(self.accept_content_types.clone()),
            content_type: Some(self.content_type.clone()),
            qps: Some(self.qps),
            burst: Some(self.burst),
        }
    }
}
