//! Validation of a complete configuration, as in `pkg/scheduler/apis/config/validation`.

use std::collections::{BTreeMap, BTreeSet};

use super::args::PluginArgs;
use super::configuration::{Configuration, LeaderElection, Profile};
use super::defaults::{default_plugins, in_tree_plugins};
use super::duration::Duration;
use super::extender;
use super::gates::Gates;
use super::point::ExtensionPoint;
use super::problem::{ProblemSink, child, duplicate, index, invalid, invalid_text, required};
use super::v1::{self, PluginSet};
use super::version::Version;

/// Volume limit plugins of cloud providers, which NodeVolumeLimits replaced.
pub(super) const REMOVED: [&str; 4] =
    ["AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"];

/// Validates everything beyond single fields and the arguments of single plugins.
pub(super) fn validate(mut config: Configuration, sink: &ProblemSink) -> Configuration {
    let burst = config.client_connection.burst;
    if burst < 0 {
        sink.report("clientConnection.burst", invalid(burst, "must be non-negative"));
    }
    leader_election(&config.leader_election, sink);
    if config.parallelism <= 0 {
        let detail = "should be an integer value greater than zero";
        sink.report("parallelism", invalid(config.parallelism, detail));
    }
    profiles(&config.profiles, sink);
    percentage(config.percentage_of_nodes_to_score, "percentageOfNodesToScore", sink);
    let (initial, max) = (config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds);
    if initial <= 0 {
        sink.report("podInitialBackoffSeconds", invalid(initial, "must be greater than 0"));
    }
    if max < initial {
        let detail = "must be greater than or equal to PodInitialBackoffSeconds";
        sink.report("podMaxBackoffSeconds", invalid(max, detail));
    }
    extender::validate(&config.extenders, sink);
    ignore_managed_resources(&mut config, sink);
    config
}

/// Adds notes on settings without effect.
pub(super) fn notes(
    raw: &v1::KubeSchedulerConfiguration,
    config: &Configuration,
    gates: Gates,
    sink: &ProblemSink,
) {
    let in_tree = in_tree_plugins();
    for (position, (raw, profile)) in raw.profiles.iter().zip(&config.profiles).enumerate() {
        let path = index("profiles", position);
        for (key, set) in raw.plugins.iter().flat_map(v1::Plugins::sets) {
            set_notes(&child(&child(&path, "plugins"), key), key, set, profile, gates, sink);
        }
        for (position, config) in raw.plugin_config.iter().enumerate() {
            let path = index(&child(&path, "pluginConfig"), position);
            let enabled = profile.plugins.sets().any(|(_, set)| set.enables(&config.name));
            if !enabled {
                sink.note(format!(
                    "{path}: {} is not enabled in this profile, so its args have no effect",
                    config.name
                ));
            } else if matches!(config.args, Some(PluginArgs::Other(_)))
                && in_tree.contains(&config.name)
            {
                sink.note(format!(
                    "{path}: {} takes no args, so these have no effect",
                    config.name
                ));
            }
        }
    }
}

fn set_notes(
    path: &str,
    key: &str,
    set: &PluginSet,
    profile: &Profile,
    gates: Gates,
    sink: &ProblemSink,
) {
    let uses_weights = key == "multiPoint"
        || ExtensionPoint::ALL.iter().any(|point| point.key() == key && point.uses_weights());
    for (position, plugin) in set.enabled.iter().enumerate() {
        let path = index(&child(path, "enabled"), position);
        match plugin.weight {
            Some(weight) if weight != 0 && !uses_weights => {
                sink.note(format!("{path}: the weight of {} has no effect at {key}", plugin.name));
            }
            Some(weight) if weight < 0 => {
                sink.note(format!(
                    "{path}: the weight of {} is negative, which inverts its scores",
                    plugin.name
                ));
            }
            _ => {}
        }
    }
    let defaults = default_plugins(gates).multi_point;
    for (position, plugin) in set.disabled.iter().enumerate() {
        let effective = if key == "multiPoint" { &defaults } else { &profile.plugins.multi_point };
        if plugin.name != "*" && !plugin.name.is_empty() && !effective.enables(&plugin.name) {
            let path = index(&child(path, "disabled"), position);
            sink.note(format!(
                "{path}: {} is not enabled by default, so this has no effect",
                plugin.name
            ));
        }
    }
}

fn leader_election(election: &LeaderElection, sink: &ProblemSink) {
    if !election.leader_elect {
        return;
    }
    let report = |key: &str, value: Duration, detail: &str| {
        sink.report(child("leaderElection", key), invalid_text(&value.to_string(), detail));
    };
    let LeaderElection {
        lease_duration: lease, renew_deadline: renew, retry_period: retry, ..
    } = *election;
    for (key, value) in [("leaseDuration", lease), ("renewDeadline", renew), ("retryPeriod", retry)]
    {
        if value <= Duration::ZERO {
            report(key, value, "must be greater than zero");
        }
    }
    if lease <= renew {
        report("leaseDuration", lease, "must be greater than `RenewDeadline`");
    }
    // The elector waits up to 20 % longer than the retry period.
    if i128::from(renew.nanos()) * 5 <= i128::from(retry.nanos()) * 6 {
        report("renewDeadline", renew, "must be greater than 1.2 times `RetryPeriod`");
    }
    if election.resource_lock != "leases" {
        let message =
            invalid_text(&election.resource_lock, "resourceLock value must be \"leases\"");
        sink.report("leaderElection.resourceLock", message);
    }
}

