//! Simulated usage of pods and nodes, served as metrics.k8s.io.
//!
//! A pod uses a share of its requests, which its annotation `USAGE` can set.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::cluster::{Cluster, seconds};
use crate::json::{list, map, name, namespace, quantity, text, uid};
use crate::kinds::Resource;
use crate::selector::Selector;
use crate::status_error::{ApiResult, StatusError};
use crate::store::Object;

/// Annotation with the course of a pod's usage: `constant`, `wave` (with a period of one day) or `bursts`,
/// optionally with a share of its requests, such as `wave:0.8`; or `trace` with shares at times since the
/// start of the pod, such as `trace:0s=0.2,10m=0.9,30m=0.2`, which repeats after its last point.
pub(crate) const USAGE: &str = "sandbox.novasphere.dev/usage";

/// Usage of a container without requests.
const IDLE_MILLI: f64 = 5.0;
const IDLE_BYTES: f64 = 16.0 * 1024.0 * 1024.0;
/// Window of the measurement, as metrics-server reports it.
const WINDOW: Duration = Duration::from_secs(15);
const DAY_SECONDS: f64 = 86_400.0;
/// Period of bursts, and the fraction of the period that is burst.
const BURST_SECONDS: f64 = 300.0;
const BURST_SHARE: f64 = 0.2;
/// Usage of a node without pods.
const NODE_MILLI: f64 = 100.0;
const NODE_BYTES: f64 = 512.0 * 1024.0 * 1024.0;

/// The model of usage.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Factor by which the time of the model runs faster than real time.
    pub speed: f64,
    /// Start of the model.
    pub start: Timestamp,
}

impl Usage {
    /// Creates a model that starts now.
    pub fn new(speed: f64) -> Self {
        Self { speed, start: Timestamp::now() }
    }

    /// Returns the seconds of the model since its start.
    fn elapsed(&self, now: Timestamp) -> f64 {
        now.duration_since(self.start).as_secs_f64() * self.speed
    }

    /// Returns the share of its requests that a pod uses now.
    fn share(&self, pod: &Value, now: Timestamp) -> f64 {
        let given = text(pod, &["metadata", "annotations", USAGE]);
        let (shape, share) = given.split_once(':').unwrap_or((given, ""));
        // The default share differs between pods and is constant for each.
        let own = f64::from(fraction(uid(pod)));
        let share =
            share.parse::<f64>().ok().filter(|share| share.is_finite()).unwrap_or(0.4 + 0.3 * own);
        let time = self.elapsed(now);
        match shape {
            "trace" => {
                let began = text(pod, &["status", "startTime"]).parse().unwrap_or(self.start);
                let time = now.duration_since(began).as_secs_f64() * self.speed;
                given.split_once(':').and_then(|(_, points)| trace(points, time)).unwrap_or(share)
            }
            "wave" => {
                let phase = (time / DAY_SECONDS + own).fract() * std::f64::consts::TAU;
                share * (1.0 + 0.6 * phase.sin())
            }
            "bursts" => {
                let burst = (time / BURST_SECONDS + own).fract() < BURST_SHARE;
                if burst { share * 2.5 } else { share * 0.5 }
            }
            _ => share,
        }
        .clamp(0.0, 100.0)
    }

    /// Returns CPU in thousandths, and memory in bytes, of a container.
    fn container(&self, pod: &Value, container: &Value, now: Timestamp) -> (i64, i64) {
        let amount = |resource: &str| {
            let of = |kind: &str| quantity(container, &["resources", kind, resource]);
            (of("requests"), of("limits"))
        };
        let share = self.share(pod, now);
        let (cpu, cpu_limit) = amount("cpu");
        let (memory, memory_limit) = amount("memory");
        let milli = cpu.map_or(IDLE_MILLI, |cpu| cpu.milli() as f64 * share);
        // Memory depends less on load than CPU.
        let bytes = memory
            .map_or(IDLE_BYTES, |memory| memory.whole() as f64 * (0.5 + 0.2 * share.min(2.0)));
        let milli = cpu_limit.map_or(milli, |limit| milli.min(limit.milli() as f64));
        let bytes = memory_limit.map_or(bytes, |limit| bytes.min(limit.whole() as f64));
        (milli as i64, bytes as i64)
    }

    fn pod(&self, pod: &Value, now: Timestamp) -> (i64, i64) {
        let containers = list(pod, &["spec", "containers"]).iter();
        containers
            .map(|container| self.container(pod, container, now))
            .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    }

    /// Answers a request for the usage of nodes or pods.
    pub(crate) fn answer(
        &self,
        cluster: &Cluster,
        resource: &Resource,
        namespace_of_request: Option<&str>,
        one: Option<&str>,
        labels: &str,
    ) -> ApiResult<Value> {
        let selector = Selector::labels(labels)?;
        let of = cluster.resource("", &resource.kind.plural);
        let now = cluster.now();
        let objects = match one {
            Some(name) => {
                let key = crate::store::key_of(namespace_of_request.unwrap_or_default(), name);
                vec![
                    of.objects
                        .get(&key)
                        .ok_or_else(|| StatusError::not_found(resource.group_resource(), name))?,
                ]
            }
            None => of.objects.list(&of.prefix(namespace_of_request)).objects,
        };
        let selected = objects.iter().filter(|object| selector.matches(object.labels()));
        let mut items: Vec<Value> = if resource.kind.plural == "nodes" {
            selected.map(|node| self.node_item(cluster, node, now)).collect()
        } else {
            let running = selected.filter(|pod| pod.field_named("status.phase") == "Running");
            running.map(|pod| self.pod_item(&pod.value(), now)).collect()
        };
        match one {
            Some(name) => {
                items.pop().ok_or_else(|| StatusError::not_found(resource.group_resource(), name))
            }
            None => Ok(json!({
                "kind": format!("{}List", resource.kind.kind), "apiVersion": "metrics.k8s.io/v1beta1",
                "metadata": {}, "items": items,
            })),
        }
    }

