//! OpenAPI v3, for `kubectl explain` and client-side validation. The v2 document is empty; clients
//! request it for kinds that v3 does not describe.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use http::Response;
use http_body_util::{BodyExt as _, Full};
use serde_json::{Map, Value, json};

use super::response::{Body, json_value, with_body};
use crate::cluster::Cluster;
use crate::kinds::{Kind, SchemaSource, Verbs};
use crate::schema::{OBJECT_META, SCHEMAS};
use crate::status_error::{ApiResult, StatusError};

/// An empty OpenAPI v2 document as protobuf: `swagger` (1), `info` (2) with `title` (1) and `version` (2),
/// and empty `paths` (8).
const EMPTY_V2: &[u8] = b"\x0a\x032.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.36.4\x42\x00";

/// Answers a request below `/openapi`.
pub(super) fn answer(cluster: &Cluster, accept: &str, rest: &[&str]) -> ApiResult<Response<Body>> {
    match rest {
        ["v2"] if accept.contains("protobuf") => {
            let body = Full::new(Bytes::from_static(EMPTY_V2)).boxed_unsync();
            Ok(with_body(200, "application/com.github.proto-openapi.spec.v2.v1.0+protobuf", body))
        }
        ["v2"] => Ok(json_value(
            200,
            &json!({
                "swagger": "2.0", "info": info(), "paths": {}, "definitions": {},
            }),
        )),
        ["v3"] => {
            let paths: Map<String, Value> = versions(cluster)
                .into_keys()
                .map(|path| {
                    // The hash changes with the kinds and invalidates cached documents of clients.
                    let url = format!("/openapi/v3/{path}?hash={:X}", fingerprint(cluster, &path));
                    (path, json!({"serverRelativeURL": url}))
                })
                .collect();
            Ok(json_value(200, &json!({"paths": paths})))
        }
        ["v3", path @ ..] => {
            let kinds =
                versions(cluster).remove(&path.join("/")).ok_or_else(StatusError::no_such_path)?;
            Ok(json_value(200, &document(&kinds)))
        }
        _ => Err(StatusError::no_such_path()),
    }
}

fn info() -> Value {
    json!({"title": "Kubernetes", "version": "v1.36.4"})
}

fn versions(cluster: &Cluster) -> BTreeMap<String, Vec<Kind>> {
    let mut versions: BTreeMap<String, Vec<Kind>> = BTreeMap::new();
    for resource in cluster.kinds.all() {
        let kind = &resource.kind;
        let path = if kind.group.is_empty() {
            format!("api/{}", kind.version)
        } else {
            format!("apis/{}/{}", kind.group, kind.version)
        };
        versions.entry(path).or_default().push(kind.clone());
    }
    versions
}

fn fingerprint(cluster: &Cluster, path: &str) -> u64 {
    use std::hash::{Hash as _, Hasher as _};
    let mut hasher = std::hash::DefaultHasher::new();
    for kind in versions(cluster).remove(path).unwrap_or_default() {
        kind.kind.hash(&mut hasher);
        if let SchemaSource::Custom(structure) = &kind.schema {
            structure.schema.to_string().hash(&mut hasher);
        }
    }
    hasher.finish()
}

fn document(kinds: &[Kind]) -> Value {
    let mut schemas: Map<String, Value> = Map::new();
    let mut wanted: BTreeSet<String> = BTreeSet::new();
    let mut paths = Map::new();
    for kind in kinds {
        let gvk = json!({"group": kind.group, "version": kind.version, "kind": kind.kind});
        let name = match &kind.schema {
            SchemaSource::Types(_) => SCHEMAS.name_of(kind).unwrap_or_default().to_owned(),
            SchemaSource::Custom(structure) => {
                let reversed: Vec<&str> = kind.group.split('.').rev().collect();
                let name = format!("{}.{}.{}", reversed.join("."), kind.version, kind.kind);
                schemas.insert(name.clone(), custom(&structure.schema, &gvk));
                wanted.insert(OBJECT_META.to_owned());
                name
            }
        };
        wanted.insert(name.clone());
        add_paths(kind, &gvk, &name, &mut paths);
    }
    // Adds all schemas that are referenced, transitively.
    let mut open: Vec<String> = wanted.into_iter().collect();
    while let Some(name) = open.pop() {
        if !schemas.contains_key(&name)
            && let Some(schema) = SCHEMAS.definitions.get(&name)
        {
            schemas.insert(name.clone(), schema.clone());
        }
        if let Some(schema) = schemas.get(&name) {
            let mut named = Vec::new();
            references(schema, &mut named);
            open.extend(named.into_iter().filter(|name| !schemas.contains_key(name)));
        }
    }
    for kind in kinds {
        let name = SCHEMAS.name_of(kind).unwrap_or_default();
        if let Some(schema) = schemas.get_mut(name) {
            schema["x-kubernetes-group-version-kind"] =
                json!([{"group": kind.group, "version": kind.version, "kind": kind.kind}]);
        }
    }
    json!({"openapi": "3.0.0", "info": info(), "paths": paths, "components": {"schemas": schemas}})
}

