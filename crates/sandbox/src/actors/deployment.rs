//! Controller of Deployments: one replica set per template, and rolling updates between them.

use std::time::Duration;

use serde_json::{Value, json};

use super::Settings;
use super::controller::{Controller, Key, own_key};
use super::recorder::EventRecorder;
use super::replica_set::FAILURE;
use super::workload::{controller_of, controls, create, fingerprint, owner, scaled_value};
use crate::cluster::{Cluster, DeleteOptions, Part, WriteOptions, seconds};
use crate::json::{at, condition, int, list, members, name, slot, text, truth, uid};
use crate::status_error::{ApiResult, ignore};
use crate::store::Change;
use crate::subresources::set_condition;

const REVISION: &str = "deployment.kubernetes.io/revision";
const HASH: &str = "pod-template-hash";

static RECORDER: EventRecorder = EventRecorder::new("deployment-controller");

/// The controller of Deployments.
pub(super) struct Deployments {
    speed: f64,
}

impl Deployments {
    pub(super) fn new(settings: Settings) -> Self {
        Self { speed: settings.speed() }
    }
}

/// A replica set with its replica counts.
struct SetState {
    value: Value,
    wanted: i64,
    present: i64,
    ready: i64,
    available: i64,
    /// Pods that were deleted and are still terminating.
    terminating: i64,
}

impl SetState {
    fn new(value: Value) -> Self {
        let count = |path: &[&str]| int(&value, path).unwrap_or(0);
        let (wanted, present) = (count(&["spec", "replicas"]), count(&["status", "replicas"]));
        let (ready, available) =
            (count(&["status", "readyReplicas"]), count(&["status", "availableReplicas"]));
        let terminating = count(&["status", "terminatingReplicas"]);
        Self { value, wanted, present, ready, available, terminating }
    }

    fn revision(&self) -> i64 {
        text(&self.value, &["metadata", "annotations", REVISION]).parse().unwrap_or(0)
    }
}

impl Controller for Deployments {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("apps", "deployments"), ("apps", "replicasets")]
    }

    fn keys_of_change(&self, _: &Cluster, source: usize, change: &Change) -> Vec<Key> {
        if source == 0 { vec![own_key(change)] } else { controller_of(change, "Deployment") }
    }

    fn reconcile(
        &self,
        cluster: &Cluster,
        (namespace, deployment_name): &Key,
    ) -> ApiResult<Option<Duration>> {
        let deployments = cluster.resource("apps", "deployments");
        let Some(deployment) = cluster.value(&deployments, namespace, deployment_name) else {
            return Ok(None);
        };
        if at(&deployment, &["metadata", "deletionTimestamp"]).is_some() {
            return Ok(None);
        }
        let (mut new, mut old) = sets_of(cluster, &deployment);
        if cluster.snapshot_state.is_held(&deployment) {
            // Without its replica sets, the status from the snapshot is kept.
            if new.is_none() {
                return Ok(None);
            }
            return self.write_status(cluster, namespace, &deployment, new.as_ref(), &old);
        }
        if !truth(&deployment, &["spec", "paused"]) {
            let created = new.is_none();
            let set = match new.take() {
                Some(set) => mark_as_newest(cluster, namespace, set, &old)?,
                None => create_set(cluster, namespace, &deployment, &old)?,
            };
            record_revision(cluster, namespace, &deployment, &set)?;
            new = Some(set);
            if let Some(set) = &mut new {
                if text(&deployment, &["spec", "strategy", "type"]) == "Recreate" {
                    recreate(cluster, namespace, &deployment, set, &mut old)?;
                } else {
                    roll(cluster, namespace, &deployment, set, &mut old, created)?;
                }
            }
            delete_old_sets(cluster, &deployment, &old)?;
        } else if let Some(set) = &mut new {
            let wanted = int(&deployment, &["spec", "replicas"]).unwrap_or(1);
            if old.iter().all(|set| set.wanted == 0) {
                scale(cluster, namespace, &deployment, set, wanted)?;
            }
        }
        self.write_status(cluster, namespace, &deployment, new.as_ref(), &old)
    }
}

