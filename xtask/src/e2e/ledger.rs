//! Counts overcommitted nodes and moved pods at every revision of the pods that a watch delivers.
//!
//! ```text
//! watch of pods, watch of the lease ─▶ book: requests per node, binds, holders ─▶ overcommits, moves
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

use super::placements::Amounts;
use super::scene::{Scene, text};
use super::watch;

/// How soon a broken watch is begun again.
const RESUME: Duration = Duration::from_millis(20);

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const LEASE: &str = "fieldSelector=metadata.name%3Dkube-scheduler";

/// Follows pods and the lease of schedulers until it is dropped.
pub(crate) struct Ledger {
    book: Arc<Mutex<Book>>,
    /// Ends the watches when it is dropped.
    _runtime: tokio::runtime::Runtime,
}

/// A pod that was seen on a node for the first time.
#[derive(Clone, Debug)]
pub(crate) struct Bind {
    pub(crate) pod: String,
    pub(crate) node: String,
    pub(crate) revision: u64,
}

/// The lease changed hands; without a holder it was given back.
#[derive(Clone, Debug)]
pub(crate) struct Hold {
    pub(crate) holder: String,
    pub(crate) revision: u64,
    pub(crate) seen: Instant,
}

/// All that was seen.
#[derive(Default)]
pub(crate) struct Book {
    rooms: BTreeMap<String, Amounts>,
    used: BTreeMap<String, Amounts>,
    /// Nodes whose pods ask for more than there is, so that each time is counted once.
    over: BTreeSet<String>,
    pods: BTreeMap<String, Pod>,
    pub(crate) binds: Vec<Bind>,
    pub(crate) holds: Vec<Hold>,
    /// Every time a node came to hold more than it has.
    pub(crate) overcommits: Vec<String>,
    /// Every time a pod changed its node.
    pub(crate) moves: Vec<String>,
    /// Versions of pods that were seen.
    pub(crate) versions: u64,
    /// Times that a list stands for versions that were not seen.
    pub(crate) gaps: u64,
}

struct Pod {
    name: String,
    node: String,
    asks: Amounts,
}

impl Ledger {
    /// Follows the pods of the namespace on the nodes that there are now.
    pub(crate) fn start(scene: &Scene) -> Result<Self> {
        let (runtime, client) = watch::client(scene)?;
        let mut book = Book::default();
        for node in scene.list("nodes")? {
            book.rooms.insert(text(&node, "/metadata/name").to_owned(), Amounts::of_node(&node)?);
        }
        let book = Arc::new(Mutex::new(book));
        let pods = format!("/api/v1/namespaces/{}/pods?", scene.namespace);
        let leases = format!("{LEASES}?{LEASE}&");
        for (path, take) in [(pods, Book::pod as Take), (leases, Book::lease as Take)] {
            let version = runtime.block_on(list(&client, &path, &book, take))?;
            runtime.spawn(follow(client.clone(), path, version, Arc::clone(&book), take));
        }
        Ok(Self { book, _runtime: runtime })
    }

    /// What was seen up to now.
    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        lock(&self.book)
    }

    /// Fails with everything that must not happen.
    pub(crate) fn check(&self) -> Result<()> {
        let book = self.book();
        let wrong: Vec<_> =
            book.overcommits.iter().chain(&book.moves).map(String::as_str).collect();
        if wrong.is_empty() { Ok(()) } else { bail!("{}", wrong.join("\n")) }
    }
}

