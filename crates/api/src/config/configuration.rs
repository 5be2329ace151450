//! The complete, validated configuration.

use super::args::PluginArgs;
use super::duration::Duration;
use super::extender::Extender;
use super::v1::{self, PluginConfig, Plugins};

/// A configuration with all defaults applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// Number of workers for filtering and scoring; greater than zero.
    pub parallelism: i32,
    /// Settings of leader election.
    pub leader_election: LeaderElection,
    /// Connection to the API server.
    pub client_connection: ClientConnection,
    /// Serves profiling.
    pub enable_profiling: bool,
    /// Profiles lock contention.
    pub enable_contention_profiling: bool,
    /// Percentage of nodes, 0 to 100, after which filtering stops; 0 is adaptive, absent means all
    /// nodes.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Initial backoff of an unschedulable pod in seconds; greater than zero.
    pub pod_initial_backoff_seconds: i64,
    /// Maximum backoff in seconds; not less than the initial backoff.
    pub pod_max_backoff_seconds: i64,
    /// The profiles; at least one, with unique names.
    pub profiles: Vec<Profile>,
    /// The HTTP extenders, shared by all profiles.
    pub extenders: Vec<Extender>,
    /// Delays filling the caches until this replica becomes the leader.
    pub delay_cache_until_active: bool,
}

/// A scheduling profile.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// The name by which pods select this profile.
    pub scheduler_name: String,
    /// Overrides the percentage of the scheduler; 0 is adaptive.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// The plugin sets, merged with the defaults.
    pub plugins: Plugins,
    /// Arguments of plugins: first those written in the file, then defaults in order of plugin
    /// names.
    pub plugin_config: Vec<PluginConfig>,
}

impl Profile {
    /// Returns the arguments of a plugin.
    pub fn args(&self, plugin: &str) -> Option<&PluginArgs> {
        self.plugin_config.iter().find(|config| config.name == plugin)?.args.as_ref()
    }
}

/// Settings of leader election.
#[derive(Clone, Debug, PartialEq)]
pub struct LeaderElection {
    /// Elects a leader among replicas. The other fields are validated only if this is set.
    pub leader_elect: bool,
    /// Time after which a lease that was not renewed expires.
    pub lease_duration: Duration,
    /// Time after which the leader gives up renewing.
    pub renew_deadline: Duration,
    /// Interval between attempts.
    pub retry_period: Duration,
    /// The type of lock, `leases`.
    pub resource_lock: String,
    /// The name of the lease.
    pub resource_name: String,
    /// The namespace of the lease.
    pub resource_namespace: String,
}

/// Connection to the API server.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientConnection {
    /// The kubeconfig file with address and credentials; empty means in-cluster configuration.
    pub kubeconfig: String,
    /// The `Accept` header; empty means the content type.
    pub accept_content_types: String,
    /// The `Content-Type` of requests.
    pub content_type: String,
    /// Sustained requests per second; negative means unlimited.
    pub qps: f32,
    /// Requests allowed in a burst above the sustained rate.
    pub burst: i32,
}

impl Configuration {
    /// Returns the extenders in the order of their calls: those that are not ignorable come first.
    pub fn extenders_in_order(&self) -> Vec<&Extender> {
        let (last, first): (Vec<_>, Vec<_>) =
            self.extenders.iter().partition(|extender| extender.ignorable);
        first.into_iter().chain(last).collect()
    }

    /// Returns the same configuration in v1 form, with every field set.
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
