//! Random objects of a small world: few names, so that everything has to do with everything.

use engine::object::{
    AccessModes, BindingMode, ClaimPhase, CsiDriver, CsiNode, CsiStorageCapacity, DeviceClass,
    DisruptionBudget, HostPort, Image, InlineDisk, Labels, Namespace, Node, NodeDriver, NodeTerm,
    Operator, Owner, PersistentVolume, PersistentVolumeClaim, Pod, PodAffinity, PodSpec, PodTerm,
    Protocol, Requirement, Resources, Selector, SpreadConstraint, StorageClass, Taint, TaintEffect,
    Text, Toleration, TolerationOperator, Volume, VolumePhase, VolumeSource, WhenUnsatisfiable,
    Workload, WorkloadKind,
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
const DRIVER: &str = "csi.example.com";
const MIB: i64 = 1 << 20;
const IMAGES: [&str; 2] = ["example.com/big:1", "example.com/small:1"];
const FEATURE: &str = "GuaranteedQoSPodCPUResize";
/// Storage classes: bound at once, bound when used, and one that does not exist in the beginning.
const CLASSES: [&str; 3] = ["at-once", "when-used", "later"];
const CLAIMS: [&str; 4] = ["c1", "c2", "c3", "c4"];
pub(crate) const VOLUMES: [&str; 4] = ["v1", "v2", "v3", "v4"];

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

/// At most so many nodes.
pub(crate) const NODES: usize = 8;

pub(crate) fn node_name(index: usize) -> Text {
    format!("n{index}").into()
}

fn resources(cpu: i64, memory: i64, gpus: i64) -> Resources {
    let scalars = (gpus > 0).then(|| (Text::from(GPU), gpus)).into_iter().collect();
    Resources { cpu, memory, ephemeral: 0, scalars }
}

/// Sets what a pod asks for everywhere it is told.
pub(crate) fn set_requests(spec: &mut PodSpec, cpu: i64, memory: i64, gpus: i64) {
    spec.requests = resources(cpu, memory, gpus);
    spec.requests_on_node = spec.requests.clone();
    spec.requests_for_score = spec.requests.clone();
    spec.non_zero_cpu = if cpu == 0 { 100 } else { cpu };
    spec.non_zero_memory = if memory == 0 { 200 * MIB } else { memory };
    spec.requests_for_score.cpu = spec.non_zero_cpu;
    spec.requests_for_score.memory = spec.non_zero_memory;
}

/// What a pod asks for: cpu and memory in thousandths of a small node, and pieces of a device.
pub(crate) fn requests() -> impl Strategy<Value = (i64, i64, i64)> {
    let amount = || select(vec![0_i64, 100, 500, 900, 1500]);
    (amount(), amount(), prop_oneof![4 => Just(0_i64), 1 => 1..=2_i64])
        .prop_map(|(cpu, memory, gpus)| (cpu, memory * MIB, gpus))
}

/// Amounts of which two do not fit into 64 bits, and none.
pub(crate) fn hostile_requests() -> impl Strategy<Value = (i64, i64, i64)> {
    let amount = || select(vec![0_i64, 1, i64::MAX / 2 + 1, i64::MAX - 1, i64::MAX]);
    (amount(), amount(), amount())
}

/// A pod that asks for such amounts, and explicitly for zero of a device.
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
    prop_oneof![8 => text(&CLAIMS).prop_map(|name| Volume::Claim { name }), 1 => disk, 2 => ephemeral]
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

pub(crate) fn storage_class() -> impl Strategy<Value = StorageClass> {
    (select(&CLASSES[..]), weighted(0.3, select(&ZONES[..]))).prop_map(|(name, zone)| {
        let mode = if name == "at-once" {
            BindingMode::Immediate
        } else {
            BindingMode::WaitForFirstConsumer
        };
        let allowed = |zone: &str| NodeTerm {
            expressions: [is_in(ZONE, &[zone.into()])].into(),
            fields: [].into(),
            malformed: false,
        };
        StorageClass {
            name: name.into(),
            provisioner: if name == "later" { NO_PROVISIONER } else { DRIVER }.into(),
            binding_mode: Some(mode),
            allowed_topologies: zone.map(allowed).into_iter().collect(),
        }
    })
}

const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// A claim that is not bound.
pub(crate) fn claim() -> impl Strategy<Value = PersistentVolumeClaim> {
    let modes = select(vec![
        AccessModes::READ_WRITE_ONCE,
        AccessModes::READ_WRITE_ONCE,
        AccessModes::READ_WRITE_ONCE_POD,
    ]);
    (text(&NAMESPACES), text(&CLAIMS), text(&CLASSES), modes, 1..=3_i64).prop_map(
        |(namespace, name, class, access_modes, size)| PersistentVolumeClaim {
            uid: format!("{namespace}-{name}").into(),
            namespace,
            name,
            storage_class: Some(class),
            access_modes,
            request: Some(size),
            phase: ClaimPhase::Pending,
            ..PersistentVolumeClaim::default()
        },
    )
}

/// Names the claims of a pod's ephemeral volumes, once the pod has a name.
pub(crate) fn name_ephemeral_claims(pod: &mut Pod) {
    let claim = ephemeral_claim_name(&pod.name);
    for volume in &mut pod.spec_mut().volumes {
        if matches!(volume, Volume::Ephemeral { .. }) {
            *volume = Volume::Ephemeral { claim: claim.clone() };
        }
    }
}

fn ephemeral_claim_name(pod: &str) -> Text {
    format!("{pod}-scratch").into()
}

/// The claim that a controller makes for the ephemeral volume of a pod.
pub(crate) fn ephemeral_claim(pod: &Pod) -> PersistentVolumeClaim {
    let name = ephemeral_claim_name(&pod.name);
    PersistentVolumeClaim {
        namespace: pod.namespace.clone(),
        uid: format!("{name}-of-{}", pod.uid).into(),
        name,
        storage_class: Some("when-used".into()),
        access_modes: AccessModes::READ_WRITE_ONCE,
        request: Some(1),
        owner_uid: Some(pod.uid.clone()),
        ..PersistentVolumeClaim::default()
    }
}

/// A volume that nobody claims.
pub(crate) fn volume_object() -> impl Strategy<Value = PersistentVolume> {
    let modes = AccessModes::READ_WRITE_ONCE.with(AccessModes::READ_WRITE_ONCE_POD);
    let place = (weighted(0.3, select(&ZONES[..])), weighted(0.3, node_term()));
    (text(&VOLUMES), text(&CLASSES), 1..=3_i64, place, prop::bool::weighted(0.8)).prop_map(
        move |(name, class, capacity, (zone, term), csi)| PersistentVolume {
            labels: zone.map(|zone| (ZONE, zone)).into_iter().collect(),
            capacity,
            access_modes: modes,
            storage_class: class,
            node_affinity: term.map(|term| [term].into()),
            phase: VolumePhase::Available,
            source: if csi {
                VolumeSource::Csi { driver: DRIVER.into(), handle: name.clone() }
            } else {
                VolumeSource::Other
            },
            name,
            ..PersistentVolume::default()
        },
    )
}

/// The volume that a driver makes for a claim.
pub(crate) fn provisioned(claim: &PersistentVolumeClaim) -> PersistentVolume {
    let name: Text = format!("pv-{}-{}", claim.namespace, claim.name).into();
    PersistentVolume {
        capacity: claim.request.unwrap_or(0),
        access_modes: claim.access_modes,
        storage_class: claim.class().into(),
        source: VolumeSource::Csi { driver: DRIVER.into(), handle: name.clone() },
        name,
        ..PersistentVolume::default()
    }
}

pub(crate) fn csi_node() -> impl Strategy<Value = CsiNode> {
    (0..NODES, weighted(0.9, weighted(0.9, 0..=2_i32))).prop_map(|(node, driver)| {
        let registered =
            |limit| NodeDriver { name: DRIVER.into(), limit, topology_keys: [ZONE.into()].into() };
        CsiNode {
            name: node_name(node),
            drivers: driver.map(registered).into_iter().collect(),
            migrated_plugins: [].into(),
        }
    })
}

pub(crate) fn csi_driver() -> impl Strategy<Value = CsiDriver> {
    any::<bool>().prop_map(|storage_capacity| CsiDriver {
        name: DRIVER.into(),
        storage_capacity,
        attach_required: true,
        prevents_if_missing: false,
    })
}

pub(crate) fn capacity() -> impl Strategy<Value = CsiStorageCapacity> {
    (select(&ZONES[..]), 0..=3_i64, any::<bool>()).prop_map(|(zone, capacity, anywhere)| {
        CsiStorageCapacity {
            namespace: "a".into(),
            name: zone.into(),
            storage_class: "when-used".into(),
            node_topology: Some(if anywhere { Selector::default() } else { selector(ZONE, zone) }),
            capacity: Some(capacity),
            maximum_volume_size: None,
        }
    })
}

/// A device class for the extended resource that pods ask for.
pub(crate) fn device_class() -> DeviceClass {
    DeviceClass { name: "gpu".into(), extended_resource: Some(GPU.into()) }
}
