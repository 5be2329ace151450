//! Kubelets: pods that were bound run, and those that shall go end.
//!
//! Annotations of a pod change how it runs, see [`RUNS_FOR`], [`EXIT_CODE`] and [`STARTS_AFTER`].

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use super::Settings;
use super::follow::Follower;
use super::recorder::Recorder;
use crate::cluster::{Cluster, DeleteOptions, Part, WriteOptions, seconds};
use crate::json::{at, int, list, members, name, slot, text};
use crate::kinds::Resource;
use crate::store::{Change, ChangeKind, Object};
use crate::subresources::set_condition;

/// How long the containers of a pod run before they end by themselves, such as `5s`.
pub(crate) const RUNS_FOR: &str = "sandbox.novasphere.dev/runs-for";
/// With which code they end.
pub(crate) const EXIT_CODE: &str = "sandbox.novasphere.dev/exit-code";
/// How long a pod takes to start.
pub(crate) const STARTS_AFTER: &str = "sandbox.novasphere.dev/starts-after";

/// Conditions of a pod that a kubelet writes, in its order.
const CONDITIONS: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// How long the pods of jobs run when nobody says.
const JOB_RUNS_FOR: Duration = Duration::from_secs(1);
/// How long a container that has ended waits for its next try, doubled with every try.
const BACKOFF_FIRST: Duration = Duration::from_secs(10);
const BACKOFF_LONGEST: Duration = Duration::from_mins(5);
/// Pods that are looked at before others get their turn.
const TURN: usize = 64;

static RECORDER: Recorder = Recorder::new("kubelet");

/// What is to be done with a pod, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Start,
    End,
    Restart,
}

/// Key and uid of a pod, and what is to be done with it.
type Entry = (Arc<str>, Box<str>, Deed);

struct Kubelet {
    cluster: Arc<Cluster>,
    pods: Arc<Resource>,
    nodes: Arc<Resource>,
    speed: f64,
    addresses: AtomicU32,
    /// Deeds by time; each names its pod by key and uid. At most one per pod and state of it.
    agenda: BTreeMap<(Instant, u64), Entry>,
    entries: u64,
}

