//! Controller of CustomResourceDefinitions: registers and removes their kinds.

use std::time::Duration;

use serde_json::json;

use super::controller::{Controller, Key, own_key};
use crate::cluster::{Cluster, DeleteOptions, Part, WriteOptions};
use crate::custom;
use crate::json::{at, holds, list, remove_text, slot, text};
use crate::status_error::{ApiResult, ignore};
use crate::store::{Change, ChangeKind};

/// Finalizer that keeps a definition until its objects are deleted.
const CLEAN_UP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Delay before a deleted definition is checked again while it has objects.
const RECHECK_DELAY: Duration = Duration::from_millis(100);

/// The controller of CustomResourceDefinitions.
pub(super) struct Definitions;

impl Controller for Definitions {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("apiextensions.k8s.io", "customresourcedefinitions")]
    }

    fn keys_of_change(&self, cluster: &Cluster, _: usize, change: &Change) -> Vec<Key> {
        if change.kind == ChangeKind::Deleted {
            let value = change.object.value();
            cluster.kinds.remove(
                text(&value, &["spec", "group"]),
                text(&value, &["spec", "names", "plural"]),
            );
            return Vec::new();
        }
        vec![own_key(change)]
    }

    fn reconcile(
        &self,
        cluster: &Cluster,
        (_, definition_name): &Key,
    ) -> ApiResult<Option<Duration>> {
        let definitions = cluster.resource("apiextensions.k8s.io", "customresourcedefinitions");
        let Some(definition) = cluster.value(&definitions, "", definition_name) else {
            return Ok(None);
        };
        let options = WriteOptions::default();
        if at(&definition, &["metadata", "deletionTimestamp"]).is_some() {
            let (group, plural) = (
                text(&definition, &["spec", "group"]),
                text(&definition, &["spec", "names", "plural"]),
            );
            if let Some(resource) = cluster.kinds.find(group, plural) {
                let objects = resource.objects.list("").objects;
                for object in objects.iter().filter(|object| !object.deleting) {
                    let options = DeleteOptions::default();
                    let deleted =
                        cluster.delete(&resource, &object.namespace, &object.name, &options);
                    ignore(deleted, &[404])?;
                }
                if !resource.objects.is_empty() {
                    return Ok(Some(RECHECK_DELAY));
                }
            }
            cluster.change(
                &definitions,
                "",
                definition_name,
                Part::Whole,
                &options,
                |_, before| {
                    let mut object = before.clone();
                    remove_text(&mut object, &["metadata", "finalizers"], CLEAN_UP);
                    Ok(Some(object))
                },
            )?;
            return Ok(None);
        }
        custom::establish(cluster, &definition);
        if !holds(&definition, "Established")
            || at(&definition, &["status", "acceptedNames"]) != at(&definition, &["spec", "names"])
        {
            let now = cluster.now();
            cluster.change(
                &definitions,
                "",
                definition_name,
                Part::Whole,
                &options,
                |_, before| {
                    let mut object = before.clone();
                    *slot(&mut object, &["status"]) = custom::status(before, now);
                    let finalizers = list(before, &["metadata", "finalizers"]);
                    if !finalizers.iter().any(|one| one == CLEAN_UP) {
                        let mut finalizers = finalizers.to_vec();
                        finalizers.push(json!(CLEAN_UP));
                        object["metadata"]["finalizers"] = finalizers.into();
                    }
                    Ok(Some(object))
                },
            )?;
        }
        Ok(None)
    }
}
