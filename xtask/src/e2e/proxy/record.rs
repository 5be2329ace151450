//! What went through a proxy: every write, who sent it, and what the API server answered.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use http::{Method, Uri};
use serde_json::Value;

use super::super::scene::text;

/// One run of a scheduler: a process that is started anew has a new number.
pub(crate) type Run = u32;

/// What a write is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    /// To bind a pod to a node.
    Bind { pod: String, node: String },
    /// To hold the lease under a name, or to give it back, which the empty name means.
    Lease { holder: String },
    /// To tell of something.
    Event,
    /// Anything else.
    Other(String),
}

/// A write as it passed.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) run: Run,
    pub(crate) aim: Aim,
    /// When it went to the API server.
    pub(crate) sent: Instant,
    /// When the API server answered, and how. What the scheduler got to know is another matter.
    pub(crate) answered: Option<(Instant, u16)>,
}

impl Write {
    /// Whether the API server said that it was done.
    pub(crate) fn accepted(&self) -> bool {
        self.answered.is_some_and(|(_, status)| (200..300).contains(&status))
    }
}

/// Writes in the order in which they went to the API server.
#[derive(Debug, Default)]
pub(crate) struct Record(Mutex<Vec<Write>>);

impl Record {
    /// Notes that a request goes to the API server. Returns its place, if it is a write.
    pub(super) fn send(&self, run: Run, method: &Method, uri: &Uri, body: &[u8]) -> Option<usize> {
        let aim = aim(method, uri, body)?;
        let mut writes = self.lock();
        writes.push(Write { run, aim, sent: Instant::now(), answered: None });
        Some(writes.len() - 1)
    }

    /// Notes how it was answered.
    pub(super) fn answer(&self, place: Option<usize>, status: u16) {
        let mut writes = self.lock();
        if let Some(write) = place.and_then(|place| writes.get_mut(place)) {
            write.answered = Some((Instant::now(), status));
        }
    }

    /// All writes up to now.
    pub(crate) fn writes(&self) -> Vec<Write> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Write>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Pods that the API server said twice to have bound.
pub(crate) fn double_binds(writes: &[Write]) -> Vec<String> {
    let mut accepted: BTreeMap<&str, Vec<(&str, Run)>> = BTreeMap::new();
    for write in writes.iter().filter(|write| write.accepted()) {
        if let Aim::Bind { pod, node } = &write.aim {
            accepted.entry(pod).or_default().push((node, write.run));
        }
    }
    accepted.retain(|_, binds| binds.len() > 1);
    accepted.iter().map(|(pod, binds)| format!("{pod} was bound to {binds:?}")).collect()
}

fn aim(method: &Method, uri: &Uri, body: &[u8]) -> Option<Aim> {
    if method == Method::GET {
        return None;
    }
    let path = uri.path().trim_matches('/');
    let parts: Vec<_> = path.split('/').collect();
    let read = || serde_json::from_slice::<Value>(body).unwrap_or_default();
    Some(match &parts[..] {
        ["api", "v1", "namespaces", _, "pods", pod, "binding"] => {
            Aim::Bind { pod: (*pod).to_owned(), node: text(&read(), "/target/name").to_owned() }
        }
        ["apis", "coordination.k8s.io", "v1", "namespaces", _, "leases", ..] => {
            Aim::Lease { holder: text(&read(), "/spec/holderIdentity").to_owned() }
        }
        [.., "namespaces", _, "events"] | [.., "namespaces", _, "events", _] => Aim::Event,
        _ => Aim::Other(format!("{method} {path}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(record: &Record, method: Method, path: &'static str, body: &str) -> Option<usize> {
        record.send(1, &method, &Uri::from_static(path), body.as_bytes())
    }

    #[test]
    fn writes_are_told_apart_and_reads_are_left_out() {
        let record = Record::default();
        let bind = r#"{"target":{"name":"n"}}"#;
        let lease = r#"{"spec":{"holderIdentity":"me"}}"#;
        send(&record, Method::POST, "/api/v1/namespaces/a/pods/p/binding?timeout=1s", bind);
        let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";
        send(&record, Method::PUT, leases, lease);
        send(&record, Method::PUT, leases, r#"{"spec":{"holderIdentity":""}}"#);
        send(&record, Method::POST, "/apis/events.k8s.io/v1/namespaces/a/events", "{}");
        send(&record, Method::PATCH, "/api/v1/namespaces/a/pods/p/status", "{}");
        assert_eq!(send(&record, Method::GET, "/api/v1/pods", ""), None);
        let aims: Vec<_> = record.writes().into_iter().map(|write| write.aim).collect();
        assert_eq!(
            aims,
            [
                Aim::Bind { pod: "p".into(), node: "n".into() },
                Aim::Lease { holder: "me".into() },
                Aim::Lease { holder: String::new() },
                Aim::Event,
                Aim::Other("PATCH api/v1/namespaces/a/pods/p/status".into()),
            ]
        );
    }

    #[test]
    fn a_pod_is_bound_twice_when_two_requests_were_accepted() {
        let record = Record::default();
        let bind = r#"{"target":{"name":"n"}}"#;
        let path = "/api/v1/namespaces/a/pods/p/binding";
        for status in [201, 409] {
            let place = send(&record, Method::POST, path, bind);
            record.answer(place, status);
        }
        assert_eq!(double_binds(&record.writes()), [""; 0]);
        let place = send(&record, Method::POST, path, bind);
        record.answer(place, 201);
        assert_eq!(double_binds(&record.writes()).len(), 1);
    }
}
