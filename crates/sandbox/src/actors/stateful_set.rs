//! Controller of StatefulSets: pods with stable names, started one after another.

use std::time::Duration;

use serde_json::{Value, json};

use super::controller::{Controller, Key, own_key};
use super::recorder::EventRecorder;
use super::revision::{self, REVISION};
use super::workload::{Pod, controller_of, create, delete_pod, from_template, pods_of};
use crate::cluster::{Cluster, Part, WriteOptions};
use crate::json::{at, int, list, name, slot, text, uid};
use crate::status_error::ApiResult;
use crate::store::Change;

static RECORDER: EventRecorder = EventRecorder::new("statefulset-controller");

/// The controller of StatefulSets.
pub(super) struct StatefulSets;

impl Controller for StatefulSets {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("apps", "statefulsets"), ("", "pods")]
    }

    fn keys_of_change(&self, _: &Cluster, source: usize, change: &Change) -> Vec<Key> {
        if source == 0 { vec![own_key(change)] } else { controller_of(change, "StatefulSet") }
    }

    fn reconcile(
        &self,
        cluster: &Cluster,
        (namespace, set_name): &Key,
    ) -> ApiResult<Option<Duration>> {
        let sets = cluster.resource("apps", "statefulsets");
        let Some(set) = cluster.value(&sets, namespace, set_name) else { return Ok(None) };
        if at(&set, &["metadata", "deletionTimestamp"]).is_some() {
            return Ok(None);
        }
        let update = revision::ensure(cluster, namespace, &set, |name, _| name)?;
        let mut done = Ok(());
        if !cluster.snapshot_state.is_held(&set) {
            let pods = pods_of(cluster, uid(&set));
            done = advance(cluster, namespace, &set, &pods, &update);
        }
        // The status is written even if the creation of a pod was rejected.
        let pods = pods_of(cluster, uid(&set));
        write_status(cluster, namespace, &set, &pods, &update)?;
        done.map(|()| None)
    }
}

fn ordinal(pod: &Pod) -> i64 {
    pod.object.name.rsplit_once('-').and_then(|(_, number)| number.parse().ok()).unwrap_or(-1)
}

/// Takes the next step. With `OrderedReady`, a pod is created or deleted only when all before it are ready.
fn advance(
    cluster: &Cluster,
    namespace: &str,
    set: &Value,
    pods: &[Pod],
    update: &str,
) -> ApiResult<()> {
    let wanted = int(set, &["spec", "replicas"]).unwrap_or(1).max(0);
    let first = int(set, &["spec", "ordinals", "start"]).unwrap_or(0);
    let parallel = text(set, &["spec", "podManagementPolicy"]) == "Parallel";
    for number in first..first + wanted {
        match pods.iter().find(|pod| ordinal(pod) == number) {
            None => {
                create_pod(cluster, namespace, set, number, update)?;
                if !parallel {
                    return Ok(());
                }
            }
            Some(pod) if pod.is_finished() && !pod.object.deleting => {
                delete_pod(cluster, &pod.object)?;
                return Ok(());
            }
            Some(pod) if !parallel && (!pod.ready() || pod.object.deleting) => return Ok(()),
            Some(_) => {}
        }
    }
    let mut surplus: Vec<&Pod> =
        pods.iter().filter(|pod| !(first..first + wanted).contains(&ordinal(pod))).collect();
    surplus.sort_by_key(|pod| std::cmp::Reverse(ordinal(pod)));
    for pod in &surplus {
        if !pod.object.deleting {
            delete_pod(cluster, &pod.object)?;
            let message =
                format!("Delete Pod {} in StatefulSet {} successful", pod.object.name, name(set));
            RECORDER.record(cluster, set, "Normal", "SuccessfulDelete", &message);
        }
        if !parallel {
            return Ok(());
        }
    }
    if text(set, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return Ok(());
    }
    let partition =
        int(set, &["spec", "updateStrategy", "rollingUpdate", "partition"]).unwrap_or(0);
    for number in (first.max(partition)..first + wanted).rev() {
        let Some(pod) = pods.iter().find(|pod| ordinal(pod) == number) else { return Ok(()) };
        if pod.object.deleting {
            return Ok(());
        }
        if pod.label(REVISION) != update {
            return delete_pod(cluster, &pod.object);
        }
        if !pod.ready() {
            return Ok(());
        }
    }
    Ok(())
}

