//! Garbage collector: deletes objects whose owners are gone, and finishes foreground and orphan deletion.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::controller::{Informer, any_changed, relist_if_missed};
use crate::cluster::{Cluster, DeleteOptions, FOREGROUND, ORPHAN, Part, Propagation, WriteOptions};
use crate::json::{list, name, remove_text, text};
use crate::kinds::{Resource, Verbs};
use crate::status_error::{ApiResult, ignore};
use crate::store::{ChangeKind, Collection, Object, Owner, key_of};

/// Runs the garbage collector. Kinds that are registered later are watched from then on.
pub(super) async fn run(cluster: &Arc<Cluster>) {
    let mut informers: Vec<Informer> = Vec::new();
    // Kinds are identified by their collection, since two API versions share one.
    let mut known: BTreeSet<usize> = BTreeSet::new();
    let mut definitions =
        cluster.resource("apiextensions.k8s.io", "customresourcedefinitions").objects.subscribe();
    loop {
        for resource in cluster.kinds.all() {
            let collected = resource.kind.strategy.verbs == Verbs::All
                && resource.kind.strategy.stored_as.is_none();
            if collected && known.insert(Arc::as_ptr(&resource.objects) as usize) {
                informers.push(Informer::new(resource));
            }
        }
        let mut busy = false;
        for informer in &mut informers {
            for change in informer.poll() {
                busy = true;
                let object = &change.object;
                let done = if change.kind == ChangeKind::Deleted {
                    owner_gone(cluster, &object.uid).and_then(|()| wake_owners(cluster, object))
                } else if object.deleting {
                    continue_deletion(cluster, &informer.resource, object)
                } else if change.kind == ChangeKind::Added && !object.owners.is_empty() {
                    delete_if_orphaned(cluster, &informer.resource, object)
                } else {
                    Ok(())
                };
                if let Err(failure) = done {
                    tracing::debug!(key = %object.key, message = %failure.message, "garbage collection failed");
                }
            }
        }
        if relist_if_missed(&mut informers) || busy {
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            () = any_changed(&mut informers) => {}
            changed = definitions.changed() => if changed.is_err() { return },
        }
    }
}

/// Returns the dependents of an owner among all kinds, each once: two versions of a kind share their
/// objects.
fn dependents(
    cluster: &Cluster,
    uid: &str,
    of: impl Fn(&Collection, &str) -> Vec<Arc<Object>>,
) -> Vec<(Arc<Resource>, Arc<Object>)> {
    let mut found: Vec<(Arc<Resource>, Arc<Object>)> = Vec::new();
    let mut seen: HashSet<Box<str>> = HashSet::new();
    for resource in stored_kinds(cluster) {
        for object in of(&resource.objects, uid) {
            #[cfg(test)]
            VISITED.set(VISITED.get() + 1);
            if seen.insert(object.uid.clone()) {
                found.push((Arc::clone(&resource), object));
            }
        }
    }
    found
}

/// Returns `true` if a dependent blocks the deletion of an owner in the foreground.
fn is_blocked(cluster: &Cluster, uid: &str) -> bool {
    stored_kinds(cluster).any(|resource| resource.objects.blocks_deletion(uid))
}

fn stored_kinds(cluster: &Cluster) -> impl Iterator<Item = Arc<Resource>> {
    let kinds = cluster.kinds.all().into_iter();
    kinds.filter(|resource| resource.kind.strategy.stored_as.is_none())
}

fn owner_gone(cluster: &Cluster, uid: &str) -> ApiResult<()> {
    for (resource, object) in dependents(cluster, uid, Collection::owned_by) {
        delete_if_orphaned(cluster, &resource, &object)?;
    }
    Ok(())
}

/// Deletes an object that has owners, none of which exists.
fn delete_if_orphaned(cluster: &Cluster, resource: &Resource, object: &Object) -> ApiResult<()> {
    let owners = &object.owners;
    if owners.is_empty() || owners.iter().any(|owner| exists(cluster, &object.namespace, owner)) {
        return Ok(());
    }
    delete(cluster, resource, object, Propagation::Background)
}

pub(crate) fn exists(cluster: &Cluster, namespace: &str, owner: &Owner) -> bool {
    if cluster.snapshot_state.is_absent_owner(&owner.uid) {
        return true;
    }
    // The owner's kind is unknown, so its existence cannot be ruled out.
    let Some(resource) = cluster.kinds.of_object(&owner.api_version, &owner.kind) else {
        return true;
    };
    find(&resource, namespace, owner).is_some()
}

