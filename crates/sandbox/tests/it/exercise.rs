//! Requests derived from bytes, sent to the HTTP handler without a socket, and the properties that every
//! response must have. The property test in `requests.rs` and the fuzz target in `fuzz/` share this file.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt as _;
use http::{Method, Request};
use http_body_util::{BodyExt as _, Full};
use sandbox::cluster::Cluster;
use sandbox::http::Handler;
use serde_json::{Value, json};

// The path is explicit because the fuzz target includes this file by its path as well.
#[path = "exercise/source.rs"]
mod source;
#[path = "exercise/templates.rs"]
mod templates;

use source::Source;
use templates::{ACCEPTS, METHODS, TYPES, deployment, pod};

const TOKEN: &str = "secret";

/// Maximum number of requests in a run, so that the watch caches hold all changes.
const REQUESTS_MAX: usize = 24;

/// Lists that are compared with replayed watches.
const LISTS: &[&str] = &[
    "/api/v1/pods",
    "/api/v1/nodes",
    "/api/v1/configmaps",
    "/api/v1/namespaces",
    "/api/v1/services",
    "/api/v1/events",
    "/api/v1/resourcequotas",
    "/api/v1/persistentvolumeclaims",
    "/apis/apps/v1/deployments",
    "/apis/batch/v1/jobs",
    "/apis/policy/v1/poddisruptionbudgets",
    "/apis/coordination.k8s.io/v1/leases",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
];

/// Sends the requests derived from the bytes, checks every response, and checks the store at the end.
///
/// # Panics
///
/// If a property is violated.
pub(crate) fn exercise(bytes: &[u8]) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _inside = runtime.enter();
    let cluster = Arc::new(Cluster::new());
    sandbox::create_system_objects(&cluster);
    let exercise = Exercise { handler: Handler::new(Arc::clone(&cluster), TOKEN), cluster };
    for (path, object) in objects() {
        let answer = exercise.send(&Method::POST, &path, &[JSON], object.to_string().as_bytes());
        assert_eq!(answer.code, 201, "{path}: {}", answer.text());
    }
    let before: Vec<(String, Versions)> = LISTS.iter().map(|path| exercise.list(path)).collect();
    let mut source = Source(bytes);
    for _ in 0..REQUESTS_MAX {
        if source.0.is_empty() {
            break;
        }
        exercise.request(&mut source);
    }
    for (path, (version, seen)) in LISTS.iter().zip(before) {
        exercise.check_replay(path, &version, seen);
    }
    exercise.check_objects();
}

const JSON: (&str, &str) = ("content-type", "application/json");

/// Objects that exist at the start.
fn objects() -> Vec<(String, Value)> {
    let in_default = |plural: &str| format!("/api/v1/namespaces/default/{plural}");
    vec![
        ("/api/v1/nodes".to_owned(), json!({"metadata": {"name": "n"}})),
        (in_default("pods"), pod("a")),
        (in_default("pods"), pod("b")),
        (in_default("configmaps"), json!({"metadata": {"name": "a"}, "data": {"x": "y"}})),
        (
            in_default("resourcequotas"),
            json!({"metadata": {"name": "a"}, "spec": {"hard": {"pods": "3"}}}),
        ),
        ("/apis/apps/v1/namespaces/default/deployments".to_owned(), deployment("a")),
    ]
}

/// The objects of a list: key and resourceVersion.
type Versions = BTreeMap<String, String>;

struct Exercise {
    handler: Handler,
    cluster: Arc<Cluster>,
}

struct Reply {
    code: u16,
    kind: String,
    body: Vec<u8>,
    /// Set if the body is a stream that has not ended.
    open: bool,
}

impl Reply {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", self.text()))
    }
}

