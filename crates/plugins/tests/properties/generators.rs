//! Random objects of a small world: few names, so that most objects refer to each other.

pub(crate) mod storage;

use engine::object::{
    DeviceClass, DisruptionBudget, HostPort, Image, InlineDisk, Labels, Namespace, Node, NodeTerm,
    Operator, Owner, Pod, PodAffinity, PodSpec, PodTerm, Protocol, Requirement, Resources,
    Selector, SpreadConstraint, Taint, TaintEffect, Text, Toleration, TolerationOperator, Volume,
    WhenUnsatisfiable, Workload, WorkloadKind,
};
use proptest::collection::vec;
use proptest::option::{of, weighted};
use proptest::prelude::*;
use proptest::sample::select;

pub(crate) const NAMESPACES: [&str; 2] = ["a", "b"];
pub(crate) const SCHEDULER: &str = "default-scheduler";
const APPS: [&str; 3] = ["db", "log", "web"];
const ZONES: [&str; 3] = ["z1", "z2", "z3"];
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
pub(crate) const GPU: &str = "example.com/gpu";
const MIB: i64 = 1 << 20;
const IMAGES: [&str; 2] = ["example.com/big:1", "example.com/small:1"];
const FEATURE: &str = "GuaranteedQoSPodCPUResize";

fn text(values: &'static [&'static str]) -> impl Strategy<Value = Text> {
    select(values).prop_map(Text::from)
}

fn is_in(key: &str, values: &[Text]) -> Requirement {
    let mut values = values.to_vec();
    values.sort();
    values.dedup();
    Requirement { key: key.into(), operator: Operator::In, values: values.into() }
}

fn selector(key: &str, value: &str) -> Selector {
    Selector { requirements: [is_in(key, &[value.into()])].into() }
}

fn app_selector() -> impl Strategy<Value = Option<Selector>> {
    prop_oneof![
        8 => select(&APPS[..]).prop_map(|app| Some(selector("app", app))),
        1 => Just(Some(Selector::default())),
        1 => Just(Some(Selector { requirements: [Requirement {
            key: "app".into(), operator: Operator::NotIn, values: ["web".into()].into(),
        }].into() })),
        1 => Just(None),
    ]
}

fn topology_key() -> impl Strategy<Value = Text> {
    prop_oneof![4 => Just(ZONE), 3 => Just(HOSTNAME), 1 => Just("disk")].prop_map(Text::from)
}

pub(crate) fn app_labels() -> impl Strategy<Value = Labels> {
    weighted(0.85, select(&APPS[..]))
        .prop_map(|app| app.map(|app| ("app", app)).into_iter().collect())
}

/// The changeable part of a node.
pub(crate) fn node() -> impl Strategy<Value = Node> {
    let effects = [TaintEffect::NoSchedule, TaintEffect::NoExecute, TaintEffect::PreferNoSchedule];
    let taint = (text(&["dedicated", "maintenance"]), text(&["", "x"]), select(effects.to_vec()))
        .prop_map(|(key, value, effect)| Taint { key, value, effect });
    let labels = (
        weighted(0.9, select(&ZONES[..])),
        weighted(0.95, Just(())),
        weighted(0.5, select(&["hdd", "ssd"][..])),
    );
    let images = vec(select(&IMAGES[..]), 0..=2).prop_map(|names| {
        let image = |name: &str| Image { names: [name.into()].into(), size: 500 * MIB };
        names.into_iter().map(image).collect::<Box<[Image]>>()
    });
    (
        0..NODES,
        labels,
        weighted(0.2, taint),
        weighted(0.15, Just(())),
        prop_oneof![1 => Just(0_i64), 5 => 1..=4_i64],
        prop_oneof![Just(0_i64), Just(2), Just(5), Just(110)],
        weighted(0.2, 0..=2_i64),
        weighted(0.3, images),
        weighted(0.2, Just(())),
    )
        .prop_map(
            |(index, (zone, host, disk), taint, cordoned, size, pods, gpus, images, feature)| {
                let name = node_name(index);
                let mut labels: Vec<(&str, &str)> = Vec::new();
                labels.extend(zone.map(|zone| (ZONE, zone)));
                labels.extend(host.map(|()| (HOSTNAME, &*name)));
                labels.extend(disk.map(|disk| ("disk", disk)));
                Node {
                    labels: labels.into_iter().collect(),
                    taints: taint.into_iter().collect(),
                    unschedulable: cordoned.is_some(),
                    allocatable: resources(size * 1000, size * 1000 * MIB, gpus.unwrap_or(0)),
                    allowed_pods: pods,
                    images: images.unwrap_or_default(),
                    declared_features: feature.map(|()| FEATURE.into()).into_iter().collect(),
                    name,
                    ..Node::default()
                }
            },
        )
}

