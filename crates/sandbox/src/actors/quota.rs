//! Controller of ResourceQuotas: recounts the use of quotas after deletions.

use std::time::Duration;

use super::controller::{Controller, Key, own_key};
use crate::admission;
use crate::cluster::Cluster;
use crate::json::at;
use crate::status_error::ApiResult;
use crate::store::{Change, ChangeKind};

/// The controller of ResourceQuotas.
pub(super) struct Quotas;

impl Controller for Quotas {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[
            ("", "resourcequotas"),
            ("", "pods"),
            ("", "persistentvolumeclaims"),
            ("", "services"),
            ("", "configmaps"),
            ("", "secrets"),
        ]
    }

    fn keys_of_change(&self, cluster: &Cluster, source: usize, change: &Change) -> Vec<Key> {
        let quotas = cluster.resource("", "resourcequotas");
        if quotas.objects.is_empty() {
            return Vec::new();
        }
        let phase = |object: &crate::store::Object| object.field_named("status.phase").to_owned();
        let ended = change
            .previous
            .as_ref()
            .is_some_and(|previous| phase(previous) != phase(&change.object));
        let counts = match source {
            // Changes of the status are this controller's own writes.
            0 => {
                let before = change
                    .previous
                    .as_ref()
                    .map(|previous| at(&previous.value(), &["spec"]).cloned());
                before != Some(at(&change.object.value(), &["spec"]).cloned())
            }
            _ => change.kind == ChangeKind::Deleted || ended,
        };
        if counts { vec![(own_key(change).0, String::new())] } else { Vec::new() }
    }

    fn reconcile(&self, cluster: &Cluster, (namespace, _): &Key) -> ApiResult<Option<Duration>> {
        admission::recount(cluster, namespace);
        Ok(None)
    }
}
