//! What pods request, in the variants that scheduling needs.
//!
//! Upstream: component-helpers `resource/helpers.go`, v0.36.

use std::collections::BTreeMap;

use engine::object::{Resources, is_scalar_resource};
use serde::Deserialize;

use super::problem::{Path, Report};
use super::quantity::Quantity;
use super::raw::{List, RawAmounts, Str, quantity};

/// What scoring assumes of a container that requests no cpu or no memory.
const DEFAULTS: &[(&str, Quantity)] =
    &[("cpu", Quantity::milli(100)), ("memory", Quantity::units(200 * 1024 * 1024))];

/// `resources` of a container or a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawResources {
    pub(super) requests: RawAmounts,
    pub(super) limits: RawAmounts,
}

/// `resources` of which limits are not read: in a status, of a claim.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawRequested {
    pub(super) requests: RawAmounts,
}

/// `status.containerStatuses[]`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct RawContainerStatus {
    name: Str,
    resources: Option<RawRequested>,
    allocated_resources: RawAmounts,
}

/// Amounts by resource name.
pub(super) type Amounts<'a> = BTreeMap<&'a str, Quantity>;

/// One container.
pub(super) struct Container<'a> {
    /// From the spec.
    pub(super) requests: Amounts<'a>,
    /// From spec and status, if the status has any.
    pub(super) with_status: Option<Amounts<'a>>,
    /// An init container that keeps running.
    pub(super) is_sidecar: bool,
}

/// All that counts towards the requests of a pod.
#[derive(Default)]
pub(super) struct Demand<'a> {
    /// `spec.containers`.
    pub(super) containers: Vec<Container<'a>>,
    /// `spec.initContainers`.
    pub(super) init_containers: Vec<Container<'a>>,
    /// `spec.resources.requests`, only names that pods can request.
    pub(super) pod_level: Amounts<'a>,
    /// The same with status, if the status has any.
    pub(super) pod_level_with_status: Option<Amounts<'a>>,
    /// `spec.overhead`.
    pub(super) overhead: Amounts<'a>,
}

/// Which variant of the requests to compute.
#[derive(Clone, Copy)]
struct Variant {
    /// Status counts beside the spec.
    status: bool,
    /// Requests of the pod as a whole count.
    pod_level: bool,
    /// What containers are assumed to request if they do not say.
    defaults: &'static [(&'static str, Quantity)],
}

/// All variants of a pod's requests.
pub(super) struct Requests {
    pub(super) filter: Resources,
    pub(super) score: Resources,
    pub(super) on_node: Resources,
    pub(super) non_zero_cpu: i64,
    pub(super) non_zero_memory: i64,
}

