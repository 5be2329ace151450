//! Tests of the message and the path of every check.

use super::*;

#[test]
fn a_field_out_of_range_is_refused() {
    let rows = [
        (
            "parallelism: 0",
            "parallelism: Invalid value: 0: should be an integer value greater than zero",
        ),
        (
            "clientConnection: {burst: -1}",
            "clientConnection.burst: Invalid value: -1: must be non-negative",
        ),
        (
            "percentageOfNodesToScore: 101",
            "percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]",
        ),
        (
            "podInitialBackoffSeconds: 0",
            "podInitialBackoffSeconds: Invalid value: 0: must be greater than 0",
        ),
        (
            "podInitialBackoffSeconds: 20",
            "podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to PodInitialBackoffSeconds",
        ),
        ("leaderElection: {leaseDuration: -1s, renewDeadline: -2s, retryPeriod: -3s}", ""),
        (
            "leaderElection: {leaseDuration: 10s}",
            "leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`",
        ),
        (
            "leaderElection: {retryPeriod: 9s}",
            "leaderElection.renewDeadline: Invalid value: \"10s\": must be greater than 1.2 times `RetryPeriod`",
        ),
        (
            "leaderElection: {resourceLock: endpoints}",
            "leaderElection.resourceLock: Invalid value: \"endpoints\": resourceLock value must be \"leases\"",
        ),
        (
            "profiles: [{percentageOfNodesToScore: -1}]",
            "profiles[0].percentageOfNodesToScore: Invalid value: -1: not in valid range [0-100]",
        ),
        (
            "profiles: [{schedulerName: ''}]",
            "profiles[0].schedulerName: Required value: each profile needs a name of its own",
        ),
        (
            "profiles: [{schedulerName: a}, {schedulerName: a}]",
            "profiles[1].schedulerName: Duplicate value: \"a\"; profiles[0] has it",
        ),
        (
            "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
            "profiles[0].plugins.filter.enabled[0]: Invalid value: \"EBSLimits\": was invalid in version \"v1\" \
             (KubeSchedulerConfiguration is version \"kubescheduler.config.k8s.io/v1\")",
        ),
        (
            "profiles: [{pluginConfig: [{name: GCEPDLimits}]}]",
            "profiles[0].pluginConfig[0]: Invalid value: \"GCEPDLimits\": was invalid in version \"v1\" \
             (KubeSchedulerConfiguration is version \"kubescheduler.config.k8s.io/v1\")",
        ),
        (
            "profiles: [{pluginConfig: [{name: X}, {name: X}]}]",
            "profiles[0].pluginConfig[1]: Duplicate value: \"X\"",
        ),
        (
            "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: PrioritySort}]}}}]",
            "profiles[1].plugins.queueSort: Invalid value: [PrioritySort]: must be the same for all profiles",
        ),
        (
            "profiles: [{plugins: {queueSort: {enabled: [{name: PrioritySort}, {name: Reverse}]}}}]",
            "profiles[0].plugins.queueSort.enabled: Invalid value: 2: only one queue sort plugin can be enabled",
        ),
    ];
    for (body, want) in rows {
        if want.is_empty() {
            assert_eq!(problems(&v1_file(body)).len(), 3, "{body}");
        } else {
            refused(body, &[want]);
        }
    }
}

#[test]
fn leader_election_is_not_checked_when_it_is_off() {
    valid(&v1_file(
        "leaderElection: {leaderElect: false, leaseDuration: -1s, resourceLock: endpoints}",
    ));
}

#[test]
fn the_args_of_queue_sort_must_be_the_same_for_all_profiles() {
    let profile = |name: &str, value: u32| {
        format!(
            "- {{schedulerName: {name}, plugins: {{queueSort: {{enabled: [{{name: Custom}}], disabled: [{{name: '*'}}]}}}}, \
             pluginConfig: [{{name: Custom, args: {{value: {value}}}}}]}}\n"
        )
    };
    let text = |second| v1_file(&format!("profiles:\n{}{}", profile("a", 1), profile("b", second)));
    valid(&text(1));
    let want = "profiles[1].pluginConfig[0].args: Invalid value: \"Custom\": queueSort must be the same for all profiles";
    assert_eq!(problems(&text(2)), [want]);
}