/// Returns the replica set of the current template, if it exists, and all others, oldest first.
fn sets_of(cluster: &Cluster, deployment: &Value) -> (Option<SetState>, Vec<SetState>) {
    let owned = cluster.resource("apps", "replicasets").objects.owned_by(uid(deployment));
    let mut sets: Vec<SetState> = owned
        .iter()
        .filter(|object| controls(uid(deployment), object) && !object.deleting)
        .map(|object| SetState::new(object.value()))
        .collect();
    sets.sort_by_key(|set| {
        (set.revision(), text(&set.value, &["metadata", "creationTimestamp"]).to_owned())
    });
    let template = &deployment["spec"]["template"];
    let same = |set: &SetState| {
        let mut own = set.value["spec"]["template"].clone();
        if let Some(labels) =
            own.get_mut("metadata").and_then(|metadata| metadata.get_mut("labels"))
        {
            members(labels).remove(HASH);
        }
        own == *template
    };
    let index = sets.iter().position(same);
    let new = index.map(|index| sets.remove(index));
    (new, sets)
}

fn create_set(
    cluster: &Cluster,
    namespace: &str,
    deployment: &Value,
    old: &[SetState],
) -> ApiResult<SetState> {
    let template = deployment["spec"]["template"].clone();
    let hash = fingerprint(&json!([template, deployment["status"]["collisionCount"]]));
    let mut template = template;
    slot(&mut template, &["metadata", "labels"])[HASH] = hash.as_str().into();
    let mut selector = deployment["spec"]["selector"].clone();
    slot(&mut selector, &["matchLabels"])[HASH] = hash.as_str().into();
    let revision = old.iter().map(SetState::revision).max().unwrap_or(0) + 1;
    let wanted = if text(deployment, &["spec", "strategy", "type"]) == "Recreate"
        && old.iter().any(|set| set.present + set.terminating > 0)
    {
        0
    } else {
        new_replicas_max(deployment, 0, old)
    };
    let mut annotations =
        deployment["metadata"].get("annotations").cloned().unwrap_or_else(|| json!({}));
    members(&mut annotations).remove("kubectl.kubernetes.io/last-applied-configuration");
    members(&mut annotations).remove(REVISION);
    annotations[REVISION] = revision.to_string().into();
    let replicas = int(deployment, &["spec", "replicas"]).unwrap_or(1);
    let surge = scaled_value(
        at(deployment, &["spec", "strategy", "rollingUpdate", "maxSurge"]),
        replicas,
        true,
    );
    annotations["deployment.kubernetes.io/desired-replicas"] = replicas.to_string().into();
    annotations["deployment.kubernetes.io/max-replicas"] = (replicas + surge).to_string().into();
    let labels = template["metadata"]["labels"].clone();
    let mut spec = json!({"replicas": wanted, "selector": selector, "template": template});
    if let Some(seconds) = at(deployment, &["spec", "minReadySeconds"]) {
        spec["minReadySeconds"] = seconds.clone();
    }
    let set = json!({
        "metadata": {
            "name": format!("{}-{hash}", name(deployment)), "labels": labels,
            "annotations": annotations, "ownerReferences": [owner(deployment)],
        },
        "spec": spec,
    });
    let created = create(cluster, &cluster.resource("apps", "replicasets"), namespace, set)?;
    if wanted > 0 {
        let message = format!("Scaled up replica set {} from 0 to {wanted}", created.name);
        RECORDER.record(cluster, deployment, "Normal", "ScalingReplicaSet", &message);
    }
    Ok(SetState::new(created.value()))
}

