//! Volumes and claims, found by what they are matched by.
//!
//! Kept from changes, so that neither a change of a volume reads all claims nor a claim all volumes.
//! It only proposes: what it finds is read again before anything is written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::actors::controller::Key;
use crate::json::{at, list, text};
use crate::quantity::Quantity;
use crate::store::{Change, ChangeKind};

/// Class and mode of a volume, which those of a claim must equal.
type Sort = (String, String);

/// Where a volume was put.
#[derive(Debug)]
enum Place {
    /// A claim holds it or it is reserved for one.
    Claimed(Key),
    /// No claim holds it; by its capacity.
    Free(Sort, i64),
}

/// The index.
#[derive(Debug, Default)]
pub(super) struct Index {
    places: HashMap<String, Place>,
    by_claim: BTreeMap<Key, BTreeSet<String>>,
    free: HashMap<Sort, BTreeSet<(i64, String)>>,
    /// Claims that are not bound, by class.
    open: HashMap<String, BTreeSet<Key>>,
    class_of: HashMap<Key, String>,
}

impl Index {
    /// Takes a change of a volume in.
    pub(super) fn see_volume(&mut self, change: &Change) {
        let name = &*change.object.name;
        match self.places.remove(name) {
            Some(Place::Claimed(claim)) => {
                if let Some(volumes) = self.by_claim.get_mut(&claim) {
                    volumes.remove(name);
                    if volumes.is_empty() {
                        self.by_claim.remove(&claim);
                    }
                }
            }
            Some(Place::Free(sort, capacity)) => {
                if let Some(volumes) = self.free.get_mut(&sort) {
                    volumes.remove(&(capacity, name.to_owned()));
                }
            }
            None => {}
        }
        if change.kind == ChangeKind::Deleted {
            return;
        }
        let volume = change.object.value();
        let place = if at(&volume, &["spec", "claimRef"]).is_some() {
            let of = |field| text(&volume, &["spec", "claimRef", field]).to_owned();
            let claim = (of("namespace"), of("name"));
            self.by_claim.entry(claim.clone()).or_default().insert(name.to_owned());
            Place::Claimed(claim)
        } else {
            let Some(capacity) = size(&volume, &["spec", "capacity", "storage"]) else { return };
            let (sort, capacity) = (sort(&volume), capacity.whole());
            self.free.entry(sort.clone()).or_default().insert((capacity, name.to_owned()));
            Place::Free(sort, capacity)
        };
        self.places.insert(name.to_owned(), place);
    }

    /// Takes a change of a claim in.
    pub(super) fn see_claim(&mut self, key: &Key, change: &Change) {
        if let Some(class) = self.class_of.remove(key)
            && let Some(open) = self.open.get_mut(&class)
        {
            open.remove(key);
        }
        let claim = change.object.value();
        if change.kind != ChangeKind::Deleted && text(&claim, &["status", "phase"]) != "Bound" {
            let class = text(&claim, &["spec", "storageClassName"]).to_owned();
            self.open.entry(class.clone()).or_default().insert(key.clone());
            self.class_of.insert(key.clone(), class);
        }
    }

    /// The claims that a volume may be for: the one that it names, or those of its class that are open.
    pub(super) fn claims_for(&self, volume: &str) -> Vec<Key> {
        match self.places.get(volume) {
            Some(Place::Claimed(claim)) => vec![claim.clone()],
            Some(Place::Free((class, _), _)) => self.open_of(class),
            None => Vec::new(),
        }
    }

    /// The claims of a class that are not bound.
    pub(super) fn open_of(&self, class: &str) -> Vec<Key> {
        self.open.get(class).into_iter().flatten().cloned().collect()
    }

    /// The volumes that name a claim.
    pub(super) fn reserved(&self, claim: &Key) -> Vec<String> {
        self.by_claim.get(claim).into_iter().flatten().cloned().collect()
    }

    /// The free volumes that are large enough for a claim, the smallest first.
    pub(super) fn fitting(&self, claim: &Value) -> Vec<String> {
        let Some(wanted) = size(claim, &["spec", "resources", "requests", "storage"]) else {
            return Vec::new();
        };
        let free = self.free.get(&sort(claim)).into_iter();
        free.flat_map(|free| free.range((wanted.whole(), String::new())..))
            .map(|(_, name)| name.clone())
            .collect()
    }
}

fn sort(object: &Value) -> Sort {
    let of = |field| text(object, &["spec", field]).to_owned();
    (of("storageClassName"), of("volumeMode"))
}

/// An amount of bytes.
pub(super) fn size(object: &Value, path: &[&str]) -> Option<Quantity> {
    at(object, path).and_then(Value::as_str).and_then(Quantity::parse)
}

/// Whether a volume allows every kind of access that a claim asks for.
pub(super) fn allows(volume: &Value, claim: &Value) -> bool {
    let offered = list(volume, &["spec", "accessModes"]);
    list(claim, &["spec", "accessModes"]).iter().all(|mode| offered.contains(mode))
}
