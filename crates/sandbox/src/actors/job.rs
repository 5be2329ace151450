//! Controller of Jobs: runs pods to completion.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Settings;
use super::controller::{Controller, Key, own_key};
use super::recorder::EventRecorder;
use super::workload::{Pod, controller_of, create, delete_pod, from_template, pods_of};
use crate::cluster::{Cluster, DeleteOptions, Part, Propagation, WriteOptions, seconds};
use crate::json::{at, holds, int, members, name, slot, text, truth, uid};
use crate::status_error::ApiResult;
use crate::store::{Change, Object};
use crate::subresources::set_condition;

/// Maximum number of pods created per reconcile, as upstream.
const BURST: i64 = 500;
const INDEX: &str = "batch.kubernetes.io/job-completion-index";

static RECORDER: EventRecorder = EventRecorder::new("job-controller");

/// The controller of Jobs.
pub(super) struct Jobs {
    speed: f64,
}

impl Jobs {
    pub(super) fn new(settings: Settings) -> Self {
        Self { speed: settings.speed() }
    }
}

/// Counts of the pods of a job.
struct PodCounts {
    active: Vec<Pod>,
    ready: i64,
    succeeded: i64,
    failed: i64,
    /// Completion indexes that have succeeded.
    succeeded_indexes: BTreeSet<i64>,
    /// Completion indexes that have an active pod.
    active_indexes: HashSet<i64>,
}

impl Controller for Jobs {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("batch", "jobs"), ("", "pods")]
    }

    fn keys_of_change(&self, cluster: &Cluster, source: usize, change: &Change) -> Vec<Key> {
        if source == 0 {
            return vec![own_key(change)];
        }
        // A finished pod means that the job makes progress, so the snapshot's state no longer applies.
        let ended = |object: &Object| Pod::is_finished_object(object);
        if change.previous.as_ref().is_some_and(|before| !ended(before)) && ended(&change.object) {
            for owner in &change.object.owners {
                cluster.snapshot_state.release(&owner.uid);
            }
        }
        controller_of(change, "Job")
    }

    fn reconcile(
        &self,
        cluster: &Cluster,
        (namespace, job_name): &Key,
    ) -> ApiResult<Option<Duration>> {
        let jobs = cluster.resource("batch", "jobs");
        let Some(job) = cluster.value(&jobs, namespace, job_name) else { return Ok(None) };
        if at(&job, &["metadata", "deletionTimestamp"]).is_some() {
            return Ok(None);
        }
        if holds(&job, "Complete") || holds(&job, "Failed") {
            return self.delete_after_ttl(cluster, namespace, &job);
        }
        if cluster.snapshot_state.is_held(&job) {
            return Ok(None);
        }
        let count = count(cluster, &job);
        let limit = int(&job, &["spec", "backoffLimit"]).unwrap_or(6);
        let wanted = int(&job, &["spec", "completions"]);
        let complete = match wanted {
            Some(wanted) => count.succeeded >= wanted,
            None => count.succeeded > 0 && count.active.is_empty(),
        };
        let (late, wait) = self.deadline(cluster, &job);
        let verdict = match () {
            () if complete => Some((
                "Complete",
                "CompletionsReached",
                "Reached expected number of succeeded pods",
            )),
            () if count.failed > limit => Some((
                "Failed",
                "BackoffLimitExceeded",
                "Job has reached the specified backoff limit",
            )),
            () if late => Some((
                "Failed",
                "DeadlineExceeded",
                "Job was active longer than specified deadline",
            )),
            () => None,
        };
        let suspended = truth(&job, &["spec", "suspend"]);
        let mut active = count.active.len() as i64;
        let mut adjusted = Ok(());
        if verdict.is_some() || suspended {
            for pod in &count.active {
                delete_pod(cluster, &pod.object)?;
            }
            active = 0;
        } else {
            let (more, done) = adjust_pods(cluster, namespace, &job, &count, wanted);
            active += more;
            adjusted = done;
        }
        // The status is written even if the creation of a pod was rejected.
        write_status(cluster, namespace, &job, &count, active, verdict, suspended)?;
        adjusted.map(|()| wait)
    }
}

impl Jobs {
    /// Returns `true` if the active deadline has passed, and when to check again.
    fn deadline(&self, cluster: &Cluster, job: &Value) -> (bool, Option<Duration>) {
        let Some(deadline) = int(job, &["spec", "activeDeadlineSeconds"]) else {
            return (false, None);
        };
        let Ok(start) = text(job, &["status", "startTime"]).parse::<Timestamp>() else {
            return (false, None);
        };
        let left =
            deadline as f64 - (cluster.now().as_second() - start.as_second()) as f64 * self.speed;
        (
            left <= 0.0,
            (left > 0.0).then(|| Duration::from_secs_f64((left / self.speed).clamp(0.1, 3600.0))),
        )
    }

