//! Families of workloads, with the names of Kubernetes' scheduler_perf.

mod disturbed;

use engine::change::Change;
use engine::object::volume::{
    AccessModes, ClaimPhase, ClaimRef, CsiNode, NodeDriver, PersistentVolume,
    PersistentVolumeClaim, VolumePhase, VolumeSource,
};
use engine::object::{
    ClusterObject, Namespace, Node, Pod, Taint, TaintEffect, Uid, Volume, WhenUnsatisfiable,
    Workload, WorkloadKind,
};

use crate::objects::{
    AffinityKind, HOSTNAME, ZONE, default_pod, is_in, labels, node, pod, selector, set_requests,
    term, term_by_namespace_label, with_affinity, with_node_affinity, with_owner, with_spread,
};

/// Objects created one at a time, so that a workload uses no memory of its own.
pub(crate) type Stream<T> = Box<dyn Iterator<Item = T>>;

/// A workload: the objects that exist before the measurement, and the measured pods.
pub(crate) struct Work {
    /// Nodes.
    pub(crate) nodes: Stream<Node>,
    /// Other objects that exist before any pod.
    pub(crate) objects: Stream<Change>,
    /// Pods that are placed before the measurement.
    pub(crate) initial: Stream<Pod>,
    /// Pods that never fit or stay gated, in the queue during the measurement.
    pub(crate) waiting: Stream<Pod>,
    /// Pods that are measured.
    pub(crate) measured: Stream<Pod>,
    /// Pods that leave, each just before one measured pod arrives; the remaining measured pods arrive all at once.
    pub(crate) leaving: Stream<Uid>,
}

/// A family of workloads.
pub(crate) struct Family {
    /// Name in scheduler_perf, or our own.
    pub(crate) name: &'static str,
    /// Returns the workload for a number of nodes.
    pub(crate) work: fn(nodes: usize) -> Work,
    /// Returns the same workload without the disturbance, for families with one.
    pub(crate) quiet: Option<fn(nodes: usize) -> Work>,
    /// The measured operation.
    pub(crate) measures: Measures,
}

/// The operation of which times are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measures {
    /// Decisions for measured pods and for others tried between them.
    Decisions,
    /// The parts of an audit after all objects are applied.
    AuditParts,
}

/// All families, upstream's first; those with a quiet case last.
pub(crate) const FAMILIES: &[Family] = &[
    plain("SchedulingBasic", basic),
    plain("SchedulingDaemonset", daemon_set),
    plain("SchedulingSecrets", basic),
    plain("SchedulingNodeAffinity", node_affinity),
    plain("Unschedulable", unschedulable),
    plain("SchedulingWhileGated", gated),
    plain("SchedulingGatedPodsWithPodAffinityImpactForThroughput", gated_with_affinity),
    plain("SchedulingWithExtendedResource", extended_resource),
    plain("NodeDeclaredFeatures", declared_features),
    plain("PreemptionBasic", preemption),
    plain("SchedulingPodAntiAffinity", anti_affinity),
    plain("SchedulingPodMatchingAntiAffinity", matching_anti_affinity),
    plain("SchedulingPodAffinity", affinity),
    plain("SchedulingPreferredPodAffinity", preferred_affinity),
    plain("SchedulingPreferredPodAntiAffinity", preferred_anti_affinity),
    plain("MixedSchedulingBasePod", mixed),
    plain("SchedulingRequiredPodAntiAffinityWithNSSelector", |nodes| {
        by_namespace_label(nodes, AffinityKind::RequiredAnti, HOSTNAME)
    }),
    plain("SchedulingPreferredAntiAffinityWithNSSelector", |nodes| {
        by_namespace_label(nodes, AffinityKind::PreferredAnti, HOSTNAME)
    }),
    plain("SchedulingRequiredPodAffinityWithNSSelector", |nodes| {
        by_namespace_label(nodes, AffinityKind::Required, ZONE)
    }),
    plain("SchedulingPreferredAffinityWithNSSelector", |nodes| {
        by_namespace_label(nodes, AffinityKind::Preferred, HOSTNAME)
    }),
    plain("TopologySpreading", spreading),
    plain("PreferredTopologySpreading", preferred_spreading),
    plain("DefaultTopologySpreading", default_spreading),
    plain("SchedulingWithNodeInclusionPolicy", inclusion_policy),
    plain("SchedulingCSIPVs", csi_volumes),
    plain("BurstIdentical", burst_identical),
    plain("BurstOfClasses", burst_of_classes),
    plain("BurstAllDifferent", burst_all_different),
    disturbed::NOMINATED_1,
    disturbed::NOMINATED_100,
    disturbed::NOMINATED_1000,
    disturbed::FULL_CLUSTER,
    disturbed::AUDIT_WAITING,
];

