//! Simulated kubelets: they admit, start, restart and stop the pods that are bound to their nodes.
//!
//! Annotations of a pod change how it runs: [`life::STARTS_AFTER`], [`life::RUNS_FOR`],
//! [`life::EXIT_CODE`] and [`life::STOPS_AFTER`]. The lifecycle of a pod is in [`life`]. The kubelet sets
//! the steps that follow from each version of a pod. When a step is due, it reads the pod again and takes
//! the step only if the pod is still in a stage that allows it.

mod agenda;
mod life;
mod requested;
mod status;

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use self::agenda::{Agenda, Task};
pub(super) use self::life::duration;
use self::life::{ScaledClock, Stage, Step};
use self::requested::Requested;
use super::Settings;
use super::controller::Informer;
use super::outage;
use super::recorder::EventRecorder;
use crate::cluster::{Cluster, DeleteOptions, Part, WriteOptions, seconds};
use crate::json::{at, int, list, text};
use crate::kinds::Resource;
use crate::status_error::ApiResult;
use crate::store::{Change, ChangeKind, Object};

/// Number of changes handled, or steps taken, before the task yields.
const BATCH_SIZE: usize = 64;
/// Delay before a step whose write failed is retried.
const RETRY_DELAY: Duration = Duration::from_secs(1);

static RECORDER: EventRecorder = EventRecorder::new("kubelet");

struct Kubelet {
    cluster: Arc<Cluster>,
    pods: Arc<Resource>,
    nodes: Arc<Resource>,
    settings: Settings,
    addresses: AtomicU32,
    agenda: Agenda,
    /// Resources and ports of admitted pods, derived from the objects and rebuilt after missed changes.
    requested: Requested,
    /// Names of the nodes that fail.
    failed_nodes: BTreeSet<Box<str>>,
}