impl Demand<'_> {
    pub(super) fn requests(&self) -> Requests {
        let filter = self.total(Variant { status: false, pod_level: true, defaults: &[] });
        let score = self.total(Variant { status: false, pod_level: false, defaults: DEFAULTS });
        let with_status = self
            .has_status()
            .then(|| self.total(Variant { status: true, pod_level: true, defaults: &[] }));
        let on_node = with_status.as_ref().unwrap_or(&filter);
        // A pod that requests something as a whole gets defaults only for what nobody names.
        let is_assumed = |name| self.pod_level.is_empty() || !on_node.contains_key(name);
        let defaults = match (is_assumed("cpu"), is_assumed("memory")) {
            (true, true) => DEFAULTS,
            (true, false) => &DEFAULTS[..1],
            (false, true) => &DEFAULTS[1..],
            (false, false) => &[],
        };
        let non_zero = self.total(Variant { status: true, pod_level: true, defaults });
        let amount = |name| non_zero.get(name).copied().unwrap_or_default();
        Requests {
            on_node: resources(on_node),
            score: resources(&score),
            filter: at_least_zero(resources(&filter)),
            non_zero_cpu: amount("cpu").milli_value(),
            non_zero_memory: amount("memory").value(),
        }
    }

    /// The same sum where the amounts are limits. What is not limited stays so: overhead counts only
    /// beside a limit.
    pub(super) fn limits(&self) -> Resources {
        let variant = Variant { status: false, pod_level: true, defaults: &[] };
        let mut total = self.total_without_overhead(variant);
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

    fn total(&self, variant: Variant) -> Amounts<'_> {
        let mut total = self.total_without_overhead(variant);
        add(&mut total, &self.overhead);
        total
    }

    fn total_without_overhead(&self, variant: Variant) -> Amounts<'_> {
        let mut total = self.containers_total(variant);
        if variant.pod_level {
            let effective = self.pod_level_with_status.as_ref().filter(|_| variant.status);
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

    /// Containers run together; init containers run before them, one by one, beside the sidecars so far.
    fn containers_total(&self, variant: Variant) -> Amounts<'_> {
        let mut total = Amounts::new();
        for container in &self.containers {
            add(&mut total, &container.amounts(variant));
        }
        let mut sidecars = Amounts::new();
        let mut init_peak = Amounts::new();
        for container in &self.init_containers {
            let mut amounts = container.amounts(variant);
            if container.is_sidecar {
                add(&mut total, &amounts);
                add(&mut sidecars, &amounts);
                raise(&mut init_peak, &sidecars);
            } else {
                add(&mut amounts, &sidecars);
                raise(&mut init_peak, &amounts);
            }
        }
        raise(&mut total, &init_peak);
        total
    }
}

impl Container<'_> {
    fn amounts(&self, variant: Variant) -> Amounts<'_> {
        let effective = self.with_status.as_ref().filter(|_| variant.status);
        let mut amounts = effective.unwrap_or(&self.requests).clone();
        for (name, amount) in variant.defaults {
            amounts.entry(name).or_insert(*amount);
        }
        amounts
    }
}

/// Reads a map of amounts.
pub(super) fn amounts<'a>(
    path: &Path<'_>,
    raw: &'a RawAmounts,
    report: &mut Report,
) -> Amounts<'a> {
    raw.iter().map(|(name, raw)| (&**name, quantity(&path.key(name), raw, report))).collect()
}

/// Amounts as the engine takes them; names that scheduling does not count are left out.
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
pub(super) struct Statuses<'a> {
    by_name: BTreeMap<&'a str, (Amounts<'a>, Amounts<'a>)>,
    /// The node said that it cannot do the resize in the spec, so the spec does not count.
    infeasible: bool,
}

impl<'a> Statuses<'a> {
    pub(super) fn new(infeasible: bool) -> Self {
        Self { by_name: BTreeMap::new(), infeasible }
    }

    /// Adds `containerStatuses` or `initContainerStatuses`; the last of a name counts.
    pub(super) fn add(
        &mut self,
        path: &Path<'_>,
        statuses: &'a List<RawContainerStatus>,
        report: &mut Report,
    ) {
        report.bounded(path, statuses);
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

    /// What a container of this name and spec counts for, if it has a status.
    pub(super) fn effective(&self, name: &str, spec: &Amounts<'a>) -> Option<Amounts<'a>> {
        let (actuated, allocated) = self.by_name.get(name)?;
        Some(self.largest(spec, actuated, allocated))
    }

    /// The largest of what is wanted, in force and set aside.
    pub(super) fn largest(
        &self,
        spec: &Amounts<'a>,
        actuated: &Amounts<'a>,
        allocated: &Amounts<'a>,
    ) -> Amounts<'a> {
        let mut largest = actuated.clone();
        raise(&mut largest, allocated);
        if !self.infeasible {
            raise(&mut largest, spec);
        }
        largest
    }
}

/// Whether a pod can request this as a whole.
pub(super) fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}

/// `allocatable` of a node: resources and the number of pods.
pub(super) fn allocatable(
    path: &Path<'_>,
    raw: &RawAmounts,
    report: &mut Report,
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

fn raise<'a>(largest: &mut Amounts<'a>, other: &Amounts<'a>) {
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