impl Book {
    /// How many pods there are, and how many of them are on a node.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let bound = self.pods.values().filter(|pod| !pod.node.is_empty()).count();
        (self.pods.len(), bound)
    }

    /// Names of all pods that are on a node.
    pub(crate) fn bound(&self) -> Vec<String> {
        let bound = self.pods.values().filter(|pod| !pod.node.is_empty());
        bound.map(|pod| pod.name.clone()).collect()
    }

    /// The holder of the lease; empty when it is free.
    pub(crate) fn holder(&self) -> String {
        self.holds.last().map(|hold| hold.holder.clone()).unwrap_or_default()
    }

    /// Takes in a version of a pod, or its end.
    fn pod(&mut self, gone: bool, pod: &Value) -> Result<()> {
        self.versions += 1;
        let revision = revision(pod)?;
        let uid = text(pod, "/metadata/uid").to_owned();
        let idle = gone || matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
        let now = Pod {
            name: text(pod, "/metadata/name").to_owned(),
            node: text(pod, "/spec/nodeName").to_owned(),
            asks: if idle { Amounts::default() } else { Amounts::of_pod(pod)? },
        };
        let before = self.pods.remove(&uid);
        let same = |before: &Pod| (&before.node, before.asks) == (&now.node, now.asks);
        if !before.as_ref().is_some_and(same) {
            if let Some(Pod { node, asks, .. }) = &before {
                self.change(node, revision, |used| used.minus(*asks));
            }
            self.change(&now.node, revision, |used| used.plus(now.asks));
        }
        let place = before.map(|before| before.node).unwrap_or_default();
        if place.is_empty() && !now.node.is_empty() {
            let Pod { name, node, .. } = &now;
            let (pod, node) = (name.clone(), node.clone());
            self.binds.push(Bind { pod, node, revision });
        } else if place != now.node {
            let (name, node) = (&now.name, &now.node);
            self.moves.push(format!("{name} went from {place:?} to {node:?} at {revision}"));
        }
        if !gone {
            self.pods.insert(uid, now);
        }
        Ok(())
    }

    /// Takes in a version of the lease.
    fn lease(&mut self, gone: bool, lease: &Value) -> Result<()> {
        let holder = if gone { "" } else { text(lease, "/spec/holderIdentity") };
        if self.holder() != holder {
            let (holder, revision) = (holder.to_owned(), revision(lease)?);
            self.holds.push(Hold { holder, revision, seen: Instant::now() });
        }
        Ok(())
    }

    fn change(&mut self, node: &str, revision: u64, to: impl Fn(Amounts) -> Amounts) {
        if node.is_empty() {
            return;
        }
        let used = self.used.entry(node.to_owned()).or_default();
        *used = to(*used);
        let room = self.rooms.get(node).copied().unwrap_or_default();
        if used.fit(room) {
            self.over.remove(node);
        } else if self.over.insert(node.to_owned()) {
            self.overcommits.push(format!(
                "at revision {revision} the pods of {node} ask for {used:?} and it has {room:?}"
            ));
        }
    }

    /// Drops what a list no longer has.
    fn keep(&mut self, listed: &[Value], revision: u64) {
        let there: BTreeSet<_> = listed.iter().map(|pod| text(pod, "/metadata/uid")).collect();
        let gone: Vec<_> =
            self.pods.keys().filter(|uid| !there.contains(uid.as_str())).cloned().collect();
        for uid in gone {
            if let Some(pod) = self.pods.remove(&uid) {
                self.change(&pod.node, revision, |used| used.minus(pod.asks));
            }
        }
    }
}

/// Takes in one object, which may be gone.
type Take = fn(&mut Book, bool, &Value) -> Result<()>;

/// Lists all, and returns the version of the list.
async fn list(client: &kube::Client, path: &str, book: &Mutex<Book>, take: Take) -> Result<String> {
    let list = watch::list(client, path.trim_end_matches(['?', '&'])).await?;
    let items = list["items"].as_array().context("a list without items")?;
    let mut book = lock(book);
    if path.starts_with("/api/v1/") {
        book.keep(items, revision(&list)?);
    }
    for item in items {
        take(&mut book, false, item)?;
    }
    Ok(text(&list, "/metadata/resourceVersion").to_owned())
}

