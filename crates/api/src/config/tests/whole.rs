//! Tests of defaults, of writing and of showing.

use super::*;

#[test]
fn defaults_are_those_of_upstream() {
    let config = defaults(Gates::default());
    assert_eq!(config, valid(&v1_file("")));
    let text = write(&config);
    for line in [
        "apiVersion: kubescheduler.config.k8s.io/v1\n",
        "kind: KubeSchedulerConfiguration\n",
        "parallelism: 16\n",
        "  leaderElect: true\n",
        "  leaseDuration: 15s\n",
        "  renewDeadline: 10s\n",
        "  retryPeriod: 2s\n",
        "  resourceLock: leases\n",
        "  resourceName: kube-scheduler\n",
        "  resourceNamespace: kube-system\n",
        "  contentType: application/vnd.kubernetes.protobuf\n",
        "  burst: 100\n",
        "enableProfiling: true\n",
        "enableContentionProfiling: true\n",
        "podInitialBackoffSeconds: 1\n",
        "podMaxBackoffSeconds: 10\n",
        "schedulerName: default-scheduler\n",
        "delayCacheUntilActive: false\n",
        "minCandidateNodesPercentage: 10\n",
        "minCandidateNodesAbsolute: 100\n",
        "hardPodAffinityWeight: 1\n",
        "bindTimeoutSeconds: 600\n",
        "filterTimeout: 10s\n",
        "bindingTimeout: 10m0s\n",
        "defaultingType: System\n",
        "type: LeastAllocated\n",
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
    assert!(
        !text.contains("percentageOfNodesToScore"),
        "unset stays unset, as zero means something else"
    );
    let names: Vec<&str> =
        config.profiles[0].plugin_config.iter().map(|config| config.name.as_str()).collect();
    assert_eq!(names, PluginArgs::PLUGINS);
}

#[test]
fn unset_and_zero_percentages_differ() {
    assert_eq!(valid(&v1_file("")).percentage_of_nodes_to_score, None);
    let config =
        valid(&v1_file("percentageOfNodesToScore: 0\nprofiles: [{percentageOfNodesToScore: 0}]"));
    assert_eq!(config.percentage_of_nodes_to_score, Some(0));
    assert_eq!(config.profiles[0].percentage_of_nodes_to_score, Some(0));
}

#[test]
fn zero_values_count_as_unset_where_upstream_has_no_pointer() {
    let body = "enableProfiling: false\nleaderElection: {leaseDuration: 0s, resourceName: ''}\nclientConnection: {qps: 0, burst: 0, contentType: ''}\nextenders: [{urlPrefix: a, httpTimeout: 0s}]";
    let config = valid(&v1_file(body));
    assert_eq!(config.leader_election, defaults(Gates::default()).leader_election);
    assert_eq!(config.client_connection, defaults(Gates::default()).client_connection);
    assert_eq!(config.extenders[0].http_timeout, Duration::from_secs(5));
    assert!(!config.enable_contention_profiling);
}

const EVERYTHING: &str = r"parallelism: 8
leaderElection: {leaderElect: false, leaseDuration: 1m30s, resourceNamespace: here}
clientConnection: {kubeconfig: '/a b: c', acceptContentTypes: x, contentType: application/json, qps: 12.5, burst: 7}
enableProfiling: false
enableContentionProfiling: true
percentageOfNodesToScore: 30
podInitialBackoffSeconds: 2
podMaxBackoffSeconds: 9223372036854775807
delayCacheUntilActive: true
extenders:
- urlPrefix: https://a
  filterVerb: f
  preemptVerb: p
  prioritizeVerb: s
  weight: 3
  bindVerb: b
  enableHTTPS: true
  tlsConfig: {insecure: true, serverName: s, certFile: c, keyFile: k, caFile: a, certData: YQ==, keyData: YWI=, caData: YWJj}
  httpTimeout: 250ms
  nodeCacheCapable: true
  managedResources: [{name: example.com/x, ignoredByScheduler: true}]
  ignorable: true
profiles:
- schedulerName: 'yes'
  percentageOfNodesToScore: 0
  plugins:
    multiPoint: {enabled: [{name: TaintToleration, weight: 7}], disabled: [{name: ImageLocality}]}
    filter: {enabled: [{name: Custom}], disabled: [{name: NodeName}]}
    score: {disabled: [{name: '*'}], enabled: [{name: Custom, weight: 2}]}
  pluginConfig:
  - name: Custom
    args: {a: [1, -2.5, 'on', null, true, {b: {}}], c: []}
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: ['1']}], matchFields: [{key: metadata.name, operator: NotIn, values: ['n']}]}]
        preferredDuringSchedulingIgnoredDuringExecution: [{weight: 5, preference: {matchExpressions: [{key: b, operator: Exists}]}}]
  - name: NodeResourcesFit
    args:
      ignoredResourceGroups: [example.org]
      scoringStrategy: {type: RequestedToCapacityRatio, resources: [{name: cpu, weight: 5}, {name: memory}], requestedToCapacityRatio: {shape: [{utilization: 0, score: 10}, {utilization: 100, score: 0}]}}
  - name: PodTopologySpread
    args:
      defaultingType: List
      defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 2, nodeAffinityPolicy: Honor, nodeTaintsPolicy: Ignore, matchLabelKeys: [l]}]
  - {name: DynamicResources, args: {filterTimeout: 0s, bindingTimeout: 1h}}
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 0, ignorePreferredTermsOfExistingPods: true}}
";

