//! Reads of objects and lists, in the format that the client accepts.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use futures::stream;
use http::{Response, StatusCode};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use serde_json::{Value, json};

use super::response::{
    Body, OutputFormat, json_bytes, json_value, output_format, protobuf_value, text, with_body,
};
use super::routes::{RequestHead, RequestInfo};
use super::{ServerState, watch};
use crate::cluster::read::parse_version;
use crate::cluster::{ListOptions, Page};
use crate::events;
use crate::faults::Fault;
use crate::kinds::Resource;
use crate::limits::LIST_CHUNK_BYTES;
use crate::status_error::{ApiResult, StatusError};
use crate::store::{Object, key_of};
use crate::subresources::scale_of;
use crate::tables::{self, Clock};

/// Answers a GET request.
pub(super) fn answer(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    info: &RequestInfo,
) -> ApiResult<Response<Body>> {
    let Some(name) = &info.name else {
        if !info.subresource.is_empty() {
            return Err(StatusError::method_not_allowed());
        }
        if head.query.truth("watch") {
            return watch::answer(shared, head, info);
        }
        return list(shared, head, info);
    };
    let resource = &info.resource;
    let key = key_of(info.namespace_or_empty(), name);
    let found = match stale_version(shared, head, resource) {
        None => resource.objects.get(&key),
        Some(version) => {
            let then = resource.objects.list_at(&key, version).ok();
            then.and_then(|then| then.objects.into_iter().find(|object| *object.key == *key))
        }
    };
    let Some(object) = found else {
        return Err(StatusError::not_found(resource.group_resource(), name));
    };
    match &*info.subresource {
        "" | "status" => respond_with_object(shared, head, resource, &object, 200),
        "scale" => {
            let scale = resource.kind.scale.as_ref().ok_or_else(StatusError::no_such_path)?;
            Ok(json_value(200, &scale_of(scale, &object.value())))
        }
        "log" => Ok(log(head, &object)),
        "exec" | "attach" | "portforward" | "proxy" => Err(StatusError::new(
            501,
            "NotImplemented",
            format!(
                "{} is not possible here: pods of the sandbox are simulated and run no processes",
                info.subresource
            ),
        )),
        _ => Err(StatusError::method_not_allowed()),
    }
}

/// Returns the log of a simulated container, which is one line that says so.
fn log(head: &RequestHead, pod: &Object) -> Response<Body> {
    let value = pod.value();
    let container = match head.query.get("container") {
        "" => crate::json::list(&value, &["spec", "containers"])
            .first()
            .map_or("", |one| crate::json::text(one, &["name"])),
        given => given,
    };
    let line = format!(
        "pod {} is simulated: container {container} runs no process and writes no log\n",
        pod.name
    );
    text(200, line)
}

/// Responds with one object.
pub(super) fn respond_with_object(
    _: &ServerState,
    head: &RequestHead,
    resource: &Resource,
    object: &Object,
    code: u16,
) -> ApiResult<Response<Body>> {
    match output_format(head.accept(), &resource.kind)? {
        OutputFormat::Protobuf => Ok(protobuf_value(code, &value_of(resource, object))),
        OutputFormat::Json if !events::converted(resource) => {
            Ok(json_bytes(code, object.json.clone()))
        }
        OutputFormat::Json => Ok(json_value(code, &value_of(resource, object))),
        OutputFormat::Metadata => {
            Ok(json_value(code, &metadata_of(&object.value(), "PartialObjectMetadata")))
        }
        OutputFormat::Table => {
            let objects = [object.value()];
            let table = table(resource, &objects, head.query.get("includeObject"), true);
            let mut response = json_value(code, &table);
            *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::OK);
            Ok(response)
        }
    }
}

/// Returns an object in the form of its kind.
pub(super) fn value_of(resource: &Resource, object: &Object) -> Value {
    let mut value = object.value();
    events::from_stored(resource, &mut value);
    value
}

/// Returns a PartialObjectMetadata of an object.
pub(super) fn metadata_of(object: &Value, kind: &str) -> Value {
    json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

/// Returns objects as a Table. `object` is the parameter `includeObject`; `heads` adds the columns.
pub(super) fn table(resource: &Resource, objects: &[Value], object: &str, heads: bool) -> Value {
    let kind = &resource.kind;
    let clock = Clock(jiff::Timestamp::now());
    let rows: Vec<Value> = objects
        .iter()
        .map(|value| {
            let cells = tables::cells(kind, value, clock);
            match object {
                "None" => json!({"cells": cells, "object": null}),
                "Object" => json!({"cells": cells, "object": value}),
                _ => json!({"cells": cells, "object": metadata_of(value, "PartialObjectMetadata")}),
            }
        })
        .collect();
    let heads = if heads { tables::heads(kind) } else { Value::Null };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "columnDefinitions": heads, "rows": rows})
}

fn list(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    info: &RequestInfo,
) -> ApiResult<Response<Body>> {
    let resource = &info.resource;
    let form = output_format(head.accept(), &resource.kind)?;
    let mut query = head.query.list()?;
    if let Some(version) = stale_version(shared, head, resource) {
        as_of(&mut query, version)?;
    }
    let page = shared.cluster.list(resource, info.namespace.as_deref(), &query)?;
    let mut metadata = json!({"resourceVersion": page.version.to_string()});
    if !page.continue_token.is_empty() {
        metadata["continue"] = page.continue_token.as_str().into();
    }
    if let Some(remaining) = page.remaining {
        metadata["remainingItemCount"] = remaining.into();
    }
    match form {
        OutputFormat::Json if !events::converted(resource) => {
            Ok(stream_list(resource, &metadata, page))
        }
        OutputFormat::Json | OutputFormat::Protobuf => {
            let items: Vec<Value> =
                page.objects.iter().map(|object| value_of(resource, object)).collect();
            let list = list_value(resource, &metadata, &items);
            Ok(if form == OutputFormat::Json {
                json_value(200, &list)
            } else {
                protobuf_value(200, &list)
            })
        }
        OutputFormat::Metadata => {
            let items: Vec<Value> = page
                .objects
                .iter()
                .map(|object| metadata_of(&object.value(), "PartialObjectMetadata"))
                .collect();
            Ok(json_value(
                200,
                &json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "items": items,
                }),
            ))
        }
        OutputFormat::Table => {
            let values: Vec<Value> = page.objects.iter().map(|object| object.value()).collect();
            let mut table = table(resource, &values, head.query.get("includeObject"), true);
            table["metadata"] = metadata;
            Ok(json_value(200, &table))
        }
    }
}