/// Gives a replica set the highest revision, as after a rollback to its template.
fn mark_as_newest(
    cluster: &Cluster,
    namespace: &str,
    set: SetState,
    old: &[SetState],
) -> ApiResult<SetState> {
    let newest = old.iter().map(SetState::revision).max().unwrap_or(0);
    if set.revision() > newest {
        return Ok(set);
    }
    let sets = cluster.resource("apps", "replicasets");
    let options = WriteOptions::default();
    let written =
        cluster.change(&sets, namespace, name(&set.value), Part::Main, &options, |_, before| {
            let mut object = before.clone();
            slot(&mut object, &["metadata", "annotations"])[REVISION] =
                (newest + 1).to_string().into();
            Ok(Some(object))
        })?;
    Ok(SetState::new(written.object.value()))
}

fn record_revision(
    cluster: &Cluster,
    namespace: &str,
    deployment: &Value,
    set: &SetState,
) -> ApiResult<()> {
    let revision = set.revision().to_string();
    if text(deployment, &["metadata", "annotations", REVISION]) == revision {
        return Ok(());
    }
    let deployments = cluster.resource("apps", "deployments");
    cluster.change(
        &deployments,
        namespace,
        name(deployment),
        Part::Main,
        &WriteOptions::default(),
        |_, before| {
            let mut object = before.clone();
            slot(&mut object, &["metadata", "annotations"])[REVISION] = revision.as_str().into();
            Ok(Some(object))
        },
    )?;
    Ok(())
}

/// Returns the number of replicas that the newest set may have now.
fn new_replicas_max(deployment: &Value, present: i64, old: &[SetState]) -> i64 {
    let replicas = int(deployment, &["spec", "replicas"]).unwrap_or(1);
    if text(deployment, &["spec", "strategy", "type"]) == "Recreate" {
        return replicas;
    }
    let surge = scaled_value(
        at(deployment, &["spec", "strategy", "rollingUpdate", "maxSurge"]),
        replicas,
        true,
    );
    let total = present + old.iter().map(|set| set.wanted).sum::<i64>();
    let free = (replicas + surge - total).max(0);
    (present + free).min(replicas)
}

fn scale(
    cluster: &Cluster,
    namespace: &str,
    deployment: &Value,
    set: &mut SetState,
    wanted: i64,
) -> ApiResult<()> {
    if set.wanted == wanted {
        return Ok(());
    }
    let sets = cluster.resource("apps", "replicasets");
    cluster.change(&sets, namespace, name(&set.value), Part::Main, &WriteOptions::default(), |_, before| {
        let mut object = before.clone();
        object["spec"]["replicas"] = wanted.into();
        slot(&mut object, &["metadata", "annotations"])["deployment.kubernetes.io/desired-replicas"] =
            int(deployment, &["spec", "replicas"]).unwrap_or(1).to_string().into();
        Ok(Some(object))
    })?;
    let way = if wanted > set.wanted { "up" } else { "down" };
    let message =
        format!("Scaled {way} replica set {} from {} to {wanted}", name(&set.value), set.wanted);
    RECORDER.record(cluster, deployment, "Normal", "ScalingReplicaSet", &message);
    set.wanted = wanted;
    Ok(())
}

fn recreate(
    cluster: &Cluster,
    namespace: &str,
    deployment: &Value,
    new: &mut SetState,
    old: &mut [SetState],
) -> ApiResult<()> {
    for set in old.iter_mut() {
        scale(cluster, namespace, deployment, set, 0)?;
    }
    if old.iter().any(|set| set.present + set.terminating > 0) {
        return Ok(());
    }
    scale(cluster, namespace, deployment, new, int(deployment, &["spec", "replicas"]).unwrap_or(1))
}

