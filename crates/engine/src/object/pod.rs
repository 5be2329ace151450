//! Pods and the specs that they share.

use std::sync::Arc;

use super::{Labels, NodeTerm, Resources, Selector, TaintEffect, Text, Uid};

/// A pod: its own fields, and the spec that it shares with equal pods.
///
/// Terminated pods (`Succeeded`, `Failed`) never reach the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// `metadata.namespace`.
    pub namespace: Text,
    /// `metadata.name`.
    pub name: Text,
    /// `metadata.uid`.
    pub uid: Uid,
    /// `metadata.labels`.
    pub labels: Labels,
    /// `spec.priority`, zero when unset.
    pub priority: i32,
    /// `spec.nodeName`, empty while pending.
    pub node: Text,
    /// `status.nominatedNodeName`, empty when none.
    pub nominated_node: Text,
    /// `spec.schedulingGates[].name`.
    pub gates: Box<[Text]>,
    /// `metadata.deletionTimestamp` is set.
    pub terminating: bool,
    /// Condition `DisruptionTarget` is true with reason `PreemptionByScheduler`.
    pub preempted: bool,
    /// Facts for moving the pod.
    pub facts: PodFacts,
    /// `status.startTime` in nanoseconds since the epoch, if set.
    pub start_time: Option<i64>,
    /// `metadata.creationTimestamp` in nanoseconds since the epoch, zero when unset.
    pub creation_time: i64,
    /// `metadata.resourceVersion`, carried for preconditions. Zero when unset or not a number.
    pub resource_version: u64,
    /// `metadata.generation`, written back as `observedGeneration`.
    pub generation: i64,
    /// Fields that pods of one controller share; equal specs are stored once.
    pub spec: Arc<PodSpec>,
}

/// What a component that moves pods asks of each; no decision reads it. It changes often, so it is
/// not part of the spec.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Condition `Ready` is true.
    pub ready: bool,
    /// Restarts of all containers and init containers.
    pub restarts: u32,
    /// Annotation `kubernetes.io/config.mirror`: the pod mirrors a static pod of its node.
    pub mirror: bool,
    /// Annotation `cluster-autoscaler.kubernetes.io/safe-to-evict`, if it is `true` or `false`.
    pub safe_to_evict: Option<bool>,
}

impl Pod {
    /// Returns the spec for changes that affect this pod only (copy on write).
    pub fn spec_mut(&mut self) -> &mut PodSpec {
        Arc::make_mut(&mut self.spec)
    }
}

/// The scheduling-relevant fields that pods of one controller share.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodSpec {
    /// `schedulerName`.
    pub scheduler_name: Text,
    /// `preemptionPolicy: Never`.
    pub never_preempts: bool,
    /// Requests as NodeResourcesFit's filter counts them: from the spec, pod-level requests
    /// included.
    pub requests: Resources,
    /// Requests as NodeResourcesFit's score counts them: 100m and 200Mi for containers without
    /// requests, pod-level requests ignored.
    pub requests_for_score: Resources,
    /// Requests as the node accounts for them: the larger of spec and status.
    pub requests_on_node: Resources,
    /// CPU that the node accounts for, in millicores, with the default of containers without
    /// requests.
    pub non_zero_cpu: i64,
    /// Memory that the node accounts for, in bytes, with the default of containers without
    /// requests.
    pub non_zero_memory: i64,
    /// Limits, pod-level limits included. Only shown; no decision reads them.
    pub limits: Resources,
    /// `nodeSelector`; empty and unset differ.
    pub node_selector: Option<Labels>,
    /// `affinity.nodeAffinity`.
    pub node_affinity: NodeAffinity,
    /// `affinity.podAffinity` and `affinity.podAntiAffinity`.
    pub pod_affinity: PodAffinity,
    /// `tolerations`.
    pub tolerations: Box<[Toleration]>,
    /// Host ports of containers and sidecars.
    pub host_ports: Box<[HostPort]>,
    /// `topologySpreadConstraints`.
    pub spread: Box<[SpreadConstraint]>,
    /// Normalised names of all images: init containers, containers, image volumes.
    pub images: Box<[Text]>,
    /// Number of containers and init containers.
    pub container_count: u32,
    /// Volumes that matter for scheduling.
    pub volumes: Box<[Volume]>,
    /// Names of the volumes with data on the node: `hostPath`, and `emptyDir` that is not in
    /// memory. No decision reads them.
    pub local_volumes: Box<[Text]>,
    /// QoS class. No decision reads it.
    pub qos: QosClass,
    /// The annotations that plugins declare to read.
    pub annotations: Labels,
    /// `resourceClaims[].name` (claims on devices).
    pub resource_claims: Box<[Text]>,
    /// Features that a node must declare, sorted.
    pub required_features: Box<[Text]>,
    /// The owner reference with `controller: true`.
    pub owner: Option<Owner>,
    /// Reason why the pod is never scheduled: one of its values exceeds a limit of the lowering.
    /// Its requests still count on its node.
    pub too_large: Option<Text>,
}

/// QoS class of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QosClass {
    /// Neither requests nor limits of CPU and memory.
    #[default]
    BestEffort,
    /// Some requests or limits.
    Burstable,
    /// All containers have limits, equal to their requests.
    Guaranteed,
}