/// Nodes are named `n0` to `n7`.
pub(crate) const NODES: usize = 8;

pub(crate) fn node_name(index: usize) -> Text {
    format!("n{index}").into()
}

fn resources(cpu: i64, memory: i64, gpus: i64) -> Resources {
    let scalars = (gpus > 0).then(|| (Text::from(GPU), gpus)).into_iter().collect();
    Resources { cpu, memory, ephemeral: 0, scalars }
}

/// Sets all forms of a pod's requests.
pub(crate) fn set_requests(spec: &mut PodSpec, cpu: i64, memory: i64, gpus: i64) {
    spec.requests = resources(cpu, memory, gpus);
    spec.requests_on_node = spec.requests.clone();
    spec.requests_for_score = spec.requests.clone();
    spec.non_zero_cpu = if cpu == 0 { 100 } else { cpu };
    spec.non_zero_memory = if memory == 0 { 200 * MIB } else { memory };
    spec.requests_for_score.cpu = spec.non_zero_cpu;
    spec.requests_for_score.memory = spec.non_zero_memory;
}

/// Requests of a pod: thousandths of the CPU and memory of a small node, and a number of devices.
pub(crate) fn requests() -> impl Strategy<Value = (i64, i64, i64)> {
    let amount = || select(vec![0_i64, 100, 500, 900, 1500]);
    (amount(), amount(), prop_oneof![4 => Just(0_i64), 1 => 1..=2_i64])
        .prop_map(|(cpu, memory, gpus)| (cpu, memory * MIB, gpus))
}

/// Requests of which two do not fit into 64 bits, and zero.
pub(crate) fn hostile_requests() -> impl Strategy<Value = (i64, i64, i64)> {
    let amount = || select(vec![0_i64, 1, i64::MAX / 2 + 1, i64::MAX - 1, i64::MAX]);
    (amount(), amount(), amount())
}

/// A pod with [`hostile_requests`], zero devices included.
pub(crate) fn hostile_pod() -> impl Strategy<Value = Pod> {
    (pod(), hostile_requests()).prop_map(|(mut pod, (cpu, memory, gpus))| {
        let spec = pod.spec_mut();
        set_requests(spec, cpu, memory, gpus);
        for requests in [&mut spec.requests, &mut spec.requests_on_node] {
            requests.scalars = [(Text::from(GPU), gpus)].into();
        }
        pod
    })
}

fn node_term() -> impl Strategy<Value = NodeTerm> {
    let values = vec(text(&ZONES), 1..=2).prop_map(|zones| is_in(ZONE, &zones));
    let operator = select(vec![Operator::NotIn, Operator::Exists, Operator::DoesNotExist]);
    let disk = operator.prop_map(|operator| {
        let values: Box<[Text]> =
            if operator == Operator::NotIn { ["hdd".into()].into() } else { [].into() };
        Requirement { key: "disk".into(), operator, values }
    });
    let by_labels = prop_oneof![values, disk].prop_map(|requirement| NodeTerm {
        expressions: [requirement].into(),
        fields: [].into(),
        malformed: false,
    });
    let by_name = (0..NODES).prop_map(|index| NodeTerm {
        expressions: [].into(),
        fields: [is_in("metadata.name", &[node_name(index)])].into(),
        malformed: false,
    });
    prop_oneof![4 => by_labels, 1 => by_name]
}