    /// Deletes a finished job once its TTL has passed.
    fn delete_after_ttl(
        &self,
        cluster: &Cluster,
        namespace: &str,
        job: &Value,
    ) -> ApiResult<Option<Duration>> {
        let Some(keep) = int(job, &["spec", "ttlSecondsAfterFinished"]) else { return Ok(None) };
        let conditions = crate::json::list(job, &["status", "conditions"]).iter();
        let ended = conditions
            .filter(|one| ["Complete", "Failed"].contains(&text(one, &["type"])))
            .find_map(|one| text(one, &["lastTransitionTime"]).parse::<Timestamp>().ok());
        let Some(ended) = ended else { return Ok(None) };
        let left =
            keep as f64 - (cluster.now().as_second() - ended.as_second()) as f64 * self.speed;
        if left > 0.0 {
            return Ok(Some(Duration::from_secs_f64((left / self.speed).clamp(0.1, 3600.0))));
        }
        let options = DeleteOptions {
            uid: uid(job).to_owned(),
            propagation: Some(Propagation::Foreground),
            ..DeleteOptions::default()
        };
        cluster
            .delete(&cluster.resource("batch", "jobs"), namespace, name(job), &options)
            .map(|_| None)
    }
}

fn count(cluster: &Cluster, job: &Value) -> PodCounts {
    let indexed = text(job, &["spec", "completionMode"]) == "Indexed";
    let mut count = PodCounts {
        active: Vec::new(),
        ready: 0,
        succeeded: 0,
        failed: 0,
        succeeded_indexes: BTreeSet::new(),
        active_indexes: HashSet::new(),
    };
    for pod in pods_of(cluster, uid(job)) {
        // A label that is not a number stands for no index.
        let index = pod.label(INDEX).parse::<i64>().unwrap_or(-1);
        match pod.phase() {
            "Succeeded" if indexed => {
                count.succeeded += i64::from(count.succeeded_indexes.insert(index));
            }
            "Succeeded" => count.succeeded += 1,
            // A pod deleted by the controller is no failure.
            "Failed" if pod.object.deleting => {}
            "Failed" => count.failed += 1,
            _ if pod.object.deleting => {}
            _ => {
                count.ready += i64::from(pod.ready());
                count.active_indexes.insert(index);
                count.active.push(pod);
            }
        }
    }
    // With restartPolicy OnFailure containers restart in place; each restart counts as a failure.
    for pod in &count.active {
        let value = pod.value();
        let statuses = crate::json::list(&value, &["status", "containerStatuses"]);
        count.failed +=
            statuses.iter().filter_map(|one| int(one, &["restartCount"])).max().unwrap_or(0);
    }
    count
}

/// Creates or deletes pods. Returns the change in their number, also if one of them was rejected.
fn adjust_pods(
    cluster: &Cluster,
    namespace: &str,
    job: &Value,
    count: &PodCounts,
    wanted: Option<i64>,
) -> (i64, ApiResult<()>) {
    let parallel = int(job, &["spec", "parallelism"]).unwrap_or(1).max(0);
    let active = count.active.len() as i64;
    let most = match wanted {
        Some(wanted) => parallel.min((wanted - count.succeeded).max(0)),
        None if count.succeeded > 0 => active,
        None => parallel,
    };
    let missing = (most - active).clamp(0, BURST);
    let pods = cluster.resource("", "pods");
    let indexed = text(job, &["spec", "completionMode"]) == "Indexed";
    let mut free = (0..wanted.unwrap_or(0)).filter(|index| {
        !count.succeeded_indexes.contains(index) && !count.active_indexes.contains(index)
    });
    for made in 0..missing {
        let mut pod = from_template(job);
        pod["metadata"]["generateName"] = format!("{}-", name(job)).into();
        if indexed {
            let Some(index) = free.next().map(|index| index.to_string()) else { break };
            pod["metadata"]["generateName"] = format!("{}-{index}-", name(job)).into();
            pod["spec"]["hostname"] = format!("{}-{index}", name(job)).into();
            slot(&mut pod, &["metadata", "labels"])[INDEX] = index.as_str().into();
            slot(&mut pod, &["metadata", "annotations"])[INDEX] = index.into();
        }
        match create(cluster, &pods, namespace, pod) {
            Ok(pod) => {
                let message = format!("Created pod: {}", pod.name);
                RECORDER.record(cluster, job, "Normal", "SuccessfulCreate", &message);
            }
            Err(failure) => {
                let message = format!("Error creating: {}", failure.message);
                RECORDER.record(cluster, job, "Warning", "FailedCreate", &message);
                return (made, Err(failure));
            }
        }
    }
    if active > most && active > 0 {
        for (ended, pod) in count.active.iter().take((active - most) as usize).enumerate() {
            if let Err(failure) = delete_pod(cluster, &pod.object) {
                return (-(ended as i64), Err(failure));
            }
        }
        return (most - active, Ok(()));
    }
    (missing, Ok(()))
}