/// Runs all kubelets for ever.
pub(super) async fn run(cluster: &Arc<Cluster>, settings: Settings) {
    let pods = cluster.kind("", "pods");
    let mut follower = Follower::new(Arc::clone(&pods));
    let mut nodes = Follower::new(cluster.kind("", "nodes"));
    let mut kubelet = Kubelet {
        cluster: Arc::clone(cluster),
        nodes: Arc::clone(&nodes.resource),
        pods,
        speed: settings.speed.max(0.001),
        addresses: AtomicU32::new(1),
        agenda: BTreeMap::new(),
        entries: 0,
    };
    loop {
        let changes = follower.poll();
        for (place, change) in changes.iter().enumerate() {
            kubelet.see(change);
            if place % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
        }
        for change in nodes.poll() {
            kubelet.see_node(&change);
        }
        if nodes.missed() {
            kubelet.end_the_lost();
        }
        kubelet.act();
        if !changes.is_empty() {
            tokio::task::yield_now().await;
            continue;
        }
        let next = kubelet.agenda.keys().next().map(|(at, _)| *at);
        tokio::select! {
            () = follower.changed() => {}
            () = nodes.changed() => {}
            () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
    }
}

impl Kubelet {
    fn see(&mut self, change: &Change) {
        let object = &change.object;
        if change.kind == ChangeKind::Deleted || object.field_named("spec.nodeName").is_empty() {
            return;
        }
        if object.deleting {
            self.let_go(object);
        } else if object.field_named("status.phase") == "Pending" && self.is_here(object) {
            let pod = object.value();
            // A container that waits for its next try is on the agenda already.
            if list(&pod, &["status", "containerStatuses"]).is_empty() {
                match time_in(&pod, STARTS_AFTER) {
                    Some(wait) => self.plan(object, Deed::Start, wait),
                    None => self.start(&pod),
                }
            }
        }
    }

    /// A node that comes up starts the pods that wait for it; the pods of one that is gone go, too.
    fn see_node(&mut self, change: &Change) {
        let pods = self.pods.objects.by_field(&change.object.name).objects;
        for pod in pods {
            if change.kind == ChangeKind::Deleted {
                let options = DeleteOptions::now(&pod.uid);
                let _ = self.cluster.delete(&self.pods, &pod.namespace, &pod.name, &options);
            } else if change.kind == ChangeKind::Added
                && pod.field_named("status.phase") == "Pending"
            {
                self.see(&Change::present(pod));
            }
        }
    }

    /// Ends the pods of nodes that are gone, when nobody can tell which ones those were.
    fn end_the_lost(&self) {
        for pod in self.pods.objects.list("").objects {
            if !pod.field_named("spec.nodeName").is_empty() && !self.is_here(&pod) {
                let options = DeleteOptions::now(&pod.uid);
                let _ = self.cluster.delete(&self.pods, &pod.namespace, &pod.name, &options);
            }
        }
    }

    fn is_here(&self, pod: &Object) -> bool {
        self.nodes.objects.get(pod.field_named("spec.nodeName")).is_some()
    }

    fn plan(&mut self, pod: &Object, deed: Deed, wait: Duration) {
        self.entries += 1;
        let at = Instant::now() + wait.div_f64(self.speed);
        self.agenda.insert((at, self.entries), (Arc::clone(&pod.key), pod.uid.clone(), deed));
    }

    fn act(&mut self) {
        let now = Instant::now();
        while let Some(entry) = self.agenda.first_entry().filter(|entry| entry.key().0 <= now) {
            let (key, uid, deed) = entry.remove();
            let Some(object) = self.pods.objects.get(&key).filter(|object| object.uid == uid)
            else {
                continue;
            };
            if object.deleting {
                continue;
            }
            let pod = object.value();
            match deed {
                Deed::Start | Deed::Restart => self.start(&pod),
                Deed::End => self.end(&object, &pod),
            }
        }
    }

    /// Runs the containers of a pod.
    fn start(&mut self, pod: &Value) {
        let now = seconds(self.cluster.now());
        let node =
            self.nodes.objects.get(text(pod, &["spec", "nodeName"])).map(|node| node.value());
        let host = node.as_ref().map_or_else(String::new, |node| {
            let addresses = list(node, &["status", "addresses"]).iter();
            let internal = addresses.filter(|one| text(one, &["type"]) == "InternalIP");
            internal.map(|one| text(one, &["address"]).to_owned()).next().unwrap_or_default()
        });
        let own = at(pod, &["status", "podIP"]).and_then(Value::as_str).map(str::to_owned);
        let address = own.unwrap_or_else(|| {
            if crate::json::truth(pod, &["spec", "hostNetwork"]) {
                host.clone()
            } else {
                self.address()
            }
        });
        let first = list(pod, &["status", "containerStatuses"]).is_empty();
        let written = self.write(pod, |before| {
            let mut pod = before.clone();
            let statuses = containers(before, &now);
            let inits = init_containers(before, &now);
            let status = slot(&mut pod, &["status"]);
            status["phase"] = "Running".into();
            status["hostIP"] = host.as_str().into();
            status["hostIPs"] = json!([{"ip": host}]);
            status["podIP"] = address.as_str().into();
            status["podIPs"] = json!([{"ip": address}]);
            crate::json::default(status, "startTime", now.as_str());
            status["containerStatuses"] = statuses.into();
            if !inits.is_empty() {
                status["initContainerStatuses"] = inits.into();
            }
            let generation = before["metadata"].get("generation").cloned();
            if let Some(generation) = &generation {
                status["observedGeneration"] = generation.clone();
            }
            for kind in CONDITIONS {
                let mut condition = json!({
                    "type": kind, "status": "True", "lastTransitionTime": now,
                });
                if let Some(generation) = &generation {
                    condition["observedGeneration"] = generation.clone();
                }
                set_condition(status, condition);
            }
            if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
                let place = |condition: &Value| {
                    CONDITIONS.iter().position(|kind| *kind == text(condition, &["type"]))
                };
                // Those of others come first, as a kubelet leaves them.
                conditions.sort_by_key(place);
            }
            pod
        });
        let Some(object) = written else { return };
        if first {
            for container in list(pod, &["spec", "containers"]) {
                let part = format!("spec.containers{{{}}}", text(container, &["name"]));
                let image = text(container, &["image"]);
                let note = |reason, message: &str| {
                    RECORDER.note_at(&self.cluster, pod, &part, "Normal", reason, message);
                };
                let pulled = format!(
                    "Container image {image:?} already present on machine and can be accessed by the pod"
                );
                note("Pulled", &pulled);
                note("Created", "Container created");
                note("Started", "Container started");
            }
        }
        let of_job = list(pod, &["metadata", "ownerReferences"])
            .iter()
            .any(|owner| text(owner, &["kind"]) == "Job");
        let runs_for = time_in(pod, RUNS_FOR).or(of_job.then_some(JOB_RUNS_FOR));
        if let Some(runs_for) = runs_for {
            self.plan(&object, Deed::End, runs_for);
        }
    }

    /// The containers of a pod end by themselves.
    fn end(&mut self, object: &Arc<Object>, pod: &Value) {
        let code = text(pod, &["metadata", "annotations", EXIT_CODE]).parse::<i64>().unwrap_or(0);
        let again = match text(pod, &["spec", "restartPolicy"]) {
            "Always" => true,
            "OnFailure" => code != 0,
            _ => false,
        };
        let now = seconds(self.cluster.now());
        let reason = if code == 0 { "Completed" } else { "Error" };
        let mut restarts = 0;
        self.write(pod, |before| {
            let mut pod = before.clone();
            let status = slot(&mut pod, &["status"]);
            if !again {
                status["phase"] = if code == 0 { "Succeeded" } else { "Failed" }.into();
            }
            if let Some(Value::Array(containers)) = status.get_mut("containerStatuses") {
                for container in containers {
                    let started = at(container, &["state", "running", "startedAt"]).cloned();
                    let ended = json!({"terminated": {
                        "exitCode": code, "reason": reason, "startedAt": started, "finishedAt": now,
                        "containerID": container["containerID"],
                    }});
                    container["ready"] = false.into();
                    container["started"] = false.into();
                    if again {
                        restarts = int(container, &["restartCount"]).unwrap_or(0) + 1;
                        container["restartCount"] = restarts.into();
                        container["lastState"] = ended;
                        let message = format!("back-off restarting failed container={} pod={}", text(container, &["name"]), name(before));
                        container["state"] = json!({"waiting": {"reason": "CrashLoopBackOff", "message": message}});
                    } else {
                        container["state"] = ended;
                    }
                }
            }
            let why = if again { "ContainersNotReady" } else if code == 0 { "PodCompleted" } else { "PodFailed" };
            for kind in ["Ready", "ContainersReady"] {
                set_condition(status, json!({"type": kind, "status": "False", "reason": why, "lastTransitionTime": now}));
            }
            pod
        });
        if again {
            let doublings = u32::try_from(restarts - 1).unwrap_or(0).min(8);
            let wait = BACKOFF_FIRST.saturating_mul(1 << doublings).min(BACKOFF_LONGEST);
            RECORDER.note(
                &self.cluster,
                pod,
                "Warning",
                "BackOff",
                "Back-off restarting failed container",
            );
            self.plan(object, Deed::Restart, wait);
        }
    }

    /// Ends a pod that shall go. Its containers need no time to stop.
    fn let_go(&self, object: &Object) {
        let pod = object.value();
        RECORDER.note(&self.cluster, &pod, "Normal", "Killing", "Stopping container");
        let options = DeleteOptions::now(&object.uid);
        if let Err(failure) =
            self.cluster.delete(&self.pods, &object.namespace, &object.name, &options)
        {
            tracing::debug!(pod = %object.key, message = %failure.message, "a pod could not be ended");
        }
    }

    fn write(&self, pod: &Value, edit: impl FnMut(&Value) -> Value) -> Option<Arc<Object>> {
        let mut edit = edit;
        let options = WriteOptions::default();
        let uid = crate::json::uid(pod).to_owned();
        let place = (crate::json::namespace(pod), name(pod));
        let written = self.cluster.change(
            &self.pods,
            place.0,
            place.1,
            Part::Status,
            &options,
            |current, before| Ok((*current.uid == *uid && !current.deleting).then(|| edit(before))),
        );
        match written {
            Ok(written) => Some(written.object),
            Err(failure) if failure.code == 404 => None,
            Err(failure) => {
                tracing::warn!(pod = place.1, message = %failure.message, "the status of a pod could not be written");
                None
            }
        }
    }

    fn address(&self) -> String {
        let number = self.addresses.fetch_add(1, Ordering::Relaxed) % (1 << 23);
        Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 128, 0, 0)) + number).to_string()
    }
}

