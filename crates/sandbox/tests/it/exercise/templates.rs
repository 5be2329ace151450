//! Templates of paths, queries, headers and bodies.

use serde_json::{Value, json};

pub(super) fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "x"}, "annotations": {"a": "b"}, "finalizers": [],
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "1"}]},
        "spec": {"containers": [{"name": "app", "image": "app:1", "ports": [{"containerPort": 80}],
            "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}],
            "tolerations": [{"key": "x", "operator": "Exists"}], "priority": 0},
    })
}

pub(super) fn deployment(name: &str) -> Value {
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
pub(super) fn bodies() -> Vec<Value> {
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

pub(super) const METHODS: &[&str] =
    &["GET", "POST", "PUT", "PATCH", "DELETE", "PATCH", "POST", "HEAD", "OPTIONS", "BREW"];

/// Templates of paths; `%` is replaced by a name.
pub(super) const PATHS: &[&str] = &[
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

pub(super) const NAMES: &[&str] =
    &["a", "b", "c", "n", "default", "A_wrong", "%00", "%2f", "..", "x.y", ""];

pub(super) const QUERIES: &[&str] = &[
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

pub(super) const ACCEPTS: &[&str] = &[
    "application/json",
    "application/json;as=Table;v=v1;g=meta.k8s.io,application/json",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/vnd.kubernetes.protobuf",
    "application/vnd.kubernetes.protobuf,application/json",
    "text/html",
    "*/*",
    ";;,=,as=",
];

pub(super) const TYPES: &[&str] = &[
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
pub(super) fn oddities() -> Vec<Value> {
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