/// Returns the owner that a reference names.
fn find(resource: &Resource, namespace: &str, owner: &Owner) -> Option<Arc<Object>> {
    let namespace = if resource.kind.namespaced { namespace } else { "" };
    let found = resource.objects.get(&key_of(namespace, &owner.name));
    found.filter(|found| found.uid == owner.uid)
}

fn delete(
    cluster: &Cluster,
    resource: &Resource,
    object: &Object,
    propagation: Propagation,
) -> ApiResult<()> {
    let options = DeleteOptions {
        uid: object.uid.to_string(),
        propagation: Some(propagation),
        ..DeleteOptions::default()
    };
    let deleted = cluster.delete(resource, &object.namespace, &object.name, &options);
    ignore(deleted, &[404, 409])
}

/// Continues the deletion of an object: orphans or deletes its dependents, then removes the finalizer.
fn continue_deletion(cluster: &Cluster, resource: &Resource, object: &Object) -> ApiResult<()> {
    let value = object.value();
    let has = |finalizer: &str| {
        list(&value, &["metadata", "finalizers"]).iter().any(|one| one == finalizer)
    };
    if has(ORPHAN) {
        for (resource, dependent) in dependents(cluster, &object.uid, Collection::owned_by) {
            remove_owner(cluster, &resource, &dependent, &object.uid)?;
        }
        return remove_finalizer(cluster, resource, object, ORPHAN);
    }
    if has(FOREGROUND) {
        for (of, dependent) in dependents(cluster, &object.uid, Collection::live_dependents) {
            delete(cluster, &of, &dependent, Propagation::Foreground)?;
        }
        if !is_blocked(cluster, &object.uid) {
            return remove_finalizer(cluster, resource, object, FOREGROUND);
        }
    }
    Ok(())
}

/// Continues the deletion of owners that may have waited for this dependent.
fn wake_owners(cluster: &Cluster, object: &Object) -> ApiResult<()> {
    for owner in &object.owners {
        let Some(resource) = cluster.kinds.of_object(&owner.api_version, &owner.kind) else {
            continue;
        };
        let found = find(&resource, &object.namespace, owner);
        let Some(found) = found.filter(|found| found.deleting) else { continue };
        // While dependents are left, the owner keeps its finalizer; skip parsing it.
        let waits = is_blocked(cluster, &found.uid)
            && stored_kinds(cluster).all(|of| of.objects.live_dependents(&found.uid).is_empty());
        if !waits {
            continue_deletion(cluster, &resource, &found)?;
        }
    }
    Ok(())
}

fn remove_owner(
    cluster: &Cluster,
    resource: &Resource,
    object: &Object,
    owner: &str,
) -> ApiResult<()> {
    edit(cluster, resource, object, |value| {
        let owners = list(value, &["metadata", "ownerReferences"]).iter();
        let rest: Vec<Value> = owners.filter(|one| text(one, &["uid"]) != owner).cloned().collect();
        value["metadata"]["ownerReferences"] = rest.into();
    })
}

fn remove_finalizer(
    cluster: &Cluster,
    resource: &Resource,
    object: &Object,
    finalizer: &str,
) -> ApiResult<()> {
    edit(cluster, resource, object, |value| {
        remove_text(value, &["metadata", "finalizers"], finalizer);
    })
}

fn edit(
    cluster: &Cluster,
    resource: &Resource,
    object: &Object,
    edit: impl Fn(&mut Value),
) -> ApiResult<()> {
    let options = WriteOptions::default();
    let done = cluster.change(
        resource,
        &object.namespace,
        &object.name,
        Part::Whole,
        &options,
        |current, before| {
            if current.uid != object.uid {
                return Ok(None);
            }
            let mut value = before.clone();
            edit(&mut value);
            debug_assert_eq!(name(&value), &*object.name);
            Ok(Some(value))
        },
    );
    ignore(done, &[404])
}

#[cfg(test)]
thread_local! {
    /// Dependents visited by this thread.
    static VISITED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns the number of dependents visited by this thread since the last call.
#[cfg(test)]
fn take_visited() -> usize {
    VISITED.take()
}

#[cfg(test)]
mod tests;
