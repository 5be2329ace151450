//! Expiry of events, and compaction of watch caches.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::cluster::{Cluster, DeleteOptions};
use crate::json::text;
use crate::limits::{COMPACTION_INTERVAL, EVENT_TTL};

/// Interval between searches for expired events.
const CHECK_INTERVAL: Duration = Duration::from_mins(1);

/// Deletes expired events periodically.
pub(super) async fn run(cluster: &Arc<Cluster>) {
    let events = cluster.resource("", "events");
    loop {
        tokio::time::sleep(CHECK_INTERVAL).await;
        let now = cluster.now();
        for event in events.objects.list("").objects {
            let value = event.value();
            let times = ["lastTimestamp", "eventTime"].map(|name| text(&value, &[name]));
            let made = text(&value, &["metadata", "creationTimestamp"]);
            let latest = times
                .into_iter()
                .chain([made])
                .filter_map(|time| time.parse::<Timestamp>().ok())
                .max();
            let age = latest.map_or(0, |latest| now.as_second() - latest.as_second());
            if age > EVENT_TTL.as_secs() as i64 {
                let _ = cluster.delete(
                    &events,
                    &event.namespace,
                    &event.name,
                    &DeleteOptions::now(&event.uid),
                );
            }
            tokio::task::yield_now().await;
        }
    }
}

/// Compacts the watch caches of all collections periodically.
pub(super) async fn forget_changes(cluster: &Arc<Cluster>) {
    loop {
        tokio::time::sleep(COMPACTION_INTERVAL).await;
        for resource in cluster.kinds.all() {
            // Two API versions of a kind share one collection, which is compacted once.
            if resource.kind.strategy.stored_as.is_none() {
                resource.objects.compact();
            }
        }
    }
}
