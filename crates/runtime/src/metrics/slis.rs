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
                "Whether a health check passed when it was last made: 1 or 0.",
                &["name", "type"],
            ),
            total: to.counters(
                "kubernetes_healthchecks_total",
                "Health checks made, by result.",
                &["name", "type", "status"],
            ),
            registry,
        }
    }
}