#[test]
fn extenders_are_checked_together() {
    refused(
        r"extenders:
- {urlPrefix: http://a, prioritizeVerb: p, bindVerb: b, managedResources: [{name: example.com/x}, {name: cpu}]}
- {urlPrefix: http://b, bindVerb: b, managedResources: [{name: example.com/x}, {name: kubernetes.io/y}, {name: /z}]}
",
        &[
            "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
            "extenders[0].managedResources[1].name: Invalid value: \"cpu\": is an invalid extended resource name",
            "extenders[1].managedResources[0].name: Invalid value: \"example.com/x\": duplicate extender managed resource name",
            "extenders[1].managedResources[1].name: Invalid value: \"kubernetes.io/y\": is an invalid extended resource name",
            "extenders[1].managedResources[2].name: Invalid value: \"/z\": prefix part must be non-empty",
            "extenders: Invalid value: \"found 2 extenders implementing bind\": only one extender can implement bind",
        ],
    );
}

#[test]
fn args_out_of_range_are_refused() {
    let rows: &[(&str, &str, &[&str])] = &[
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 101, minCandidateNodesAbsolute: -1}",
            &[
                "minCandidateNodesPercentage: Invalid value: 101: not in valid range [0, 100]",
                "minCandidateNodesAbsolute: Invalid value: -1: not in valid range [0, inf)",
            ],
        ),
        (
            "DefaultPreemption",
            "{minCandidateNodesPercentage: 0, minCandidateNodesAbsolute: 0}",
            &[
                "minCandidateNodesPercentage: Invalid value: 0: cannot be zero at the same time as minCandidateNodesAbsolute",
                "minCandidateNodesAbsolute: Invalid value: 0: cannot be zero at the same time as minCandidateNodesPercentage",
            ],
        ),
        (
            "InterPodAffinity",
            "{hardPodAffinityWeight: 101}",
            &["hardPodAffinityWeight: Invalid value: 101: not in valid range [0, 100]"],
        ),
        (
            "NodeResourcesFit",
            "{ignoredResources: ['-x'], ignoredResourceGroups: [a.b/c], scoringStrategy: {resources: [{name: cpu, weight: 101}, {name: memory, weight: -1}]}}",
            &[
                "ignoredResources[0]: Invalid value: \"-x\": name part must consist of alphanumeric characters, '-', '_' or '.', \
                 and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used \
                 for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')",
                "ignoredResourceGroups[0]: Invalid value: \"a.b/c\": resource group name can't contain '/'",
                "scoringStrategy.type: Unsupported value: \"\": supported values: \"LeastAllocated\", \"MostAllocated\", \"RequestedToCapacityRatio\"",
                "scoringStrategy.resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
                "scoringStrategy.resources[1].weight: Invalid value: -1: resource weight of memory not in valid range (0, 100]",
            ],
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio}}",
            &[
                "scoringStrategy.requestedToCapacityRatio: Required value: must be specified when type is RequestedToCapacityRatio",
            ],
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: MostAllocated, requestedToCapacityRatio: {}}}",
            &[
                "scoringStrategy.requestedToCapacityRatio: Forbidden: must be nil when type is not RequestedToCapacityRatio",
            ],
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: []}}}",
            &[
                "scoringStrategy.requestedToCapacityRatio.shape: Required value: at least one point must be specified",
            ],
        ),
        (
            "NodeResourcesFit",
            "{scoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 50, score: 11}, {utilization: 50, score: -1}, {utilization: 101}]}}}",
            &[
                "scoringStrategy.requestedToCapacityRatio.shape[0].score: Invalid value: 11: not in valid range [0, 10]",
                "scoringStrategy.requestedToCapacityRatio.shape[1].score: Invalid value: -1: not in valid range [0, 10]",
                "scoringStrategy.requestedToCapacityRatio.shape[1].utilization: Invalid value: 50: values must be sorted in increasing order",
                "scoringStrategy.requestedToCapacityRatio.shape[2].utilization: Invalid value: 101: not in valid range [0, 100]",
            ],
        ),
        (
            "NodeResourcesBalancedAllocation",
            "{resources: [{name: cpu}, {name: cpu, weight: 2}]}",
            &[
                "resources[1].name: Duplicate value: \"cpu\"",
                "resources[1].weight: Invalid value: 2: must be 1",
            ],
        ),
        (
            "PodTopologySpread",
            "{defaultConstraints: [{maxSkew: 0, topologyKey: '', whenUnsatisfiable: Never, labelSelector: {}}, {maxSkew: 1, topologyKey: a, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: a, whenUnsatisfiable: DoNotSchedule}], defaultingType: Some}",
            &[
                "defaultConstraints[0].maxSkew: Invalid value: 0: not in valid range (0, inf)",
                "defaultConstraints[0].topologyKey: Required value: can not be empty",
                "defaultConstraints[0].whenUnsatisfiable: Unsupported value: \"Never\": supported values: \"DoNotSchedule\", \"ScheduleAnyway\"",
                "defaultConstraints[0].labelSelector: Forbidden: constraint must not define a selector, as they deduced for each pod",
                "defaultConstraints[2]: Duplicate value: \"{a, DoNotSchedule}\"",
                "defaultingType: Unsupported value: \"Some\": supported values: \"System\", \"List\"",
            ],
        ),
        (
            "PodTopologySpread",
            "{defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}",
            &[
                "defaultingType: Invalid value: \"System\": when .defaultConstraints are not empty; set it to \"List\"",
            ],
        ),
        (
            "VolumeBinding",
            "{bindTimeoutSeconds: -1, shape: []}",
            &[
                "bindTimeoutSeconds: Invalid value: -1: invalid BindTimeoutSeconds, should not be a negative value",
                "shape: Invalid value: []: unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring",
            ],
        ),
        (
            "DynamicResources",
            "{filterTimeout: -1s, bindingTimeout: 500ms}",
            &[
                "filterTimeout: Invalid value: \"-1s\": must be zero or positive",
                "bindingTimeout: Invalid value: \"500ms\": must be at least 1 second",
            ],
        ),
    ];
    for (plugin, args, want) in rows {
        let want: Vec<String> =
            want.iter().map(|want| format!("profiles[0].pluginConfig[0].args.{want}")).collect();
        let want: Vec<&str> = want.iter().map(String::as_str).collect();
        refused(
            &format!("profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"),
            &want,
        );
    }
}

