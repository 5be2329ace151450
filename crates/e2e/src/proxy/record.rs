//! Record of the writes through a proxy: sender, purpose, and response of the API server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use anyhow::{Result, ensure};
use http::{Method, Uri};
use serde_json::Value;

use crate::test_env::text;

/// Number of a run of a scheduler; every process has its own.
pub(crate) type RunId = u32;

/// Purpose of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WritePurpose {
    /// Binds a pod to a node.
    Bind { pod: String, node: String },
    /// Acquires or renews the lease under a name, or releases it, with an empty name.
    Lease { holder: String },
    /// Creates or updates an event.
    Event,
    /// Any other write.
    Other(String),
}

/// A recorded write.
#[derive(Clone, Debug)]
pub(crate) struct WriteRecord {
    pub(crate) run: RunId,
    pub(crate) purpose: WritePurpose,
    /// Time at which it was forwarded.
    pub(crate) sent: Instant,
    /// Time and status of the API server's response, which a fault may hide from the scheduler.
    pub(crate) answered: Option<(Instant, u16)>,
}

impl WriteRecord {
    /// Returns `true` if the API server's response is a success.
    pub(crate) fn accepted(&self) -> bool {
        self.answered.is_some_and(|(_, status)| (200..300).contains(&status))
    }
}

/// Writes in the order in which they were forwarded.
#[derive(Debug, Default)]
pub(crate) struct WriteLog {
    writes: Mutex<Vec<WriteRecord>>,
    binds_under_way: AtomicUsize,
}

/// A write in flight, until it is dropped.
pub(super) struct PendingWrite {
    record: Arc<WriteLog>,
    place: usize,
    bind: bool,
}

impl PendingWrite {
    /// Records the response.
    pub(super) fn answer(self, status: u16) {
        if let Some(write) = self.record.lock().get_mut(self.place) {
            write.answered = Some((Instant::now(), status));
        }
    }
}

