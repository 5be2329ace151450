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
    let stage = Stage { handler: Handler::new(Arc::clone(&cluster), TOKEN), cluster };
    for (path, object) in objects() {
        let answer = stage.send(&Method::POST, &path, &[JSON], object.to_string().as_bytes());
        assert_eq!(answer.code, 201, "{path}: {}", answer.text());
    }
    let before: Vec<(String, Seen)> = LISTS.iter().map(|path| stage.list(path)).collect();
    let mut source = Source(bytes);
    for _ in 0..REQUESTS_MAX {
        if source.0.is_empty() {
            break;
        }
        stage.request(&mut source);
    }
    for (path, (version, seen)) in LISTS.iter().zip(before) {
        stage.check_replay(path, &version, seen);
    }
    stage.check_objects();
}

const JSON: (&str, &str) = ("content-type", "application/json");

/// Objects that exist at the start.
fn objects() -> Vec<(String, Value)> {
    let spaced = |plural: &str| format!("/api/v1/namespaces/default/{plural}");
    vec![
        ("/api/v1/nodes".to_owned(), json!({"metadata": {"name": "n"}})),
        (spaced("pods"), pod("a")),
        (spaced("pods"), pod("b")),
        (spaced("configmaps"), json!({"metadata": {"name": "a"}, "data": {"x": "y"}})),
        (
            spaced("resourcequotas"),
            json!({"metadata": {"name": "a"}, "spec": {"hard": {"pods": "3"}}}),
        ),
        ("/apis/apps/v1/namespaces/default/deployments".to_owned(), deployment("a")),
    ]
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "x"}, "annotations": {"a": "b"}, "finalizers": [],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}]},
        "spec": {"containers": [{"name": "app", "image": "app:1", "ports": [{"containerPort": 80}],
            "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}],
            "tolerations": [{"key": "x", "operator": "Exists"}], "priority": 0},
    })
}

fn deployment(name: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "app", "image": "app:1"}]}}}})
}

fn definition() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object",
                    "properties": {"size": {"type": "integer", "minimum": 1, "default": 2},
                        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string", "pattern": "^[a-z]+$"}},
                        "parts": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                            "items": {"type": "object", "properties": {"name": {"type": "string"}}}}}}}}}}]}})
}

/// Managed fields that no server would write.
fn managers() -> Value {
    json!([{"manager": "fuzz", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {
        "f:data": {".": {}, "f:x": {}, "aé": {}, "é": {}, "k:{\"name\":1}": {"f:x": {}}, "v:": {}, "i:1": {}}, "": {}}},
        {"manager": "y", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {}}}}])
}

