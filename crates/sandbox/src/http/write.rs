//! Requests that write.

use std::sync::Arc;

use http::{Method, Response};
use serde_json::{Value, json};

use super::ServerState;
use super::read::respond_with_object;
use super::response::{Body, add_warnings, json_value, success};
use super::routes::{RequestHead, RequestInfo};
use crate::cluster::{DeleteOptions, DeleteOutcome, Part, WriteOptions, WriteResult};
use crate::json::{members, name, slot, text};
use crate::kinds::SchemaSource;
use crate::patch::{PatchType, apply, patched};
use crate::schema::Quantities;
use crate::status_error::{ApiResult, StatusError, ignore};
use crate::store::key_of;
use crate::subresources::{bind, evict, set_scale};

/// Kinds whose deletion is answered with the object instead of a `Status`.
const ANSWERED_WITH_OBJECT: &[&str] = &[
    "pods",
    "namespaces",
    "services",
    "persistentvolumes",
    "persistentvolumeclaims",
    "serviceaccounts",
];

/// Answers a request that writes.
pub(super) fn answer(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    info: &RequestInfo,
    body: Value,
) -> ApiResult<Response<Body>> {
    match head.method {
        Method::POST => post(shared, head, info, body),
        Method::PUT => put(shared, head, info, body),
        Method::PATCH => patch(shared, head, info, &body),
        _ => delete(shared, head, info, &body),
    }
}

fn post(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    info: &RequestInfo,
    body: Value,
) -> ApiResult<Response<Body>> {
    let cluster = &shared.cluster;
    match (&*info.subresource, &info.name) {
        ("", None) => {
            if info.resource.kind.namespaced && info.namespace.is_none() {
                return Err(StatusError::method_not_allowed());
            }
            let options = head.query.write(head.agent())?;
            let written =
                cluster.create(&info.resource, info.namespace_or_empty(), body, &options)?;
            respond(shared, head, info, &written)
        }
        ("binding", given) => {
            let own = text(&body, &["metadata", "name"]);
            let pod = given.as_deref().unwrap_or(own);
            bind(cluster, info.namespace_or_empty(), pod, &body, head.query.dry_run()?)?;
            Ok(success(201, None))
        }
        ("eviction", Some(pod)) => {
            evict(cluster, info.namespace_or_empty(), pod, &body, head.query.dry_run()?)?;
            Ok(success(201, None))
        }
        ("token", Some(_)) => {
            let mut request = body;
            let hour = crate::cluster::seconds(cluster.now() + jiff::SignedDuration::from_hours(1));
            // `status` may have any type in the body, which is not validated.
            *slot(&mut request, &["status"]) =
                json!({"token": shared.token, "expirationTimestamp": hour});
            Ok(json_value(201, &request))
        }
        ("exec" | "attach" | "portforward" | "proxy", Some(_)) => {
            super::read::answer(shared, head, info)
        }
        _ => Err(StatusError::method_not_allowed()),
    }
}

fn put(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    info: &RequestInfo,
    body: Value,
) -> ApiResult<Response<Body>> {
    let options = head.query.write(head.agent())?;
    let Some(name) = &info.name else { return Err(StatusError::method_not_allowed()) };
    let (cluster, key) = (&shared.cluster, (info.namespace_or_empty(), &**name));
    let part = match &*info.subresource {
        "" => Part::Main,
        "status" => Part::Status,
        "finalize" => return finalize(shared, head, info, &body, &options),
        "scale" => {
            let scale = set_scale(cluster, &info.resource, key, &options, |_| Ok(body.clone()))?;
            return Ok(json_value(200, &scale));
        }
        _ => return Err(StatusError::method_not_allowed()),
    };
    let written = cluster.update(&info.resource, key.0, name, body, part, &options)?;
    respond(shared, head, info, &written)
}