impl Exercise {
    fn send(&self, method: &Method, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("authorization", format!("Bearer {TOKEN}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(Bytes::copy_from_slice(body))).expect("a request");
        let answer = self.handler.answer(request).now_or_never().expect("nothing to wait for");
        let code = answer.status().as_u16();
        let kind = answer.headers()["content-type"].to_str().expect("a type").to_owned();
        let mut stream = answer.into_body();
        let mut body = Vec::new();
        let open = loop {
            match stream.frame().now_or_never() {
                None => break true,
                Some(None) => break false,
                Some(Some(frame)) => {
                    body.extend_from_slice(&frame.expect("a frame").into_data().expect("data"));
                }
            }
        };
        Reply { code, kind, body, open }
    }

    /// Sends a request and checks the response.
    fn request(&self, source: &mut Source<'_>) {
        let method = Method::from_bytes(source.pick(METHODS).as_bytes()).expect("a method");
        let (path, query) = (source.path(), source.query());
        let uri = if query.is_empty() { path } else { format!("{path}?{query}") };
        if uri.parse::<http::Uri>().is_err() {
            // The HTTP library rejects such bytes before they reach the handler.
            return;
        }
        let (accept, kind) = (source.pick(ACCEPTS), source.pick(TYPES));
        let body = if method == Method::GET { Vec::new() } else { source.body() };
        let before = self.cluster.store.version();
        let reply = self.send(&method, &uri, &[("accept", accept), ("content-type", kind)], &body);
        let what = || {
            let body = String::from_utf8_lossy(&body);
            format!("{method} {uri} ({accept}, {kind}) {body}: {} {}", reply.code, reply.text())
        };
        assert!(self.cluster.store.version() >= before, "{}", what());
        assert_ne!(reply.code, 500, "{}", what());
        if reply.code >= 400 {
            check_status(&reply.json(), Some(reply.code), &what());
            return;
        }
        if method == Method::GET {
            assert_eq!(self.cluster.store.version(), before, "{}", what());
        }
        match &*reply.kind {
            "application/json" if reply.open || reply.body.starts_with(b"{\"type\":") => {
                for line in reply.body.split_inclusive(|byte| *byte == b'\n') {
                    assert!(line.ends_with(b"\n"), "{}", what());
                    let line: Value = serde_json::from_slice(line).expect("a line of JSON");
                    if line["type"] == "ERROR" {
                        check_status(&line["object"], None, &what());
                    } else {
                        assert!(line["object"]["metadata"].is_object(), "{}", what());
                    }
                }
            }
            "application/json" => {
                assert!(!reply.open, "{}", what());
                assert!(reply.json().is_object(), "{}", what());
            }
            "application/vnd.kubernetes.protobuf" => {
                assert!(reply.body.starts_with(b"k8s\0"), "{}", what());
            }
            _ => {}
        }
    }

    fn list(&self, path: &str) -> (String, Versions) {
        let list = self.send(&Method::GET, path, &[], &[]);
        assert_eq!(list.code, 200, "{path}: {}", list.text());
        let list = list.json();
        let version = list["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
        (version, list["items"].as_array().expect("items").iter().map(entry).collect())
    }

    /// Checks that a watch from an earlier version, applied to the list of then, leads to the current list.
    fn check_replay(&self, path: &str, version: &str, mut seen: Versions) {
        let uri = format!("{path}?watch=true&resourceVersion={version}");
        let watch = self.send(&Method::GET, &uri, &[], &[]);
        assert_eq!(watch.code, 200, "{uri}: {}", watch.text());
        let mut last: u64 = version.parse().expect("a number");
        for line in watch.text().lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let (key, version) = entry(&line["object"]);
            let number: u64 = version.parse().expect("a number");
            assert!(number > last, "{uri}: {number} after {last}");
            last = number;
            let known = match line["type"].as_str().expect("a type") {
                "ADDED" => seen.insert(key, version).is_none(),
                "MODIFIED" => seen.insert(key, version).is_some(),
                "DELETED" => seen.remove(&key).is_some(),
                other => panic!("{uri}: {other}: {line}"),
            };
            assert!(known, "{uri}: {line}");
        }
        assert_eq!(seen, self.list(path).1, "{path}");
    }

    /// Checks that every object can be read as it is stored, and that versions are unique.
    fn check_objects(&self) {
        let mut versions = BTreeSet::new();
        let now = self.cluster.store.version();
        for resource in self.cluster.kinds.all() {
            let kind = &resource.kind;
            if kind.strategy.stored_as.is_some() {
                continue;
            }
            let group = if kind.group.is_empty() {
                format!("/api/{}", kind.version)
            } else {
                format!("/apis/{}/{}", kind.group, kind.version)
            };
            for object in resource.objects.list("").objects {
                assert!(object.version <= now && versions.insert(object.version), "{}", object.key);
                let scope = if kind.namespaced {
                    format!("/namespaces/{}", object.namespace)
                } else {
                    String::new()
                };
                let path = format!("{group}{scope}/{}/{}", kind.plural, encoded(&object.name));
                let read = self.send(&Method::GET, &path, &[], &[]);
                assert_eq!(read.code, 200, "{path}: {}", read.text());
                let read = read.json();
                assert_eq!(entry(&read).1, object.version.to_string(), "{path}");
                assert_eq!(read["metadata"]["uid"], *object.uid, "{path}");
                assert_eq!(read["kind"], *kind.kind, "{path}");
            }
        }
    }
}

/// Percent-encodes a name for a path.
fn encoded(name: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let shown = |byte: u8| {
        if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    name.bytes().map(shown).collect()
}

/// Returns key and resourceVersion of an object.
fn entry(object: &Value) -> (String, String) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default().to_owned();
    (format!("{}/{}", text("namespace"), text("name")), text("resourceVersion"))
}

fn check_status(status: &Value, code: Option<u16>, what: &str) {
    assert_eq!(
        (&status["kind"], &status["apiVersion"], &status["status"]),
        (&json!("Status"), &json!("v1"), &json!("Failure")),
        "{what}"
    );
    assert!(code.is_none_or(|code| status["code"] == code), "{what}");
    assert!(status["code"].as_u64().is_some_and(|code| code >= 400), "{what}");
    for text in ["reason", "message"] {
        assert!(status[text].as_str().is_some_and(|text| !text.is_empty()), "{what}");
    }
}
