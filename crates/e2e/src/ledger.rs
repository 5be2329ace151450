//! Counts overcommitted nodes and moved pods at every revision of the pods that a watch delivers.
//!
//! ```text
//! watch of pods, watch of the lease ─▶ state: requests per node, binds, holders ─▶ overcommits, moves
//! ```
//!
//! The order of revisions is the order in which etcd committed them, so the sum of a node is exact at
//! each one. A watch that breaks is resumed at the last revision seen. If the API server no longer
//! has that one, the list that follows is compared instead and counted as a gap.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use tokio::time::sleep;

use crate::bare::CAPACITY_PODS;
use crate::placements::ResourceAmounts;
use crate::proxy::{WriteRecord, bind_answers, double_binds};
use crate::test_env::{TestEnv, text};
use crate::watch;

/// Delay before a broken watch is requested again.
const RESUME_DELAY: Duration = Duration::from_millis(20);

const LEASES_PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const LEASE_SELECTOR: &str = "fieldSelector=metadata.name%3Dkube-scheduler";

/// Records pods and the lease of the schedulers until it is dropped.
pub(crate) struct Ledger {
    state: Arc<Mutex<LedgerState>>,
    /// Ends the watches when it is dropped.
    _runtime: tokio::runtime::Runtime,
}

/// A pod that was seen on a node for the first time.
#[derive(Clone, Debug)]
pub(crate) struct BindRecord {
    pub(crate) pod: String,
    pub(crate) node: String,
    pub(crate) revision: u64,
}

/// A change of the holder of the lease; an empty holder means a release.
#[derive(Clone, Debug)]
pub(crate) struct LeaseChange {
    pub(crate) holder: String,
    pub(crate) revision: u64,
    pub(crate) seen: Instant,
}

/// Everything that the watches delivered.
#[derive(Default)]
pub(crate) struct LedgerState {
    allocatable: BTreeMap<String, ResourceAmounts>,
    requested: BTreeMap<String, ResourceAmounts>,
    /// Nodes that are overcommitted now, so that each overcommit is counted once.
    overcommitted_nodes: BTreeSet<String>,
    pods: BTreeMap<String, PodEntry>,
    pub(crate) binds: Vec<BindRecord>,
    pub(crate) lease_changes: Vec<LeaseChange>,
    /// Every transition of a node to overcommitted.
    pub(crate) overcommits: Vec<String>,
    /// Every change of a pod's node.
    pub(crate) moves: Vec<String>,
    /// Number of versions of pods.
    pub(crate) versions: u64,
    /// Number of relists, which may hide versions.
    pub(crate) gaps: u64,
}

struct PodEntry {
    name: String,
    node: String,
    requests: ResourceAmounts,
}

impl Ledger {
    /// Starts to record the pods of the namespace on the nodes of now.
    pub(crate) fn start(env: &TestEnv) -> Result<Self> {
        let (runtime, client) = watch::client(env)?;
        let mut state = LedgerState::default();
        for node in env.list("nodes")? {
            state
                .allocatable
                .insert(text(&node, "/metadata/name").to_owned(), ResourceAmounts::of_node(&node)?);
        }
        let state = Arc::new(Mutex::new(state));
        let pods = format!("/api/v1/namespaces/{}/pods?", env.namespace);
        let leases = format!("{LEASES_PATH}?{LEASE_SELECTOR}&");
        for (path, record) in
            [(pods, LedgerState::pod as RecordFn), (leases, LedgerState::lease as RecordFn)]
        {
            let version = runtime.block_on(list(&client, &path, &state, record))?;
            runtime.spawn(follow(client.clone(), path, version, Arc::clone(&state), record));
        }
        Ok(Self { state, _runtime: runtime })
    }

    /// Returns everything recorded until now.
    pub(crate) fn state(&self) -> MutexGuard<'_, LedgerState> {
        lock(&self.state)
    }

    /// Fails with all overcommits and moved pods.
    pub(crate) fn check(&self) -> Result<()> {
        let state = self.state();
        let wrong: Vec<_> =
            state.overcommits.iter().chain(&state.moves).map(String::as_str).collect();
        if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
    }
}

