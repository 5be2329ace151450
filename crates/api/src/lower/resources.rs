//! Resource requests of a pod, in the variants that scheduling needs.
//!
//! Upstream: component-helpers `resource/helpers.go`, v0.36.

use std::collections::BTreeMap;

use engine::object::{Resources, is_scalar_resource};
use serde::Deserialize;

use super::problem::{FieldPath, ProblemReport};
use super::quantity::Quantity;
use super::raw::{List, Nullable, RawAmounts, Str, quantity};

/// Requests that scoring assumes for a container that sets no cpu or no memory.
const DEFAULTS: &[(&str, Quantity)] =
    &[("cpu", Quantity::from_milli(100)), ("memory", Quantity::from_units(200 * 1024 * 1024))];

/// `resources` of a container or a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawResources {
    pub(super) requests: RawAmounts,
    pub(super) limits: RawAmounts,
}

/// `resources` whose limits are not read: in a pod status or a volume claim.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawResourceRequests {
    pub(super) requests: RawAmounts,
}

/// `status.containerStatuses[]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawContainerStatus {
    name: Str,
    resources: Option<RawResourceRequests>,
    allocated_resources: RawAmounts,
    restart_count: Nullable<i32>,
}

impl RawContainerStatus {
    /// Returns the number of restarts.
    pub(super) fn restarts(&self) -> u32 {
        self.restart_count.max(0).cast_unsigned()
    }
}

/// Quantities by resource name.
pub(super) type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// The resource requests of one container.
pub(super) struct ContainerDemand<'a> {
    /// Requests from the spec.
    pub(super) requests: Amounts<'a>,
    /// Effective requests from spec and status, if the status has any.
    pub(super) with_status: Option<Amounts<'a>>,
    /// An init container that keeps running beside the main containers.
    pub(super) is_sidecar: bool,
}

/// Everything that counts towards the requests of a pod.
#[derive(Default)]
pub(super) struct PodDemand<'a> {
    /// `spec.containers`.
    pub(super) containers: Vec<ContainerDemand<'a>>,
    /// `spec.initContainers`.
    pub(super) init_containers: Vec<ContainerDemand<'a>>,
    /// `spec.resources.requests`, restricted to resources allowed at pod level.
    pub(super) pod_level: Amounts<'a>,
    /// Effective pod-level requests from spec and status, if the status has any.
    pub(super) pod_level_with_status: Option<Amounts<'a>>,
    /// `spec.overhead`.
    pub(super) overhead: Amounts<'a>,
}

/// Selects the inputs that a sum of requests includes.
#[derive(Clone, Copy)]
struct SumOptions {
    /// Includes the requests recorded in the status.
    status: bool,
    /// Includes the pod-level requests.
    pod_level: bool,
    /// Requests assumed for a container that sets none.
    defaults: &'static [(&'static str, Quantity)],
}

/// All variants of a pod's requests.
pub(super) struct PodRequests {
    pub(super) filter: Resources,
    pub(super) score: Resources,
    pub(super) on_node: Resources,
    pub(super) non_zero_cpu: i64,
    pub(super) non_zero_memory: i64,
}

impl PodDemand<'_> {
    pub(super) fn requests(&self) -> PodRequests {
        let filter = self.total(SumOptions { status: false, pod_level: true, defaults: &[] });
        let score = self.total(SumOptions { status: false, pod_level: false, defaults: DEFAULTS });
        let with_status = self
            .has_status()
            .then(|| self.total(SumOptions { status: true, pod_level: true, defaults: &[] }));
        let on_node = with_status.as_ref().unwrap_or(&filter);
        // With pod-level requests, defaults apply only to resources that no request sets.
        let is_assumed = |name| self.pod_level.is_empty() || !on_node.contains_key(name);
        let defaults = match (is_assumed("cpu"), is_assumed("memory")) {
            (true, true) => DEFAULTS,
            (true, false) => &DEFAULTS[..1],
            (false, true) => &DEFAULTS[1..],
            (false, false) => &[],
        };
        let non_zero = self.total(SumOptions { status: true, pod_level: true, defaults });
        let amount = |name| non_zero.get(name).copied().unwrap_or_default();
        PodRequests {
            on_node: resources(on_node),
            score: resources(&score),
            filter: at_least_zero(resources(&filter)),
            non_zero_cpu: amount("cpu").milli_value(),
            non_zero_memory: amount("memory").value(),
        }
    }

    /// Returns the same sum where the quantities are limits. Overhead is added only to resources
    /// that are limited, so that the others stay unlimited.
    pub(super) fn limits(&self) -> Resources {
        let options = SumOptions { status: false, pod_level: true, defaults: &[] };
        let mut total = self.total_without_overhead(options);
        for (name, amount) in &self.overhead {
            if let Some(limit) = total.get_mut(name)
                && *limit != Quantity::default()
            {
                *limit = limit.plus(*amount);
            }
        }
        at_least_zero(resources(&total))
    }

    fn has_status(&self) -> bool {
        self.pod_level_with_status.is_some()
            || self.containers.iter().chain(&self.init_containers).any(|c| c.with_status.is_some())
    }

    fn total(&self, options: SumOptions) -> Amounts<'_> {
        let mut total = self.total_without_overhead(options);
        add(&mut total, &self.overhead);
        total
    }

    fn total_without_overhead(&self, options: SumOptions) -> Amounts<'_> {
        let mut total = self.containers_total(options);
        if options.pod_level {
            let effective = self.pod_level_with_status.as_ref().filter(|_| options.status);
            for (name, own) in &self.pod_level {
                let amount = match effective {
                    Some(effective) => effective.get(name).copied().unwrap_or_default(),
                    None => *own,
                };
                total.insert(name, amount);
            }
        }
        total
    }

    /// Sums the containers. Main containers run concurrently; init containers run before them, one
    /// at a time, beside the sidecars started so far.
    fn containers_total(&self, options: SumOptions) -> Amounts<'_> {
        let mut total = Amounts::new();
        for container in &self.containers {
            add(&mut total, &container.amounts(options));
        }
        let mut sidecars = Amounts::new();
        let mut init_peak = Amounts::new();
        for container in &self.init_containers {
            let mut amounts = container.amounts(options);
            if container.is_sidecar {
                add(&mut total, &amounts);
                add(&mut sidecars, &amounts);
                raise_to_max(&mut init_peak, &sidecars);
            } else {
                add(&mut amounts, &sidecars);
                raise_to_max(&mut init_peak, &amounts);
            }
        }
        raise_to_max(&mut total, &init_peak);
        total
    }
}

