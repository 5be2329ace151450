//! Controller of DaemonSets: one pod on each eligible node.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::affinity;
use super::controller::{Controller, Key, own_key};
use super::recorder::EventRecorder;
use super::revision::{self, REVISION};
use super::workload::{
    Pod, controller_of, create, delete_pod, from_template, pods_of, scaled_value,
};
use crate::cluster::{Cluster, Part, WriteOptions};
use crate::json::{at, list, members, name, slot, text, uid};
use crate::status_error::ApiResult;
use crate::store::{Change, ChangeKind};

/// Tolerations that are added to the pods of daemon sets: (key, effect).
const TOLERATED: &[(&str, &str)] = &[
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];

/// Minimum age at which a finished pod is replaced, so that a pod that fails at once does not cause a
/// loop of creations.
const REPLACE_AFTER: Duration = Duration::from_secs(1);

/// Annotation of a DaemonSet with its template generation; [`GENERATION`] is the label on its pods.
pub(crate) const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
pub(crate) const GENERATION: &str = "pod-template-generation";

static RECORDER: EventRecorder = EventRecorder::new("daemonset-controller");

/// The controller of DaemonSets.
pub(super) struct DaemonSets;

impl Controller for DaemonSets {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("apps", "daemonsets"), ("", "pods"), ("", "nodes")]
    }

    fn keys_of_change(&self, cluster: &Cluster, source: usize, change: &Change) -> Vec<Key> {
        match source {
            0 => vec![own_key(change)],
            1 => controller_of(change, "DaemonSet"),
            _ => {
                // Of a node only spec and labels decide where daemon pods run; status updates are skipped.
                let spec =
                    |value: Value| (value["spec"].clone(), value["metadata"]["labels"].clone());
                let before = change.previous.as_ref().map(|previous| spec(previous.value()));
                if change.kind == ChangeKind::Modified
                    && before == Some(spec(change.object.value()))
                {
                    return Vec::new();
                }
                let sets = cluster.resource("apps", "daemonsets").objects.list("").objects;
                if change.object.version > cluster.snapshot_state.version() {
                    for set in &sets {
                        cluster.snapshot_state.release(&set.uid);
                    }
                }
                sets.iter().map(|set| (set.namespace.to_string(), set.name.to_string())).collect()
            }
        }
    }

    fn reconcile(
        &self,
        cluster: &Cluster,
        (namespace, set_name): &Key,
    ) -> ApiResult<Option<Duration>> {
        let sets = cluster.resource("apps", "daemonsets");
        let Some(set) = cluster.value(&sets, namespace, set_name) else { return Ok(None) };
        if at(&set, &["metadata", "deletionTimestamp"]).is_some() {
            return Ok(None);
        }
        let revision = revision::ensure(cluster, namespace, &set, |_, hash| hash)?;
        let template = template(&set, &revision);
        let mut by_node: BTreeMap<String, Vec<Pod>> = BTreeMap::new();
        for pod in pods_of(cluster, uid(&set)) {
            by_node.entry(node_of(&pod)).or_default().push(pod);
        }
        let nodes = cluster.resource("", "nodes").objects.list("").objects;
        let (mut wanted, mut kept) = (Vec::<String>::new(), BTreeSet::<String>::new());
        for node in &nodes {
            let (name, node) = (node.name.to_string(), node.value());
            if !affinity::labels_match(&template, &node)
                || !affinity::tolerates_all(&template, &node, &["NoExecute"])
            {
                continue;
            }
            // `NoSchedule` keeps new pods away but does not evict running ones.
            if affinity::tolerates_all(&template, &node, &["NoSchedule"]) {
                wanted.push(name.clone());
            }
            kept.insert(name);
        }
        if cluster.snapshot_state.is_held(&set) {
            write_status(cluster, namespace, &set, &wanted, &revision)?;
            return Ok(None);
        }
        let pods = cluster.resource("", "pods");
        let mut wait = None;
        for node in &wanted {
            let present = by_node.get(node).map_or(&[][..], Vec::as_slice);
            if present.iter().all(|pod| pod.is_finished() && !pod.object.deleting) {
                if present.iter().any(|pod| is_young(pod, cluster.now())) {
                    wait = Some(REPLACE_AFTER);
                    continue;
                }
                for pod in present {
                    delete_pod(cluster, &pod.object)?;
                }
                let mut pod = template.clone();
                restrict_to_node(&mut pod, node);
                let made = create(cluster, &pods, namespace, pod)?;
                RECORDER.record(
                    cluster,
                    &set,
                    "Normal",
                    "SuccessfulCreate",
                    &format!("Created pod: {}", made.name),
                );
            }
        }
        for (_, pods) in by_node.iter().filter(|(node, _)| !kept.contains(*node)) {
            for pod in pods.iter().filter(|pod| !pod.object.deleting) {
                delete_pod(cluster, &pod.object)?;
            }
        }
        replace_outdated(cluster, &set, &by_node, &wanted, &revision)?;
        write_status(cluster, namespace, &set, &wanted, &revision)?;
        Ok(wait)
    }
}

