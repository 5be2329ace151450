//! Conditions and nominations of pods: why a pod is not scheduled, and its nominated node.
//!
//! Updates of one pod are coalesced, and updates without effect are skipped, since the watch shows the
//! present status. Callers of the writer never wait for the API server.
//!
//! A patch requires the resourceVersion for which it was made. Binding a pod changes that, so a late
//! patch has no effect on a bound pod.

mod patch;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use api::lower::Source;
use engine::command::PodRef;
use engine::object::{Text, Uid};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use hashbrown::HashMap;
use serde::Deserialize;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::gate::Gate;
use patch::send_patch;

/// Capacity of the channel to the writer, which empties it at once.
const UPDATES_QUEUED_MAX: usize = 4096;

/// Maximum number of pods with a pending update. Further updates are dropped; the next attempt of the pod
/// repeats them.
const PENDING_PODS_MAX: usize = 200_000;

/// Maximum number of patches in flight.
const WRITES_IN_FLIGHT_MAX: usize = 16;

/// Maximum number of pods whose status is remembered. Above it all are forgotten, which costs a patch
/// without effect per pod.
const KNOWN_PODS_MAX: usize = 200_000;

/// Maximum number of requests per patch.
const ATTEMPTS_MAX: u32 = 4;

/// Delay before the second request of a patch; it quadruples with each further one.
const RETRY_DELAY_INITIAL: Duration = Duration::from_millis(200);

/// Longest delay; a patch that the server delays more is given up.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(30);

/// A message to the status writer.
#[derive(Clone, Debug)]
pub enum StatusUpdate {
    /// Writes the status of a pod.
    Write {
        /// The pod at its attempt.
        pod: PodRef,
        /// Reason and message of the condition `PodScheduled: False`; `None` leaves it as it is.
        failure: Option<(&'static str, String)>,
        /// The nominated node; empty removes it, `None` leaves it as it is.
        nominate: Option<Text>,
    },
    /// Records the status that the watch shows.
    Observed {
        /// Uid of the pod.
        uid: Uid,
        /// Its status.
        status: KnownStatus,
    },
    /// Drops the updates of a pod that is bound or gone.
    Forget(Uid),
}

impl StatusUpdate {
    /// Reads the status of a pending pod. Returns `None` if the pod has no condition `PodScheduled: False`.
    pub fn observed<'a>(pod: impl Into<Source<'a>>) -> Option<Self> {
        let pod = pod.into();
        // New pods have no conditions.
        if !pod.has_conditions() {
            return None;
        }
        let PendingPod { status } = pod.read().ok()?;
        let mut conditions = status.conditions.into_iter();
        let unscheduled = conditions
            .find(|condition| condition.kind == "PodScheduled" && condition.status == "False")?;
        let identity = pod.identity();
        let status = KnownStatus {
            version: identity.version.parse().ok()?,
            failure: Some((unscheduled.reason.into_owned(), unscheduled.message.into_owned())),
            nominated: Some(status.nominated_node_name.into()),
        };
        Some(Self::Observed { uid: identity.uid.into(), status })
    }
}

/// The fields of a pending pod that are read.
#[derive(Default, Deserialize)]
#[serde(default)]
struct PendingPod<'a> {
    #[serde(borrow)]
    status: PendingPodStatus<'a>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PendingPodStatus<'a> {
    #[serde(borrow)]
    conditions: Vec<PodCondition<'a>>,
    #[serde(borrow)]
    nominated_node_name: Cow<'a, str>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodCondition<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    status: Cow<'a, str>,
    #[serde(borrow)]
    reason: Cow<'a, str>,
    #[serde(borrow)]
    message: Cow<'a, str>,
}

/// Queues updates for a task that writes them. Clones share the queue.
#[derive(Clone)]
pub struct StatusWriter(mpsc::Sender<StatusUpdate>);

impl StatusWriter {
    /// Starts the task that writes updates, as the gate permits.
    pub fn start(client: kube::Client, gate: impl Into<Gate>) -> Self {
        let (sender, receiver) = mpsc::channel(UPDATES_QUEUED_MAX);
        tokio::spawn(PatchQueue::new(client, gate.into()).run(receiver));
        Self(sender)
    }

    /// Queues an update.
    pub async fn enqueue(&self, update: StatusUpdate) {
        let _ = self.0.send(update).await;
    }
}

/// Status of a pod as far as it is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KnownStatus {
    /// `metadata.resourceVersion` of the pod with this status.
    version: u64,
    /// Reason and message of `PodScheduled: False`.
    failure: Option<(String, String)>,
    /// The nominated node, empty if there is none; `None` if unknown.
    nominated: Option<Text>,
}

/// The task behind a [`StatusWriter`].
struct PatchQueue {
    client: kube::Client,
    gate: Gate,
    known: HashMap<Uid, KnownStatus>,
    /// Coalesced update of each pod.
    pending: HashMap<Uid, PendingPatch>,
    /// Order of `pending`; may hold pods whose update was dropped.
    order: VecDeque<Uid>,
    /// Patches in flight, with tokens that cancel their retries.
    writing: HashMap<Uid, CancellationToken>,
}

