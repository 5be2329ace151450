//! Tests that unknown fields, duplicate fields and wrong types are refused.

use super::*;

#[test]
fn unknown_fields_are_refused_everywhere() {
    refused(
        r"paralelism: 5
zzz: 1
leaderElection: {leaderelect: true}
clientConnection: {QPS: 5}
healthzBindAddress: 0.0.0.0:10251
extenders: [{urlPrefix: a, tlsConfig: {cafile: x}, managedResources: [{name: a.b/c, ignored: true}], url: b}]
profiles:
- plugins: {prefilter: {}, filter: {enable: [], enabled: [{name: NodeName, wait: 1}]}}
  pluginConfig: [{name: NodeResourcesFit, arg: {}, args: {scoringStrategy: {type: LeastAllocated, resources: [{Name: cpu}]}}}]
",
        &[
            "paralelism: unknown field \"paralelism\"; did you mean \"parallelism\"?",
            "zzz: unknown field \"zzz\"; known fields: apiVersion, kind, parallelism, leaderElection, clientConnection, \
             enableProfiling, enableContentionProfiling, percentageOfNodesToScore, podInitialBackoffSeconds, \
             podMaxBackoffSeconds, profiles, extenders, delayCacheUntilActive",
            "leaderElection.leaderelect: unknown field \"leaderelect\"; did you mean \"leaderElect\"?",
            "clientConnection.QPS: unknown field \"QPS\"; did you mean \"qps\"?",
            "healthzBindAddress: unknown field: removed after v1beta2; health and metrics are served on the secure port, so remove it",
            "extenders[0].tlsConfig.cafile: unknown field \"cafile\"; did you mean \"caFile\"?",
            "extenders[0].managedResources[0].ignored: unknown field \"ignored\"; known fields: name, ignoredByScheduler",
            "extenders[0].url: unknown field \"url\"; known fields: urlPrefix, filterVerb, preemptVerb, prioritizeVerb, weight, \
             bindVerb, enableHTTPS, tlsConfig, httpTimeout, nodeCacheCapable, managedResources, ignorable",
            "profiles[0].plugins.prefilter: unknown field \"prefilter\"; did you mean \"preFilter\"?",
            "profiles[0].plugins.filter.enable: unknown field \"enable\"; did you mean \"enabled\"?",
            "profiles[0].plugins.filter.enabled[0].wait: unknown field \"wait\"; known fields: name, weight",
            "profiles[0].pluginConfig[0].arg: unknown field \"arg\"; did you mean \"args\"?",
            "profiles[0].pluginConfig[0].args.scoringStrategy.resources[0].Name: unknown field \"Name\"; did you mean \"name\"?",
        ],
    );
}

#[test]
fn every_duplicate_field_is_refused() {
    let twice = "duplicate field: it is set more than once; keep one of them";
    refused(
        r"parallelism: 5
parallelism: 5
profiles:
- schedulerName: a
  schedulerName: b
  pluginConfig:
  - name: Custom
    args: {x: {z: 1, z: 2}}
",
        &[
            &format!("parallelism: {twice}"),
            &format!("profiles[0].schedulerName: {twice}"),
            &format!("profiles[0].pluginConfig[0].args.x.z: {twice}"),
        ],
    );
    let json = r#"{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "parallelism": 1, "parallelism": 2}"#;
    assert_eq!(problems(json), [format!("parallelism: {twice}")]);
    let numbers = v1_file("profiles: [{pluginConfig: [{name: Custom, args: {1: a, 1: b}}]}]");
    assert_eq!(problems(&numbers).len(), 1);
}