impl ContainerDemand<'_> {
    fn amounts(&self, options: SumOptions) -> Amounts<'_> {
        let effective = self.with_status.as_ref().filter(|_| options.status);
        let mut amounts = effective.unwrap_or(&self.requests).clone();
        for (name, amount) in options.defaults {
            amounts.entry(name).or_insert(*amount);
        }
        amounts
    }
}

/// Parses a map of quantities.
pub(super) fn amounts<'a>(
    path: &FieldPath<'_>,
    raw: &'a RawAmounts,
    report: &mut ProblemReport,
) -> Amounts<'a> {
    raw.iter().map(|(name, raw)| (&**name, quantity(&path.key(name), raw, report))).collect()
}

/// Converts quantities to the engine's resources, dropping resources that scheduling does not
/// count.
pub(super) fn resources(amounts: &Amounts<'_>) -> Resources {
    let mut resources = Resources::default();
    let mut scalars = Vec::new();
    for (&name, amount) in amounts {
        match name {
            "cpu" => resources.cpu = amount.milli_value(),
            "memory" => resources.memory = amount.value(),
            "ephemeral-storage" => resources.ephemeral = amount.value(),
            _ if is_scalar_resource(name) => scalars.push((name.into(), amount.value())),
            _ => {}
        }
    }
    resources.scalars = scalars.into();
    resources
}

/// Effective requests of each container by name, from spec and status.
pub(super) struct ContainerStatuses<'a> {
    by_name: BTreeMap<&'a str, (Amounts<'a>, Amounts<'a>)>,
    /// The kubelet marked the pending resize as infeasible, so the spec does not count.
    infeasible: bool,
}

impl<'a> ContainerStatuses<'a> {
    pub(super) fn new(infeasible: bool) -> Self {
        Self { by_name: BTreeMap::new(), infeasible }
    }

    /// Adds `containerStatuses` or `initContainerStatuses`; for duplicate names the last entry
    /// counts.
    pub(super) fn add(
        &mut self,
        path: &FieldPath<'_>,
        statuses: &'a List<RawContainerStatus>,
        report: &mut ProblemReport,
    ) {
        report.check_entries(path, statuses);
        for (index, status) in statuses.iter().enumerate() {
            let path = path.index(index);
            let allocated =
                amounts(&path.field("allocatedResources"), &status.allocated_resources, report);
            match &status.resources {
                Some(resources) => {
                    let path = path.field("resources");
                    let actuated = amounts(&path.field("requests"), &resources.requests, report);
                    self.by_name.insert(&status.name, (actuated, allocated));
                }
                None => {
                    self.by_name.remove(&**status.name);
                }
            }
        }
    }

    /// Returns the effective requests of a container, if it has a status.
    pub(super) fn effective(&self, name: &str, spec: &Amounts<'a>) -> Option<Amounts<'a>> {
        let (actuated, allocated) = self.by_name.get(name)?;
        Some(self.largest(spec, actuated, allocated))
    }

    /// Returns the maximum of the desired, actuated and allocated requests.
    pub(super) fn largest(
        &self,
        spec: &Amounts<'a>,
        actuated: &Amounts<'a>,
        allocated: &Amounts<'a>,
    ) -> Amounts<'a> {
        let mut largest = actuated.clone();
        raise_to_max(&mut largest, allocated);
        if !self.infeasible {
            raise_to_max(&mut largest, spec);
        }
        largest
    }
}

/// Returns `true` if the resource can be requested at pod level.
pub(super) fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}

/// Lowers `allocatable` of a node to its resources and its number of pods.
pub(super) fn allocatable(
    path: &FieldPath<'_>,
    raw: &RawAmounts,
    report: &mut ProblemReport,
) -> (Resources, i64) {
    let amounts = amounts(path, raw, report);
    let pods = amounts.get("pods").copied().unwrap_or_default();
    (resources(&amounts), pods.value())
}

fn add<'a>(sum: &mut Amounts<'a>, more: &Amounts<'a>) {
    for (name, amount) in more {
        sum.entry(name).and_modify(|sum| *sum = sum.plus(*amount)).or_insert(*amount);
    }
}

fn raise_to_max<'a>(largest: &mut Amounts<'a>, other: &Amounts<'a>) {
    for (name, amount) in other {
        largest
            .entry(name)
            .and_modify(|largest| *largest = (*largest).max(*amount))
            .or_insert(*amount);
    }
}

fn at_least_zero(mut resources: Resources) -> Resources {
    resources.cpu = resources.cpu.max(0);
    resources.memory = resources.memory.max(0);
    resources.ephemeral = resources.ephemeral.max(0);
    for (_, amount) in &mut resources.scalars {
        *amount = (*amount).max(0);
    }
    resources
}