#[test]
fn a_written_configuration_reads_back_equal() {
    for body in ["", "percentageOfNodesToScore: 0", EVERYTHING] {
        let first = valid(&v1_file(body));
        let text = write(&first);
        assert_eq!(valid(&text), first, "{text}");
        let json = serde_json::to_string(&first.to_v1()).unwrap();
        let json = json.replacen('{', "{\"apiVersion\":\"kubescheduler.config.k8s.io/v1\",\"kind\":\"KubeSchedulerConfiguration\",", 1);
        assert_eq!(valid(&json), first, "{json}");
        let written = read(&v1_file(body)).v1.unwrap();
        assert_eq!(valid(&write_v1(&written)), first);
    }
}

#[test]
fn profiles_are_shown_by_extension_point() {
    let config = valid(&v1_file(EVERYTHING));
    let views = show(&config, &implements, &known).unwrap();
    assert_eq!(views.len(), 1);
    assert_eq!(views[0].percentage_of_nodes_to_score, Some(0));
    let value = serde_json::to_value(&views[0]).unwrap();
    assert_eq!(
        value["points"][6],
        serde_json::json!({"point": "score", "plugins": [{"name": "Custom", "weight": 2}]})
    );
    assert_eq!(value["args"][0]["args"]["a"][1], -2.5);
    assert_eq!(value["args"][1]["args"]["kind"], "NodeAffinityArgs");
}

#[test]
fn json_indented_with_tabs_is_read() {
    let text = "{\n\t\"apiVersion\": \"kubescheduler.config.k8s.io/v1\",\n\t\"kind\": \"KubeSchedulerConfiguration\",\n\t\"parallelism\": 3\n}";
    assert_eq!(valid(text).parallelism, 3);
}

#[test]
fn yaml_1_1_values_anchors_and_merges_are_read() {
    let body = "enableProfiling: off\nparallelism: 010\npodMaxBackoffSeconds: 20.0\nprofiles:\n- &a {schedulerName: a, percentageOfNodesToScore: 5}\n- {<<: *a, schedulerName: b}\n";
    let config = valid(&v1_file(body));
    assert!(!config.enable_profiling);
    assert_eq!((config.parallelism, config.pod_max_backoff_seconds), (8, 20));
    let names: Vec<&str> =
        config.profiles.iter().map(|profile| profile.scheduler_name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert_eq!(config.profiles[1].percentage_of_nodes_to_score, Some(5));
}
