//! Deletion of objects.

use std::sync::Arc;

use jiff::SignedDuration;
use serde_json::{Value, json};

use super::update::{check_uid, check_version};
use super::{Cluster, seconds};
use crate::json::{at, int, list, slot, text};
use crate::kinds::Resource;
use crate::limits::WRITE_ATTEMPTS_MAX;
use crate::status_error::{ApiResult, StatusError};
use crate::store::{ChangeKind, Draft, Object, StoreError, key_of};

/// Options of a deletion.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    /// Grace period in seconds.
    pub grace: Option<i64>,
    /// Treatment of dependents.
    pub propagation: Option<Propagation>,
    /// Precondition: the uid of the object.
    pub uid: String,
    /// Precondition: the resourceVersion of the object.
    pub version: String,
    /// Validate without deleting, as `dryRun=All`.
    pub dry_run: bool,
}

/// Treatment of the dependents of a deleted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted after their owner.
    Background,
    /// They are deleted before their owner.
    Foreground,
    /// They stay and lose their owner reference.
    Orphan,
}

/// Result of a deletion.
#[derive(Debug)]
pub enum DeleteOutcome {
    /// The object was removed.
    Deleted(Arc<Object>),
    /// The object has a deletion timestamp and is removed later.
    Terminating(Arc<Object>),
}

impl DeleteOutcome {
    /// Returns the object after the deletion: its current or its last version.
    pub fn object(&self) -> &Arc<Object> {
        match self {
            Self::Deleted(object) | Self::Terminating(object) => object,
        }
    }
}

/// Namespaces that cannot be deleted.
const PERMANENT_NAMESPACES: &[&str] = &["default", "kube-public", "kube-system"];

/// Finalizers of foreground and orphan deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";

impl DeleteOptions {
    /// Parses the body of a request.
    pub fn parse(body: &Value) -> ApiResult<Self> {
        let wrong = |field: &str, value: &Value| {
            Err(StatusError::bad_request(format!(
                "DeleteOptions in version \"v1\" cannot be handled as a DeleteOptions: {field} must not be {value}"
            )))
        };
        let grace = match body.get("gracePeriodSeconds") {
            None | Some(Value::Null) => None,
            Some(value) => match value.as_i64() {
                None => return wrong("gracePeriodSeconds", value),
                // Upstream treats a negative grace period as one second.
                Some(grace) if grace < 0 => Some(1),
                Some(grace) => Some(grace),
            },
        };
        let orphan = body.get("orphanDependents").and_then(Value::as_bool);
        let propagation = match text(body, &["propagationPolicy"]) {
            "" => orphan.map(
                |orphan| {
                    if orphan { Propagation::Orphan } else { Propagation::Background }
                },
            ),
            "Background" => Some(Propagation::Background),
            "Foreground" => Some(Propagation::Foreground),
            "Orphan" => Some(Propagation::Orphan),
            other => {
                return Err(StatusError::invalid(
                    "",
                    "DeleteOptions",
                    "",
                    &[crate::field_error::FieldError::not_supported(
                        "propagationPolicy",
                        other,
                        &["Background", "Foreground", "Orphan"],
                    )],
                ));
            }
        };
        Ok(Self {
            grace,
            propagation,
            uid: text(body, &["preconditions", "uid"]).to_owned(),
            version: text(body, &["preconditions", "resourceVersion"]).to_owned(),
            dry_run: !list(body, &["dryRun"]).is_empty(),
        })
    }

    /// Deletes an object with this uid without grace period.
    pub fn now(uid: &str) -> Self {
        Self { grace: Some(0), uid: uid.to_owned(), ..Self::default() }
    }
}

