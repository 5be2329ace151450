//! Informers, and the reconcile loop that all controllers share.

mod timers;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::cluster::Cluster;
use crate::kinds::Resource;
use crate::limits::WATCH_BATCH_MAX;
use crate::status_error::ApiResult;
use crate::store::Change;
use timers::Timers;

/// Namespace and name.
pub(super) type Key = (String, String);

/// Delay before the first retry of a failed object; it doubles up to [`RETRY_DELAY_MAX`].
const RETRY_DELAY_MIN: Duration = Duration::from_millis(50);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// A reconcile that took time `t` is followed by a pause of `PAUSE_FACTOR * t` for its object, so that
/// many changes of a large object are handled by one reconcile.
const PAUSE_FACTOR: u32 = 4;
const PAUSE_MIN: Duration = Duration::from_millis(2);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Reconciles objects of one kind.
pub(super) trait Controller: Send + Sync {
    /// Returns the kinds to watch, as (group, plural).
    fn sources(&self) -> &'static [(&'static str, &'static str)];

    /// Returns the objects to reconcile after a change of the kind `sources()[source]`.
    fn keys_of_change(&self, cluster: &Cluster, source: usize, change: &Change) -> Vec<Key>;

    /// Reconciles one object. Returns the delay after which to reconcile it again if no change
    /// triggers that earlier.
    fn reconcile(&self, cluster: &Cluster, key: &Key) -> ApiResult<Option<Duration>>;
}

/// Follows one collection through its watch cache.
pub(super) struct Informer {
    pub(super) resource: Arc<Resource>,
    version: u64,
    updates: watch::Receiver<u64>,
    /// Set if the next poll lists all objects.
    relist: bool,
    /// Set if changes were missed, possibly deletions.
    missed: bool,
}

impl Informer {
    pub(super) fn new(resource: Arc<Resource>) -> Self {
        let updates = resource.objects.subscribe();
        Self { resource, version: 0, updates, relist: true, missed: false }
    }

    /// Returns the changes since the last poll, at most one batch. The first poll, and the one after the
    /// watch cache was compacted beyond the last poll, returns all objects.
    pub(super) fn poll(&mut self) -> Vec<Arc<Change>> {
        self.updates.borrow_and_update();
        if std::mem::take(&mut self.relist) {
            let listing = self.resource.objects.list("");
            self.version = listing.version;
            return listing
                .objects
                .into_iter()
                .map(|object| Arc::new(Change::present(object)))
                .collect();
        }
        if let Ok(batch) = self.resource.objects.after(self.version, WATCH_BATCH_MAX) {
            self.version = batch.version;
            batch.changes
        } else {
            (self.relist, self.missed) = (true, true);
            self.poll()
        }
    }

    /// Returns `true` if changes were missed since the last call. Deletions among them are not reported
    /// any more and must be detected by comparing state.
    pub(super) fn missed(&mut self) -> bool {
        std::mem::take(&mut self.missed)
    }

    /// Waits for the next change.
    pub(super) async fn changed(&mut self) {
        if self.updates.changed().await.is_err() {
            // The collection was dropped, so no change can follow.
            std::future::pending::<()>().await;
        }
    }
}

/// Relists all informers if one of them missed changes. Returns `true` if so. A controller that visits
/// every object detects the missed deletions.
pub(super) fn relist_if_missed(informers: &mut [Informer]) -> bool {
    let missed = informers.iter_mut().fold(false, |missed, one| one.missed() | missed);
    if missed {
        for one in informers.iter_mut() {
            one.relist = true;
        }
    }
    missed
}

/// Waits until one of the informers has a change.
pub(super) async fn any_changed(informers: &mut [Informer]) {
    let waits = informers.iter_mut().map(|informer| Box::pin(informer.changed()));
    futures::future::select_all(waits).await;
}

/// Runs a controller until the task is cancelled.
pub(super) async fn run(cluster: &Arc<Cluster>, controller: &dyn Controller) {
    let mut informers: Vec<Informer> = controller
        .sources()
        .iter()
        .map(|(group, plural)| Informer::new(cluster.resource(group, plural)))
        .collect();
    let mut queue: BTreeSet<Key> = BTreeSet::new();
    let mut timers = Timers::default();
    let mut failures: BTreeMap<Key, u32> = BTreeMap::new();
    let mut paused = Timers::default();
    loop {
        let mut busy = false;
        for (source, informer) in informers.iter_mut().enumerate() {
            for change in informer.poll() {
                busy = true;
                queue.extend(controller.keys_of_change(cluster, source, &change));
            }
        }
        busy |= relist_if_missed(&mut informers);
        let now = Instant::now();
        queue.extend(timers.take_due(now));
        paused.take_due(now);
        for key in std::mem::take(&mut queue) {
            if let Some(until) = paused.get(&key) {
                timers.set(key, until);
                continue;
            }
            timers.forget(&key);
            let start = Instant::now();
            let wait = match controller.reconcile(cluster, &key) {
                Ok(wait) => {
                    failures.remove(&key);
                    wait
                }
                Err(failure) => {
                    let count = failures.entry(key.clone()).or_default();
                    *count += 1;
                    tracing::debug!(name = %key.1, namespace = %key.0, message = %failure.message, "reconcile failed, retrying");
                    Some(RETRY_DELAY_MIN.saturating_mul(1 << (*count).min(10)).min(RETRY_DELAY_MAX))
                }
            };
            let end = Instant::now();
            // A reconcile that has more to do at once is not paused.
            let busy = wait == Some(Duration::ZERO);
            let pause = (end.duration_since(start) * PAUSE_FACTOR).min(PAUSE_MAX);
            let pause = if busy { Duration::ZERO } else { pause };
            if pause > PAUSE_MIN {
                paused.set(key.clone(), end + pause);
            }
            if let Some(wait) = wait {
                timers.set(key, end + wait.max(pause));
            }
            tokio::task::yield_now().await;
        }
        if busy {
            tokio::task::yield_now().await;
            continue;
        }
        let next = timers.next();
        tokio::select! {
            () = any_changed(&mut informers) => {}
            () = sleep_until(next.unwrap_or(now + RETRY_DELAY_MAX)), if next.is_some() => {}
        }
    }
}

/// Returns the key of the changed object itself.
pub(super) fn own_key(change: &Change) -> Key {
    (change.object.namespace.to_string(), change.object.name.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{DeleteOptions, WriteOptions};
    use crate::testing::{cluster, pod};

    #[test]
    fn an_informer_that_missed_changes_makes_all_relist() {
        let cluster = cluster();
        let (pods, nodes) = (cluster.resource("", "pods"), cluster.resource("", "nodes"));
        let mut informers = [Informer::new(Arc::clone(&pods)), Informer::new(nodes)];
        for one in &mut informers {
            one.poll();
        }
        assert!(!relist_if_missed(&mut informers));
        pods.objects.limit_watch_cache(1);
        for name in ["a", "b"] {
            cluster.create(&pods, "default", pod(name), &WriteOptions::default()).unwrap();
        }
        cluster.delete(&pods, "default", "a", &DeleteOptions::default()).unwrap();
        cluster.create(&pods, "default", pod("c"), &WriteOptions::default()).unwrap();
        let seen = informers[0].poll();
        let names: Vec<&str> = seen.iter().map(|change| &*change.object.name).collect();
        assert_eq!(names, ["b", "c"]);
        assert!(relist_if_missed(&mut informers));
        assert!(informers.iter().all(|one| one.relist));
        assert!(!relist_if_missed(&mut informers));
    }
}
