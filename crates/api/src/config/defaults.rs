//! The defaults of v1, as in `pkg/scheduler/apis/config/v1/defaults.go` and `default_plugins.go`.

use std::collections::BTreeSet;

use super::args::PluginArgs;
use super::configuration::{ClientConnection, Configuration, LeaderElection, Profile};
use super::duration::Duration;
use super::extender::Extender;
use super::gates::Gates;
use super::merge::merge_plugins;
use super::v1::{self, Plugin, PluginConfig, Plugins};

/// Returns the plugins enabled by default, all of them through `multiPoint`.
pub fn default_plugins(gates: Gates) -> Plugins {
    let mut plugins = Plugins::default();
    let enabled = &mut plugins.multi_point.enabled;
    for (name, weight, on) in [
        ("SchedulingGates", None, true),
        ("PrioritySort", None, true),
        ("NodeUnschedulable", None, true),
        ("NodeName", None, true),
        ("TaintToleration", Some(3), true),
        ("NodeAffinity", Some(2), true),
        ("NodePorts", None, true),
        ("NodeResourcesFit", Some(1), true),
        ("VolumeRestrictions", None, true),
        ("NodeVolumeLimits", None, true),
        ("VolumeBinding", None, true),
        ("VolumeZone", None, true),
        ("PodTopologySpread", Some(2), true),
        ("InterPodAffinity", Some(2), true),
        // Deallocating an idle claim is less disruptive than evicting a pod, so DynamicResources
        // precedes preemption.
        ("DynamicResources", Some(2), gates.dynamic_resource_allocation),
        ("DefaultPreemption", None, true),
        ("NodeResourcesBalancedAllocation", Some(1), true),
        ("ImageLocality", Some(1), true),
        ("DefaultBinder", None, true),
        ("NodeDeclaredFeatures", None, gates.node_declared_features),
        ("GangScheduling", None, gates.gang_scheduling),
        ("TopologyPlacementGenerator", None, gates.topology_aware_workload_scheduling),
        ("PodGroupPodsCount", Some(1), gates.topology_aware_workload_scheduling),
    ] {
        if on {
            enabled.push(Plugin { name: name.to_owned(), weight });
        }
    }
    plugins
}

/// Returns the names of all in-tree plugins.
pub(super) fn in_tree_plugins() -> Vec<String> {
    let gates = Gates {
        gang_scheduling: true,
        topology_aware_workload_scheduling: true,
        ..Gates::default()
    };
    default_plugins(gates).multi_point.enabled.into_iter().map(|plugin| plugin.name).collect()
}

/// Applies the defaults to a file.
pub(super) fn complete(mut raw: v1::KubeSchedulerConfiguration, gates: Gates) -> Configuration {
    if raw.profiles.is_empty() {
        raw.profiles.push(v1::Profile::default());
    }
    if let [only] = &mut raw.profiles[..] {
        only.scheduler_name.get_or_insert_with(|| "default-scheduler".to_owned());
    }
    let enable_profiling = raw.enable_profiling.unwrap_or(true);
    Configuration {
        parallelism: raw.parallelism.unwrap_or(16),
        leader_election: leader_election(raw.leader_election.unwrap_or_default()),
        client_connection: client_connection(raw.client_connection.unwrap_or_default()),
        enable_profiling,
        enable_contention_profiling: raw.enable_contention_profiling.unwrap_or(enable_profiling),
        percentage_of_nodes_to_score: raw.percentage_of_nodes_to_score,
        pod_initial_backoff_seconds: raw.pod_initial_backoff_seconds.unwrap_or(1),
        pod_max_backoff_seconds: raw.pod_max_backoff_seconds.unwrap_or(10),
        profiles: raw.profiles.into_iter().map(|raw| profile(raw, gates)).collect(),
        extenders: raw.extenders.into_iter().map(Extender::complete).collect(),
        delay_cache_until_active: raw.delay_cache_until_active.unwrap_or(false),
    }
}

/// Applies the defaults of leader election. An empty string and a zero duration count as unset.
fn leader_election(raw: v1::LeaderElection) -> LeaderElection {
    LeaderElection {
        leader_elect: raw.leader_elect.unwrap_or(true),
        lease_duration: duration_or(raw.lease_duration, 15),
        renew_deadline: duration_or(raw.renew_deadline, 10),
        retry_period: duration_or(raw.retry_period, 2),
        resource_lock: text_or(raw.resource_lock, "leases"),
        resource_name: text_or(raw.resource_name, "kube-scheduler"),
        resource_namespace: text_or(raw.resource_namespace, "kube-system"),
    }
}

fn client_connection(raw: v1::ClientConnection) -> ClientConnection {
    ClientConnection {
        kubeconfig: raw.kubeconfig.unwrap_or_default(),
        accept_content_types: raw.accept_content_types.unwrap_or_default(),
        content_type: text_or(raw.content_type, "application/vnd.kubernetes.protobuf"),
        qps: raw.qps.filter(|qps| *qps != 0.0).unwrap_or(50.0),
        burst: raw.burst.filter(|burst| *burst != 0).unwrap_or(100),
    }
}

fn profile(raw: v1::Profile, gates: Gates) -> Profile {
    let plugins = merge_plugins(&default_plugins(gates), &raw.plugins.unwrap_or_default());
    let mut plugin_config = raw.plugin_config;
    let enabled: BTreeSet<&str> = plugins
        .sets()
        .flat_map(|(_, set)| &set.enabled)
        .map(|plugin| plugin.name.as_str())
        .collect();
    for name in enabled {
        if !plugin_config.iter().any(|config| config.name == name)
            && let Some(args) = PluginArgs::default_of(name, gates)
        {
            plugin_config.push(PluginConfig { name: name.to_owned(), args: Some(args) });
        }
    }
    Profile {
        scheduler_name: raw.scheduler_name.unwrap_or_default(),
        percentage_of_nodes_to_score: raw.percentage_of_nodes_to_score,
        plugins,
        plugin_config,
    }
}

fn text_or(value: Option<String>, default: &str) -> String {
    value.filter(|value| !value.is_empty()).unwrap_or_else(|| default.to_owned())
}

fn duration_or(value: Option<Duration>, default_seconds: i64) -> Duration {
    value.filter(|value| *value != Duration::ZERO).unwrap_or(Duration::from_secs(default_seconds))
}