fn containers(pod: &Value, now: &str) -> Vec<Value> {
    let old = list(pod, &["status", "containerStatuses"]);
    list(pod, &["spec", "containers"])
        .iter()
        .map(|container| {
            let name = text(container, &["name"]);
            let before = old.iter().find(|status| text(status, &["name"]) == name);
            running(container, before, now)
        })
        .collect()
}

fn init_containers(pod: &Value, now: &str) -> Vec<Value> {
    list(pod, &["spec", "initContainers"])
        .iter()
        .map(|container| {
            let mut status = running(container, None, now);
            if text(container, &["restartPolicy"]) != "Always" {
                status["started"] = false.into();
                status["state"] = json!({"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": now, "finishedAt": now}});
            }
            status
        })
        .collect()
}

fn running(container: &Value, before: Option<&Value>, now: &str) -> Value {
    let image = text(container, &["image"]);
    let restarts = before.and_then(|before| int(before, &["restartCount"])).unwrap_or(0);
    let last =
        before.and_then(|before| before.get("lastState")).cloned().unwrap_or_else(|| json!({}));
    let mut status = json!({
        "name": container["name"], "image": image, "imageID": format!("sandbox://{image}"),
        "containerID": format!("sandbox://{}", uuid::Uuid::new_v4().simple()),
        "ready": true, "started": true, "restartCount": restarts,
        "state": {"running": {"startedAt": now}}, "lastState": last,
    });
    if let Some(resources) = container
        .get("resources")
        .filter(|resources| resources.as_object().is_some_and(|all| !all.is_empty()))
    {
        status["resources"] = resources.clone();
    }
    members(&mut status).retain(|_, value| !value.is_null());
    status
}

/// A time in an annotation.
fn time_in(pod: &Value, annotation: &str) -> Option<Duration> {
    duration(text(pod, &["metadata", "annotations", annotation]))
}

/// A time such as `500ms`, `5s` or `2m`.
pub(super) fn duration(given: &str) -> Option<Duration> {
    let end = given.find(|c: char| c.is_ascii_alphabetic())?;
    let (number, unit) = given.split_at(end);
    let number: f64 =
        number.parse().ok().filter(|number: &f64| number.is_finite() && *number >= 0.0)?;
    let seconds = match unit {
        "ms" => number / 1000.0,
        "s" => number,
        "m" => number * 60.0,
        "h" => number * 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64(seconds).ok()
}
