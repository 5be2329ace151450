//! Event recorder of the actors, with a rate limit.

use std::sync::Mutex;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::random_letters;
use crate::cluster::{Cluster, WriteOptions, seconds};
use crate::json::{name, namespace, text, uid};
use crate::lock::lock;

/// Burst, and sustained rate per second, of the token bucket of each recorder. It drops most events when
/// thousands of pods start at once.
const BURST: f64 = 300.0;
const PER_SECOND: f64 = 30.0;

/// Creates events of one component.
pub(super) struct EventRecorder {
    component: &'static str,
    tokens_left: Mutex<Option<(f64, Instant)>>,
}

impl EventRecorder {
    pub(super) const fn new(component: &'static str) -> Self {
        Self { component, tokens_left: Mutex::new(None) }
    }

    fn take_token(&self) -> bool {
        let mut tokens_left = lock(&self.tokens_left);
        let now = Instant::now();
        let (tokens, last) = tokens_left.unwrap_or((BURST, now));
        let tokens = (tokens + now.duration_since(last).as_secs_f64() * PER_SECOND).min(BURST);
        let may = tokens >= 1.0;
        *tokens_left = Some((if may { tokens - 1.0 } else { tokens }, now));
        may
    }

    /// Creates an event about an object. Failures are logged only.
    pub(super) fn record(
        &self,
        cluster: &Cluster,
        about: &Value,
        kind: &str,
        reason: &str,
        message: &str,
    ) {
        self.record_at(cluster, about, "", kind, reason, message);
    }

    /// Creates an event about a part of an object, given as field path.
    pub(super) fn record_at(
        &self,
        cluster: &Cluster,
        about: &Value,
        part: &str,
        kind: &str,
        reason: &str,
        message: &str,
    ) {
        if !self.take_token() {
            return;
        }
        let time = seconds(cluster.now());
        let event_namespace =
            if namespace(about).is_empty() { "default" } else { namespace(about) };
        let event_name = format!("{}.{}{}", name(about), random_letters(8), random_letters(8));
        let mut involved = json!({
            "apiVersion": text(about, &["apiVersion"]), "kind": text(about, &["kind"]),
            "name": name(about), "namespace": namespace(about), "uid": uid(about),
            "resourceVersion": text(about, &["metadata", "resourceVersion"]),
        });
        if !part.is_empty() {
            involved["fieldPath"] = part.into();
        }
        let mut source = json!({"component": self.component});
        let node = text(about, &["spec", "nodeName"]);
        if self.component == "kubelet" && !node.is_empty() {
            source["host"] = node.into();
        }
        let event = json!({
            "metadata": {"name": event_name, "namespace": event_namespace},
            "involvedObject": involved, "reason": reason, "message": message, "type": kind,
            "source": source, "firstTimestamp": time, "lastTimestamp": time, "count": 1,
            "reportingComponent": self.component, "reportingInstance": node,
        });
        let events = cluster.resource("", "events");
        if let Err(failure) =
            cluster.create(&events, event_namespace, event, &WriteOptions::default())
        {
            tracing::debug!(message = %failure.message, "failed to create an event");
        }
    }
}