const fn plain(name: &'static str, work: fn(usize) -> Work) -> Family {
    Family { name, work, quiet: None, measures: Measures::Decisions }
}

fn nodes(count: usize, zones: usize) -> Stream<Node> {
    Box::new((0..count).map(move |index| node(index, zones)))
}

fn none<T: 'static>() -> Stream<T> {
    Box::new(std::iter::empty())
}

fn work(nodes: Stream<Node>, initial: Stream<Pod>, measured: Stream<Pod>) -> Work {
    Work { nodes, objects: none(), initial, waiting: none(), measured, leaving: none() }
}

/// Returns pods named by the prefix and a number.
fn many(
    prefix: &'static str,
    count: usize,
    make: impl Fn(&str, usize) -> Pod + 'static,
) -> Stream<Pod> {
    Box::new((0..count).map(move |index| make(&format!("{prefix}-{index:06}"), index)))
}

/// Adds a scheduling gate to every pod.
fn gated_pods(pods: Stream<Pod>) -> Stream<Pod> {
    Box::new(pods.map(|mut pod| {
        pod.gates = ["hold".into()].into();
        pod
    }))
}

fn basic(count: usize) -> Work {
    let make = |name: &str, _| default_pod("ns", name, &[]);
    work(nodes(count, 0), many("init", count / 5, make), many("pod", 2 * count, make))
}

fn daemon_set(count: usize) -> Work {
    let make = |name: &str, _| {
        let light = pod("ns", name, 0, 0, &[]);
        with_node_affinity(light, &[], &[is_in("metadata.name", &["node-00000"])])
    };
    let nodes = nodes(count, 0).enumerate().map(move |(index, mut node)| {
        if index == 0 {
            node.allowed_pods = 10 * count as i64;
            node.allocatable.cpu = 90_000_000;
            node.allocatable.memory = 1 << 50;
        }
        node
    });
    work(Box::new(nodes), none(), many("pod", 2 * count, make))
}

fn node_affinity(count: usize) -> Work {
    let make = |name: &str, _| {
        with_node_affinity(default_pod("ns", name, &[]), &[is_in(ZONE, &["zone1", "zone2"])], &[])
    };
    work(nodes(count, 1), many("init", count, make), many("pod", 2 * count, make))
}

fn large(name: &str) -> Pod {
    let mut large = pod("ns", name, 9000, 500 << 20, &[]);
    large.priority = 10;
    large
}

fn unschedulable(count: usize) -> Work {
    let waiting = many("large", count.div_ceil(50), |name, _| large(name));
    Work { waiting, ..basic(count) }
}

fn gated(count: usize) -> Work {
    let waiting = gated_pods(many("gated", 2 * count, |name, _| pod("ns", name, 0, 0, &[])));
    Work { waiting, ..basic(count) }
}

fn gated_with_affinity(count: usize) -> Work {
    let waiting = many("gated", 2 * count, |name, _| {
        let light = pod("ns", name, 0, 0, &[]);
        with_affinity(light, AffinityKind::Required, term("app", "scheduled", ZONE, &["ns"]))
    });
    let waiting = gated_pods(waiting);
    let make = |name: &str, _| default_pod("ns", name, &[("app", "scheduled")]);
    Work { waiting, ..work(nodes(count, 3), none(), many("pod", 2 * count, make)) }
}

fn extended_resource(count: usize) -> Work {
    const RESOURCE: &str = "example.com/dongle";
    let nodes = nodes(count, 0).map(|mut node| {
        node.allocatable.scalars = [(RESOURCE.into(), 4)].into();
        node
    });
    let make = |name: &str, _| {
        let mut pod = default_pod("ns", name, &[]);
        let spec = pod.spec_mut();
        for requests in
            [&mut spec.requests, &mut spec.requests_on_node, &mut spec.requests_for_score]
        {
            requests.scalars = [(RESOURCE.into(), 1)].into();
        }
        pod
    };
    work(Box::new(nodes), none(), many("pod", 2 * count, make))
}

fn declared_features(count: usize) -> Work {
    let features: Vec<_> = (0..40).map(|index| format!("Feature{index:02}").into()).collect();
    let nodes = nodes(count, 0).map(move |mut node| {
        node.declared_features = features.clone().into();
        node
    });
    let make = |name: &str, _| {
        let mut pod = default_pod("ns", name, &[]);
        pod.spec_mut().required_features = ["Feature07".into()].into();
        pod
    };
    work(Box::new(nodes), none(), many("pod", 2 * count, make))
}

