//! The `scale` subresource.

use serde_json::{Value, json};

use crate::cluster::{Cluster, Part, WriteOptions};
use crate::json::{at, int, slot, text};
use crate::kinds::{Resource, Scale};
use crate::selector::Selector;
use crate::status_error::{ApiResult, StatusError};

fn lookup<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let names: Vec<&str> = path.split('.').collect();
    at(object, &names)
}

/// Returns the scale of an object.
pub(crate) fn scale_of(scale: &Scale, object: &Value) -> Value {
    let count = |path: &str| lookup(object, path).and_then(Value::as_i64).unwrap_or(0);
    let selector = match lookup(object, &scale.selector) {
        Some(Value::String(text)) => text.clone(),
        Some(selector)
            if selector.get("matchLabels").is_some()
                || selector.get("matchExpressions").is_some() =>
        {
            Selector::of_object(selector).map_or_else(String::new, |selector| selector.to_string())
        }
        Some(labels) => Selector::of_map(labels).to_string(),
        None => String::new(),
    };
    let metadata = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let metadata: Value = metadata
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), object["metadata"].get(name)?.clone())))
        .collect::<serde_json::Map<_, _>>()
        .into();
    let mut status = json!({"replicas": count(&scale.present)});
    if !selector.is_empty() {
        status["selector"] = selector.into();
    }
    json!({
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": count(&scale.wanted)},
        "status": status,
    })
}

/// Sets the replicas of an object to those of an edited scale.
pub(crate) fn set_scale(
    cluster: &Cluster,
    resource: &Resource,
    (namespace, name): (&str, &str),
    options: &WriteOptions,
    mut edit: impl FnMut(Value) -> ApiResult<Value>,
) -> ApiResult<Value> {
    let Some(scale) = &resource.kind.scale else { return Err(StatusError::no_such_path()) };
    let written =
        cluster.change(resource, namespace, name, Part::Main, options, |current, before| {
            let wanted = edit(scale_of(scale, before))?;
            let version = text(&wanted, &["metadata", "resourceVersion"]);
            if !version.is_empty() && version != current.version.to_string() {
                return Err(StatusError::modified(resource.group_resource(), name));
            }
            let replicas = int(&wanted, &["spec", "replicas"]).unwrap_or(0);
            if replicas < 0 {
                let problem = crate::field_error::FieldError::invalid(
                    "spec.replicas",
                    replicas,
                    "must be greater than or equal to 0",
                );
                return Err(StatusError::invalid("autoscaling", "Scale", name, &[problem]));
            }
            let mut object = before.clone();
            let names: Vec<&str> = scale.wanted.split('.').collect();
            *slot(&mut object, &names) = replicas.into();
            Ok(Some(object))
        })?;
    Ok(scale_of(scale, &written.object.value()))
}
