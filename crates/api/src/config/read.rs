//! Parsing of a file into the v1 types.

use super::args::PluginArgs;
use super::extender::Extender;
use super::fields::Fields;
use super::gates::Gates;
use super::point::ExtensionPoint;
use super::problem::{ProblemSink, quoted, required};
use super::tree::Tree;
use super::v1::{
    ClientConnection, KubeSchedulerConfiguration, LeaderElection, Plugin, PluginConfig, PluginSet,
    Plugins, Profile,
};
use super::version::{GROUP, KIND, Version};

/// Parses a file. Returns `None` if its kind or version is unknown.
pub(super) fn document(
    text: &str,
    gates: Gates,
    sink: &ProblemSink,
) -> Option<(Version, KubeSchedulerConfiguration)> {
    let tree = match Tree::parse(text) {
        Ok(Tree::Null) => {
            sink.report("", "the file is empty; it needs at least apiVersion and kind");
            return None;
        }
        Ok(tree @ Tree::Map(_)) => tree,
        Ok(other) => {
            sink.report("", format!("expected an object, found {}", other.describe()));
            return None;
        }
        Err(error) => {
            sink.report("", error);
            return None;
        }
    };
    let mut fields = Fields::open(tree, String::new(), sink);
    let version = header(&mut fields)?;
    Some((version, configuration(fields, version, gates)))
}

/// Reads `apiVersion` and `kind`. If `apiVersion` is missing, the file is read as v1.
fn header(fields: &mut Fields<'_>) -> Option<Version> {
    let before = fields.sink.count();
    let api_version = fields.text("apiVersion").unwrap_or_default();
    let kind = fields.text("kind").unwrap_or_default();
    if fields.sink.count() > before {
        return None;
    }
    let v1 = Version::V1.api_version();
    if kind.is_empty() {
        fields.sink.report("kind", required(&format!("set it to {KIND:?}")));
    }
    if api_version.is_empty() {
        fields.sink.report("apiVersion", required(&format!("set it to {v1:?}")));
        return Some(Version::V1);
    }
    let version = Version::parse(&api_version);
    let of_this_kind = kind.is_empty() || kind == KIND;
    if version.is_some() && of_this_kind {
        return version;
    }
    let found = quoted(if kind.is_empty() { KIND } else { &kind });
    let message = format!("no kind {found} is registered for version {}", quoted(&api_version));
    if of_this_kind {
        let hint = format!("{GROUP} is supported in v1; v1beta3 and v1beta2 are converted");
        fields.sink.report("apiVersion", format!("{message}; {hint}"));
    } else {
        let hint = format!("a scheduler is configured with kind {KIND:?} of {v1:?}");
        fields.sink.report("kind", format!("{message}; {hint}"));
    }
    None
}

fn configuration(
    mut fields: Fields<'_>,
    version: Version,
    gates: Gates,
) -> KubeSchedulerConfiguration {
    let mut config = KubeSchedulerConfiguration {
        parallelism: fields.number("parallelism"),
        leader_election: fields.object("leaderElection").map(leader_election),
        client_connection: fields.object("clientConnection").map(client_connection),
        enable_profiling: fields.flag("enableProfiling"),
        enable_contention_profiling: fields.flag("enableContentionProfiling"),
        percentage_of_nodes_to_score: fields.number("percentageOfNodesToScore"),
        pod_initial_backoff_seconds: fields.number("podInitialBackoffSeconds"),
        pod_max_backoff_seconds: fields.number("podMaxBackoffSeconds"),
        profiles: Vec::new(),
        extenders: Vec::new(),
        delay_cache_until_active: None,
    };
    let profiles = fields.objects("profiles").unwrap_or_default();
    config.profiles = profiles.into_iter().map(|fields| profile(fields, version, gates)).collect();
    let extenders = fields.objects("extenders").unwrap_or_default();
    config.extenders = extenders.into_iter().map(Extender::read).collect();
    if version >= Version::V1 {
        config.delay_cache_until_active = fields.flag("delayCacheUntilActive");
    } else {
        fields.introduced_later("delayCacheUntilActive", version, Version::V1);
    }
    bind_addresses(&mut fields, version);
    fields.finish();
    config
}