impl LedgerState {
    /// Returns the number of pods and of bound pods.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let bound = self.pods.values().filter(|pod| !pod.node.is_empty()).count();
        (self.pods.len(), bound)
    }

    /// Returns the totals of a scenario as text, with the writes that the proxy forwarded.
    pub(crate) fn totals(&self, pods_created: usize, writes: &[WriteRecord]) -> String {
        format!(
            "{pods_created} pods, {} binds (requests answered: {}), {} versions seen ({} gaps); {} of \
             {CAPACITY_PODS} places taken at the end; overcommits {}, moved pods {}, double binds {}",
            self.binds.len(),
            bind_answers(writes),
            self.versions,
            self.gaps,
            self.counts().1,
            self.overcommits.len(),
            self.moves.len(),
            double_binds(writes).len(),
        )
    }

    /// Returns the names of all bound pods.
    pub(crate) fn bound(&self) -> Vec<String> {
        let bound = self.pods.values().filter(|pod| !pod.node.is_empty());
        bound.map(|pod| pod.name.clone()).collect()
    }

    /// Returns the holder of the lease, empty if it is free.
    pub(crate) fn holder(&self) -> String {
        self.lease_changes.last().map(|hold| hold.holder.clone()).unwrap_or_default()
    }

    /// Records a version of a pod, or its deletion.
    fn pod(&mut self, gone: bool, pod: &Value) -> Result<()> {
        self.versions += 1;
        let revision = revision(pod)?;
        let uid = text(pod, "/metadata/uid").to_owned();
        let idle = gone || matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        let now = PodEntry {
            name: text(pod, "/metadata/name").to_owned(),
            node: text(pod, "/spec/nodeName").to_owned(),
            requests: if idle { ResourceAmounts::default() } else { ResourceAmounts::of_pod(pod)? },
        };
        let before = self.pods.remove(&uid);
        let same = |before: &PodEntry| (&before.node, before.requests) == (&now.node, now.requests);
        if !before.as_ref().is_some_and(same) {
            if let Some(PodEntry { node, requests, .. }) = &before {
                self.change(node, revision, |requested| requested.minus(*requests));
            }
            self.change(&now.node, revision, |requested| requested.plus(now.requests));
        }
        let place = before.map(|before| before.node).unwrap_or_default();
        if place.is_empty() && !now.node.is_empty() {
            let PodEntry { name, node, .. } = &now;
            let (pod, node) = (name.clone(), node.clone());
            self.binds.push(BindRecord { pod, node, revision });
        } else if place != now.node {
            let (name, node) = (&now.name, &now.node);
            self.moves.push(format!("{name} went from {place:?} to {node:?} at {revision}"));
        }
        if !gone {
            self.pods.insert(uid, now);
        }
        Ok(())
    }

    /// Records a version of the lease.
    fn lease(&mut self, gone: bool, lease: &Value) -> Result<()> {
        let holder = if gone { "" } else { text(lease, "/spec/holderIdentity") };
        if self.holder() != holder {
            let (holder, revision) = (holder.to_owned(), revision(lease)?);
            self.lease_changes.push(LeaseChange { holder, revision, seen: Instant::now() });
        }
        Ok(())
    }

    fn change(
        &mut self,
        node: &str,
        revision: u64,
        to: impl Fn(ResourceAmounts) -> ResourceAmounts,
    ) {
        if node.is_empty() {
            return;
        }
        let requested = self.requested.entry(node.to_owned()).or_default();
        *requested = to(*requested);
        let room = self.allocatable.get(node).copied().unwrap_or_default();
        if requested.fit(room) {
            self.overcommitted_nodes.remove(node);
        } else if self.overcommitted_nodes.insert(node.to_owned()) {
            self.overcommits.push(format!(
                "at revision {revision} the pods of {node} ask for {requested:?} and it has {room:?}"
            ));
        }
    }

    /// Removes pods that a list no longer contains.
    fn remove_unlisted(&mut self, listed: &[Value], revision: u64) {
        let there: BTreeSet<_> = listed.iter().map(|pod| text(pod, "/metadata/uid")).collect();
        let gone: Vec<_> =
            self.pods.keys().filter(|uid| !there.contains(uid.as_str())).cloned().collect();
        for uid in gone {
            if let Some(pod) = self.pods.remove(&uid) {
                self.change(&pod.node, revision, |requested| requested.minus(pod.requests));
            }
        }
    }
}

/// Records one object of a watch; `gone` marks a deletion.
type RecordFn = fn(&mut LedgerState, bool, &Value) -> Result<()>;

/// Lists all objects and returns the resource version of the list.
async fn list(
    client: &kube::Client,
    path: &str,
    state: &Mutex<LedgerState>,
    record: RecordFn,
) -> Result<String> {
    let list = watch::list(client, path.trim_end_matches(['?', '&'])).await?;
    let items = list["items"].as_array().context("a list without items")?;
    let mut state = lock(state);
    if path.starts_with("/api/v1/") {
        state.remove_unlisted(items, revision(&list)?);
    }
    for item in items {
        record(&mut state, false, item)?;
    }
    Ok(text(&list, "/metadata/resourceVersion").to_owned())
}