/// The coalesced updates of one pod; fields as in [`StatusUpdate::Write`].
#[derive(Clone, Debug)]
struct PendingPatch {
    pod: PodRef,
    failure: Option<(&'static str, String)>,
    nominate: Option<Text>,
}

impl PatchQueue {
    fn new(client: kube::Client, gate: Gate) -> Self {
        Self {
            client,
            gate,
            known: HashMap::new(),
            pending: HashMap::new(),
            order: VecDeque::new(),
            writing: HashMap::new(),
        }
    }

    async fn run(mut self, mut updates: mpsc::Receiver<StatusUpdate>) {
        let mut in_flight = FuturesUnordered::new();
        loop {
            while in_flight.len() < WRITES_IN_FLIGHT_MAX
                && let Some((patch, cancelled)) = self.next()
            {
                let (client, gate) = (self.client.clone(), self.gate.clone());
                let is_transition = self.is_transition(&patch);
                in_flight.push(send_patch(client, gate, patch, is_transition, cancelled));
            }
            tokio::select! {
                update = updates.recv() => match update {
                    Some(update) => self.handle(update),
                    None => return,
                },
                Some((patch, version)) = in_flight.next(), if !in_flight.is_empty() => {
                    let cancelled = self.writing.remove(&patch.pod.uid);
                    if !cancelled.is_some_and(|cancelled| cancelled.is_cancelled())
                        && let Some(version) = version
                    {
                        self.remember(patch, version);
                    }
                }
            }
        }
    }

    fn handle(&mut self, update: StatusUpdate) {
        match update {
            StatusUpdate::Forget(uid) => {
                self.known.remove(&uid);
                self.pending.remove(&uid);
                if let Some(cancelled) = self.writing.get(&uid) {
                    cancelled.cancel();
                }
                if self.order.len() > 2 * self.pending.len() + WRITES_IN_FLIGHT_MAX {
                    self.order.retain(|uid| self.pending.contains_key(uid));
                }
            }
            StatusUpdate::Observed { uid, status } => self.observe(uid, status),
            StatusUpdate::Write { pod, failure, nominate } => {
                let uid = pod.uid.clone();
                let patch = PendingPatch { pod, failure, nominate };
                if let Some(waiting) = self.pending.get_mut(&uid) {
                    let earlier = std::mem::replace(waiting, patch);
                    waiting.failure = waiting.failure.take().or(earlier.failure);
                    waiting.nominate = waiting.nominate.take().or(earlier.nominate);
                } else if self.pending.len() < PENDING_PODS_MAX {
                    self.pending.insert(uid.clone(), patch);
                    self.order.push_back(uid);
                }
            }
        }
    }

    /// Returns the next patch that has an effect, of a pod without a patch in flight.
    fn next(&mut self) -> Option<(PendingPatch, CancellationToken)> {
        for _ in 0..self.order.len() {
            let uid = self.order.pop_front()?;
            if self.writing.contains_key(&uid) {
                self.order.push_back(uid);
                continue;
            }
            let Some(mut patch) = self.pending.remove(&uid) else { continue };
            if let Some(written) = self.known.get(&uid) {
                let version = &mut patch.pod.resource_version;
                *version = (*version).max(written.version);
                patch.failure = patch.failure.filter(|new| !written.has_failure(new));
                patch.nominate =
                    patch.nominate.filter(|new| written.nominated.as_ref() != Some(new));
            }
            if patch.failure.is_some() || patch.nominate.is_some() {
                let cancelled = CancellationToken::new();
                self.writing.insert(uid, cancelled.clone());
                return Some((patch, cancelled));
            }
        }
        None
    }

    /// Returns `true` if a patch turns the condition to `False`, which changes its transition time.
    fn is_transition(&self, patch: &PendingPatch) -> bool {
        let known = self.known.get(&patch.pod.uid);
        known.is_none_or(|known| known.failure.is_none())
    }

    /// Records the status that a patch has written.
    fn remember(&mut self, patch: PendingPatch, version: u64) {
        self.forget_all_if_full();
        let written = self.known.entry(patch.pod.uid).or_default();
        let failure = patch.failure.map(|(reason, message)| (reason.to_owned(), message));
        written.version = version;
        written.failure = failure.or(written.failure.take());
        written.nominated = patch.nominate.or(written.nominated.take());
    }

    /// Records a status that the watch shows, unless a newer one was written.
    fn observe(&mut self, uid: Uid, status: KnownStatus) {
        let known = self.known.get(&uid).map_or(0, |written| written.version);
        if status.version > known && !self.writing.contains_key(&uid) {
            self.forget_all_if_full();
            self.known.insert(uid, status);
        }
    }

    fn forget_all_if_full(&mut self) {
        if self.known.len() >= KNOWN_PODS_MAX {
            self.known.clear();
        }
    }
}

impl KnownStatus {
    fn has_failure(&self, (reason, message): &(&'static str, String)) -> bool {
        self.failure.as_ref().is_some_and(|known| known.0 == *reason && known.1 == *message)
    }
}