/// Returns `true` if a pod was created at most [`REPLACE_AFTER`] ago.
fn is_young(pod: &Pod, now: Timestamp) -> bool {
    let value = pod.value();
    let created: Option<Timestamp> = text(&value, &["metadata", "creationTimestamp"]).parse().ok();
    created.is_some_and(|created| {
        let age = now.as_second() - created.as_second();
        u64::try_from(age).is_ok_and(|age| age <= REPLACE_AFTER.as_secs())
    })
}

fn template(set: &Value, revision: &str) -> Value {
    let mut pod = from_template(set);
    pod["metadata"]["generateName"] = format!("{}-", name(set)).into();
    let labels = slot(&mut pod, &["metadata", "labels"]);
    labels[REVISION] = revision.into();
    if let Some(generation) = at(set, &["metadata", "annotations", TEMPLATE_GENERATION]) {
        labels[GENERATION] = generation.clone();
    }
    let tolerations =
        members(slot(&mut pod, &["spec"])).entry("tolerations").or_insert_with(|| json!([]));
    if let Value::Array(tolerations) = tolerations {
        tolerations.extend(
            TOLERATED
                .iter()
                .map(|(key, effect)| json!({"key": key, "operator": "Exists", "effect": effect})),
        );
    }
    pod
}

/// Restricts a pod to one node by node affinity; the scheduler binds it.
fn restrict_to_node(pod: &mut Value, node: &str) {
    let affinity = slot(
        pod,
        &["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"],
    );
    let own = json!({"key": "metadata.name", "operator": "In", "values": [node]});
    let terms = members(affinity).entry("nodeSelectorTerms").or_insert_with(|| json!([{}]));
    if let Value::Array(terms) = terms {
        for term in terms {
            term["matchFields"] = json!([own]);
        }
    }
}

/// Returns the node that a pod is bound to or restricted to.
fn node_of(pod: &Pod) -> String {
    if !pod.node().is_empty() {
        return pod.node().to_owned();
    }
    let value = pod.value();
    let path = [
        "spec",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    ];
    let terms = list(&value, &path).iter();
    let fields = terms.flat_map(|term| list(term, &["matchFields"]));
    fields
        .flat_map(|field| list(field, &["values"]))
        .find_map(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// Replaces pods of older templates, as `maxUnavailable` allows.
fn replace_outdated(
    cluster: &Cluster,
    set: &Value,
    by_node: &BTreeMap<String, Vec<Pod>>,
    wanted: &[String],
    revision: &str,
) -> ApiResult<()> {
    if text(set, &["spec", "updateStrategy", "type"]) == "OnDelete" {
        return Ok(());
    }
    let max_unavailable = scaled_value(
        at(set, &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]),
        wanted.len() as i64,
        true,
    )
    .max(1);
    let missing = wanted.iter().filter(|node| {
        by_node
            .get(*node)
            .is_none_or(|pods| !pods.iter().any(|pod| pod.ready() && !pod.object.deleting))
    });
    let mut left = max_unavailable - missing.count() as i64;
    for pod in by_node.values().flatten() {
        if pod.label(REVISION) != revision && !pod.object.deleting {
            if left <= 0 && pod.ready() {
                continue;
            }
            left -= i64::from(pod.ready());
            delete_pod(cluster, &pod.object)?;
        }
    }
    Ok(())
}

fn write_status(
    cluster: &Cluster,
    namespace: &str,
    set: &Value,
    wanted: &[String],
    revision: &str,
) -> ApiResult<()> {
    let pods: Vec<Pod> = pods_of(cluster, uid(set)).into_iter().filter(Pod::active).collect();
    let here: Vec<&Pod> = pods.iter().filter(|pod| wanted.contains(&node_of(pod))).collect();
    let ready = here.iter().filter(|pod| pod.ready()).count();
    let updated = here.iter().filter(|pod| pod.label(REVISION) == revision).count();
    let sets = cluster.resource("apps", "daemonsets");
    cluster.change(
        &sets,
        namespace,
        name(set),
        Part::Status,
        &WriteOptions::default(),
        |_, before| {
            let mut object = before.clone();
            let status = slot(&mut object, &["status"]);
            for (field, count) in [
                ("desiredNumberScheduled", wanted.len()),
                ("currentNumberScheduled", here.len()),
                ("numberMisscheduled", pods.len() - here.len()),
                ("numberReady", ready),
                ("updatedNumberScheduled", updated),
                ("numberAvailable", ready),
                ("numberUnavailable", wanted.len().saturating_sub(ready)),
            ] {
                let required = !["updatedNumberScheduled", "numberAvailable", "numberUnavailable"]
                    .contains(&field);
                if count > 0 || required {
                    status[field] = count.into();
                } else {
                    drop(members(status).remove(field));
                }
            }
            status["observedGeneration"] = before["metadata"]["generation"].clone();
            Ok(Some(object))
        },
    )?;
    Ok(())
}
