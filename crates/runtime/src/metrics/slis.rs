//! Results of health checks, for `/metrics/slis`, which all Kubernetes components have.

use prometheus::{Gauge, IntCounterVec, IntGaugeVec, Registry};

use super::families::Registrar;

pub(super) struct Slis {
    pub(super) registry: Registry,
    pub(super) last: IntGaugeVec,
    pub(super) total: IntCounterVec,
}

impl Slis {
    /// Registers the families, and the start time of the process.
    pub(super) fn new(start_seconds: Gauge) -> Self {
        let registry = Registry::new();
        let to = Registrar(&registry);
        to.add(Ok(start_seconds));
        Self {
            last: to.gauges(
                "kubernetes_healthcheck",
                "Last result of a health check: 1 if it passed, 0 if it failed.",
                &["name", "type"],
            ),
            total: to.counters(
                "kubernetes_healthchecks_total",
                "Health checks by result.",
                &["name", "type", "status"],
            ),
            registry,
        }
    }
}
