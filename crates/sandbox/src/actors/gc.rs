//! Garbage collection: objects whose owners are gone go, too.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use serde_json::Value;

use super::follow::{Follower, any_changed, renew_if_missed};
use crate::cluster::{Cluster, DeleteOptions, Part, Propagation, WriteOptions};
use crate::failure::Answer;
use crate::json::{list, name, text, truth};
use crate::kinds::{Resource, Verbs};
use crate::store::{ChangeKind, Object, Owner, key_of};

const FOREGROUND: &str = "foregroundDeletion";
const ORPHAN: &str = "orphan";

/// Collects for ever. Kinds that come later are followed from then on.
pub(super) async fn run(cluster: &Arc<Cluster>) {
    let mut followers: Vec<Follower> = Vec::new();
    // Kinds are known by their collections, since two versions of one share it.
    let mut known: BTreeSet<usize> = BTreeSet::new();
    let mut definitions =
        cluster.kind("apiextensions.k8s.io", "customresourcedefinitions").objects.news();
    loop {
        for resource in cluster.kinds.all() {
            let collected = resource.kind.behaviour.verbs == Verbs::All
                && resource.kind.behaviour.stored_as.is_none();
            if collected && known.insert(Arc::as_ptr(&resource.objects) as usize) {
                followers.push(Follower::new(resource));
            }
        }
        let mut busy = false;
        for follower in &mut followers {
            for change in follower.poll() {
                busy = true;
                let object = &change.object;
                let done = if change.kind == ChangeKind::Deleted {
                    owner_gone(cluster, &object.uid).and_then(|()| wake_owners(cluster, object))
                } else if object.deleting {
                    ending(cluster, &follower.resource, object)
                } else if change.kind == ChangeKind::Added && !object.owners.is_empty() {
                    check(cluster, &follower.resource, object)
                } else {
                    Ok(())
                };
                if let Err(failure) = done {
                    tracing::debug!(key = %object.key, message = %failure.message, "cannot collect");
                }
            }
        }
        if renew_if_missed(&mut followers) || busy {
            tokio::task::yield_now().await;
            continue;
        }
        tokio::select! {
            () = any_changed(&mut followers) => {}
            changed = definitions.changed() => if changed.is_err() { return },
        }
    }
}

/// All that an object owns.
fn dependents(cluster: &Cluster, uid: &str) -> Vec<(Arc<Resource>, Arc<Object>)> {
    let kinds = cluster.kinds.all();
    let stored = kinds.into_iter().filter(|resource| resource.kind.behaviour.stored_as.is_none());
    let mut found: Vec<(Arc<Resource>, Arc<Object>)> = Vec::new();
    let mut seen: HashSet<Box<str>> = HashSet::new();
    for resource in stored {
        for object in resource.objects.owned_by(uid) {
            if seen.insert(object.uid.clone()) {
                found.push((Arc::clone(&resource), object));
            }
        }
    }
    found
}

fn owner_gone(cluster: &Cluster, uid: &str) -> Answer<()> {
    for (resource, object) in dependents(cluster, uid) {
        check(cluster, &resource, &object)?;
    }
    Ok(())
}

/// Ends an object that has owners, none of which exists.
fn check(cluster: &Cluster, resource: &Resource, object: &Object) -> Answer<()> {
    let owners = &object.owners;
    if owners.is_empty() || owners.iter().any(|owner| exists(cluster, &object.namespace, owner)) {
        return Ok(());
    }
    end(cluster, resource, object, Propagation::Background)
}

pub(crate) fn exists(cluster: &Cluster, namespace: &str, owner: &Owner) -> bool {
    if cluster.held.is_absent_owner(&owner.uid) {
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
) -> Answer<()> {
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
fn ending(cluster: &Cluster, resource: &Resource, object: &Object) -> Answer<()> {
    let value = object.value();
    let has = |finalizer: &str| {
        list(&value, &["metadata", "finalizers"]).iter().any(|one| one == finalizer)
    };
    if has(ORPHAN) {
        for (resource, dependent) in dependents(cluster, &object.uid) {
            disown(cluster, &resource, &dependent, &object.uid)?;
        }
        return release(cluster, resource, object, ORPHAN);
    }
    if has(FOREGROUND) {
        let mut blocked = false;
        for (of, dependent) in dependents(cluster, &object.uid) {
            let blocks =
                list(&dependent.value(), &["metadata", "ownerReferences"]).iter().any(|owner| {
                    text(owner, &["uid"]) == &*object.uid && truth(owner, &["blockOwnerDeletion"])
                });
            blocked |= blocks;
            if !dependent.deleting {
                end(cluster, &of, &dependent, Propagation::Foreground)?;
            }
        }
        let left = dependents(cluster, &object.uid);
        if !blocked || left.is_empty() {
            return release(cluster, resource, object, FOREGROUND);
        }
    }
    Ok(())
}

/// Owners that wait for the end of an object are looked at again.
fn wake_owners(cluster: &Cluster, object: &Object) -> Answer<()> {
    for owner in &object.owners {
        let Some(resource) = cluster.kinds.of_object(&owner.api_version, &owner.kind) else {
            continue;
        };
        let found = find(&resource, &object.namespace, owner);
        if let Some(found) = found.filter(|found| found.deleting) {
            ending(cluster, &resource, &found)?;
        }
    }
    Ok(())
}

fn disown(cluster: &Cluster, resource: &Resource, object: &Object, owner: &str) -> Answer<()> {
    edit(cluster, resource, object, |value| {
        let owners = list(value, &["metadata", "ownerReferences"]).iter();
        let rest: Vec<Value> = owners.filter(|one| text(one, &["uid"]) != owner).cloned().collect();
        value["metadata"]["ownerReferences"] = rest.into();
    })
}

fn release(cluster: &Cluster, resource: &Resource, object: &Object, finalizer: &str) -> Answer<()> {
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
) -> Answer<()> {
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
