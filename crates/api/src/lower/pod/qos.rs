//! The QoS class of a pod.
//!
//! Upstream: core/v1/helper/qos `ComputePodQOS`, v1.36.

use engine::object::QosClass;

use super::super::quantity::{Quantity, RawQuantity};
use super::super::raw::RawAmounts;
use super::super::resources::RawResources;
use super::RawPodSpec;

impl RawPodSpec {
    /// Returns the QoS class: by the resources of the pod if it has any, otherwise by those of its
    /// containers.
    pub(super) fn qos(&self) -> QosClass {
        let containers = self.containers.iter().chain(self.init_containers.iter());
        match &self.resources {
            Some(resources) => by_pod(resources),
            None => by_containers(containers.map(|container| &*container.resources)),
        }
    }
}

fn by_pod(resources: &RawResources) -> QosClass {
    let mut totals = Totals::default();
    totals.requests.add(&resources.requests);
    let is_limited = resources.limits.is_empty() || totals.limits.add(&resources.limits);
    totals.class(is_limited)
}

fn by_containers<'a>(containers: impl Iterator<Item = &'a RawResources>) -> QosClass {
    let (mut totals, mut is_limited) = (Totals::default(), true);
    for resources in containers {
        totals.requests.add(&resources.requests);
        is_limited &= totals.limits.add(&resources.limits);
    }
    totals.class(is_limited)
}

/// Sums of CPU and memory.
#[derive(Default)]
struct Totals {
    requests: Amounts,
    limits: Amounts,
}

impl Totals {
    /// `is_limited` is set if all containers have limits of CPU and memory.
    fn class(&self, is_limited: bool) -> QosClass {
        if self.requests == Amounts::default() && self.limits == Amounts::default() {
            QosClass::BestEffort
        } else if is_limited && self.requests == self.limits {
            QosClass::Guaranteed
        } else {
            QosClass::Burstable
        }
    }
}

/// Amounts of CPU and memory; zero counts as unset.
#[derive(Default, PartialEq, Eq)]
struct Amounts([Quantity; 2]);

impl Amounts {
    /// Adds amounts. Returns `true` if both CPU and memory are among them.
    fn add(&mut self, amounts: &RawAmounts) -> bool {
        let mut has_both = true;
        for (sum, name) in self.0.iter_mut().zip(["cpu", "memory"]) {
            let amount = amounts.get(name).and_then(RawQuantity::parse);
            let amount = amount.filter(|amount| *amount > Quantity::ZERO);
            has_both &= amount.is_some();
            *sum = sum.plus(amount.unwrap_or_default());
        }
        has_both
    }
}