fn profiles(profiles: &[Profile], sink: &ProblemSink) {
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for (position, profile) in profiles.iter().enumerate() {
        let path = index("profiles", position);
        let name = profile.scheduler_name.as_str();
        if name.is_empty() {
            sink.report(
                child(&path, "schedulerName"),
                required("each profile needs a name of its own"),
            );
        } else if let Some(first) = names.insert(name, position) {
            let message = format!("{}; profiles[{first}] has it", duplicate(name));
            sink.report(child(&path, "schedulerName"), message);
        }
        percentage(
            profile.percentage_of_nodes_to_score,
            &child(&path, "percentageOfNodesToScore"),
            sink,
        );
        removed_plugins(profile, &path, sink);
        let mut configured = BTreeSet::new();
        for (position, config) in profile.plugin_config.iter().enumerate() {
            if !config.name.is_empty() && !configured.insert(&config.name) {
                sink.report(
                    index(&child(&path, "pluginConfig"), position),
                    duplicate(&config.name),
                );
            }
        }
    }
    check_queue_sorts(profiles, sink);
}

fn removed_plugins(profile: &Profile, path: &str, sink: &ProblemSink) {
    let message = |name: &str| {
        let version = Version::V1.api_version();
        invalid_text(
            name,
            &format!(
                "was invalid in version \"v1\" (KubeSchedulerConfiguration is version {version:?})"
            ),
        )
    };
    for point in ExtensionPoint::ALL {
        let path = child(&child(&child(path, "plugins"), point.key()), "enabled");
        for (position, plugin) in profile.plugins.at(point).enabled.iter().enumerate() {
            if REMOVED.contains(&plugin.name.as_str()) {
                sink.report(index(&path, position), message(&plugin.name));
            }
        }
    }
    for (position, config) in profile.plugin_config.iter().enumerate() {
        if REMOVED.contains(&config.name.as_str()) {
            sink.report(index(&child(path, "pluginConfig"), position), message(&config.name));
        }
    }
}

/// Checks that all profiles name the same queue sort plugin, because they share one queue.
fn check_queue_sorts(profiles: &[Profile], sink: &ProblemSink) {
    let Some((first, others)) = profiles.split_first() else {
        return;
    };
    let reference = first.plugins.at(ExtensionPoint::QueueSort);
    if reference.enabled.len() > 1 {
        let message = invalid(reference.enabled.len(), "only one queue sort plugin can be enabled");
        sink.report("profiles[0].plugins.queueSort.enabled", message);
    }
    let sorter = reference.enabled.first().map(|plugin| plugin.name.as_str());
    for (position, profile) in others.iter().enumerate() {
        let path = index("profiles", position + 1);
        let found = profile.plugins.at(ExtensionPoint::QueueSort);
        if !same_set(reference, found) {
            let names: Vec<&str> =
                found.enabled.iter().map(|plugin| plugin.name.as_str()).collect();
            let message =
                invalid(format!("[{}]", names.join(", ")), "must be the same for all profiles");
            sink.report(child(&path, "plugins.queueSort"), message);
        }
        let Some(sorter) = sorter else { continue };
        for (position, config) in profile.plugin_config.iter().enumerate() {
            if config.name == sorter && config.args.as_ref() != first.args(sorter) {
                let path = child(&index(&child(&path, "pluginConfig"), position), "args");
                sink.report(
                    path,
                    invalid_text(sorter, "queueSort must be the same for all profiles"),
                );
            }
        }
    }
}

fn same_set(left: &PluginSet, right: &PluginSet) -> bool {
    let same = |left: &[v1::Plugin], right: &[v1::Plugin]| {
        let plain = |plugin: &v1::Plugin| (plugin.name.clone(), plugin.weight.unwrap_or(0));
        left.iter().map(plain).eq(right.iter().map(plain))
    };
    same(&left.enabled, &right.enabled) && same(&left.disabled, &right.disabled)
}

fn percentage(value: Option<i32>, path: &str, sink: &ProblemSink) {
    if let Some(value) = value
        && !(0..=100).contains(&value)
    {
        sink.report(path, invalid(value, "not in valid range [0-100]"));
    }
}

/// Sets the ignored resources of NodeResourcesFit in every profile to those that extenders manage
/// exclusively.
fn ignore_managed_resources(config: &mut Configuration, sink: &ProblemSink) {
    let managed = config.extenders.iter().flat_map(|extender| &extender.managed_resources);
    let ignored: Vec<String> = managed
        .filter(|resource| resource.ignored_by_scheduler)
        .map(|resource| resource.name.clone())
        .collect();
    if ignored.is_empty() {
        return;
    }
    for (position, profile) in config.profiles.iter_mut().enumerate() {
        let path = child(&index("profiles", position), "pluginConfig");
        let args =
            profile.plugin_config.iter_mut().find(|config| config.name == "NodeResourcesFit");
        let Some(PluginArgs::NodeResourcesFit(args)) = args.and_then(|config| config.args.as_mut())
        else {
            let message = "can't find NodeResourcesFitArgs in plugin config, which extenders with ignoredByScheduler need";
            sink.report(path, message);
            continue;
        };
        if !args.ignored_resources.is_empty() && args.ignored_resources != ignored {
            sink.note(format!(
                "{path}: ignoredResources of NodeResourcesFit is replaced by the extenders' resources {}",
                ignored.join(", ")
            ));
        }
        args.ignored_resources.clone_from(&ignored);
    }
}