/// Handles the addresses of the insecure server, which v1beta3 removed.
fn bind_addresses(fields: &mut Fields<'_>, version: Version) {
    for key in ["healthzBindAddress", "metricsBindAddress"] {
        let gone = "health and metrics are served on the secure port";
        if version > Version::V1beta2 {
            fields.removed(
                key,
                &format!("unknown field: removed after v1beta2; {gone}, so remove it"),
            );
        } else if let Some(address) = fields.text(key) {
            fields.sink.note(format!("{key}: {} was dropped; {gone}", quoted(&address)));
        }
    }
}

fn leader_election(mut fields: Fields<'_>) -> LeaderElection {
    let election = LeaderElection {
        leader_elect: fields.flag("leaderElect"),
        lease_duration: fields.duration("leaseDuration"),
        renew_deadline: fields.duration("renewDeadline"),
        retry_period: fields.duration("retryPeriod"),
        resource_lock: fields.text("resourceLock"),
        resource_name: fields.text("resourceName"),
        resource_namespace: fields.text("resourceNamespace"),
    };
    fields.finish();
    election
}

fn client_connection(mut fields: Fields<'_>) -> ClientConnection {
    let connection = ClientConnection {
        kubeconfig: fields.text("kubeconfig"),
        accept_content_types: fields.text("acceptContentTypes"),
        content_type: fields.text("contentType"),
        qps: fields.float("qps"),
        burst: fields.number("burst"),
    };
    fields.finish();
    connection
}

fn profile(mut fields: Fields<'_>, version: Version, gates: Gates) -> Profile {
    let mut profile =
        Profile { scheduler_name: fields.text("schedulerName"), ..Profile::default() };
    if version >= Version::V1 {
        profile.percentage_of_nodes_to_score = fields.number("percentageOfNodesToScore");
    } else {
        fields.introduced_later("percentageOfNodesToScore", version, Version::V1);
    }
    profile.plugins = fields.object("plugins").map(|fields| plugins(fields, version));
    let configs = fields.objects("pluginConfig").unwrap_or_default();
    profile.plugin_config =
        configs.into_iter().map(|fields| plugin_config(fields, version, gates)).collect();
    fields.finish();
    profile
}

fn plugins(mut fields: Fields<'_>, version: Version) -> Plugins {
    let mut plugins = Plugins::default();
    if version >= Version::V1beta3 {
        plugins.multi_point = fields.object("multiPoint").map(plugin_set).unwrap_or_default();
    } else {
        fields.introduced_later("multiPoint", version, Version::V1beta3);
    }
    for point in ExtensionPoint::ALL {
        if matches!(point, ExtensionPoint::PlacementGenerate | ExtensionPoint::PlacementScore)
            && version < Version::V1
        {
            fields.introduced_later(point.key(), version, Version::V1);
        } else {
            *plugins.at_mut(point) = fields.object(point.key()).map(plugin_set).unwrap_or_default();
        }
    }
    fields.finish();
    plugins
}

fn plugin_set(mut fields: Fields<'_>) -> PluginSet {
    let mut read = |key| fields.objects(key).unwrap_or_default().into_iter().map(plugin).collect();
    let set = PluginSet { enabled: read("enabled"), disabled: read("disabled") };
    fields.finish();
    set
}

fn plugin(mut fields: Fields<'_>) -> Plugin {
    let plugin = Plugin { name: plugin_name(&mut fields), weight: fields.number("weight") };
    fields.finish();
    plugin
}

fn plugin_config(mut fields: Fields<'_>, version: Version, gates: Gates) -> PluginConfig {
    let name = plugin_name(&mut fields);
    let args = fields.any("args");
    let args = PluginArgs::read(&name, args, fields.child("args"), version, gates, fields.sink);
    fields.finish();
    PluginConfig { name, args }
}

fn plugin_name(fields: &mut Fields<'_>) -> String {
    let before = fields.sink.count();
    let name = fields.text("name").unwrap_or_default();
    if name.is_empty() && fields.sink.count() == before {
        fields.sink.report(fields.child("name"), required("the name of a plugin"));
    }
    name
}