#[test]
fn wrong_types_are_refused_all_at_once() {
    refused(
        r"parallelism: many
enableProfiling: 1
percentageOfNodesToScore: 1.5
podInitialBackoffSeconds: 99999999999999999999
podMaxBackoffSeconds: '10'
delayCacheUntilActive: {}
leaderElection: {leaseDuration: 15, renewDeadline: ten, retryPeriod: 2, resourceName: 7}
clientConnection: {qps: fast, burst: 4294967296}
extenders: {}
profiles: [5, {schedulerName: true, plugins: [], pluginConfig: [{name: NodeName}, {args: {}}]}, {schedulerName: b, pluginConfig: [{name: VolumeBinding, args: 5}]}]
",
        &[
            "parallelism: expected a whole number, found the string \"many\"",
            "enableProfiling: expected true or false, found the number 1",
            "percentageOfNodesToScore: expected a whole number, found the number 1.5",
            "podInitialBackoffSeconds: 100000000000000000000 does not fit in a 64-bit integer",
            "podMaxBackoffSeconds: expected a whole number, found the string \"10\"",
            "delayCacheUntilActive: expected true or false, found an object",
            "leaderElection.leaseDuration: expected a duration such as \"10s\", found the number 15",
            "leaderElection.renewDeadline: \"ten\" is not a duration; write a number with a unit, such as \"10s\", \"1m30s\" or \"100ms\"",
            "leaderElection.retryPeriod: expected a duration such as \"10s\", found the number 2",
            "leaderElection.resourceName: expected a string, found the number 7; put it in quotes",
            "clientConnection.qps: expected a number, found the string \"fast\"",
            "clientConnection.burst: 4294967296 does not fit in a 32-bit integer",
            "extenders: expected a list, found an object",
            "profiles[0]: expected an object, found the number 5",
            "profiles[0].schedulerName: Required value: each profile needs a name of its own",
            "profiles[1].schedulerName: expected a string, found the boolean true; put it in quotes",
            "profiles[1].schedulerName: Required value: each profile needs a name of its own",
            "profiles[1].plugins: expected an object, found a list",
            "profiles[1].pluginConfig[1].name: Required value: the name of a plugin",
            "profiles[2].pluginConfig[0].args: expected an object, found the number 5",
        ],
    );
}

#[test]
fn null_means_unset() {
    let body = "parallelism:\nleaderElection: ~\nprofiles:\n- schedulerName: null\n  plugins:\n  pluginConfig: [{name: VolumeBinding, args: }]\nextenders:\n";
    assert_eq!(valid(&v1_file(body)).to_v1().parallelism, Some(16));
    assert_eq!(valid(&v1_file(body)).profiles[0].scheduler_name, "default-scheduler");
}

#[test]
fn args_may_name_their_type_but_not_another() {
    let file = |args: &str| {
        v1_file(&format!(
            "profiles: [{{pluginConfig: [{{name: DefaultPreemption, args: {args}}}]}}]"
        ))
    };
    valid(&file("{apiVersion: kubescheduler.config.k8s.io/v1, kind: DefaultPreemptionArgs}"));
    valid(&file("{kind: DefaultPreemptionArgs}"));
    let path = "profiles[0].pluginConfig[0].args";
    let group = "kubescheduler.config.k8s.io";
    for (args, want) in [
        (
            "{apiVersion: kubescheduler.config.k8s.io/v1, kind: InterPodAffinityArgs}",
            format!(
                "{path}: args for plugin DefaultPreemption were not of type DefaultPreemptionArgs.{group}, got InterPodAffinityArgs.{group}"
            ),
        ),
        (
            "{apiVersion: v1}",
            format!(
                "{path}: args for plugin DefaultPreemption were not of type DefaultPreemptionArgs.{group}, got DefaultPreemptionArgs"
            ),
        ),
        (
            "{apiVersion: kubescheduler.config.k8s.io/v2}",
            format!(
                "{path}.apiVersion: no kind \"DefaultPreemptionArgs\" is registered for version \"{group}/v2\"; leave out apiVersion"
            ),
        ),
    ] {
        assert_eq!(problems(&file(args)), [want]);
    }
}

#[test]
fn other_versions_and_kinds_are_refused() {
    let kind = "kind: KubeSchedulerConfiguration";
    let group = "kubescheduler.config.k8s.io";
    for (text, want) in [
        (
            format!("apiVersion: {group}/v1beta1\n{kind}"),
            format!(
                "apiVersion: no kind \"KubeSchedulerConfiguration\" is registered for version \"{group}/v1beta1\"; {group} is supported in v1; v1beta3 and v1beta2 are converted"
            ),
        ),
        (
            format!("apiVersion: {group}/v1alpha1\n{kind}"),
            format!(
                "apiVersion: no kind \"KubeSchedulerConfiguration\" is registered for version \"{group}/v1alpha1\"; {group} is supported in v1; v1beta3 and v1beta2 are converted"
            ),
        ),
        (
            "apiVersion: v1\nkind: Pod".to_owned(),
            format!(
                "kind: no kind \"Pod\" is registered for version \"v1\"; a scheduler is configured with kind \"KubeSchedulerConfiguration\" of \"{group}/v1\""
            ),
        ),
        (kind.to_owned(), format!("apiVersion: Required value: set it to \"{group}/v1\"")),
        (
            format!("apiVersion: {group}/v1"),
            "kind: Required value: set it to \"KubeSchedulerConfiguration\"".to_owned(),
        ),
        (String::new(), "the file is empty; it needs at least apiVersion and kind".to_owned()),
        ("- a".to_owned(), "expected an object, found a list".to_owned()),
    ] {
        assert_eq!(problems(&text), [want], "{text}");
    }
}
