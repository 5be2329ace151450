//! Controller of Namespaces: creates the default service account and finishes deletions.

use std::time::Duration;

use serde_json::json;

use super::controller::{Controller, Key, own_key};
use super::workload::create;
use crate::cluster::{Cluster, DeleteOptions, Part, WriteOptions};
use crate::json::remove_text;
use crate::kinds::Verbs;
use crate::status_error::{ApiResult, ignore};
use crate::store::{Change, ChangeKind};

/// Delay before a namespace that still has objects is checked again.
const RECHECK_DELAY: Duration = Duration::from_millis(100);

/// The controller of Namespaces.
pub(super) struct Namespaces;

impl Controller for Namespaces {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "namespaces")]
    }

    fn keys_of_change(&self, _: &Cluster, _: usize, change: &Change) -> Vec<Key> {
        if change.kind == ChangeKind::Deleted { Vec::new() } else { vec![own_key(change)] }
    }

    fn reconcile(&self, cluster: &Cluster, (_, namespace): &Key) -> ApiResult<Option<Duration>> {
        let namespaces = cluster.resource("", "namespaces");
        let Some(object) = namespaces.objects.get(namespace) else { return Ok(None) };
        if !object.deleting {
            let accounts = cluster.resource("", "serviceaccounts");
            if accounts.objects.get(&format!("{namespace}/default")).is_none() {
                create(cluster, &accounts, namespace, json!({"metadata": {"name": "default"}}))?;
            }
            return Ok(None);
        }
        let mut left = 0;
        for resource in cluster.kinds.all() {
            let kind = &resource.kind;
            if !kind.namespaced
                || kind.strategy.verbs != Verbs::All
                || kind.strategy.stored_as.is_some()
            {
                continue;
            }
            for object in resource.objects.list(&resource.prefix(Some(namespace))).objects {
                left += 1;
                if !object.deleting {
                    let options = DeleteOptions::default();
                    let deleted = cluster.delete(&resource, namespace, &object.name, &options);
                    ignore(deleted, &[404])?;
                }
            }
        }
        if left > 0 {
            return Ok(Some(RECHECK_DELAY));
        }
        let options = WriteOptions::default();
        cluster.change(&namespaces, "", namespace, Part::Whole, &options, |_, before| {
            let mut object = before.clone();
            remove_text(&mut object, &["spec", "finalizers"], "kubernetes");
            Ok(Some(object))
        })?;
        Ok(None)
    }
}