/// Sets the finalizers of a namespace.
fn finalize(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    info: &RequestInfo,
    body: &Value,
    options: &WriteOptions,
) -> ApiResult<Response<Body>> {
    let name = info.name.as_deref().unwrap_or_default();
    let finalizers =
        crate::json::at(body, &["spec", "finalizers"]).cloned().unwrap_or_else(|| json!([]));
    let written =
        shared.cluster.change(&info.resource, "", name, Part::Whole, options, |_, before| {
            let mut namespace = before.clone();
            slot(&mut namespace, &["spec"])["finalizers"] = finalizers.clone();
            Ok(Some(namespace))
        })?;
    respond(shared, head, info, &written)
}

fn patch(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    info: &RequestInfo,
    body: &Value,
) -> ApiResult<Response<Body>> {
    let options = head.query.write(head.agent())?;
    let Some(name) = &info.name else { return Err(StatusError::method_not_allowed()) };
    let Some(form) = PatchType::of(head.content_type()) else {
        return Err(StatusError::unsupported_media_type(
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml, application/strategic-merge-patch+json",
        ));
    };
    let (cluster, resource, namespace) =
        (&shared.cluster, &info.resource, info.namespace_or_empty());
    let part = match &*info.subresource {
        "" => Part::Main,
        "status" => Part::Status,
        "scale" => {
            let scale = set_scale(cluster, resource, (namespace, name), &options, |scale| {
                patched(resource, &scale, body, form)
            })?;
            return Ok(json_value(200, &scale));
        }
        _ => return Err(StatusError::method_not_allowed()),
    };
    if form == PatchType::Apply {
        return apply_patch(shared, head, info, body, part);
    }
    if options.force {
        return Err(StatusError::invalid(
            "meta.k8s.io",
            "PatchOptions",
            "",
            &[crate::field_error::FieldError::forbidden(
                "force",
                "may not be specified for non-apply patch",
            )],
        ));
    }
    let mut warnings = Vec::new();
    let mut written =
        cluster.change(resource, namespace, name, part, &options, |current, before| {
            let mut live = before.clone();
            crate::events::from_stored(resource, &mut live);
            let mut object = patched(resource, &live, body, form)?;
            warnings = crate::cluster::decode(resource, &mut object, options.field_validation)?;
            crate::events::to_stored(resource, &mut object);
            let version = text(&object, &["metadata", "resourceVersion"]);
            if !version.is_empty() && version != current.version.to_string() {
                return Err(StatusError::modified(resource.group_resource(), name));
            }
            if crate::json::name(&object) != name.as_str() {
                return Err(StatusError::other_name(crate::json::name(&object), name));
            }
            Ok(Some(object))
        })?;
    written.warnings = warnings;
    respond(shared, head, info, &written)
}