#[test]
fn added_affinity_is_checked() {
    let body = r"profiles:
- pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms:
          - matchExpressions:
            - {key: a, operator: In}
            - {key: a, operator: Exists, values: [x]}
            - {key: a, operator: Gt, values: ['1', z]}
            - {key: '', operator: Like}
          - matchFields:
            - {key: metadata.name, operator: In, values: [a, b]}
            - {key: metadata.name, operator: Exists}
        preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 1
          preference: {matchExpressions: [{key: a, operator: In, values: ['not a label']}]}
";
    let affinity = "profiles[0].pluginConfig[0].args.addedAffinity";
    let terms =
        format!("{affinity}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms");
    let got = problems(&v1_file(body));
    let want = [
        format!(
            "{terms}[0].matchExpressions[0].values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
        ),
        format!(
            "{terms}[0].matchExpressions[1].values: Invalid value: [\"x\"]: values set must be empty for exists and does not exist"
        ),
        format!(
            "{terms}[0].matchExpressions[2].values: Invalid value: [\"1\",\"z\"]: for 'Gt', 'Lt' operators, exactly one value is required"
        ),
        format!(
            "{terms}[0].matchExpressions[2].values[1]: Invalid value: \"z\": for 'Gt', 'Lt' operators, the value must be an integer"
        ),
        format!(
            "{terms}[0].matchExpressions[3].operator: Unsupported value: \"Like\": supported values: \"In\", \"NotIn\", \"Exists\", \"DoesNotExist\", \"Gt\", \"Lt\""
        ),
        format!(
            "{terms}[1].matchFields[0].values: Invalid value: [\"a\",\"b\"]: must have one element"
        ),
        format!(
            "{terms}[1].matchFields[1].operator: Unsupported value: \"Exists\": supported values: \"In\", \"NotIn\""
        ),
    ];
    assert_eq!(got[..7], want);
    let label = format!(
        "{affinity}.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values[0]: Invalid value: \"not a label\": a valid label must be"
    );
    assert!(got[7].starts_with(&label), "{}", got[7]);
    assert_eq!(got.len(), 8);
}