    fn node_item(&self, cluster: &Cluster, node: &Object, now: Timestamp) -> Value {
        let (mut milli, mut bytes) = (NODE_MILLI as i64, NODE_BYTES as i64);
        for pod in cluster.resource("", "pods").objects.by_field(&node.name).objects {
            if pod.field_named("status.phase") == "Running" {
                let (cpu, memory) = self.pod(&pod.value(), now);
                milli += cpu;
                bytes += memory;
            }
        }
        let value = node.value();
        let mut item = head("NodeMetrics", &value, now);
        item["usage"] = usage(milli, bytes);
        item
    }

    fn pod_item(&self, pod: &Value, now: Timestamp) -> Value {
        let containers = list(pod, &["spec", "containers"]).iter();
        let containers: Vec<Value> = containers
            .map(|container| {
                let (milli, bytes) = self.container(pod, container, now);
                json!({"name": container["name"], "usage": usage(milli, bytes)})
            })
            .collect();
        let mut item = head("PodMetrics", pod, now);
        item["containers"] = containers.into();
        item
    }
}

/// Returns the share of a trace at a time, interpolated linearly between two points, or `None` if the
/// trace is invalid: unreadable, of no length, or with times that do not increase.
fn trace(points: &str, time: f64) -> Option<f64> {
    let point = |text: &str| {
        let (at, share) = text.split_once('=')?;
        let at = super::kubelet::duration(at.trim())?.as_secs_f64();
        Some((at, share.trim().parse::<f64>().ok().filter(|share| share.is_finite())?))
    };
    let points: Vec<(f64, f64)> = points.split(',').map(point).collect::<Option<_>>()?;
    let (&(first, _), &(last, _)) = (points.first()?, points.last()?);
    if first != 0.0 || !points.is_sorted_by(|one, next| one.0 < next.0) || last <= 0.0 {
        return None;
    }
    let time = time.max(0.0) % last;
    let next = points.partition_point(|(at, _)| *at <= time).min(points.len() - 1);
    let ((from, share), (to, share_then)) = (points[next - 1], points[next]);
    Some(share + (share_then - share) * (time - from) / (to - from))
}

fn usage(milli: i64, bytes: i64) -> Value {
    // metrics-server reports CPU in nanocores and memory in kibibytes.
    json!({"cpu": format!("{}n", milli.saturating_mul(1_000_000)), "memory": format!("{}Ki", bytes / 1024)})
}

fn head(kind: &str, object: &Value, now: Timestamp) -> Value {
    let mut metadata = json!({"name": name(object), "creationTimestamp": seconds(now)});
    if !namespace(object).is_empty() {
        metadata["namespace"] = namespace(object).into();
    }
    let labels: serde_json::Map<String, Value> = map(object, &["metadata", "labels"])
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    if !labels.is_empty() {
        metadata["labels"] = Value::Object(labels);
    }
    json!({
        "kind": kind, "apiVersion": "metrics.k8s.io/v1beta1", "metadata": metadata,
        "timestamp": seconds(now), "window": format!("{}s", WINDOW.as_secs()),
    })
}

/// Maps a text to a number from 0 to 1 by its FNV-1a hash.
fn fraction(text: &str) -> f32 {
    let hash = text
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (hash >> 8) as f32 / (1 << 24) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(usage: &str) -> Value {
        json!({"metadata": {"name": "a", "uid": "u", "annotations": {USAGE: usage}},
            "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "2"}}}]}})
    }

    #[test]
    fn usage_follows_its_shape_and_stays_below_limits() {
        let model = Usage { speed: 1.0, start: Timestamp::UNIX_EPOCH };
        let at = |usage: &str, second: i64| {
            model.pod(&pod(usage), Timestamp::from_second(second).unwrap()).0
        };
        assert_eq!(at("constant:0.5", 0), 500);
        assert_eq!(at("constant:9", 0), 2000);
        let wave: Vec<i64> = (0..24).map(|hour| at("wave:0.5", hour * 3600)).collect();
        let (low, high) = (wave.iter().min().unwrap(), wave.iter().max().unwrap());
        assert!(*low < 250 && *high > 750, "{wave:?}");
        let bursts: Vec<i64> =
            (0..300).step_by(10).map(|second| at("bursts:0.4", second)).collect();
        assert!(bursts.contains(&1000) && bursts.contains(&200), "{bursts:?}");
        assert!(at("nonsense:nan", 0) > 0);
    }

    #[test]
    fn a_trace_is_interpolated_and_repeats() {
        let model = Usage { speed: 1.0, start: Timestamp::UNIX_EPOCH };
        let mut pod = pod("trace: 0s=0.2, 10m=0.8, 20m=0.4");
        pod["status"]["startTime"] = "1970-01-01T00:01:00Z".into();
        let at = |second: i64| model.pod(&pod, Timestamp::from_second(second).unwrap()).0;
        let seen = [0, 60, 360, 660, 960, 1259, 1260, 1560].map(at);
        assert_eq!(seen, [200, 200, 500, 800, 600, 400, 200, 500]);
        for wrong in ["", "0s=0.2", "0s=0.2,0s=0.3", "5s=0.1,9s=1", "0s=x,1m=1", "0s=0,x=1"] {
            assert_eq!(trace(wrong, 5.0), None, "{wrong}");
        }
    }
}