fn pod_term() -> impl Strategy<Value = PodTerm> {
    let namespaces = prop_oneof![
        3 => Just((vec!["a".into()], None)),
        2 => Just((vec!["a".into(), "b".into()], None)),
        1 => Just((Vec::<Text>::new(), Some(Selector::default()))),
        2 => Just((vec![], Some(selector("team", "x")))),
    ];
    (app_selector(), namespaces, topology_key()).prop_map(
        |(selector, (namespaces, namespace_selector), topology_key)| PodTerm {
            selector,
            namespaces: namespaces.into(),
            namespace_selector,
            topology_key,
        },
    )
}

fn pod_affinity() -> impl Strategy<Value = PodAffinity> {
    let terms = |chance| weighted(chance, vec(pod_term(), 1..=2));
    let weighed = |chance| weighted(chance, vec((1..=100_i32, pod_term()), 1..=2));
    (terms(0.3), terms(0.4), weighed(0.3), weighed(0.3)).prop_map(
        |(required, required_anti, preferred, preferred_anti)| PodAffinity {
            has_affinity: required.is_some() || preferred.is_some(),
            has_anti_affinity: required_anti.is_some() || preferred_anti.is_some(),
            required: required.unwrap_or_default().into(),
            required_anti: required_anti.unwrap_or_default().into(),
            preferred: preferred.unwrap_or_default().into(),
            preferred_anti: preferred_anti.unwrap_or_default().into(),
        },
    )
}

fn spread() -> impl Strategy<Value = SpreadConstraint> {
    let when = select(vec![WhenUnsatisfiable::DoNotSchedule, WhenUnsatisfiable::ScheduleAnyway]);
    (topology_key(), 1..=2_i32, when, app_selector(), 1..=3_i32, any::<bool>(), any::<bool>())
        .prop_map(|(topology_key, max_skew, when, selector, domains, affinity, taints)| {
            let hard = when == WhenUnsatisfiable::DoNotSchedule;
            SpreadConstraint {
                max_skew,
                topology_key,
                when_unsatisfiable: when,
                selector,
                min_domains: if hard { domains } else { 1 },
                honor_affinity: affinity,
                honor_taints: taints,
            }
        })
}

pub(crate) fn toleration() -> impl Strategy<Value = Toleration> {
    let operator = select(vec![TolerationOperator::Exists, TolerationOperator::Equal]);
    let effect = of(select(vec![TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule]));
    (text(&["dedicated", "maintenance", ""]), operator, effect).prop_map(
        |(key, operator, effect)| {
            let exists = key.is_empty() || operator == TolerationOperator::Exists;
            let operator =
                if exists { TolerationOperator::Exists } else { TolerationOperator::Equal };
            Toleration { key, operator, value: if exists { "" } else { "x" }.into(), effect }
        },
    )
}

fn volume() -> impl Strategy<Value = Volume> {
    let disk = any::<bool>().prop_map(|read_only| {
        Volume::Inline(InlineDisk::GcePersistentDisk { name: "disk".into(), read_only })
    });
    let ephemeral = Just(Volume::Ephemeral { claim: "".into() });
    prop_oneof![8 => text(&storage::CLAIMS).prop_map(|name| Volume::Claim { name }), 1 => disk, 2 => ephemeral]
}

fn owner(name: &str) -> Owner {
    Owner {
        api_version: "apps/v1".into(),
        kind: "ReplicaSet".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
    }
}