/// Runs the kubelets of all nodes.
pub(super) async fn run(cluster: &Arc<Cluster>, settings: Settings) {
    let pods = cluster.resource("", "pods");
    let mut informer = Informer::new(Arc::clone(&pods));
    let mut nodes = Informer::new(cluster.resource("", "nodes"));
    let mut kubelet = Kubelet {
        cluster: Arc::clone(cluster),
        nodes: Arc::clone(&nodes.resource),
        pods,
        settings,
        addresses: AtomicU32::new(1),
        agenda: Agenda::default(),
        requested: Requested::default(),
        failed_nodes: BTreeSet::new(),
    };
    loop {
        let changes = informer.poll();
        if informer.missed() {
            kubelet.requested = Requested::default();
        }
        for (index, change) in changes.iter().enumerate() {
            kubelet.handle_pod_change(change);
            if index % BATCH_SIZE == BATCH_SIZE - 1 {
                tokio::task::yield_now().await;
            }
        }
        for change in nodes.poll() {
            kubelet.handle_node_change(&change);
        }
        if nodes.missed() {
            kubelet.delete_pods_of_missing_nodes();
        }
        let busy = kubelet.take_due_steps();
        if busy || !changes.is_empty() {
            tokio::task::yield_now().await;
            continue;
        }
        let next = kubelet.agenda.next();
        tokio::select! {
            () = informer.changed() => {}
            () = nodes.changed() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

impl Kubelet {
    /// Plans the steps that follow from the newest version of a pod.
    fn handle_pod_change(&mut self, change: &Change) {
        let object = &change.object;
        if change.kind == ChangeKind::Deleted {
            self.agenda.forget(&object.uid);
            self.requested.remove(&object.uid);
            return;
        }
        let newest = self.pods.objects.get(&object.key);
        if newest.is_none_or(|newest| newest.version != object.version) {
            // The change to the newest version is still to come.
            return;
        }
        let node_exists = self.node_exists(object);
        if !node_exists && !object.deleting {
            self.agenda.forget(&object.uid);
            return;
        }
        let pod = object.value();
        if life::occupies_resources(&pod) {
            self.requested.add(&pod);
        } else {
            self.requested.remove(&object.uid);
        }
        if self.node_failed(object) {
            self.agenda.forget(&object.uid);
            return;
        }
        let mut steps = life::due_steps(
            &pod,
            ScaledClock { now: self.cluster.now(), speed: self.settings.speed },
        );
        for (_, wait) in &mut steps {
            // Without its node, nothing of a deleted pod runs any more.
            *wait = if node_exists { self.settings.wait(*wait) } else { Duration::ZERO };
        }
        if self.agenda.set_steps(object, &steps).contains(&Step::Stop) {
            self.note_killing(&pod);
        }
    }

    /// Plans the pods of a node that was added or recovered, and deletes the pods of a deleted node.
    fn handle_node_change(&mut self, change: &Change) {
        let node = &change.object;
        let gone = change.kind == ChangeKind::Deleted;
        let fails = !gone && outage::fails(&node.value());
        let changed = if fails {
            self.failed_nodes.insert(node.name.clone())
        } else {
            self.failed_nodes.remove(&node.name)
        };
        if !(gone || changed || change.kind == ChangeKind::Added) {
            return;
        }
        for pod in self.pods.objects.by_field(&node.name).objects {
            if gone {
                let options = DeleteOptions::now(&pod.uid);
                let _ = self.cluster.delete(&self.pods, &pod.namespace, &pod.name, &options);
            } else {
                self.handle_pod_change(&Change::present(pod));
            }
        }
    }

    /// Deletes the pods of nodes that do not exist, after deletions of nodes may have been missed.
    fn delete_pods_of_missing_nodes(&self) {
        for pod in self.pods.objects.list("").objects {
            if !pod.field_named("spec.nodeName").is_empty() && !self.node_exists(&pod) {
                let options = DeleteOptions::now(&pod.uid);
                let _ = self.cluster.delete(&self.pods, &pod.namespace, &pod.name, &options);
            }
        }
    }

    /// Returns `true` if the node of a pod exists.
    fn node_exists(&self, pod: &Object) -> bool {
        self.nodes.objects.get(pod.field_named("spec.nodeName")).is_some()
    }

    /// Returns `true` if the node of a pod fails, so that its kubelet is inactive.
    fn node_failed(&self, pod: &Object) -> bool {
        self.failed_nodes.contains(pod.field_named("spec.nodeName"))
    }

    /// Takes the steps that are due. Returns `true` if more may be due.
    fn take_due_steps(&mut self) -> bool {
        for _ in 0..BATCH_SIZE {
            let Some(Task { key, uid, step }) = self.agenda.take() else { return false };
            let pod = self.pods.objects.get(&key).filter(|pod| pod.uid == uid);
            let Some(pod) = pod.filter(|pod| !self.node_failed(pod)) else { continue };
            match self.take_step(&pod, step) {
                Err(failure) if failure.code != 404 => {
                    tracing::warn!(pod = %key, ?step, message = %failure.message, "pod lifecycle step failed, retrying");
                    self.agenda.set_steps(&pod, &[(step, RETRY_DELAY)]);
                }
                _ => {}
            }
        }
        true
    }

    fn take_step(&mut self, pod: &Object, step: Step) -> ApiResult<()> {
        let now = seconds(self.cluster.now());
        match step {
            Step::Admit => self.admit(pod, &now)?,
            Step::Start => {
                let after = self.write(pod, step, |pod| self.started(pod, &now))?;
                self.note_started(after.as_ref());
            }
            Step::Exit => {
                let after = self.write(pod, step, |pod| status::exited(pod, &now))?;
                if let Some(pod) = after
                    && Stage::of(&pod) == Some(Stage::BackOff)
                {
                    let message = "Back-off restarting failed container";
                    RECORDER.record(&self.cluster, &pod, "Warning", "BackOff", message);
                }
            }
            Step::UpdateReadiness => {
                self.write(pod, step, |pod| status::readiness_updated(pod, &now))?;
            }
            Step::Expire => {
                if let Some(pod) = self.write(pod, step, |pod| status::expired(pod, &now))? {
                    let (reason, message) = (status::EXPIRED, status::EXPIRED_MESSAGE);
                    RECORDER.record(&self.cluster, &pod, "Normal", reason, message);
                }
            }
            Step::Stop => {
                self.write(pod, step, |pod| status::stopped(pod, &now))?;
            }
            Step::Remove => {
                let options = DeleteOptions::now(&pod.uid);
                self.cluster.delete(&self.pods, &pod.namespace, &pod.name, &options)?;
            }
        }
        Ok(())
    }

    /// Admits a pod and starts it, unless it has a start delay or does not fit on the node.
    fn admit(&mut self, pod: &Object, now: &str) -> ApiResult<()> {
        let node = self.nodes.objects.get(pod.field_named("spec.nodeName"));
        let node = node.map(|node| node.value()).unwrap_or_default();
        let after = self.write(pod, Step::Admit, |pod| match self.requested.check(pod, &node) {
            Err(rejection) => status::rejected(pod, now, &rejection),
            Ok(()) if life::starts_after(pod).is_some() => {
                status::creating(pod, now, &self.node_address(pod))
            }
            Ok(()) => self.started(pod, now),
        })?;
        let Some(after) = after else { return Ok(()) };
        if life::occupies_resources(&after) {
            // The next pod of this batch must see it counted.
            self.requested.add(&after);
            self.note_started(Some(&after));
        } else {
            let of = |field| text(&after, &["status", field]);
            let message = of("message").trim_start_matches("Pod was rejected: ");
            RECORDER.record(&self.cluster, &after, "Warning", of("reason"), message);
        }
        Ok(())
    }

    /// Returns the pod with running containers.
    fn started(&self, pod: &Value, now: &str) -> Value {
        let host = self.node_address(pod);
        let own = text(pod, &["status", "podIP"]);
        let address = if !own.is_empty() {
            own.to_owned()
        } else if crate::json::truth(pod, &["spec", "hostNetwork"]) {
            host.clone()
        } else {
            self.next_pod_address()
        };
        status::started(pod, now, &host, &address)
    }

    /// Emits the events of containers that were started for the first time.
    fn note_started(&self, pod: Option<&Value>) {
        let first = |status: &Value| {
            int(status, &["restartCount"]) == Some(0) && at(status, &["state", "running"]).is_some()
        };
        let Some(pod) =
            pod.filter(|pod| list(pod, &["status", "containerStatuses"]).iter().all(first))
        else {
            return;
        };
        for container in list(pod, &["spec", "containers"]) {
            let part = format!("spec.containers{{{}}}", text(container, &["name"]));
            let image = text(container, &["image"]);
            let note = |reason, message: &str| {
                RECORDER.record_at(&self.cluster, pod, &part, "Normal", reason, message);
            };
            let pulled = format!(
                "Container image {image:?} already present on machine and can be accessed by the pod"
            );
            note("Pulled", &pulled);
            note("Created", "Container created");
            note("Started", "Container started");
        }
    }

    /// Emits one event for each running container of a deleted pod.
    fn note_killing(&self, pod: &Value) {
        for container in list(pod, &["status", "containerStatuses"]) {
            if at(container, &["state", "running"]).is_some() {
                let name = text(container, &["name"]);
                let part = format!("spec.containers{{{name}}}");
                let message = format!("Stopping container {name}");
                RECORDER.record_at(&self.cluster, pod, &part, "Normal", "Killing", &message);
            }
        }
    }

    /// Writes the result of a step, unless the pod is no longer in a stage that allows the step. Returns
    /// the written pod.
    fn write(
        &self,
        pod: &Object,
        step: Step,
        edit: impl Fn(&Value) -> Value,
    ) -> ApiResult<Option<Value>> {
        let options = WriteOptions::default();
        let mut after = None;
        self.cluster.change(
            &self.pods,
            &pod.namespace,
            &pod.name,
            Part::Status,
            &options,
            |current, before| {
                let allowed = Stage::of(before).is_some_and(|stage| stage.allows(step));
                after = (allowed && current.uid == pod.uid).then(|| edit(before));
                Ok(after.clone())
            },
        )?;
        Ok(after)
    }

    /// Returns the internal IP address of a pod's node.
    fn node_address(&self, pod: &Value) -> String {
        let node = self.nodes.objects.get(text(pod, &["spec", "nodeName"]));
        let node = node.map(|node| node.value()).unwrap_or_default();
        let addresses = list(&node, &["status", "addresses"]).iter();
        let mut internal = addresses.filter(|one| text(one, &["type"]) == "InternalIP");
        internal.next().map(|one| text(one, &["address"]).to_owned()).unwrap_or_default()
    }

    fn next_pod_address(&self) -> String {
        let number = self.addresses.fetch_add(1, Ordering::Relaxed) % (1 << 23);
        Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 128, 0, 0)) + number).to_string()
    }
}

#[cfg(test)]
mod tests;