/// Watches from the last version seen, and relists if the API server no longer has it.
async fn follow(
    client: kube::Client,
    path: String,
    mut version: String,
    state: Arc<Mutex<LedgerState>>,
    record: RecordFn,
) {
    loop {
        let query = format!("{path}watch=true&allowWatchBookmarks=true&resourceVersion={version}");
        let ended = watch::stream(&client, &query, |event| {
            let object = &event["object"];
            let taken = match text(&event, "/type") {
                "BOOKMARK" => Ok(()),
                kind => record(&mut lock(&state), kind == "DELETED", object),
            };
            if let Err(error) = taken {
                lock(&state).moves.push(format!("cannot judge {object}: {error:#}"));
            }
            text(object, "/metadata/resourceVersion").clone_into(&mut version);
        });
        let expired = match ended.await {
            Ok(()) => false,
            Err(error) => {
                let text = format!("{error:#}");
                text.contains("410") || text.contains("Expired")
            }
        };
        if expired {
            version = list_with_retries(&client, &path, &state, record).await;
            lock(&state).gaps += 1;
        }
        sleep(RESUME_DELAY).await;
    }
}

async fn list_with_retries(
    client: &kube::Client,
    path: &str,
    state: &Mutex<LedgerState>,
    record: RecordFn,
) -> String {
    loop {
        if let Ok(version) = list(client, path, state, record).await {
            return version;
        }
        sleep(RESUME_DELAY).await;
    }
}

fn revision(object: &Value) -> Result<u64> {
    let version = text(object, "/metadata/resourceVersion");
    version.parse().with_context(|| format!("resourceVersion {version:?} is no number"))
}

fn lock(state: &Mutex<LedgerState>) -> MutexGuard<'_, LedgerState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn state() -> LedgerState {
        let room = json!({"status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}});
        let mut state = LedgerState::default();
        state.allocatable.insert("one".into(), ResourceAmounts::of_node(&room).unwrap());
        state
    }

    fn pod(name: &str, revision: u64, node: &str) -> Value {
        json!({
            "metadata": {"name": name, "uid": name, "resourceVersion": revision.to_string()},
            "spec": {
                "nodeName": node,
                "containers": [{"resources": {"requests": {"cpu": "600m"}}}],
            },
        })
    }

    #[test]
    fn a_node_that_was_too_full_between_two_revisions_is_counted_once() {
        let mut state = state();
        state.pod(false, &pod("a", 1, "one")).unwrap();
        state.pod(false, &pod("b", 2, "")).unwrap();
        assert!(state.overcommits.is_empty());
        state.pod(false, &pod("b", 3, "one")).unwrap();
        state.pod(false, &pod("b", 4, "one")).unwrap();
        state.pod(true, &pod("b", 5, "one")).unwrap();
        assert_eq!(state.overcommits.len(), 1, "{:?}", state.overcommits);
        assert!(state.overcommits[0].contains("at revision 3"));
        assert_eq!((state.binds.len(), state.counts()), (2, (1, 1)));
        assert!(state.moves.is_empty());
    }

    #[test]
    fn room_is_free_again_at_the_revision_of_the_deletion() {
        let mut state = state();
        state.pod(false, &pod("a", 1, "one")).unwrap();
        state.pod(true, &pod("a", 2, "one")).unwrap();
        state.pod(false, &pod("b", 3, "one")).unwrap();
        assert!(state.overcommits.is_empty());
        state.remove_unlisted(&[], 4);
        state.pod(false, &pod("c", 5, "one")).unwrap();
        assert!(state.overcommits.is_empty());
    }

    #[test]
    fn a_pod_that_changes_its_node_is_told() {
        let mut state = state();
        state.pod(false, &pod("a", 1, "one")).unwrap();
        state.pod(false, &pod("a", 2, "two")).unwrap();
        assert_eq!(state.moves.len(), 1);
        assert!(state.overcommits[0].contains("two"), "a node that does not exist has no room");
    }

    #[test]
    fn the_lease_is_told_when_it_changes_hands() {
        let mut state = state();
        for (revision, holder) in [(1, "a"), (2, "a"), (3, ""), (4, "b")] {
            let version = revision.to_string();
            let lease = json!({
                "metadata": {"resourceVersion": version}, "spec": {"holderIdentity": holder},
            });
            state.lease(false, &lease).unwrap();
        }
        let lease_changes: Vec<_> =
            state.lease_changes.iter().map(|h| (h.revision, h.holder.as_str())).collect();
        assert_eq!(lease_changes, [(1, "a"), (3, ""), (4, "b")]);
    }
}