/// Owner reference of the controller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// `apiVersion`.
    pub api_version: Text,
    /// `kind`.
    pub kind: Text,
    /// `name`.
    pub name: Text,
    /// `uid`.
    pub uid: Text,
}

/// Node affinity of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeAffinity {
    /// `requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms`, combined by OR.
    pub required: Option<Box<[NodeTerm]>>,
    /// `preferredDuringSchedulingIgnoredDuringExecution` as (weight, preference); `None` when nil.
    pub preferred: Option<Box<[(i32, NodeTerm)]>>,
}

/// Pod affinity and anti-affinity of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct PodAffinity {
    /// `podAffinity.required…`.
    pub required: Box<[PodTerm]>,
    /// `podAntiAffinity.required…`.
    pub required_anti: Box<[PodTerm]>,
    /// `podAffinity.preferred…` as (weight, term).
    pub preferred: Box<[(i32, PodTerm)]>,
    /// `podAntiAffinity.preferred…` as (weight, term).
    pub preferred_anti: Box<[(i32, PodTerm)]>,
    /// `podAffinity` is set, even if empty.
    pub has_affinity: bool,
    /// `podAntiAffinity` is set, even if empty.
    pub has_anti_affinity: bool,
}

/// A term of pod affinity, with `matchLabelKeys` already merged into its selector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PodTerm {
    /// `labelSelector`; `None` matches nothing.
    pub selector: Option<Selector>,
    /// Namespaces, sorted: the listed ones, or the pod's own if neither a list nor a selector is
    /// given.
    pub namespaces: Box<[Text]>,
    /// `namespaceSelector`; `None` matches nothing.
    pub namespace_selector: Option<Selector>,
    /// `topologyKey`.
    pub topology_key: Text,
}

/// Operator by which a toleration compares values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TolerationOperator {
    /// Values are equal.
    Equal,
    /// Any value.
    Exists,
    /// Unknown operator; matches nothing.
    Other,
}

/// A toleration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Toleration {
    /// Key; empty matches every key.
    pub key: Text,
    /// Comparison.
    pub operator: TolerationOperator,
    /// Value.
    pub value: Text,
    /// Effect; `None` matches all effects.
    pub effect: Option<TaintEffect>,
}

/// Transport protocol of a host port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP, also the default.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// A port of the node that a pod occupies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostPort {
    /// Address; `0.0.0.0` means all addresses.
    pub ip: Text,
    /// Protocol.
    pub protocol: Protocol,
    /// Port number, above zero.
    pub port: i32,
}

/// Effect of a spread constraint that a node violates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WhenUnsatisfiable {
    /// The node is not feasible.
    DoNotSchedule,
    /// The node gets a lower score.
    ScheduleAnyway,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SpreadConstraint {
    /// `maxSkew`.
    pub max_skew: i32,
    /// `topologyKey`.
    pub topology_key: Text,
    /// `whenUnsatisfiable`.
    pub when_unsatisfiable: WhenUnsatisfiable,
    /// `labelSelector` with the pod's `matchLabelKeys` merged in; `None` matches nothing.
    pub selector: Option<Selector>,
    /// `minDomains`, one when unset.
    pub min_domains: i32,
    /// `nodeAffinityPolicy: Honor`, the default.
    pub honor_affinity: bool,
    /// `nodeTaintsPolicy: Honor`; the default is to ignore taints.
    pub honor_taints: bool,
}

/// A volume that matters for scheduling.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Volume {
    /// `persistentVolumeClaim`.
    Claim {
        /// `claimName`.
        name: Text,
    },
    /// `ephemeral`; the claim is named after the pod and the volume.
    Ephemeral {
        /// `<pod name>-<volume name>`.
        claim: Text,
    },
    /// A disk specified in the pod.
    Inline(InlineDisk),
}

impl PodSpec {
    /// Returns `true` if the pod uses a claim of its namespace (`persistentVolumeClaim` or
    /// `ephemeral`).
    pub fn has_claims(&self) -> bool {
        self.volumes.iter().any(|volume| !matches!(volume, Volume::Inline(_)))
    }
}

/// A disk specified in the pod instead of by a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the fields are those of the API")]
pub enum InlineDisk {
    /// `gcePersistentDisk`.
    GcePersistentDisk { name: Text, read_only: bool },
    /// `awsElasticBlockStore`.
    AwsElasticBlockStore { id: Text, read_only: bool },
    /// `rbd`.
    Rbd { monitors: Box<[Text]>, pool: Text, image: Text, read_only: bool },
    /// `iscsi`.
    Iscsi { iqn: Text, read_only: bool },
    /// `azureDisk`.
    AzureDisk { uri: Text },
    /// `azureFile`.
    AzureFile { share: Text, secret: Text },
    /// `cinder`.
    Cinder { id: Text },
    /// `vsphereVolume`.
    VsphereVolume { path: Text },
    /// `portworxVolume`.
    PortworxVolume { id: Text },
    /// `csi`.
    Csi { driver: Text },
}

#[cfg(test)]
mod tests;