/// Returns the version that a lagging replica shows, if the fault [`Fault::Stale`] applies to a request.
pub(super) fn stale_version(
    shared: &ServerState,
    head: &RequestHead,
    resource: &Resource,
) -> Option<u64> {
    let Some(Fault::Stale(behind)) = head.fault else { return None };
    let version = shared.cluster.store.version().saturating_sub(behind);
    Some(version.max(resource.objects.oldest()))
}

/// Sets a list to an older version, unless the client requires a newer one.
pub(super) fn as_of(query: &mut ListOptions, version: u64) -> ApiResult<()> {
    if !query.continue_token.is_empty() || query.version_match == "Exact" {
        return Ok(());
    }
    if let Some(wanted) = parse_version(&query.version)?
        && wanted > version
    {
        return Err(StatusError::too_large_version(wanted, version));
    }
    query.version = version.to_string();
    "Exact".clone_into(&mut query.version_match);
    Ok(())
}

fn list_value(resource: &Resource, metadata: &Value, items: &[Value]) -> Value {
    let kind = format!("{}List", resource.kind.kind);
    json!({"kind": kind, "apiVersion": resource.kind.api_version(), "metadata": metadata, "items": items})
}

/// Responds with a list of stored JSON. Large lists are streamed in chunks while they are sent.
fn stream_list(resource: &Resource, metadata: &Value, page: Page) -> Response<Body> {
    let head = format!(
        "{{\"kind\":\"{}List\",\"apiVersion\":\"{}\",\"metadata\":{metadata},\"items\":[",
        resource.kind.kind,
        resource.kind.api_version()
    );
    let bytes: usize = page.objects.iter().map(|object| object.json.len() + 1).sum();
    if bytes < LIST_CHUNK_BYTES {
        let mut chunk = BytesMut::with_capacity(head.len() + bytes + 2);
        chunk.extend_from_slice(head.as_bytes());
        fill(&mut chunk, &mut page.objects.into_iter(), true);
        chunk.extend_from_slice(b"]}");
        return json_bytes(200, chunk.freeze());
    }
    let state = (Some(head), page.objects.into_iter(), false);
    let chunks = stream::unfold(state, |(head, mut objects, ended)| async move {
        if ended {
            return None;
        }
        let mut chunk = BytesMut::with_capacity(LIST_CHUNK_BYTES + 4096);
        let first = head.is_some();
        chunk.extend_from_slice(head.unwrap_or_default().as_bytes());
        let ended = fill(&mut chunk, &mut objects, first);
        if ended {
            chunk.extend_from_slice(b"]}");
        }
        Some((Ok::<_, Infallible>(Frame::data(chunk.freeze())), (None, objects, ended)))
    });
    with_body(200, "application/json", StreamBody::new(chunks).boxed_unsync())
}

/// Appends objects to a chunk until it is full. Returns `true` if no object is left.
fn fill(
    chunk: &mut BytesMut,
    objects: &mut std::vec::IntoIter<Arc<Object>>,
    mut first: bool,
) -> bool {
    while chunk.len() < LIST_CHUNK_BYTES {
        let Some(object) = objects.next() else { return true };
        if !first {
            chunk.extend_from_slice(b",");
        }
        first = false;
        chunk.extend_from_slice(&object.json);
    }
    objects.as_slice().is_empty()
}

/// Answers a request to metrics.k8s.io.
pub(super) fn usage(
    shared: &ServerState,
    head: &RequestHead,
    info: &RequestInfo,
) -> Response<Body> {
    let found = shared.usage.answer(
        &shared.cluster,
        &info.resource,
        info.namespace.as_deref(),
        info.name.as_deref(),
        head.query.get("labelSelector"),
    );
    match found {
        Ok(value) => json_value(200, &value),
        Err(failure) => super::response::error_response(&failure),
    }
}

/// Reads a metric of one kind.
type Gauge = fn(&Resource) -> usize;

/// Returns the metrics page: responses, and the number and memory of the objects of each kind.
pub(super) fn metrics(shared: &ServerState) -> Bytes {
    use std::fmt::Write as _;
    let families: [(&str, &str, Gauge); 3] = [
        (
            "apiserver_resource_objects",
            "[STABLE] Number of stored objects, by group and resource.",
            |resource| resource.objects.len(),
        ),
        ("sandbox_object_bytes", "Memory of stored objects, in bytes.", |resource| {
            resource.objects.bytes().0
        }),
        ("sandbox_log_bytes", "Memory of watch caches, in bytes.", |resource| {
            resource.objects.bytes().1
        }),
    ];
    let mut page = shared.counts.page();
    for (name, help, value) in families {
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} gauge");
        for resource in shared.cluster.kinds.all() {
            let (group, plural) = (&resource.kind.group, &resource.kind.plural);
            let value = value(&resource);
            let _ = writeln!(page, "{name}{{group=\"{group}\",resource=\"{plural}\"}} {value}");
        }
    }
    page.into()
}