fn preemption(count: usize) -> Work {
    let initial = many("low", 4 * count, |name, index| {
        let mut low = pod("ns", name, 900, 500 << 20, &[]);
        low.start_time = Some(index as i64);
        low
    });
    let measured = many("high", count.min(1000), |name, _| {
        let mut high = pod("ns", name, 3000, 500 << 20, &[]);
        high.priority = 10;
        high
    });
    work(nodes(count, 0), initial, measured)
}

fn green(name: &str, index: usize) -> Pod {
    let namespace = if index.is_multiple_of(2) { "sched-1" } else { "sched-0" };
    let green = default_pod(namespace, name, &[("color", "green")]);
    let repels = term("color", "green", HOSTNAME, &["sched-0", "sched-1"]);
    with_affinity(green, AffinityKind::RequiredAnti, repels)
}

fn anti_affinity(count: usize) -> Work {
    work(nodes(count, 0), many("init", count / 5, green), many("pod", count * 2 / 5, green))
}

fn matching_anti_affinity(count: usize) -> Work {
    let make = |name: &str, _| default_pod("sched-1", name, &[("color", "green")]);
    work(nodes(count, 0), many("init", count / 5, green), many("pod", count, make))
}

fn blue(kind: AffinityKind, topology_key: &'static str) -> impl Fn(&str, usize) -> Pod {
    move |name, _| {
        let blue = default_pod("sched-1", name, &[("color", "blue")]);
        with_affinity(blue, kind, term("color", "blue", topology_key, &["sched-0", "sched-1"]))
    }
}

fn of_kind(count: usize, zones: usize, kind: AffinityKind, topology_key: &'static str) -> Work {
    let make = || blue(kind, topology_key);
    work(nodes(count, zones), many("init", count, make()), many("pod", count, make()))
}

fn affinity(count: usize) -> Work {
    of_kind(count, 1, AffinityKind::Required, ZONE)
}

fn preferred_affinity(count: usize) -> Work {
    of_kind(count, 0, AffinityKind::Preferred, HOSTNAME)
}

fn preferred_anti_affinity(count: usize) -> Work {
    of_kind(count, 0, AffinityKind::PreferredAnti, HOSTNAME)
}

fn mixed(count: usize) -> Work {
    let each = count * 2 / 5;
    let make = |name: &str, _: usize| default_pod("sched-0", name, &[]);
    let initial = many("plain", each, make)
        .chain(many("affine", each, blue(AffinityKind::Required, ZONE)))
        .chain(many("anti", each, green))
        .chain(many("prefers", each, blue(AffinityKind::Preferred, HOSTNAME)))
        .chain(many("avoids", each, blue(AffinityKind::PreferredAnti, HOSTNAME)));
    work(nodes(count, 1), Box::new(initial), many("pod", count, make))
}

fn by_namespace_label(count: usize, kind: AffinityKind, topology_key: &'static str) -> Work {
    let namespaces = 100.min(count);
    let objects = (0..namespaces).map(|index| {
        let name = format!("team-{index}").into();
        let namespace = Namespace { name, labels: labels(&[("team", "devops")]) };
        Change::Object(ClusterObject::Namespace(namespace.into()))
    });
    let make = move |name: &str, index: usize| {
        let namespace = format!("team-{}", index % namespaces);
        let pod = default_pod(&namespace, name, &[("color", "green")]);
        with_affinity(pod, kind, term_by_namespace_label("color", "green", topology_key))
    };
    let initial = many("init", count * 2 / 5, make);
    let work = work(nodes(count, 1), initial, many("pod", count * 2 / 5, make));
    Work { objects: Box::new(objects), ..work }
}

fn spreading_by(count: usize, when_unsatisfiable: WhenUnsatisfiable) -> Work {
    let make = move |name: &str, _| {
        let pod = default_pod("ns", name, &[("color", "blue")]);
        with_spread(pod, ZONE, 5, when_unsatisfiable, ("color", "blue"), false)
    };
    let plain = |name: &str, _| default_pod("ns", name, &[]);
    work(nodes(count, 3), many("init", count, plain), many("pod", count, make))
}

fn spreading(count: usize) -> Work {
    spreading_by(count, WhenUnsatisfiable::DoNotSchedule)
}

fn preferred_spreading(count: usize) -> Work {
    spreading_by(count, WhenUnsatisfiable::ScheduleAnyway)
}