/// Templates of bodies; most are mutated before they are sent.
fn bodies() -> Vec<Value> {
    vec![
        pod("a"),
        pod("c"),
        deployment("a"),
        json!({"metadata": {"generateName": "g-"}, "data": {"x": "y"}}),
        json!({"metadata": {"labels": {"x": "y"}}}),
        json!({"metadata": {"finalizers": ["example.com/hold"]}}),
        json!({"metadata": {"finalizers": null}}),
        json!({"spec": {"replicas": 3}}),
        json!({"spec": {"containers": [{"name": "app", "image": "app:2"}]}}),
        json!({"spec": {"$setElementOrder/containers": [{"name": "app"}], "containers": [{"name": "app", "$patch": "delete"}]}}),
        json!([{"op": "add", "path": "/metadata/labels/x", "value": "y"}, {"op": "remove", "path": "/spec/replicas"}]),
        json!([{"op": "move", "from": "/spec", "path": "/metadata/annotations"}, {"op": "test", "path": "", "value": {}}]),
        json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "a"}, "target": {"kind": "Node", "name": "n"}}),
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}),
        json!({"gracePeriodSeconds": 0, "propagationPolicy": "Foreground", "preconditions": {"uid": "x"}}),
        json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}),
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "a"}, "spec": {"replicas": 4}}),
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c"}, "spec": {"finalizers": []}}),
        json!({"metadata": {"name": "c"}, "spec": {"podSelector": {}, "minAvailable": "50%", "selector": {"matchLabels": {"app": "x"}}}}),
        definition(),
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"size": 1}}),
        json!({"metadata": {"name": "c"}, "spec": {"ports": [{"port": 80}], "selector": {"app": "x"}}}),
        json!({"metadata": {"name": "c"}, "spec": {"hard": {"pods": "1", "requests.cpu": "1"}}}),
        json!({"metadata": {"name": "c"}, "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}}),
        json!({"metadata": {"name": "c"}, "value": 5, "globalDefault": true}),
        json!({"metadata": {"name": "c"}, "involvedObject": {"kind": "Pod", "name": "a", "namespace": "default"}, "reason": "X", "message": "y", "type": "Normal"}),
        json!({"spec": {"token": "x", "resourceAttributes": {"verb": "get", "resource": "pods"}}}),
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"},
            "spec": {"tags": ["a", "b", "a", "1"], "parts": [{"name": "x"}, {"name": "x"}]}}),
        json!({"metadata": {"managedFields": managers()}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "managedFields": managers()}, "data": {"x": "z"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "applied"}}),
        json!([{"op": "add", "path": "/metadata/managedFields", "value": managers()}]),
        vec![json!({"op": "copy", "from": "/metadata", "path": "/metadata/annotations"}); 200]
            .into(),
        vec![json!({"op": "copy", "from": "/data", "path": "/data/x"}); 200].into(),
        vec![json!({"op": "copy", "from": "", "path": "/copy"}); 200].into(),
        json!({"metadata": {"name": "c"}, "spec": {"completions": 1, "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}}),
    ]
}

const METHODS: &[&str] =
    &["GET", "POST", "PUT", "PATCH", "DELETE", "PATCH", "POST", "HEAD", "OPTIONS", "BREW"];

/// Templates of paths; `%` is replaced by a name.
const PATHS: &[&str] = &[
    "/api/v1/namespaces/default/pods/%",
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/%/binding",
    "/api/v1/namespaces/default/pods/%/eviction",
    "/api/v1/namespaces/default/pods/%/status",
    "/api/v1/namespaces/default/bindings",
    "/api/v1/namespaces/default/configmaps/%",
    "/api/v1/namespaces/default/configmaps",
    "/apis/apps/v1/namespaces/default/deployments/%",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/deployments/%/scale",
    "/apis/apps/v1/namespaces/default/deployments/%/status",
    "/api/v1/nodes/%",
    "/api/v1/nodes",
    "/api/v1/nodes/%/status",
    "/api/v1/namespaces/%",
    "/api/v1/namespaces",
    "/api/v1/namespaces/%/finalize",
    "/api/v1/namespaces/%/pods",
    "/api/v1/namespaces/default/services",
    "/api/v1/namespaces/default/events",
    "/apis/events.k8s.io/v1/namespaces/default/events/%",
    "/api/v1/namespaces/default/resourcequotas/%",
    "/api/v1/namespaces/default/limitranges",
    "/api/v1/namespaces/default/persistentvolumeclaims",
    "/api/v1/namespaces/default/serviceaccounts/%/token",
    "/apis/batch/v1/namespaces/default/jobs",
    "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
    "/apis/scheduling.k8s.io/v1/priorityclasses",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases/%",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com",
    "/apis/example.com/v1/namespaces/default/things/%",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/metrics.k8s.io/v1beta1/nodes",
    "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods/%",
    "/api/v1/namespaces/default/pods/%/log",
    "/api/v1/namespaces/default/pods/%/exec",
    "/api",
    "/apis",
    "/apis/apps",
    "/apis/apps/v1",
    "/openapi/v2",
    "/openapi/v3/%",
    "/version",
    "/healthz",
    "/metrics",
    "/",
];

const NAMES: &[&str] = &["a", "b", "c", "n", "default", "A_wrong", "%00", "%2f", "..", "x.y", ""];

const QUERIES: &[&str] = &[
    "watch=true",
    "resourceVersion=1",
    "resourceVersion=0",
    "resourceVersion=99999999999999999999",
    "resourceVersionMatch=Exact",
    "resourceVersionMatch=NotOlderThan",
    "sendInitialEvents=true",
    "allowWatchBookmarks=true",
    "timeoutSeconds=1",
    "limit=1",
    "limit=18446744073709551615",
    "limit=-1",
    "continue=eyJydiI6MSwic3RhcnQiOiJhIn0",
    "continue=x",
    "labelSelector=app%3Dx",
    "labelSelector=app%20in%20(x%2Cy)%2C!z",
    "labelSelector=%3D%3D",
    "fieldSelector=spec.nodeName%3Dn",
    "fieldSelector=metadata.name!%3Da",
    "fieldSelector=nothing%3Dx",
    "dryRun=All",
    "dryRun=Some",
    "fieldManager=fuzz",
    "fieldValidation=Strict",
    "fieldValidation=Ignore",
    "force=true",
    "gracePeriodSeconds=0",
    "gracePeriodSeconds=-9223372036854775808",
    "propagationPolicy=Orphan",
    "includeObject=Object",
];

const ACCEPTS: &[&str] = &[
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf,application/json",
    "text/html",
    "*/*",
    ";;,=,as=",
];

const TYPES: &[&str] = &[
    "application/json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/json-patch+json",
    "application/apply-patch+yaml",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "text/plain",
    "",
];

/// Replacement values of mutations.
fn oddities() -> Vec<Value> {
    vec![
        Value::Null,
        json!(-1),
        json!(i64::MAX),
        json!(u64::MAX),
        json!(1e300),
        json!(true),
        json!(""),
        json!("x"),
        json!("\u{0}\u{10ffff}/ä"),
        json!("1.5e3Ki"),
        json!("99999999999999999999999999"),
        json!("2026-01-01T00:00:00Z"),
        json!([]),
        json!([null]),
        json!([{}, {"name": "x"}, 1]),
        json!({}),
        json!({"name": "x", "key": "y", "type": "z"}),
        json!({"": {"": ""}}),
        json!({"$patch": "replace"}),
        (0..200).fold(json!(1), |inner, _| json!([inner])),
        "y".repeat(300).into(),
    ]
}

/// Bytes from which choices are derived.
struct Source<'a>(&'a [u8]);

