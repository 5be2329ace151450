//! Lowering of pods.

use engine::object::{
    HostPort, InlineDisk, Owner, Pod, PodSpec, Protocol, Resources, Text, Toleration,
    TolerationOperator, Volume,
};
use serde::Deserialize;

use super::Lower;
use super::affinity::{RawAffinity, RawSpread};
use super::node::taint_effect;
use super::problem::{FieldPath, ProblemReport, quoted};
use super::raw::{self, List, Meta, Nullable, RawAmounts, Str, StrMap};
use super::resources::{
    Amounts, ContainerDemand, ContainerStatuses, PodDemand, RawContainerStatus,
    RawResourceRequests, RawResources, amounts, is_pod_level,
};

/// `v1 Pod`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RawPod {
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
    resources: Nullable<RawResources>,
    scheduler_name: Str,
    scheduling_gates: List<RawNamed>,
    tolerations: List<RawToleration>,
    topology_spread_constraints: List<RawSpread>,
    volumes: List<RawVolume>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawContainer {
    name: Str,
    image: Str,
    ports: List<RawPort>,
    resources: Nullable<RawResources>,
    restart_policy: Str,
    restart_policy_rules: List<RawRestartRule>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawPort {
    #[serde(rename = "hostIP")]
    host_ip: Str,
    host_port: Nullable<i32>,
    protocol: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawRestartRule {
    action: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawNamed {
    name: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawToleration {
    key: Str,
    operator: Str,
    value: Str,
    effect: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawVolume {
    name: Str,
    aws_elastic_block_store: Option<RawVolumeSource>,
    azure_disk: Option<RawVolumeSource>,
    azure_file: Option<RawVolumeSource>,
    cinder: Option<RawVolumeSource>,
    csi: Option<RawVolumeSource>,
    ephemeral: Option<RawVolumeSource>,
    gce_persistent_disk: Option<RawVolumeSource>,
    image: Option<RawImageVolume>,
    iscsi: Option<RawVolumeSource>,
    persistent_volume_claim: Option<RawVolumeSource>,
    portworx_volume: Option<RawVolumeSource>,
    rbd: Option<RawVolumeSource>,
    vsphere_volume: Option<RawVolumeSource>,
}

/// The union of the fields of all volume sources; each source has a few of them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawVolumeSource {
    claim_name: Str,
    #[serde(rename = "diskURI")]
    disk_uri: Str,
    driver: Str,
    image: Str,
    iqn: Str,
    monitors: List<Str>,
    pd_name: Str,
    pool: Str,
    read_only: Nullable<bool>,
    secret_name: Str,
    share_name: Str,
    #[serde(rename = "volumeID")]
    volume_id: Str,
    volume_path: Str,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct RawImageVolume {
    reference: Str,
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

    fn meta(&self) -> &Meta {
        &self.metadata
    }

    fn is_finished(&self) -> bool {
        matches!(&**self.status.phase, "Succeeded" | "Failed")
    }

    fn lower(self, report: &mut ProblemReport) -> Pod {
        let mut shared = self.lower_spec(&FieldPath::Root.field("spec"), report);
        let (meta, spec, status) = (&self.metadata, &self.spec, &self.status);
        let path = FieldPath::Root.field("spec");
        let preempted = status.conditions.iter().any(|condition| {
            &**condition.kind == "DisruptionTarget"
                && &**condition.status == "True"
                && &**condition.reason == "PreemptionByScheduler"
        });
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
            preempted,
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
        let owner = meta.controller().map(|owner| Owner {
            api_version: owner.api_version.0.clone(),
            kind: owner.kind.0.clone(),
            name: owner.name.0.clone(),
            uid: owner.uid.0.clone(),
        });
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
            resource_claims: names(&path.field("resourceClaims"), &spec.resource_claims, report),
            required_features: self.required_features(),
            owner,
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
        let mut pod_level = amounts(&resources.field("requests"), &spec.resources.requests, report);
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
        let mut pod_level = amounts(&resources.field("limits"), &spec.resources.limits, report);
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

    /// Returns the node features the pod requires.
    ///
    /// Upstream: component-helpers `nodedeclaredfeatures/features`, v0.36.
    fn required_features(&self) -> Box<[Text]> {
        let spec = &self.spec;
        let mut features = Vec::new();
        let mut containers = spec.containers.iter().chain(spec.init_containers.iter());
        let restarts_all = containers.any(|container| {
            container.restart_policy_rules.iter().any(|r| &**r.action == "RestartAllContainers")
        });
        if restarts_all {
            features.push("RestartAllContainersOnContainerExits".into());
        }
        if spec.host_network.0 && spec.host_users == Some(false) {
            features.push("UserNamespacesHostNetworkSupport".into());
        }
        features.into()
    }
}

impl RawContainer {
    /// Returns `true` for an init container that keeps running beside the main containers.
    fn is_sidecar(&self) -> bool {
        &**self.restart_policy == "Always"
    }

    fn add_host_ports(
        &self,
        path: &FieldPath<'_>,
        ports: &mut Vec<HostPort>,
        report: &mut ProblemReport,
    ) {
        let path = path.field("ports");
        report.check_entries(&path, &self.ports);
        for (index, raw) in self.ports.iter().enumerate() {
            let path = path.index(index);
            let port = raw.host_port.0;
            if !(0..=65_535).contains(&port) {
                report.error(&path.field("hostPort"), format!("found {port}, expected 1 to 65535"));
            }
            if port <= 0 {
                continue;
            }
            let protocol = match &*raw.protocol.0 {
                "" | "TCP" => Protocol::Tcp,
                "UDP" => Protocol::Udp,
                "SCTP" => Protocol::Sctp,
                found => {
                    let found = quoted(found);
                    let path = path.field("protocol");
                    report.error(&path, format!("found {found}, expected TCP, UDP or SCTP"));
                    continue;
                }
            };
            let ip = if raw.host_ip.is_empty() { "0.0.0.0".into() } else { raw.host_ip.0.clone() };
            ports.push(HostPort { ip, protocol, port });
        }
    }
}

impl RawVolume {
    fn lower(&self, pod: &str) -> Option<Volume> {
        if let Some(claim) = &self.persistent_volume_claim {
            return Some(Volume::Claim { name: claim.claim_name.0.clone() });
        }
        if self.ephemeral.is_some() {
            let volume = &*self.name.0;
            return Some(Volume::Ephemeral { claim: format!("{pod}-{volume}").into() });
        }
        self.disk().map(Volume::Inline)
    }

    fn disk(&self) -> Option<InlineDisk> {
        let text = |text: &Str| text.0.clone();
        Some(if let Some(disk) = &self.gce_persistent_disk {
            let name = text(&disk.pd_name);
            InlineDisk::GcePersistentDisk { name, read_only: disk.read_only.0 }
        } else if let Some(disk) = &self.aws_elastic_block_store {
            let id = text(&disk.volume_id);
            InlineDisk::AwsElasticBlockStore { id, read_only: disk.read_only.0 }
        } else if let Some(disk) = &self.rbd {
            InlineDisk::Rbd {
                monitors: disk.monitors.iter().map(text).collect(),
                pool: text(&disk.pool),
                image: text(&disk.image),
                read_only: disk.read_only.0,
            }
        } else if let Some(disk) = &self.iscsi {
            InlineDisk::Iscsi { iqn: text(&disk.iqn), read_only: disk.read_only.0 }
        } else if let Some(disk) = &self.azure_disk {
            InlineDisk::AzureDisk { uri: text(&disk.disk_uri) }
        } else if let Some(disk) = &self.azure_file {
            InlineDisk::AzureFile { share: text(&disk.share_name), secret: text(&disk.secret_name) }
        } else if let Some(disk) = &self.cinder {
            InlineDisk::Cinder { id: text(&disk.volume_id) }
        } else if let Some(disk) = &self.vsphere_volume {
            InlineDisk::VsphereVolume { path: text(&disk.volume_path) }
        } else if let Some(disk) = &self.portworx_volume {
            InlineDisk::PortworxVolume { id: text(&disk.volume_id) }
        } else {
            InlineDisk::Csi { driver: text(&self.csi.as_ref()?.driver) }
        })
    }
}

fn names(path: &FieldPath<'_>, raw: &[RawNamed], report: &mut ProblemReport) -> Box<[Text]> {
    report.check_entries(path, raw);
    raw.iter().map(|named| named.name.0.clone()).collect()
}

fn tolerations(
    path: &FieldPath<'_>,
    raw: &[RawToleration],
    report: &mut ProblemReport,
) -> Box<[Toleration]> {
    if !report.check_entries(path, raw) {
        return Box::default();
    }
    let raw = raw.iter().enumerate();
    raw.map(|(index, raw)| toleration(&path.index(index), raw, report)).collect()
}

fn toleration(path: &FieldPath<'_>, raw: &RawToleration, report: &mut ProblemReport) -> Toleration {
    let mut operator = match &*raw.operator.0 {
        "" | "Equal" => TolerationOperator::Equal,
        "Exists" => TolerationOperator::Exists,
        // Valid only with a feature gate that is off: the API server stores them, and they tolerate
        // nothing.
        "Lt" | "Gt" => TolerationOperator::Other,
        found => {
            let found = quoted(found);
            report
                .error(&path.field("operator"), format!("found {found}, expected Equal or Exists"));
            TolerationOperator::Other
        }
    };
    if raw.key.is_empty() && operator == TolerationOperator::Equal {
        let message = "found Equal with an empty key, expected Exists or a key";
        report.error(&path.field("operator"), message);
    }
    let effect = match &*raw.effect.0 {
        "" => None,
        text => {
            let effect = taint_effect(&path.field("effect"), text, report);
            if effect.is_none() {
                // No taint has an unknown effect, so the toleration matches nothing.
                operator = TolerationOperator::Other;
            }
            effect
        }
    };
    Toleration { key: raw.key.0.clone(), operator, value: raw.value.0.clone(), effect }
}

/// Returns the image name with its tag, `:latest` by default.
fn normalised_image(name: &str) -> Text {
    // `None` compares less than any position.
    if name.rfind(':') > name.rfind('/') { name.into() } else { format!("{name}:latest").into() }
}
