//! Taint eviction: pods leave nodes whose `NoExecute` taints they do not tolerate, or not any longer.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::Settings;
use super::affinity::tolerations;
use super::controller::{Controller, Key, own_key};
use super::recorder::EventRecorder;
use super::workload::delete_pod;
use crate::cluster::{Cluster, Part, WriteOptions, seconds};
use crate::json::{int, list, slot, text};
use crate::lock::lock;
use crate::status_error::{ApiResult, ignore};
use crate::store::{Change, Object};
use crate::subresources::set_condition;

/// Interval at which the pods of a tainted node are checked again.
const RECHECK_DELAY: Duration = Duration::from_secs(1);

static RECORDER: EventRecorder = EventRecorder::new("taint-eviction-controller");

/// Time since when a pod and the taints are on a node together, by the uid of the pod.
type Stays = BTreeMap<Box<str>, Instant>;

/// The controller of taint evictions.
pub(super) struct TaintEvictions {
    settings: Settings,
    /// By node. The time starts again with the controller, as upstream's does.
    stays: Mutex<BTreeMap<String, Stays>>,
}

impl TaintEvictions {
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, stays: Mutex::default() }
    }
}

impl Controller for TaintEvictions {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "nodes")]
    }

    fn keys_of_change(&self, _: &Cluster, _: usize, change: &Change) -> Vec<Key> {
        vec![own_key(change)]
    }

    fn reconcile(&self, cluster: &Cluster, (_, node_name): &Key) -> ApiResult<Option<Duration>> {
        let mut all = lock(&self.stays);
        let before = all.remove(node_name).unwrap_or_default();
        let node = cluster.value(&cluster.resource("", "nodes"), "", node_name).unwrap_or_default();
        let strict: Vec<&Value> = list(&node, &["spec", "taints"])
            .iter()
            .filter(|taint| text(taint, &["effect"]) == "NoExecute")
            .collect();
        if strict.is_empty() {
            return Ok(None);
        }
        let now = Instant::now();
        let mut wait = self.settings.wait(RECHECK_DELAY);
        let (mut stays, mut leaving) = (Stays::new(), Vec::new());
        for pod in cluster.resource("", "pods").objects.by_field(node_name).objects {
            if pod.deleting {
                continue;
            }
            let since = before.get(&pod.uid).copied().unwrap_or(now);
            stays.insert(pod.uid.clone(), since);
            let Some(stay) = stay(&pod.value(), &strict) else { continue };
            match (since + self.settings.wait(stay)).checked_duration_since(now) {
                Some(left) if !left.is_zero() => wait = wait.min(left),
                _ => leaving.push(pod),
            }
        }
        all.insert(node_name.clone(), stays);
        drop(all);
        for pod in leaving {
            evict(cluster, &pod)?;
        }
        Ok(Some(wait))
    }
}

/// Returns the time that a pod tolerates these taints, or `None` if there is no limit.
fn stay(pod: &Value, taints: &[&Value]) -> Option<Duration> {
    let mut shortest = None;
    for taint in taints {
        let Some(toleration) = tolerations(pod, taint).next() else { return Some(Duration::ZERO) };
        if let Some(seconds) = int(toleration, &["tolerationSeconds"]) {
            let stay = Duration::from_secs(u64::try_from(seconds).unwrap_or(0).min(1 << 32));
            shortest = Some(shortest.map_or(stay, |other: Duration| other.min(stay)));
        }
    }
    shortest
}

fn evict(cluster: &Cluster, pod: &Object) -> ApiResult<()> {
    let now = seconds(cluster.now());
    let options = WriteOptions::default();
    let pods = cluster.resource("", "pods");
    let marked = cluster.change(
        &pods,
        &pod.namespace,
        &pod.name,
        Part::Status,
        &options,
        |current, before| {
            let mut pod_now = before.clone();
            let target = json!({
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
                "message": "Taint manager: deleting due to NoExecute taint",
                "lastTransitionTime": now,
            });
            set_condition(slot(&mut pod_now, &["status"]), target);
            Ok((current.uid == pod.uid).then_some(pod_now))
        },
    );
    ignore(marked, &[404])?;
    let message = format!("Marking for deletion Pod {}", pod.key);
    RECORDER.record(cluster, &pod.value(), "Normal", "TaintManagerEviction", &message);
    delete_pod(cluster, pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_toleration_limits_how_long_a_pod_stays() {
        let taint = |key: &str| json!({"key": key, "effect": "NoExecute"});
        let pod = |seconds: &[(&str, Option<i64>)]| {
            let tolerations = seconds.iter().map(|(key, seconds)| {
                json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds})
            });
            json!({"spec": {"tolerations": tolerations.collect::<Vec<_>>()}})
        };
        let (a, b) = (taint("a"), taint("b"));
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (tolerated, expected) in [
            (pod(&[]), seconds(0)),
            (pod(&[("a", None)]), seconds(0)),
            (pod(&[("a", None), ("b", None)]), None),
            (pod(&[("a", Some(300)), ("b", None)]), seconds(300)),
            (pod(&[("a", Some(300)), ("b", Some(20))]), seconds(20)),
            (pod(&[("a", Some(-5)), ("b", None)]), seconds(0)),
            // The first toleration that matches a taint counts.
            (pod(&[("a", Some(10)), ("a", Some(5)), ("b", None)]), seconds(10)),
        ] {
            assert_eq!(stay(&tolerated, &[&a, &b]), expected, "{tolerated}");
        }
    }
}