/// Server-side apply; creates an absent object.
fn apply_patch(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    info: &RequestInfo,
    body: &Value,
    part: Part,
) -> ApiResult<Response<Body>> {
    let (cluster, resource, namespace) =
        (&shared.cluster, &info.resource, info.namespace_or_empty());
    let options = head.query.write(head.agent())?;
    let object_name = info.name.as_deref().unwrap_or_default();
    if head.query.get("fieldManager").is_empty() {
        return Err(StatusError::invalid(
            "meta.k8s.io",
            "PatchOptions",
            "",
            &[crate::field_error::FieldError::required(
                "fieldManager",
                "is required for apply patch",
            )],
        ));
    }
    let mut config = body.clone();
    // Quantities stay as written: changing `1` to `1000m` is a change.
    let warnings = crate::cluster::decode_with(
        resource,
        &mut config,
        options.field_validation,
        Quantities::AsWritten,
    )?;
    if crate::json::at(&config, &["metadata", "managedFields"]).is_some() {
        return Err(StatusError::bad_request("metadata.managedFields must be nil"));
    }
    if !name(&config).is_empty() && name(&config) != object_name {
        return Err(StatusError::other_name(name(&config), object_name));
    }
    slot(&mut config, &["metadata"])["name"] = object_name.into();
    if resource.kind.status
        && part == Part::Main
        && matches!(resource.kind.schema, SchemaSource::Custom(_))
    {
        members(&mut config).remove("status");
    }
    let absent = resource.objects.get(&key_of(namespace, object_name)).is_none();
    if absent && part == Part::Main {
        let empty = json!({});
        let mut object = apply::apply(resource, &empty, &config, &options, cluster.now())?;
        let managers = object["metadata"]["managedFields"].take();
        members(slot(&mut object, &["metadata"])).remove("managedFields");
        let quiet = WriteOptions { manager: String::new(), ..options.clone() };
        let made = cluster.create(resource, namespace, object, &quiet)?;
        let mut written = made.clone();
        if !options.dry_run {
            // Fields set by defaulting have no manager, so managers are recorded after the creation.
            written = cluster.change(
                resource,
                namespace,
                object_name,
                Part::Whole,
                &options,
                |_, before| {
                    let mut object = before.clone();
                    object["metadata"]["managedFields"] = managers.clone();
                    Ok(Some(object))
                },
            )?;
        }
        written.created = true;
        written.warnings = warnings;
        return respond(shared, head, info, &written);
    }
    let mut written =
        cluster.change(resource, namespace, object_name, part, &options, |current, before| {
            let version = text(&config, &["metadata", "resourceVersion"]);
            if !version.is_empty() && version != current.version.to_string() {
                return Err(StatusError::modified(resource.group_resource(), object_name));
            }
            let mut object = apply::apply(resource, before, &config, &options, cluster.now())?;
            crate::cluster::decode(resource, &mut object, options.field_validation)?;
            Ok(Some(object))
        })?;
    written.warnings = warnings;
    respond(shared, head, info, &written)
}

fn respond(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    info: &RequestInfo,
    written: &WriteResult,
) -> ApiResult<Response<Body>> {
    let code = if written.created { 201 } else { 200 };
    let mut response = respond_with_object(shared, head, &info.resource, &written.object, code)?;
    add_warnings(&mut response, &written.warnings);
    Ok(response)
}

fn delete(
    shared: &Arc<ServerState>,
    head: &RequestHead,
    info: &RequestInfo,
    body: &Value,
) -> ApiResult<Response<Body>> {
    if !info.subresource.is_empty() {
        return Err(StatusError::method_not_allowed());
    }
    let mut options = DeleteOptions::parse(body)?;
    options.dry_run |= head.query.dry_run()?;
    if let Ok(grace) = head.query.get("gracePeriodSeconds").parse::<i64>() {
        options.grace = options.grace.or(Some(grace.max(0)));
    }
    let policy = head.query.get("propagationPolicy");
    if !policy.is_empty() && options.propagation.is_none() {
        options.propagation =
            DeleteOptions::parse(&json!({"propagationPolicy": policy}))?.propagation;
    }
    let (cluster, resource) = (&shared.cluster, &info.resource);
    let kind = &resource.kind;
    let Some(name) = &info.name else {
        let page = cluster.list(resource, info.namespace.as_deref(), &head.query.list()?)?;
        for object in &page.objects {
            let deleted = cluster.delete(resource, &object.namespace, &object.name, &options);
            ignore(deleted, &[404])?;
        }
        return Ok(success(200, None));
    };
    let deleted = cluster.delete(resource, info.namespace_or_empty(), name, &options)?;
    if let DeleteOutcome::Deleted(object) = &deleted
        && !ANSWERED_WITH_OBJECT.contains(&&*kind.plural)
    {
        let mut details = json!({"name": &*object.name, "kind": kind.plural, "uid": &*object.uid});
        if !kind.group.is_empty() {
            details["group"] = kind.group.as_ref().into();
        }
        return Ok(success(200, Some(details)));
    }
    respond_with_object(shared, head, resource, deleted.object(), 200)
}
