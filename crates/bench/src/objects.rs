//! Nodes and pods of the workloads.

use engine::object::{
    Labels, Node, NodeAffinity, NodeTerm, Operator, Owner, Pod, PodAffinity, PodTerm, QosClass,
    Requirement, Selector, SpreadConstraint, Text, WhenUnsatisfiable,
};

/// Key of the zone label.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// Key of the host name label.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";

/// Returns the standard node: 4 cores, 32 GiB, 110 pods, its name as host name, and one of `zones` zones if above 0.
pub(crate) fn node(index: usize, zones: usize) -> Node {
    let name = format!("node-{index:05}");
    let mut labels = vec![(HOSTNAME.to_owned(), name.clone())];
    if zones > 0 {
        labels.push((ZONE.to_owned(), format!("zone{}", index % zones + 1)));
    }
    let mut node = Node {
        name: name.into(),
        labels: labels.into_iter().collect(),
        allowed_pods: 110,
        ..Node::default()
    };
    node.allocatable.cpu = 4000;
    node.allocatable.memory = 32 << 30;
    node
}

/// Returns a pod with requests (thousandths of a core, bytes) and labels.
pub(crate) fn pod(
    namespace: &str,
    name: &str,
    cpu: i64,
    memory: i64,
    labels: &[(&str, &str)],
) -> Pod {
    let mut pod = Pod {
        namespace: namespace.into(),
        name: name.into(),
        uid: format!("{namespace}-{name}-4b3f-9b2e-5d1c2f3a4b5c").into(),
        labels: labels.iter().map(|(key, value)| (*key, *value)).collect(),
        resource_version: 1000,
        ..Pod::default()
    };
    let spec = pod.spec_mut();
    spec.scheduler_name = "default-scheduler".into();
    spec.images = ["registry.k8s.io/pause:3.10".into()].into();
    spec.container_count = 1;
    set_requests(&mut pod, cpu, memory);
    pod
}

/// Sets cpu and memory requests; zero means no request.
pub(crate) fn set_requests(pod: &mut Pod, cpu: i64, memory: i64) {
    let spec = pod.spec_mut();
    spec.requests.cpu = cpu;
    spec.requests.memory = memory;
    spec.qos = if cpu == 0 && memory == 0 { QosClass::BestEffort } else { QosClass::Burstable };
    spec.requests_on_node = spec.requests.clone();
    spec.requests_for_score = spec.requests.clone();
    spec.non_zero_cpu = if cpu == 0 { 100 } else { cpu };
    spec.non_zero_memory = if memory == 0 { 200 << 20 } else { memory };
    spec.requests_for_score.cpu = spec.non_zero_cpu;
    spec.requests_for_score.memory = spec.non_zero_memory;
}

/// Returns the default pod of the workloads, which requests 100m and 500Mi.
pub(crate) fn default_pod(namespace: &str, name: &str, labels: &[(&str, &str)]) -> Pod {
    pod(namespace, name, 100, 500 << 20, labels)
}

/// Returns the requirement `key In [values]`.
pub(crate) fn is_in(key: &str, values: &[&str]) -> Requirement {
    let mut values: Vec<Text> = values.iter().map(|value| (*value).into()).collect();
    values.sort();
    Requirement { key: key.into(), operator: Operator::In, values: values.into() }
}

/// Returns a selector of one label.
pub(crate) fn selector(key: &str, value: &str) -> Selector {
    Selector { requirements: [is_in(key, &[value])].into() }
}

/// Returns a pod affinity term over namespaces given by name.
pub(crate) fn term(key: &str, value: &str, topology_key: &str, namespaces: &[&str]) -> PodTerm {
    let mut namespaces: Vec<Text> = namespaces.iter().map(|name| (*name).into()).collect();
    namespaces.sort();
    PodTerm {
        selector: Some(selector(key, value)),
        namespaces: namespaces.into(),
        namespace_selector: None,
        topology_key: topology_key.into(),
    }
}

/// Returns a pod affinity term over namespaces with the label `team=devops`.
pub(crate) fn term_by_namespace_label(key: &str, value: &str, topology_key: &str) -> PodTerm {
    PodTerm {
        namespace_selector: Some(selector("team", "devops")),
        namespaces: [].into(),
        ..term(key, value, topology_key, &[])
    }
}

/// A kind of pod affinity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AffinityKind {
    Required,
    RequiredAnti,
    Preferred,
    PreferredAnti,
}

/// Adds one affinity term to a pod.
pub(crate) fn with_affinity(mut pod: Pod, kind: AffinityKind, term: PodTerm) -> Pod {
    let mut affinity = PodAffinity::default();
    match kind {
        AffinityKind::Required => affinity.required = [term].into(),
        AffinityKind::RequiredAnti => affinity.required_anti = [term].into(),
        AffinityKind::Preferred => affinity.preferred = [(1, term)].into(),
        AffinityKind::PreferredAnti => affinity.preferred_anti = [(1, term)].into(),
    }
    affinity.has_affinity = matches!(kind, AffinityKind::Required | AffinityKind::Preferred);
    affinity.has_anti_affinity = !affinity.has_affinity;
    pod.spec_mut().pod_affinity = affinity;
    pod
}

/// Adds one spread constraint over the pod's own label.
pub(crate) fn with_spread(
    mut pod: Pod,
    topology_key: &str,
    max_skew: i32,
    when_unsatisfiable: WhenUnsatisfiable,
    label: (&str, &str),
    honor_taints: bool,
) -> Pod {
    pod.spec_mut().spread = [SpreadConstraint {
        max_skew,
        topology_key: topology_key.into(),
        when_unsatisfiable,
        selector: Some(selector(label.0, label.1)),
        min_domains: 1,
        honor_affinity: true,
        honor_taints,
    }]
    .into();
    pod
}

/// Requires a node label to have one of these values.
pub(crate) fn with_node_affinity(
    mut pod: Pod,
    expressions: &[Requirement],
    fields: &[Requirement],
) -> Pod {
    let term =
        NodeTerm { expressions: expressions.into(), fields: fields.into(), malformed: false };
    pod.spec_mut().node_affinity = NodeAffinity { required: Some([term].into()), preferred: None };
    pod
}

/// Sets the replica set that owns a pod.
pub(crate) fn with_owner(mut pod: Pod, name: &str) -> Pod {
    pod.spec_mut().owner = Some(Owner {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
    });
    pod
}

/// Returns labels from pairs.
pub(crate) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| (*key, *value)).collect()
}
