//! Lowering of pods.

mod containers;
mod qos;
mod tolerations;
mod volumes;

use engine::object::{
    AnnotationKeys, HostPort, Labels, Pod, PodFacts, PodSpec, Resources, Text, Volume,
};
use serde::Deserialize;

use super::Lower;
use super::affinity::{RawAffinity, RawSpread};
use super::problem::{FieldPath, ProblemReport, quoted};
use super::raw::{self, List, Meta, Nullable, RawAmounts, Str, StrMap};
use super::resources::{
    Amounts, ContainerDemand, ContainerStatuses, PodDemand, RawContainerStatus,
    RawResourceRequests, RawResources, amounts, is_pod_level,
};
use containers::RawContainer;
use tolerations::{RawToleration, tolerations};
use volumes::RawVolume;

/// `v1 Pod`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct RawPod {
    metadata: Nullable<Meta>,
    spec: Nullable<RawPodSpec>,
    status: Nullable<RawPodStatus>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodSpec {
    affinity: Nullable<RawAffinity>,
    containers: List<RawContainer>,
    host_network: Nullable<bool>,
    host_users: Option<bool>,
    init_containers: List<RawContainer>,
    node_name: Str,
    node_selector: Option<StrMap>,
    overhead: RawAmounts,
    preemption_policy: Str,
    priority: Nullable<i32>,
    resource_claims: List<RawNamed>,
    resources: Option<RawResources>,
    scheduler_name: Str,
    scheduling_gates: List<RawNamed>,
    tolerations: List<RawToleration>,
    topology_spread_constraints: List<RawSpread>,
    volumes: List<RawVolume>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawNamed {
    name: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPodStatus {
    allocated_resources: RawAmounts,
    conditions: List<RawPodCondition>,
    container_statuses: List<RawContainerStatus>,
    init_container_statuses: List<RawContainerStatus>,
    nominated_node_name: Str,
    phase: Str,
    resources: Option<RawResourceRequests>,
    start_time: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawPodCondition {
    #[serde(rename = "type")]
    kind: Str,
    status: Str,
    reason: Str,
}

impl Lower for RawPod {
    type Object = Pod;
    const NAMESPACED: bool = true;

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn is_finished(&self) -> bool {
        matches!(&**self.status.phase, "Succeeded" | "Failed")
    }

    fn lower(self, report: &mut ProblemReport) -> Pod {
        self.lower_with(&AnnotationKeys::default(), report)
    }
}

/// Annotation of pods that mirror static pods.
pub(super) const MIRROR: &str = "kubernetes.io/config.mirror";

/// Annotation by which a pod allows or forbids its eviction.
pub(super) const SAFE_TO_EVICT: &str = "cluster-autoscaler.kubernetes.io/safe-to-evict";

/// Parses the annotation [`SAFE_TO_EVICT`].
pub(super) fn safe_to_evict(value: &str) -> Option<bool> {
    match value {
        "true" => Some(true),
        "false" => Some(false),
        _ => None,
    }
}

impl RawPod {
    /// Lowers the pod, with the annotations of these keys.
    pub(super) fn lower_with(self, keys: &AnnotationKeys, report: &mut ProblemReport) -> Pod {
        let mut shared = self.lower_spec(&FieldPath::Root.field("spec"), report);
        shared.annotations = self.metadata.annotations_of(&keys.pods);
        let (meta, spec, status) = (&self.metadata, &self.spec, &self.status);
        let path = FieldPath::Root.field("spec");
        let holds = |kind, reason: Option<&str>| {
            status.conditions.iter().any(|condition| {
                &**condition.kind == kind
                    && &**condition.status == "True"
                    && reason.is_none_or(|reason| &**condition.reason == reason)
            })
        };
        let containers =
            status.container_statuses.iter().chain(status.init_container_statuses.iter());
        let status_path = FieldPath::Root.field("status");
        report.check_entries(&status_path.field("conditions"), &status.conditions);
        let gates = names(&path.field("schedulingGates"), &spec.scheduling_gates, report);
        shared.too_large = report.too_large().map(|what| {
            format!("the pod is too large to be scheduled: {what}; recreate it with fewer").into()
        });
        Pod {
            namespace: meta.namespace(),
            name: meta.name.0.clone(),
            uid: meta.uid().into(),
            labels: meta.labels(),
            priority: spec.priority.0,
            node: spec.node_name.0.clone(),
            nominated_node: status.nominated_node_name.0.clone(),
            gates,
            terminating: meta.deletion_timestamp.is_some(),
            preempted: holds("DisruptionTarget", Some("PreemptionByScheduler")),
            facts: PodFacts {
                ready: holds("Ready", None),
                restarts: containers.map(RawContainerStatus::restarts).fold(0, u32::saturating_add),
                mirror: meta.annotation(MIRROR).is_some(),
                safe_to_evict: meta.annotation(SAFE_TO_EVICT).and_then(safe_to_evict),
            },
            start_time: raw::timestamp(&status_path.field("startTime"), &status.start_time, report),
            creation_time: meta.creation_time(report),
            resource_version: raw::version(&meta.resource_version),
            generation: meta.generation.0,
            spec: shared.into(),
        }
    }
}

impl RawPod {
    fn lower_spec(&self, path: &FieldPath<'_>, report: &mut ProblemReport) -> PodSpec {
        let (meta, spec) = (&self.metadata, &self.spec);
        let namespace = meta.namespace();
        let labels = meta.labels();
        let affinity_path = path.field("affinity");
        self.check_containers(path, report);
        let demand = self.demand(path, report);
        let (requests, overhead) = (demand.requests(), demand.overhead);
        let limits = self.limits(path, overhead, report);
        let spread_path = path.field("topologySpreadConstraints");
        report.check_entries(&spread_path, &spec.topology_spread_constraints);
        let spread = spec.topology_spread_constraints.iter().enumerate();
        let spread = spread
            .filter_map(|(index, raw)| raw.lower(&spread_path.index(index), &labels, report))
            .collect();
        PodSpec {
            scheduler_name: match &*spec.scheduler_name.0 {
                "" => "default-scheduler".into(),
                name => name.into(),
            },
            never_preempts: self.never_preempts(path, report),
            requests: requests.filter,
            requests_for_score: requests.score,
            requests_on_node: requests.on_node,
            non_zero_cpu: requests.non_zero_cpu,
            non_zero_memory: requests.non_zero_memory,
            limits,
            node_selector: spec.node_selector.as_ref().map(|labels| labels.0.0.clone()),
            node_affinity: spec.affinity.node(&affinity_path, report),
            pod_affinity: spec.affinity.pod(&affinity_path, &namespace, report),
            tolerations: tolerations(&path.field("tolerations"), &spec.tolerations, report),
            host_ports: self.host_ports(path, report),
            spread,
            images: self.images(),
            container_count: (spec.containers.len() + spec.init_containers.len()) as u32,
            volumes: self.volumes(&path.field("volumes"), report),
            local_volumes: self.local_volumes(),
            qos: spec.qos(),
            annotations: Labels::default(),
            resource_claims: names(&path.field("resourceClaims"), &spec.resource_claims, report),
            required_features: self.required_features(),
            owner: meta.owner().map(|owner| *owner),
            too_large: None,
        }
    }

    fn check_containers(&self, path: &FieldPath<'_>, report: &mut ProblemReport) {
        let spec = &self.spec;
        if spec.containers.is_empty() {
            let path = path.field("containers");
            report.warning(&path, "found none, expected at least one: is the file cut off?");
        }
        report.check_entries(&path.field("containers"), &spec.containers);
        report.check_entries(&path.field("initContainers"), &spec.init_containers);
    }

    fn never_preempts(&self, path: &FieldPath<'_>, report: &mut ProblemReport) -> bool {
        match &*self.spec.preemption_policy.0 {
            "Never" => true,
            "" | "PreemptLowerPriority" => false,
            found => {
                let found = quoted(found);
                let expected = "expected Never or PreemptLowerPriority";
                report.error(&path.field("preemptionPolicy"), format!("found {found}, {expected}"));
                false
            }
        }
    }

    /// Collects the inputs of the pod's resource requests.
    fn demand<'a>(&'a self, path: &FieldPath<'_>, report: &mut ProblemReport) -> PodDemand<'a> {
        let (spec, status) = (&self.spec, &self.status);
        let resize = status.conditions.iter().find(|c| &**c.kind == "PodResizePending");
        let mut statuses =
            ContainerStatuses::new(resize.is_some_and(|c| &**c.reason == "Infeasible"));
        let status_path = FieldPath::Root.field("status");
        statuses.add(&status_path.field("containerStatuses"), &status.container_statuses, report);
        let init_statuses = &status.init_container_statuses;
        statuses.add(&status_path.field("initContainerStatuses"), init_statuses, report);

        let mut lower = |name, containers: &'a [RawContainer], is_init: bool| {
            let path = path.field(name);
            let containers = containers.iter().enumerate();
            containers
                .map(|(index, container)| {
                    let is_sidecar = is_init && container.is_sidecar();
                    let path = path.index(index);
                    let path = path.field("resources");
                    let requests =
                        amounts(&path.field("requests"), &container.resources.requests, report);
                    let with_status = (!is_init || is_sidecar)
                        .then(|| statuses.effective(&container.name, &requests))
                        .flatten();
                    ContainerDemand { requests, with_status, is_sidecar }
                })
                .collect()
        };
        let containers = lower("containers", &spec.containers, false);
        let init_containers = lower("initContainers", &spec.init_containers, true);

        let path = FieldPath::Root.field("spec");
        let resources = path.field("resources");
        let mut pod_level = spec.resources.as_ref().map_or_else(Amounts::new, |raw| {
            amounts(&resources.field("requests"), &raw.requests, report)
        });
        let pod_level_with_status = status.resources.as_ref().map(|resources| {
            let path = status_path.field("resources");
            let actuated = amounts(&path.field("requests"), &resources.requests, report);
            let path = status_path.field("allocatedResources");
            let allocated = amounts(&path, &status.allocated_resources, report);
            statuses.largest(&pod_level, &actuated, &allocated)
        });
        pod_level.retain(|name, _| is_pod_level(name));
        PodDemand {
            containers,
            init_containers,
            pod_level,
            pod_level_with_status,
            overhead: amounts(&path.field("overhead"), &spec.overhead, report),
        }
    }

    /// Returns the sum of the pod's resource limits.
    fn limits<'a>(
        &'a self,
        path: &FieldPath<'_>,
        overhead: Amounts<'a>,
        report: &mut ProblemReport,
    ) -> Resources {
        let spec = &self.spec;
        let mut lower = |name, containers: &'a [RawContainer], is_init: bool| {
            let path = path.field(name);
            let containers = containers.iter().enumerate();
            containers
                .map(|(index, container)| {
                    let (path, raw) = (path.index(index), &container.resources.limits);
                    let requests = amounts(&path.field("resources").field("limits"), raw, report);
                    let is_sidecar = is_init && container.is_sidecar();
                    ContainerDemand { requests, with_status: None, is_sidecar }
                })
                .collect()
        };
        let containers = lower("containers", &spec.containers, false);
        let init_containers = lower("initContainers", &spec.init_containers, true);
        let resources = path.field("resources");
        let mut pod_level = spec.resources.as_ref().map_or_else(Amounts::new, |raw| {
            amounts(&resources.field("limits"), &raw.limits, report)
        });
        pod_level.retain(|name, _| is_pod_level(name));
        let pod_level_with_status = None;
        PodDemand { containers, init_containers, pod_level, pod_level_with_status, overhead }
            .limits()
    }

    /// Returns the host ports of the sidecars, followed by those of the containers.
    fn host_ports(&self, path: &FieldPath<'_>, report: &mut ProblemReport) -> Box<[HostPort]> {
        let mut ports = Vec::new();
        let sidecars = self.spec.init_containers.iter().enumerate();
        let sidecars = sidecars.filter(|(_, container)| container.is_sidecar());
        let init_path = path.field("initContainers");
        for (index, container) in sidecars {
            container.add_host_ports(&init_path.index(index), &mut ports, report);
        }
        let path = path.field("containers");
        for (index, container) in self.spec.containers.iter().enumerate() {
            container.add_host_ports(&path.index(index), &mut ports, report);
        }
        ports.into()
    }

    fn images(&self) -> Box<[Text]> {
        let spec = &self.spec;
        let containers = spec.init_containers.iter().chain(spec.containers.iter());
        let of_containers = containers.map(|container| &*container.image.0);
        let of_volumes = spec.volumes.iter().filter_map(|volume| volume.image.as_ref());
        let of_volumes = of_volumes.map(|image| &*image.reference.0);
        of_containers.chain(of_volumes).map(normalised_image).collect()
    }

    fn volumes(&self, path: &FieldPath<'_>, report: &mut ProblemReport) -> Box<[Volume]> {
        report.check_entries(path, &self.spec.volumes);
        let pod = &self.metadata.name;
        self.spec.volumes.iter().filter_map(|volume| volume.lower(pod)).collect()
    }

    fn local_volumes(&self) -> Box<[Text]> {
        let local = self.spec.volumes.iter().filter(|volume| volume.is_local());
        local.map(|volume| volume.name.0.clone()).collect()
    }

    /// Returns the node features the pod requires.
    ///
    /// Upstream: component-helpers `nodedeclaredfeatures/features`, v0.36.
    fn required_features(&self) -> Box<[Text]> {
        let spec = &self.spec;
        let mut features = Vec::new();
        let mut containers = spec.containers.iter().chain(spec.init_containers.iter());
        if containers.any(RawContainer::restarts_all) {
            features.push("RestartAllContainersOnContainerExits".into());
        }
        if spec.host_network.0 && spec.host_users == Some(false) {
            features.push("UserNamespacesHostNetworkSupport".into());
        }
        features.into()
    }
}

fn names(path: &FieldPath<'_>, raw: &[RawNamed], report: &mut ProblemReport) -> Box<[Text]> {
    report.check_entries(path, raw);
    raw.iter().map(|named| named.name.0.clone()).collect()
}

/// Returns the image name with its tag, `:latest` by default.
fn normalised_image(name: &str) -> Text {
    // `None` compares less than any position.
    if name.rfind(':') > name.rfind('/') { name.into() } else { format!("{name}:latest").into() }
}