fn roll(
    cluster: &Cluster,
    namespace: &str,
    deployment: &Value,
    new: &mut SetState,
    old: &mut [SetState],
    created: bool,
) -> ApiResult<()> {
    let replicas = int(deployment, &["spec", "replicas"]).unwrap_or(1);
    let rolling = |what: &str, up: bool| {
        scaled_value(at(deployment, &["spec", "strategy", "rollingUpdate", what]), replicas, up)
    };
    let surge = rolling("maxSurge", true);
    let mut unavailable = rolling("maxUnavailable", false);
    if surge == 0 && unavailable == 0 {
        unavailable = 1;
    }
    if new.wanted > replicas {
        scale(cluster, namespace, deployment, new, replicas)?;
    } else if new.wanted < replicas && !created {
        let wanted = new_replicas_max(deployment, new.wanted, old);
        scale(cluster, namespace, deployment, new, wanted)?;
    }
    // Old sets are scaled down while enough pods stay available, first by their unavailable pods.
    let least = (replicas - unavailable.min(replicas)).max(0);
    let total: i64 = new.wanted + old.iter().map(|set| set.wanted).sum::<i64>();
    let new_missing = (new.wanted - new.available).max(0);
    let mut spare = total - least - new_missing;
    for set in old.iter_mut() {
        let broken = (set.wanted - set.available).max(0).min(spare.max(0));
        if broken > 0 {
            scale(cluster, namespace, deployment, set, set.wanted - broken)?;
            spare -= broken;
        }
    }
    let available: i64 =
        new.available + old.iter().map(|set| set.available.min(set.wanted)).sum::<i64>();
    let mut spare = (available - least).max(0);
    for set in old.iter_mut() {
        let gone = set.wanted.min(spare);
        if gone > 0 {
            scale(cluster, namespace, deployment, set, set.wanted - gone)?;
            spare -= gone;
        }
    }
    Ok(())
}

fn delete_old_sets(cluster: &Cluster, deployment: &Value, old: &[SetState]) -> ApiResult<()> {
    let kept = int(deployment, &["spec", "revisionHistoryLimit"]).unwrap_or(10).max(0) as usize;
    let idle: Vec<&SetState> =
        old.iter().filter(|set| set.wanted == 0 && set.present == 0).collect();
    let sets = cluster.resource("apps", "replicasets");
    for set in idle.iter().take(idle.len().saturating_sub(kept)) {
        let options = DeleteOptions { uid: uid(&set.value).to_owned(), ..DeleteOptions::default() };
        let namespace = crate::json::namespace(&set.value);
        ignore(cluster.delete(&sets, namespace, name(&set.value), &options), &[404])?;
    }
    Ok(())
}