fn default_spreading(count: usize) -> Work {
    let service = Workload {
        kind: WorkloadKind::Service,
        namespace: "ns".into(),
        name: "web".into(),
        selector: Some(selector("app", "web")),
        ..Workload::default()
    };
    let service = Change::Object(service.into());
    let make = |name: &str, _| with_owner(default_pod("ns", name, &[("app", "web")]), "web");
    let work = work(nodes(count, 3), many("init", count, make), many("pod", 2 * count, make));
    Work { objects: Box::new(std::iter::once(service)), ..work }
}

fn inclusion_policy(count: usize) -> Work {
    let nodes = nodes(count, 0).enumerate().map(|(index, mut node)| {
        if index % 5 == 4 {
            let effect = TaintEffect::NoSchedule;
            node.taints = [Taint { key: "foo".into(), value: "".into(), effect }].into();
        }
        node
    });
    let make = |name: &str, _| {
        let pod = default_pod("ns", name, &[("foo", "bar")]);
        with_spread(pod, HOSTNAME, 1, WhenUnsatisfiable::DoNotSchedule, ("foo", "bar"), true)
    };
    work(Box::new(nodes), none(), many("pod", count * 4 / 5, make))
}

fn csi_volumes(count: usize) -> Work {
    const DRIVER: &str = "csi.example.com";
    let drivers = (0..count).map(|index| {
        let driver = NodeDriver { name: DRIVER.into(), limit: Some(39), topology_keys: [].into() };
        let csi_node = CsiNode {
            name: format!("node-{index:05}").into(),
            drivers: [driver].into(),
            migrated_plugins: [].into(),
        };
        ClusterObject::CsiNode(csi_node.into())
    });
    let pods = |prefix, count| {
        many(prefix, count, |name, _| {
            let mut pod = default_pod("ns", name, &[]);
            pod.spec_mut().volumes = [Volume::Claim { name: name.into() }].into();
            pod
        })
    };
    let (initial, measured) = (count / 5, count * 2 / 5);
    let names = pods("init", initial).chain(pods("pod", measured)).map(|pod| pod.name);
    let volumes = names.flat_map(|name| {
        let claim_ref = ClaimRef { namespace: "ns".into(), name: name.clone(), uid: name.clone() };
        let volume = PersistentVolume {
            name: name.clone(),
            capacity: 1 << 30,
            access_modes: AccessModes::READ_ONLY_MANY,
            claim_ref: Some(claim_ref),
            phase: VolumePhase::Bound,
            source: VolumeSource::Csi { driver: DRIVER.into(), handle: name.clone() },
            ..PersistentVolume::default()
        };
        let claim = PersistentVolumeClaim {
            namespace: "ns".into(),
            name: name.clone(),
            uid: name.clone(),
            volume_name: name,
            storage_class: Some("".into()),
            access_modes: AccessModes::READ_ONLY_MANY,
            request: Some(1 << 30),
            phase: ClaimPhase::Bound,
            bind_completed: true,
            ..PersistentVolumeClaim::default()
        };
        [
            ClusterObject::PersistentVolume(volume.into()),
            ClusterObject::PersistentVolumeClaim(claim.into()),
        ]
    });
    let objects = drivers.chain(volumes).map(Change::Object);
    let work = work(nodes(count, 0), pods("init", initial), pods("pod", measured));
    Work { objects: Box::new(objects), ..work }
}

fn burst_identical(count: usize) -> Work {
    let make = |name: &str, _| default_pod("ns", name, &[("app", "web")]);
    work(nodes(count, 3), none(), many("pod", 20 * count, make))
}

fn burst_of_classes(count: usize) -> Work {
    let make = |name: &str, index: usize| {
        let app = format!("app-{}", index % 1000);
        let cpu = 50 + (index % 10) as i64 * 10;
        pod("ns", name, cpu, 100 << 20, &[("app", &*app)])
    };
    work(nodes(count, 3), none(), many("pod", 4 * count, make))
}

/// Pods that all differ, in requests, labels, affinity or spread constraints.
fn burst_all_different(count: usize) -> Work {
    let make = |name: &str, index: usize| {
        let app = format!("app-{index}");
        let mut pod = default_pod("ns", name, &[("app", &*app), ("tier", "web")]);
        set_requests(&mut pod, 50 + (index % 977) as i64, (50 << 20) + index as i64);
        match index % 4 {
            0 => {
                with_affinity(pod, AffinityKind::RequiredAnti, term("app", &app, HOSTNAME, &["ns"]))
            }
            1 => with_spread(pod, ZONE, 1, WhenUnsatisfiable::ScheduleAnyway, ("app", &app), false),
            2 => with_node_affinity(pod, &[is_in(ZONE, &["zone1", "zone2"])], &[]),
            _ => pod,
        }
    };
    work(nodes(count, 3), none(), many("pod", 2 * count, make))
}
