//! Index of volumes and claims by the properties that matching compares.
//!
//! It is maintained from changes, so that neither a change of a volume reads all claims nor a claim reads
//! all volumes. It only proposes candidates, which are read again before a write.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::actors::controller::Key;
use crate::json::{at, list, quantity, text};
use crate::store::{Change, ChangeKind};

/// Storage class and volume mode, which must be equal for claim and volume.
type MatchKey = (String, String);

/// Entry of a volume.
#[derive(Debug)]
enum Entry {
    /// Bound to or reserved for a claim.
    Claimed(Key),
    /// Not claimed; with its capacity in bytes.
    Free(MatchKey, i64),
}

/// Volumes by claim and by class, and unbound claims by class.
#[derive(Debug, Default)]
pub(super) struct Index {
    entries: HashMap<String, Entry>,
    by_claim: BTreeMap<Key, BTreeSet<String>>,
    free: HashMap<MatchKey, BTreeSet<(i64, String)>>,
    /// Unbound claims by class.
    unbound: HashMap<String, BTreeSet<Key>>,
    class_of: HashMap<Key, String>,
}

impl Index {
    /// Applies a change of a volume.
    pub(super) fn apply_volume(&mut self, change: &Change) {
        let name = &*change.object.name;
        match self.entries.remove(name) {
            Some(Entry::Claimed(claim)) => {
                if let Some(volumes) = self.by_claim.get_mut(&claim) {
                    volumes.remove(name);
                    if volumes.is_empty() {
                        self.by_claim.remove(&claim);
                    }
                }
            }
            Some(Entry::Free(match_key, capacity)) => {
                if let Some(volumes) = self.free.get_mut(&match_key) {
                    volumes.remove(&(capacity, name.to_owned()));
                }
            }
            None => {}
        }
        if change.kind == ChangeKind::Deleted {
            return;
        }
        let volume = change.object.value();
        let entry = if at(&volume, &["spec", "claimRef"]).is_some() {
            let of = |field| text(&volume, &["spec", "claimRef", field]).to_owned();
            let claim = (of("namespace"), of("name"));
            self.by_claim.entry(claim.clone()).or_default().insert(name.to_owned());
            Entry::Claimed(claim)
        } else {
            let Some(capacity) = quantity(&volume, &["spec", "capacity", "storage"]) else {
                return;
            };
            let (match_key, capacity) = (match_key(&volume), capacity.whole());
            self.free.entry(match_key.clone()).or_default().insert((capacity, name.to_owned()));
            Entry::Free(match_key, capacity)
        };
        self.entries.insert(name.to_owned(), entry);
    }

    /// Applies a change of a claim.
    pub(super) fn apply_claim(&mut self, key: &Key, change: &Change) {
        if let Some(class) = self.class_of.remove(key)
            && let Some(unbound) = self.unbound.get_mut(&class)
        {
            unbound.remove(key);
        }
        let claim = change.object.value();
        if change.kind != ChangeKind::Deleted && text(&claim, &["status", "phase"]) != "Bound" {
            let class = text(&claim, &["spec", "storageClassName"]).to_owned();
            self.unbound.entry(class.clone()).or_default().insert(key.clone());
            self.class_of.insert(key.clone(), class);
        }
    }

    /// Returns the claims that may use a volume: that of its claim reference, or the unbound ones of its
    /// class.
    pub(super) fn claims_for(&self, volume: &str) -> Vec<Key> {
        match self.entries.get(volume) {
            Some(Entry::Claimed(claim)) => vec![claim.clone()],
            Some(Entry::Free((class, _), _)) => self.unbound_of(class),
            None => Vec::new(),
        }
    }

    /// Returns the unbound claims of a class.
    pub(super) fn unbound_of(&self, class: &str) -> Vec<Key> {
        self.unbound.get(class).into_iter().flatten().cloned().collect()
    }

    /// Returns the volumes that are reserved for a claim.
    pub(super) fn reserved(&self, claim: &Key) -> Vec<String> {
        self.by_claim.get(claim).into_iter().flatten().cloned().collect()
    }

    /// Returns the free volumes that are large enough for a claim, smallest first.
    pub(super) fn large_enough(&self, claim: &Value) -> Vec<String> {
        let Some(wanted) = quantity(claim, &["spec", "resources", "requests", "storage"]) else {
            return Vec::new();
        };
        let free = self.free.get(&match_key(claim)).into_iter();
        free.flat_map(|free| free.range((wanted.whole(), String::new())..))
            .map(|(_, name)| name.clone())
            .collect()
    }
}

fn match_key(object: &Value) -> MatchKey {
    let of = |field| text(object, &["spec", field]).to_owned();
    (of("storageClassName"), of("volumeMode"))
}

/// Returns `true` if a volume offers all access modes of a claim.
pub(super) fn allows(volume: &Value, claim: &Value) -> bool {
    let offered = list(volume, &["spec", "accessModes"]);
    list(claim, &["spec", "accessModes"]).iter().all(|mode| offered.contains(mode))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::{Cluster, WriteOptions};

    /// With this many, reading all claims for each volume would take minutes.
    const COUNT: usize = 20_000;

    fn create(cluster: &Cluster, kind: &str, namespace: &str, object: Value) -> Change {
        let resource = cluster.resource("", kind);
        let made = cluster.create(&resource, namespace, object, &WriteOptions::default()).unwrap();
        Change::present(made.object)
    }

    #[test]
    fn each_of_many_claims_finds_its_volume_without_reading_the_others() {
        let cluster = crate::testing::cluster();
        let mut index = Index::default();
        let mut claims = Vec::new();
        for number in 0..COUNT {
            let class = format!("class-{number}");
            let volume = json!({"metadata": {"name": format!("volume-{number}")}, "spec": {
                "storageClassName": class, "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"},
            }});
            index.apply_volume(&create(&cluster, "persistentvolumes", "", volume));
            let claim = json!({"metadata": {"name": format!("claim-{number}")}, "spec": {
                "storageClassName": class, "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            }});
            let change = create(&cluster, "persistentvolumeclaims", "default", claim);
            let key = ("default".to_owned(), change.object.name.to_string());
            index.apply_claim(&key, &change);
            claims.push((key, change));
        }
        for (number, (key, change)) in claims.iter().enumerate() {
            let volume = format!("volume-{number}");
            assert_eq!(index.large_enough(&change.object.value()), [volume.as_str()]);
            assert_eq!(index.claims_for(&volume), std::slice::from_ref(key));
        }
    }
}