impl Deployments {
    fn write_status(
        &self,
        cluster: &Cluster,
        namespace: &str,
        deployment: &Value,
        new: Option<&SetState>,
        old: &[SetState],
    ) -> ApiResult<Option<Duration>> {
        let all = || new.into_iter().chain(old);
        let sum = |count: fn(&SetState) -> i64| all().map(count).sum::<i64>();
        let (present, ready, available) =
            (sum(|set| set.present), sum(|set| set.ready), sum(|set| set.available));
        let updated = new.map_or(0, |set| set.present);
        let terminating = sum(|set| set.terminating);
        let replicas = int(deployment, &["spec", "replicas"]).unwrap_or(1);
        let unavailable = scaled_value(
            at(deployment, &["spec", "strategy", "rollingUpdate", "maxUnavailable"]),
            replicas,
            false,
        );
        let enough = available >= replicas - unavailable.min(replicas);
        let complete = updated == replicas && available == replicas && present == replicas;
        let set_name = new.map_or("", |set| name(&set.value)).to_owned();
        let now = cluster.now();
        let deployments = cluster.resource("apps", "deployments");
        let options = WriteOptions::default();
        let mut late = false;
        cluster.change(&deployments, namespace, name(deployment), Part::Status, &options, |_, before| {
            let mut object = before.clone();
            let time = seconds(now);
            let progressed = ["updatedReplicas", "readyReplicas", "availableReplicas", "replicas"]
                .into_iter()
                .zip([updated, ready, available, present])
                .any(|(field, count)| int(before, &["status", field]).unwrap_or(0) != count);
            let deadline = int(before, &["spec", "progressDeadlineSeconds"]).unwrap_or(600);
            let last = condition(before, "Progressing").map(|one| text(one, &["lastUpdateTime"]).to_owned());
            let age = last
                .and_then(|last| last.parse::<jiff::Timestamp>().ok())
                .map_or(0.0, |last| (now.as_second() - last.as_second()) as f64 * self.speed);
            let was_complete = condition(before, "Progressing").is_some_and(|one| text(one, &["reason"]) == "NewReplicaSetAvailable");
            let same_generation = before["status"].get("observedGeneration") == before["metadata"].get("generation");
            let settled = complete || progressed || (was_complete && same_generation);
                late = !settled && age > deadline as f64;
            let status = slot(&mut object, &["status"]);
            for (field, count) in [
                ("replicas", present),
                ("updatedReplicas", updated),
                ("readyReplicas", ready),
                ("availableReplicas", available),
                ("unavailableReplicas", (present.max(replicas) - available).max(0)),
            ] {
                if count > 0 { status[field] = count.into() } else { drop(members(status).remove(field)) }
            }
            status["terminatingReplicas"] = terminating.into();
            status["observedGeneration"] = before["metadata"]["generation"].clone();
            let minimum = if enough {
                json!({"type": "Available", "status": "True", "reason": "MinimumReplicasAvailable", "message": "Deployment has minimum availability.", "lastTransitionTime": time, "lastUpdateTime": time})
            } else {
                json!({"type": "Available", "status": "False", "reason": "MinimumReplicasUnavailable", "message": "Deployment does not have minimum availability.", "lastTransitionTime": time, "lastUpdateTime": time})
            };
            set_timed_condition(status, minimum, progressed);
            let failure = all().find_map(|set| condition(&set.value, FAILURE));
            if let Some(failure) = failure {
                let mut failure = failure.clone();
                failure["lastUpdateTime"] = time.as_str().into();
                set_timed_condition(status, failure, false);
            } else if let Some(Value::Array(conditions)) = status.get_mut("conditions") {
                conditions.retain(|one| text(one, &["type"]) != FAILURE);
            }
            if !set_name.is_empty() {
                let progress = if complete {
                    json!({"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable", "message": format!("ReplicaSet {set_name:?} has successfully progressed."), "lastTransitionTime": time, "lastUpdateTime": time})
                } else if late {
                    json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": format!("ReplicaSet {set_name:?} has timed out progressing."), "lastTransitionTime": time, "lastUpdateTime": time})
                } else {
                    json!({"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated", "message": format!("ReplicaSet {set_name:?} is progressing."), "lastTransitionTime": time, "lastUpdateTime": time})
                };
                // Scaling a complete deployment does not restart its progress.
                if !(was_complete && same_generation && !complete && list(status, &["conditions"]).iter().any(|one| text(one, &["type"]) == "Progressing")) {
                    set_timed_condition(status, progress, progressed);
                }
            }
            Ok(Some(object))
        })?;
        let deadline =
            int(deployment, &["spec", "progressDeadlineSeconds"]).unwrap_or(600).max(1) as f64;
        let wait = Duration::from_secs_f64((deadline / self.speed).clamp(1.0, 3600.0));
        Ok((!complete && !late).then_some(wait))
    }
}

/// Sets a condition. Its update time is kept while reason and message are unchanged and there was no
/// progress.
fn set_timed_condition(status: &mut Value, mut new: Value, progressed: bool) {
    let kind = text(&new, &["type"]).to_owned();
    let old = list(status, &["conditions"]).iter().find(|one| text(one, &["type"]) == kind);
    if let Some(old) = old {
        let same = text(old, &["reason"]) == text(&new, &["reason"])
            && text(old, &["message"]) == text(&new, &["message"]);
        if same && (!progressed || kind == "Available") {
            new["lastUpdateTime"] = old["lastUpdateTime"].clone();
        }
    }
    set_condition(status, new);
}