#[test]
fn gates_change_what_is_allowed() {
    let text = v1_file(
        "profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: [{utilization: 5, score: 1}]}}, {name: DynamicResources, args: {filterTimeout: 1s}}]}]",
    );
    let gates = Gates { storage_capacity_scoring: true, ..Gates::default() };
    assert_eq!(read_with(&text, gates).problems, []);
    let gates = Gates {
        dra_scheduler_filter_timeout: false,
        dra_device_binding_conditions: false,
        ..gates
    };
    let got: Vec<String> =
        read_with(&text, gates).problems.iter().map(ToString::to_string).collect();
    assert_eq!(
        got,
        [
            "profiles[0].pluginConfig[1].args.filterTimeout: Forbidden: DRASchedulingFilterTimeout feature gate is disabled"
        ]
    );
    let config = defaults(gates);
    let want = args::DynamicResourcesArgs { filter_timeout: None, binding_timeout: None };
    assert_eq!(
        config.profiles[0].args("DynamicResources"),
        Some(&PluginArgs::DynamicResources(want))
    );
}

#[test]
fn resources_managed_by_extenders_are_ignored_by_every_profile() {
    let extenders = "extenders: [{urlPrefix: http://a, managedResources: [{name: example.com/x, ignoredByScheduler: true}, {name: example.com/y}]}]\n";
    let text = v1_file(&format!(
        "{extenders}profiles: [{{schedulerName: a}}, {{schedulerName: b, pluginConfig: [{{name: NodeResourcesFit, args: {{ignoredResources: [example.com/z]}}}}]}}]"
    ));
    let config = valid(&text);
    for profile in &config.profiles {
        let Some(PluginArgs::NodeResourcesFit(args)) = profile.args("NodeResourcesFit") else {
            panic!("no args")
        };
        assert_eq!(args.ignored_resources, ["example.com/x"]);
    }
    assert_eq!(read(&text).notes.len(), 1);
    refused(
        &format!(
            "{extenders}profiles: [{{plugins: {{multiPoint: {{disabled: [{{name: NodeResourcesFit}}]}}}}}}]"
        ),
        &[
            "profiles[0].pluginConfig: can't find NodeResourcesFitArgs in plugin config, which extenders with ignoredByScheduler need",
        ],
    );
}

#[test]
fn settings_without_effect_are_noted() {
    let body = r"profiles:
- plugins:
    filter:
      enabled: [{name: NodeName, weight: 3}]
      disabled: [{name: NodeNam}]
    multiPoint:
      disabled: [{name: Custom}]
    score:
      enabled: [{name: ImageLocality, weight: -2}]
  pluginConfig:
  - {name: Elsewhere, args: {a: 1}}
  - {name: NodeName, args: {a: 1}}
extenders: [{urlPrefix: a, enableHTTPS: true}]
";
    let read = read(&v1_file(body));
    assert_eq!(read.problems, []);
    assert_eq!(
        read.notes,
        [
            "profiles[0].plugins.multiPoint.disabled[0]: Custom is not enabled by default, so this has no effect",
            "profiles[0].plugins.filter.enabled[0]: the weight of NodeName has no effect at filter",
            "profiles[0].plugins.filter.disabled[0]: NodeNam is not enabled by default, so this has no effect",
            "profiles[0].plugins.score.enabled[0]: the weight of ImageLocality is negative, which inverts its scores",
            "profiles[0].pluginConfig[0]: Elsewhere is not enabled in this profile, so its args have no effect",
            "profiles[0].pluginConfig[1]: NodeName takes no args, so these have no effect",
            "extenders[0]: enableHTTPS is set without tlsConfig.caFile or caData, so the server's certificate is not verified",
        ]
    );
}