fn create_pod(
    cluster: &Cluster,
    namespace: &str,
    set: &Value,
    number: i64,
    update: &str,
) -> ApiResult<()> {
    let mut pod = from_template(set);
    let pod_name = format!("{}-{number}", name(set));
    pod["metadata"]["name"] = pod_name.as_str().into();
    let labels = slot(&mut pod, &["metadata", "labels"]);
    labels["statefulset.kubernetes.io/pod-name"] = pod_name.as_str().into();
    labels["apps.kubernetes.io/pod-index"] = number.to_string().into();
    labels[REVISION] = update.into();
    pod["spec"]["hostname"] = pod_name.as_str().into();
    if let Some(service) = at(set, &["spec", "serviceName"]) {
        pod["spec"]["subdomain"] = service.clone();
    }
    let claims = cluster.resource("", "persistentvolumeclaims");
    for template in list(set, &["spec", "volumeClaimTemplates"]) {
        let volume = name(template);
        let claim_name = format!("{volume}-{pod_name}");
        if claims.objects.get(&format!("{namespace}/{claim_name}")).is_none() {
            let mut claim = template.clone();
            claim["metadata"] = json!({"name": claim_name, "labels": at(set, &["spec", "selector", "matchLabels"])});
            create(cluster, &claims, namespace, claim)?;
        }
        let volumes = list(&pod, &["spec", "volumes"]).iter();
        let mut volumes: Vec<Value> =
            volumes.filter(|one| text(one, &["name"]) != volume).cloned().collect();
        volumes.push(json!({"name": volume, "persistentVolumeClaim": {"claimName": claim_name}}));
        pod["spec"]["volumes"] = volumes.into();
    }
    create(cluster, &cluster.resource("", "pods"), namespace, pod)?;
    let message = format!("Create Pod {pod_name} in StatefulSet {} successful", name(set));
    RECORDER.record(cluster, set, "Normal", "SuccessfulCreate", &message);
    Ok(())
}

fn write_status(
    cluster: &Cluster,
    namespace: &str,
    set: &Value,
    pods: &[Pod],
    update: &str,
) -> ApiResult<()> {
    let sets = cluster.resource("apps", "statefulsets");
    let present = pods.iter().filter(|pod| pod.active()).count();
    let ready = pods.iter().filter(|pod| pod.active() && pod.ready()).count();
    let updated = pods.iter().filter(|pod| pod.active() && pod.label(REVISION) == update).count();
    let wanted = int(set, &["spec", "replicas"]).unwrap_or(1).max(0) as usize;
    cluster.change(
        &sets,
        namespace,
        name(set),
        Part::Status,
        &WriteOptions::default(),
        |_, before| {
            let mut object = before.clone();
            let status = slot(&mut object, &["status"]);
            status["replicas"] = present.into();
            status["readyReplicas"] = ready.into();
            status["availableReplicas"] = ready.into();
            status["updatedReplicas"] = updated.into();
            status["updateRevision"] = update.into();
            let done = updated == wanted && ready == wanted;
            let current = text(status, &["currentRevision"]).to_owned();
            let current = if done || current.is_empty() { update.to_owned() } else { current };
            let of_current =
                pods.iter().filter(|pod| pod.active() && pod.label(REVISION) == current).count();
            status["currentRevision"] = current.into();
            status["currentReplicas"] = of_current.into();
            status["collisionCount"] = 0.into();
            status["observedGeneration"] = before["metadata"]["generation"].clone();
            Ok(Some(object))
        },
    )?;
    Ok(())
}
