//! Gauges and totals of the queue and the cache, copied into the metrics twice a second.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::queue::EventLabel;
use tokio::time::Instant;

use super::Driver;
use crate::metrics::{CacheSize, PendingPods};

/// Time between updates of the gauges; an update after every step would cost more than the step.
pub(super) const GAUGES_INTERVAL: Duration = Duration::from_millis(500);

impl Driver {
    /// Publishes [`super::DriverStatus`] and, if it is time for it, the gauges.
    pub(super) fn publish_gauges(&mut self) {
        self.status.binds_in_flight.store(self.binds.in_flight(), Ordering::Relaxed);
        // `Release` after the count: a reader that sees `leading` also sees the count of that time.
        self.status.leading.store(self.leading, Ordering::Release);
        if self.gauges_published.elapsed() < GAUGES_INTERVAL {
            return;
        }
        self.gauges_published = Instant::now();
        let counts = self.engine.queue().counts();
        self.metrics.set_pending_pods(PendingPods {
            active: counts.active,
            backoff: counts.backoff,
            unschedulable: counts.unschedulable,
            gated: counts.gated,
        });
        self.metrics.set_incoming_totals(&self.engine.queue().counters);
        let mut in_flight: BTreeMap<EventLabel, usize> = BTreeMap::new();
        for event in self.engine.queue().in_flight_events() {
            *in_flight.entry(event).or_default() += 1;
        }
        self.metrics.set_in_flight(&in_flight, counts.in_flight);
        self.publish_blocking_plugins();
        self.metrics.set_binds_in_flight(self.binds.in_flight());
        let state = self.engine.state();
        self.metrics.set_cache_size(CacheSize {
            nodes: state.nodes.count(),
            pods: state.pods.count(),
            assumed_pods: self.binds.in_flight(),
        });
    }

    /// Publishes the number of pods that each plugin rejects, of those that ever rejected one.
    fn publish_blocking_plugins(&mut self) {
        for (index, profile) in self.engine.profiles().iter().enumerate() {
            for plugin in 0..profile.plugins.len() {
                let pods = self.engine.queue().blocked_by(index, plugin);
                if pods > 0 {
                    self.blocking_plugins.insert((index, plugin));
                } else if !self.blocking_plugins.contains(&(index, plugin)) {
                    continue;
                }
                self.metrics.set_unschedulable_pods(
                    profile.plugin_name(plugin),
                    &profile.name,
                    pods,
                );
            }
        }
    }
}
