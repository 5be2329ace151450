//! What is kept for a time: events, and changes in the logs that watches read.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::cluster::{Cluster, DeleteOptions};
use crate::json::text;
use crate::limits::{COMPACTION_INTERVAL, EVENT_TIME};

/// How often it is looked for what is too old.
const LOOK_EVERY: Duration = Duration::from_mins(1);

/// Removes old events for ever.
pub(super) async fn run(cluster: &Arc<Cluster>) {
    let events = cluster.resource("", "events");
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
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
            if age > EVENT_TIME.as_secs() as i64 {
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

/// Lets all collections forget old changes, for ever.
pub(super) async fn forget_changes(cluster: &Arc<Cluster>) {
    loop {
        tokio::time::sleep(COMPACTION_INTERVAL).await;
        for resource in cluster.kinds.all() {
            // Kinds of two versions share their objects; one of them is enough.
            if resource.kind.strategy.stored_as.is_none() {
                resource.objects.compact();
            }
        }
    }
}