/// A pod without name and uid.
pub(crate) fn pod() -> impl Strategy<Value = Pod> {
    let placement = (
        weighted(0.15, select(&["hdd", "ssd"][..])),
        weighted(0.15, vec(node_term(), 1..=2)),
        weighted(0.15, vec((1..=100_i32, node_term()), 1..=2)),
        weighted(0.3, pod_affinity()),
        weighted(0.25, vec(toleration(), 1..=2)),
        weighted(0.3, vec(spread(), 1..=2)),
    );
    let node_features = (
        weighted(0.15, vec(8080..=8081_i32, 1..=2)),
        weighted(0.3, vec(volume(), 1..=2)),
        weighted(0.3, text(&IMAGES)),
        weighted(0.05, Just(())),
    );
    let own = (
        text(&NAMESPACES),
        app_labels(),
        select(vec![0_i32, 0, 0, 10, 100]),
        weighted(0.1, Just(())),
        weighted(0.05, Just(())),
        weighted(0.2, select(&APPS[..])),
        weighted(0.95, Just(())),
    );
    (own, requests(), placement, node_features).prop_map(|(own, requests, placement, features)| {
        let (namespace, labels, priority, gated, never_preempts, owned, ours) = own;
        let (disk, required, preferred, pod_affinity, tolerations, spread) = placement;
        let (ports, volumes, image, feature) = features;
        let mut spec = PodSpec {
            scheduler_name: if ours.is_some() { SCHEDULER } else { "another" }.into(),
            never_preempts: never_preempts.is_some(),
            node_selector: disk.map(|disk| [("disk", disk)].into_iter().collect()),
            pod_affinity: pod_affinity.unwrap_or_default(),
            tolerations: tolerations.unwrap_or_default().into(),
            spread: spread.unwrap_or_default().into(),
            host_ports: ports.unwrap_or_default().into_iter().map(port).collect(),
            volumes: volumes.unwrap_or_default().into(),
            images: image.into_iter().collect(),
            container_count: 1,
            required_features: feature.map(|()| FEATURE.into()).into_iter().collect(),
            owner: owned.map(owner),
            ..PodSpec::default()
        };
        spec.node_affinity.required = required.map(Into::into);
        spec.node_affinity.preferred = preferred.map(Into::into);
        // Two constraints on one key and action are not allowed.
        let mut kept: Vec<SpreadConstraint> = Vec::new();
        for constraint in spec.spread {
            let same = |other: &SpreadConstraint| {
                other.topology_key == constraint.topology_key
                    && other.when_unsatisfiable == constraint.when_unsatisfiable
            };
            if !kept.iter().any(same) {
                kept.push(constraint);
            }
        }
        spec.spread = kept.into();
        set_requests(&mut spec, requests.0, requests.1, requests.2);
        let gates = gated.map(|()| "example.com/gate".into()).into_iter().collect();
        Pod { namespace, labels, priority, gates, spec: spec.into(), ..Pod::default() }
    })
}

fn port(port: i32) -> HostPort {
    HostPort { ip: "0.0.0.0".into(), protocol: Protocol::Tcp, port }
}

pub(crate) fn namespace() -> impl Strategy<Value = Namespace> {
    (text(&NAMESPACES), of(select(&["x", "y"][..]))).prop_map(|(name, team)| Namespace {
        name,
        labels: team.map(|team| ("team", team)).into_iter().collect(),
    })
}

pub(crate) fn workload() -> impl Strategy<Value = Workload> {
    let kind = select(vec![WorkloadKind::Service, WorkloadKind::ReplicaSet]);
    (kind, text(&NAMESPACES), select(&APPS[..])).prop_map(|(kind, namespace, app)| Workload {
        kind,
        namespace,
        name: app.into(),
        selector: Some(selector("app", app)),
        ..Workload::default()
    })
}

pub(crate) fn budget() -> impl Strategy<Value = DisruptionBudget> {
    (text(&NAMESPACES), app_selector(), 0..=1).prop_map(
        |(namespace, selector, disruptions_allowed)| DisruptionBudget {
            namespace,
            name: "budget".into(),
            selector,
            disruptions_allowed,
            disrupted_pods: [].into(),
        },
    )
}

/// A device class for the extended resource that pods request.
pub(crate) fn device_class() -> DeviceClass {
    DeviceClass { name: "gpu".into(), extended_resource: Some(GPU.into()) }
}