impl Drop for PendingWrite {
    fn drop(&mut self) {
        if self.bind {
            self.record.binds_under_way.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl WriteLog {
    /// Records that a request is forwarded, if it is a write.
    pub(super) fn send(
        self: &Arc<Self>,
        run: RunId,
        method: &Method,
        uri: &Uri,
        body: &[u8],
    ) -> Option<PendingWrite> {
        let purpose = purpose(method, uri, body)?;
        let bind = matches!(purpose, WritePurpose::Bind { .. });
        if bind {
            self.binds_under_way.fetch_add(1, Ordering::Relaxed);
        }
        let mut writes = self.lock();
        writes.push(WriteRecord { run, purpose, sent: Instant::now(), answered: None });
        Some(PendingWrite { record: Arc::clone(self), place: writes.len() - 1, bind })
    }

    /// Returns the number of bind requests in flight.
    pub(crate) fn binds_under_way(&self) -> usize {
        self.binds_under_way.load(Ordering::Relaxed)
    }

    /// Returns all writes until now.
    pub(crate) fn writes(&self) -> Vec<WriteRecord> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<WriteRecord>> {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the number of responses to bind requests by status, 0 for no response, as text.
pub(crate) fn bind_answers(writes: &[WriteRecord]) -> String {
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    for write in writes.iter().filter(|write| matches!(write.purpose, WritePurpose::Bind { .. })) {
        *counts.entry(write.answered.map_or(0, |(_, status)| status)).or_default() += 1;
    }
    let texts = counts.iter().map(|(status, count)| match status {
        0 => format!("{count} without an answer"),
        _ => format!("{count} with {status}"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// Returns the pods with two successful bind responses.
pub(crate) fn double_binds(writes: &[WriteRecord]) -> Vec<String> {
    let mut accepted: BTreeMap<&str, Vec<(&str, RunId)>> = BTreeMap::new();
    for write in writes.iter().filter(|write| write.accepted()) {
        if let WritePurpose::Bind { pod, node } = &write.purpose {
            accepted.entry(pod).or_default().push((node, write.run));
        }
    }
    accepted.retain(|_, binds| binds.len() > 1);
    accepted.iter().map(|(pod, binds)| format!("{pod} was bound to {binds:?}")).collect()
}

/// Fails with all double binds.
pub(crate) fn check_double_binds(writes: &[WriteRecord]) -> Result<()> {
    let twice = double_binds(writes);
    ensure!(twice.is_empty(), "{}", twice.join("\n"));
    Ok(())
}

fn purpose(method: &Method, uri: &Uri, body: &[u8]) -> Option<WritePurpose> {
    if method == Method::GET {
        return None;
    }
    let path = uri.path().trim_matches('/');
    let parts: Vec<_> = path.split('/').collect();
    let read = || serde_json::from_slice::<Value>(body).unwrap_or_default();
    Some(match &parts[..] {
        ["api", "v1", "namespaces", _, "pods", pod, "binding"] => WritePurpose::Bind {
            pod: (*pod).to_owned(),
            node: text(&read(), "/target/name").to_owned(),
        },
        ["apis", "coordination.k8s.io", "v1", "namespaces", _, "leases", ..] => {
            WritePurpose::Lease { holder: text(&read(), "/spec/holderIdentity").to_owned() }
        }
        [.., "namespaces", _, "events"] | [.., "namespaces", _, "events", _] => WritePurpose::Event,
        _ => WritePurpose::Other(format!("{method} {path}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(
        record: &Arc<WriteLog>,
        method: &Method,
        path: &'static str,
        body: &str,
    ) -> Option<PendingWrite> {
        record.send(1, method, &Uri::from_static(path), body.as_bytes())
    }

    #[test]
    fn writes_are_told_apart_and_reads_are_left_out() {
        let record = Arc::new(WriteLog::default());
        let bind = r#"{"target":{"name":"n"}}"#;
        let lease = r#"{"spec":{"holderIdentity":"me"}}"#;
        send(&record, &Method::POST, "/api/v1/namespaces/a/pods/p/binding?timeout=1s", bind);
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
        send(&record, &Method::PUT, leases, lease);
        send(&record, &Method::PUT, leases, r#"{"spec":{"holderIdentity":""}}"#);
        send(&record, &Method::POST, "/apis/events.k8s.io/v1/namespaces/a/events", "{}");
        send(&record, &Method::PATCH, "/api/v1/namespaces/a/pods/p/status", "{}");
        assert!(send(&record, &Method::GET, "/api/v1/pods", "").is_none());
        let aims: Vec<_> = record.writes().into_iter().map(|write| write.purpose).collect();
        assert_eq!(
            aims,
            [
                WritePurpose::Bind { pod: "p".into(), node: "n".into() },
                WritePurpose::Lease { holder: "me".into() },
                WritePurpose::Lease { holder: String::new() },
                WritePurpose::Event,
                WritePurpose::Other("PATCH api/v1/namespaces/a/pods/p/status".into()),
            ]
        );
    }

    #[test]
    fn a_pod_is_bound_twice_when_two_requests_were_accepted() {
        let record = Arc::new(WriteLog::default());
        let bind = r#"{"target":{"name":"n"}}"#;
        let path = "/api/v1/namespaces/a/pods/p/binding";
        for status in [201, 409] {
            let waiting = send(&record, &Method::POST, path, bind);
            assert_eq!(record.binds_under_way(), 1);
            waiting.unwrap().answer(status);
        }
        assert_eq!(double_binds(&record.writes()), [""; 0]);
        send(&record, &Method::POST, path, bind).unwrap().answer(201);
        drop(send(&record, &Method::POST, path, bind));
        assert_eq!(record.binds_under_way(), 0);
        assert_eq!(double_binds(&record.writes()).len(), 1);
        let answers = "1 without an answer, 2 with 201, 1 with 409";
        assert_eq!(bind_answers(&record.writes()), answers);
    }
}