fn write_status(
    cluster: &Cluster,
    namespace: &str,
    job: &Value,
    count: &PodCounts,
    active: i64,
    verdict: Option<(&str, &str, &str)>,
    suspended: bool,
) -> ApiResult<()> {
    let jobs = cluster.resource("batch", "jobs");
    let time = seconds(cluster.now());
    cluster.change(&jobs, namespace, name(job), Part::Status, &WriteOptions::default(), |_, before| {
        let mut object = before.clone();
        let status = slot(&mut object, &["status"]);
        if !suspended {
            crate::json::default(status, "startTime", time.as_str());
        }
        let ready = if verdict.is_some() || suspended { 0 } else { count.ready };
        for (field, number) in [("active", active), ("succeeded", count.succeeded), ("failed", count.failed)] {
            if number > 0 { status[field] = number.into() } else { drop(members(status).remove(field)) }
        }
        status["ready"] = ready.into();
        status["terminating"] = 0.into();
        status["uncountedTerminatedPods"] = json!({});
        if !count.succeeded_indexes.is_empty() {
            status["completedIndexes"] = ranges(&count.succeeded_indexes).into();
        }
        if let Some((kind, reason, message)) = verdict {
            let first = if kind == "Complete" { "SuccessCriteriaMet" } else { "FailureTarget" };
            for kind in [first, kind] {
                set_condition(status, json!({
                    "type": kind, "status": "True", "reason": reason, "message": message,
                    "lastProbeTime": time, "lastTransitionTime": time,
                }));
            }
            if kind == "Complete" {
                crate::json::default(status, "completionTime", time.as_str());
            }
        } else if suspended || holds(before, "Suspended") {
            let (truth, reason, message) = if suspended { ("True", "JobSuspended", "Job suspended") } else { ("False", "JobResumed", "Job resumed") };
            set_condition(status, json!({"type": "Suspended", "status": truth, "reason": reason, "message": message, "lastProbeTime": time, "lastTransitionTime": time}));
        }
        Ok(Some(object))
    })?;
    if let Some((kind, reason, message)) = verdict {
        let (level, reason, message) = if kind == "Complete" {
            ("Normal", "Completed", "Job completed")
        } else {
            ("Warning", reason, message)
        };
        RECORDER.record(cluster, job, level, reason, message);
    }
    Ok(())
}

/// Formats numbers as ranges, such as `0-3,5`.
fn ranges(numbers: &BTreeSet<i64>) -> String {
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for &number in numbers.range(0..) {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => parts.push((number, number)),
        }
    }
    let shown: Vec<String> = parts
        .iter()
        .map(
            |(first, last)| {
                if first == last { first.to_string() } else { format!("{first}-{last}") }
            },
        )
        .collect();
    shown.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_indexes_are_found_among_many_that_succeeded() {
        /// With this many, searching a list for each index would take minutes.
        const SUCCEEDED: i64 = 400_000;
        let cluster = crate::testing::cluster();
        let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "job", "namespace": "default", "uid": "12345678-1234-1234-1234-123456789012"}, "spec": {
            "completionMode": "Indexed", "parallelism": 3,
            "template": {"spec": crate::testing::pod("p")["spec"].clone()},
        }});
        let count = PodCounts {
            active: Vec::new(),
            ready: 0,
            succeeded: SUCCEEDED,
            failed: 0,
            succeeded_indexes: (0..=SUCCEEDED).filter(|index| *index != 7).collect(),
            active_indexes: HashSet::new(),
        };
        let (made, result) = adjust_pods(&cluster, "default", &job, &count, Some(SUCCEEDED + 3));
        result.unwrap();
        let pods = cluster.resource("", "pods").objects.list("").objects;
        let mut indexes: Vec<_> = pods
            .iter()
            .map(|pod| text(&pod.value(), &["metadata", "labels", INDEX]).to_owned())
            .collect();
        indexes.sort_unstable();
        assert_eq!((made, indexes), (3, ["400001", "400002", "7"].map(str::to_owned).to_vec()));
    }
}