impl Cluster {
    /// Deletes an object, or marks it as terminating while it has finalizers or a grace period.
    pub fn delete(
        &self,
        resource: &Resource,
        namespace: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> ApiResult<DeleteOutcome> {
        let key = key_of(namespace, name);
        let is_namespace = resource.kind.group.is_empty() && *resource.kind.plural == *"namespaces";
        if is_namespace && PERMANENT_NAMESPACES.contains(&name) {
            let why = "this namespace may not be deleted";
            return Err(StatusError::forbidden(resource.group_resource(), name, why));
        }
        for _ in 0..WRITE_ATTEMPTS_MAX {
            let Some(current) = resource.objects.get(&key) else {
                return Err(StatusError::not_found(resource.group_resource(), name));
            };
            check_uid(resource, &options.uid, &current)?;
            check_version(resource, &options.version, &current)?;
            let mut object = current.value();
            let Some(gone) = self.mark_terminating(resource, &mut object, options) else {
                return Ok(DeleteOutcome::Terminating(current));
            };
            let draft = Draft::new(&object, resource.objects.fields());
            if options.dry_run {
                let object = Arc::new(draft.seal(current.version, ChangeKind::Added));
                return Ok(if gone {
                    DeleteOutcome::Deleted(object)
                } else {
                    DeleteOutcome::Terminating(object)
                });
            }
            // Before the change is visible to controllers, so that they act on it.
            for owner in &current.owners {
                self.snapshot_state.release(&owner.uid);
            }
            let done = if gone {
                resource.objects.remove(draft, current.version).map(DeleteOutcome::Deleted)
            } else {
                resource.objects.replace(draft, current.version).map(DeleteOutcome::Terminating)
            };
            match done {
                Ok(deleted) => return Ok(deleted),
                Err(StoreError::KeyNotFound) => {
                    return Err(StatusError::not_found(resource.group_resource(), name));
                }
                Err(StoreError::Conflict | StoreError::KeyExists) => {}
            }
        }
        Err(StatusError::modified(resource.group_resource(), name))
    }

    /// Marks an object as terminating. Returns `true` if it can be removed at once, or `None` if nothing
    /// changes.
    fn mark_terminating(
        &self,
        resource: &Resource,
        object: &mut Value,
        options: &DeleteOptions,
    ) -> Option<bool> {
        let grace = grace(resource, object, options);
        let before = object.clone();
        let finalizer = match options.propagation {
            Some(Propagation::Foreground) => Some(FOREGROUND),
            Some(Propagation::Orphan) => Some(ORPHAN),
            _ => None,
        };
        let ending = at(object, &["metadata", "deletionTimestamp"]).is_some();
        let left = int(object, &["metadata", "deletionGracePeriodSeconds"]);
        let metadata = slot(object, &["metadata"]);
        if !ending || left.is_none_or(|left| grace < left) {
            let end = self.now() + SignedDuration::from_secs(grace);
            if !ending || left.is_some() {
                metadata["deletionTimestamp"] = seconds(end).into();
            }
            metadata["deletionGracePeriodSeconds"] = grace.into();
        }
        if let Some(finalizer) = finalizer {
            let mut finalizers = list(metadata, &["finalizers"]).to_vec();
            finalizers.retain(|one| one != FOREGROUND && one != ORPHAN);
            finalizers.push(json!(finalizer));
            metadata["finalizers"] = finalizers.into();
        }
        if resource.kind.plural == "namespaces" && resource.kind.group.is_empty() {
            slot(object, &["status"])["phase"] = "Terminating".into();
        }
        let held = !list(object, &["metadata", "finalizers"]).is_empty()
            || !list(object, &["spec", "finalizers"]).is_empty();
        let left = int(object, &["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0);
        if !held && left == 0 {
            return Some(true);
        }
        let generations = resource.kind.strategy.generations;
        if generations && !ending && *object != before {
            let generation = int(object, &["metadata", "generation"]).unwrap_or(0);
            object["metadata"]["generation"] = (generation + 1).into();
        }
        (*object != before).then_some(false)
    }
}

/// Returns the grace period in seconds. Only bound pods that are not finished have one.
fn grace(resource: &Resource, object: &Value, options: &DeleteOptions) -> i64 {
    if resource.kind.plural != "pods" || !resource.kind.group.is_empty() {
        return 0;
    }
    let placed = !text(object, &["spec", "nodeName"]).is_empty();
    if !placed || crate::pods::is_finished(object) {
        return 0;
    }
    let own = int(object, &["spec", "terminationGracePeriodSeconds"]);
    options.grace.or(own).unwrap_or(30).clamp(0, 1 << 32)
}