impl<'a> Source<'a> {
    fn byte(&mut self) -> usize {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(*first)
    }

    fn pick<'b, T: ?Sized>(&mut self, many: &[&'b T]) -> &'b T {
        many[self.byte() % many.len()]
    }

    fn some(&mut self, count: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        some
    }

    /// Returns a body: a template with mutated values or bytes, or arbitrary bytes.
    fn body(&mut self) -> Vec<u8> {
        let (bodies, odd) = (bodies(), oddities());
        let kind = self.byte();
        if kind.is_multiple_of(16) {
            let count = self.byte();
            return self.some(count).to_vec();
        }
        let mut body = bodies[self.byte() % bodies.len()].clone();
        'mutations: for _ in 0..kind % 4 {
            let mut at = &mut body;
            // Descends some levels and replaces the value there.
            for _ in 0..self.byte() % 7 {
                let step = self.byte();
                at = match at {
                    Value::Object(members) => {
                        let place = step % members.len().max(1);
                        match members.values_mut().nth(place) {
                            Some(member) => member,
                            None => break 'mutations,
                        }
                    }
                    Value::Array(items) => {
                        let place = step % items.len().max(1);
                        match items.get_mut(place) {
                            Some(item) => item,
                            None => break 'mutations,
                        }
                    }
                    other => other,
                };
            }
            *at = odd[self.byte() % odd.len()].clone();
        }
        let mut text = body.to_string().into_bytes();
        if kind.is_multiple_of(5) {
            let place = (self.byte() << 8 | self.byte()) % text.len();
            text[place] = u8::try_from(self.byte()).unwrap_or_default();
        }
        if kind.is_multiple_of(23) {
            text.truncate(self.byte());
        }
        text
    }

    fn path(&mut self) -> String {
        let kind = self.byte();
        if kind == 255 {
            let count = self.byte() % 32;
            let raw = String::from_utf8_lossy(self.some(count)).into_owned();
            return format!("/{raw}");
        }
        let path = PATHS[kind % PATHS.len()];
        if path.contains('%') { path.replacen('%', self.pick(NAMES), 1) } else { path.to_owned() }
    }

    fn query(&mut self) -> String {
        let count = [0, 0, 1, 1, 2, 3, 5][self.byte() % 7];
        let some: Vec<&str> = (0..count).map(|_| self.pick(QUERIES)).collect();
        some.join("&")
    }
}

/// The objects of a list: key and resourceVersion.
type Seen = BTreeMap<String, String>;

struct Stage {
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

impl Stage {
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

    fn list(&self, path: &str) -> (String, Seen) {
        let list = self.send(&Method::GET, path, &[], &[]);
        assert_eq!(list.code, 200, "{path}: {}", list.text());
        let list = list.json();
        let version = list["metadata"]["resourceVersion"].as_str().expect("a version").to_owned();
        (version, list["items"].as_array().expect("items").iter().map(entry).collect())
    }

    /// Checks that a watch from an earlier version, applied to the list of then, leads to the current list.
    fn check_replay(&self, path: &str, version: &str, mut seen: Seen) {
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
                let space = if kind.namespaced {
                    format!("/namespaces/{}", object.namespace)
                } else {
                    String::new()
                };
                let path = format!("{group}{space}/{}/{}", kind.plural, encoded(&object.name));
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