/// Watches on from the last version that was seen, as long as the API server still has it.
async fn follow(
    client: kube::Client,
    path: String,
    mut version: String,
    book: Arc<Mutex<Book>>,
    take: Take,
) {
    loop {
        let query = format!("{path}watch=true&allowWatchBookmarks=true&resourceVersion={version}");
        let ended = watch::stream(&client, &query, |event| {
            let object = &event["object"];
            let taken = match text(&event, "/type") {
                "BOOKMARK" => Ok(()),
                kind => take(&mut lock(&book), kind == "DELETED", object),
            };
            if let Err(error) = taken {
                lock(&book).moves.push(format!("cannot judge {object}: {error:#}"));
            }
            text(object, "/metadata/resourceVersion").clone_into(&mut version);
        });
        let expired = match ended.await {
            Ok(()) => false,
            Err(error) => {
                let told = format!("{error:#}");
                told.contains("410") || told.contains("Expired")
            }
        };
        if expired {
            version = list_until_it_comes(&client, &path, &book, take).await;
            lock(&book).gaps += 1;
        }
        sleep(RESUME).await;
    }
}

async fn list_until_it_comes(
    client: &kube::Client,
    path: &str,
    book: &Mutex<Book>,
    take: Take,
) -> String {
    loop {
        if let Ok(version) = list(client, path, book, take).await {
            return version;
        }
        sleep(RESUME).await;
    }
}

fn revision(object: &Value) -> Result<u64> {
    let version = text(object, "/metadata/resourceVersion");
    version.parse().with_context(|| format!("resourceVersion {version:?} is no number"))
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn book() -> Book {
        let room = json!({"status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "9"}}});
        let mut book = Book::default();
        book.rooms.insert("one".into(), Amounts::of_node(&room).unwrap());
        book
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
        let mut book = book();
        book.pod(false, &pod("a", 1, "one")).unwrap();
        book.pod(false, &pod("b", 2, "")).unwrap();
        assert!(book.overcommits.is_empty());
        book.pod(false, &pod("b", 3, "one")).unwrap();
        book.pod(false, &pod("b", 4, "one")).unwrap();
        book.pod(true, &pod("b", 5, "one")).unwrap();
        assert_eq!(book.overcommits.len(), 1, "{:?}", book.overcommits);
        assert!(book.overcommits[0].contains("at revision 3"));
        assert_eq!((book.binds.len(), book.counts()), (2, (1, 1)));
        assert!(book.moves.is_empty());
    }

    #[test]
    fn room_is_free_again_at_the_revision_of_the_deletion() {
        let mut book = book();
        book.pod(false, &pod("a", 1, "one")).unwrap();
        book.pod(true, &pod("a", 2, "one")).unwrap();
        book.pod(false, &pod("b", 3, "one")).unwrap();
        assert!(book.overcommits.is_empty());
        book.keep(&[], 4);
        book.pod(false, &pod("c", 5, "one")).unwrap();
        assert!(book.overcommits.is_empty());
    }

    #[test]
    fn a_pod_that_changes_its_node_is_told() {
        let mut book = book();
        book.pod(false, &pod("a", 1, "one")).unwrap();
        book.pod(false, &pod("a", 2, "two")).unwrap();
        assert_eq!(book.moves.len(), 1);
        assert!(book.overcommits[0].contains("two"), "a node that does not exist has no room");
    }

    #[test]
    fn the_lease_is_told_when_it_changes_hands() {
        let mut book = book();
        for (revision, holder) in [(1, "a"), (2, "a"), (3, ""), (4, "b")] {
            let version = revision.to_string();
            let lease = json!({
                "metadata": {"resourceVersion": version}, "spec": {"holderIdentity": holder},
            });
            book.lease(false, &lease).unwrap();
        }
        let holds: Vec<_> = book.holds.iter().map(|h| (h.revision, h.holder.as_str())).collect();
        assert_eq!(holds, [(1, "a"), (3, ""), (4, "b")]);
    }
}