fn custom(schema: &Value, gvk: &Value) -> Value {
    let mut schema = schema.clone();
    schema["x-kubernetes-group-version-kind"] = json!([gvk]);
    let properties = crate::json::object(&mut schema, "properties");
    for name in ["apiVersion", "kind"] {
        properties.entry(name).or_insert_with(|| json!({"type": "string"}));
    }
    properties.insert(
        "metadata".to_owned(),
        json!({"allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}]}),
    );
    schema
}

fn references(schema: &Value, found: &mut Vec<String>) {
    match schema {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(info) if name == "$ref" => {
                        found.extend(info.rsplit('/').next().map(str::to_owned));
                    }
                    other => references(other, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

fn add_paths(kind: &Kind, gvk: &Value, schema: &str, paths: &mut Map<String, Value>) {
    let root = if kind.group.is_empty() {
        format!("/api/{}", kind.version)
    } else {
        format!("/apis/{}/{}", kind.group, kind.version)
    };
    let inside = if kind.namespaced { "/namespaces/{namespace}" } else { "" };
    let content =
        json!({"application/json": {"schema": {"$ref": format!("#/components/schemas/{schema}")}}});
    let parameters = |names: &[&str]| -> Value {
        names.iter().map(|name| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}})).collect()
    };
    let operation = |action: &str, parameters: Value| {
        json!({
            "tags": [], "parameters": parameters, "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
            "responses": {"200": {"description": "OK", "content": content}},
        })
    };
    let write = ["dryRun", "fieldManager", "fieldValidation", "pretty"];
    let body = json!({"content": content});
    let mut post = operation("post", parameters(&write));
    post["requestBody"] = body.clone();
    let mut all = json!({"post": post});
    if kind.strategy.verbs != Verbs::Create {
        all["get"] = operation(
            "list",
            parameters(&["labelSelector", "fieldSelector", "limit", "continue", "watch"]),
        );
    }
    paths.insert(format!("{root}{inside}/{}", kind.plural), all);
    if kind.strategy.verbs != Verbs::All {
        return;
    }
    if kind.namespaced {
        let list = json!({"get": operation("list", parameters(&["labelSelector", "fieldSelector", "limit", "continue", "watch"]))});
        paths.insert(format!("{root}/{}", kind.plural), list);
    }
    let mut put = operation("put", parameters(&write));
    put["requestBody"] = body;
    let mut patch = operation(
        "patch",
        parameters(&["dryRun", "fieldManager", "fieldValidation", "force", "pretty"]),
    );
    // Strategic merge patch is not offered: the schemas have no merge keys, and clients then use their
    // built-in types.
    patch["requestBody"] = json!({"content": {
        "application/apply-patch+yaml": {"schema": {"type": "object"}},
        "application/json-patch+json": {"schema": {"type": "object"}},
        "application/merge-patch+json": {"schema": {"type": "object"}},
    }});
    paths.insert(format!("{root}{inside}/{}/{{name}}", kind.plural), json!({
        "get": operation("get", parameters(&["pretty"])),
        "put": put,
        "patch": patch,
        "delete": operation("delete", parameters(&["dryRun", "gracePeriodSeconds", "propagationPolicy"])),
    }));
}
