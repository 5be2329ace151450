//! Garbage collection: objects whose owners are gone go, too.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::controller::{Informer, any_changed, relist_if_missed};
use crate::cluster::{Cluster, DeleteOptions, Part, Propagation, WriteOptions};
use crate::json::{list, name, text};
use crate::kinds::{Resource, Verbs};
use crate::status_error::ApiResult;
use crate::store::{ChangeKind, Collection, Object, Owner, key_of};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Collects for ever. Kinds that come later are followed from then on.
pub(super) async fn run(cluster: &Arc<Cluster>) {
    let mut informers: Vec<Informer> = Vec::new();
    // Kinds are known by their collections, since two versions of one share it.
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
                    ending(cluster, &informer.resource, object)
                } else if change.kind == ChangeKind::Added && !object.owners.is_empty() {
                    check(cluster, &informer.resource, object)
                } else {
                    Ok(())
                };
                if let Err(failure) = done {
                    tracing::debug!(key = %object.key, message = %failure.message, "cannot collect");
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
        check(cluster, &resource, &object)?;
    }
    Ok(())
}

/// Ends an object that has owners, none of which exists.
fn check(cluster: &Cluster, resource: &Resource, object: &Object) -> ApiResult<()> {
    let owners = &object.owners;
    if owners.is_empty() || owners.iter().any(|owner| exists(cluster, &object.namespace, owner)) {
        return Ok(());
    }
    end(cluster, resource, object, Propagation::Background)
}

pub(crate) fn exists(cluster: &Cluster, namespace: &str, owner: &Owner) -> bool {
    if cluster.snapshot_state.is_absent_owner(&owner.uid) {
        return true;
    }
    // Nobody knows some kinds; their objects may be anywhere.
    let Some(resource) = cluster.kinds.of_object(&owner.api_version, &owner.kind) else {
        return true;
    };
    find(&resource, namespace, owner).is_some()
}

/// The owner that a reference names.
fn find(resource: &Resource, namespace: &str, owner: &Owner) -> Option<Arc<Object>> {
    let place = if resource.kind.namespaced { namespace } else { "" };
    let found = resource.objects.get(&key_of(place, &owner.name));
    found.filter(|found| found.uid == owner.uid)
}

fn end(
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
    match cluster.delete(resource, &object.namespace, &object.name, &options) {
        Err(failure) if failure.code != 404 && failure.code != 409 => Err(failure),
        _ => Ok(()),
    }
}

/// What the end of an object asks of the objects that it owns.
fn ending(cluster: &Cluster, resource: &Resource, object: &Object) -> ApiResult<()> {
    let value = object.value();
    let has = |finalizer: &str| {
        list(&value, &["metadata", "finalizers"]).iter().any(|one| one == finalizer)
    };
    if has(ORPHAN) {
        for (resource, dependent) in dependents(cluster, &object.uid, Collection::owned_by) {
            disown(cluster, &resource, &dependent, &object.uid)?;
        }
        return release(cluster, resource, object, ORPHAN);
    }
    if has(FOREGROUND) {
        for (of, dependent) in dependents(cluster, &object.uid, Collection::live_dependents) {
            end(cluster, &of, &dependent, Propagation::Foreground)?;
        }
        if !is_blocked(cluster, &object.uid) {
            return release(cluster, resource, object, FOREGROUND);
        }
    }
    Ok(())
}

/// Owners that wait for the end of an object are looked at again.
fn wake_owners(cluster: &Cluster, object: &Object) -> ApiResult<()> {
    for owner in &object.owners {
        let Some(resource) = cluster.kinds.of_object(&owner.api_version, &owner.kind) else {
            continue;
        };
        let found = find(&resource, &object.namespace, owner);
        let Some(found) = found.filter(|found| found.deleting) else { continue };
        // Until the last of its dependents is gone there is nothing to do, and nothing to parse.
        let waits = is_blocked(cluster, &found.uid)
            && stored_kinds(cluster).all(|of| of.objects.live_dependents(&found.uid).is_empty());
        if !waits {
            ending(cluster, &resource, &found)?;
        }
    }
    Ok(())
}

fn disown(cluster: &Cluster, resource: &Resource, object: &Object, owner: &str) -> ApiResult<()> {
    edit(cluster, resource, object, |value| {
        let owners = list(value, &["metadata", "ownerReferences"]).iter();
        let rest: Vec<Value> = owners.filter(|one| text(one, &["uid"]) != owner).cloned().collect();
        value["metadata"]["ownerReferences"] = rest.into();
    })
}

fn release(
    cluster: &Cluster,
    resource: &Resource,
    object: &Object,
    finalizer: &str,
) -> ApiResult<()> {
    edit(cluster, resource, object, |value| {
        let finalizers = list(value, &["metadata", "finalizers"]).iter();
        let rest: Vec<Value> = finalizers.filter(|one| *one != finalizer).cloned().collect();
        value["metadata"]["finalizers"] = rest.into();
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
    match done {
        Err(failure) if failure.code != 404 => Err(failure),
        _ => Ok(()),
    }
}

#[cfg(test)]
thread_local! {
    /// Dependents that this thread has looked at.
    static VISITED: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Returns the number of dependents visited by this thread since the last call.
#[cfg(test)]
fn take_visited() -> usize {
    VISITED.take()
}

#[cfg(test)]
mod tests;
