//! Pod garbage collection: bounds the number of finished pods.
//!
//! Without it, a workload whose pods fail at once would fill the memory with finished pods.

use std::sync::Arc;
use std::time::Duration;

use super::Settings;
use crate::cluster::{Cluster, DeleteOptions};
use crate::json::text;

/// Number of finished pods that are kept, as upstream.
const FINISHED_PODS_MAX: usize = 12_500;
const PERIOD: Duration = Duration::from_secs(20);

/// Collects finished pods periodically.
pub(super) async fn run(cluster: &Arc<Cluster>, settings: Settings) {
    let mut ticks = tokio::time::interval(settings.wait(PERIOD).max(Duration::from_millis(100)));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        collect(cluster, FINISHED_PODS_MAX);
    }
}

/// Deletes the oldest finished pods beyond `kept`.
fn collect(cluster: &Cluster, kept: usize) {
    let pods = cluster.resource("", "pods");
    let mut ended = pods.objects.list("").objects;
    ended.retain(|pod| crate::pods::is_terminal(pod.field_named("status.phase")));
    let surplus = ended.len().saturating_sub(kept);
    if surplus == 0 {
        return;
    }
    // RFC 3339 timestamps sort as text.
    ended.sort_by_cached_key(|pod| {
        (text(&pod.value(), &["metadata", "creationTimestamp"]).to_owned(), pod.version)
    });
    for pod in ended.iter().take(surplus) {
        let options = DeleteOptions::now(&pod.uid);
        if let Err(failure) = cluster.delete(&pods, &pod.namespace, &pod.name, &options) {
            tracing::debug!(pod = %pod.key, message = %failure.message, "failed to delete a finished pod");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Part, WriteOptions};

    #[test]
    fn the_oldest_finished_pods_are_deleted() {
        let cluster = crate::testing::cluster();
        let pods = cluster.resource("", "pods");
        for (name, phase) in [
            ("a", "Running"),
            ("b", "Failed"),
            ("c", "Succeeded"),
            ("d", "Failed"),
            ("e", "Failed"),
        ] {
            let options = WriteOptions::default();
            cluster.create(&pods, "default", crate::testing::pod(name), &options).unwrap();
            let edit = |before: &serde_json::Value| {
                let mut pod = before.clone();
                pod["status"]["phase"] = phase.into();
                pod
            };
            cluster
                .change(&pods, "default", name, Part::Status, &options, |_, before| {
                    Ok(Some(edit(before)))
                })
                .unwrap();
        }
        let left = || -> Vec<String> {
            pods.objects.list("").objects.iter().map(|pod| pod.name.to_string()).collect()
        };
        collect(&cluster, 4);
        assert_eq!(left(), ["a", "b", "c", "d", "e"]);
        collect(&cluster, 2);
        assert_eq!(left(), ["a", "d", "e"]);
    }
}
