//! The object table of one kind: turns watch events into changes and drops those that are not newer.

use std::hash::BuildHasher as _;
use std::sync::Arc;

use api::kinds::{Kind, ObjectKey};
use api::lower::{LoweringCache, Source};
use engine::change::Change;
use engine::object::{AnnotationKeys, Uid};
use engine::slab::Slab;
use hashbrown::{DefaultHashBuilder, HashTable};

use super::decoder::DecodeError;
use super::error::WatchError;

/// Uid and resourceVersion of every object of a kind.
pub(super) struct ObjectTable {
    kind: &'static Kind,
    known: Slab<ObjectEntry>,
    /// Slots of the objects by namespace and name.
    by_name: HashTable<u32>,
    hasher: DefaultHashBuilder,
    lowering_cache: LoweringCache,
    /// Highest resourceVersion seen.
    pub(super) version: u64,
    /// The table holds all objects of `version`.
    pub(super) complete: bool,
    /// Last resourceVersion at which the table was complete: an older object that it lacks was deleted.
    complete_through: u64,
    /// Something could not be read, so an object that the table lacks may exist.
    pub(super) had_unreadable: bool,
    /// Number of lists started.
    lists: u32,
}

/// An object that exists. Small, since there may be a million.
struct ObjectEntry {
    /// Namespace and name, concatenated.
    text: Box<str>,
    name_at: u32,
    uid: Uid,
    /// Number of the list in or after which the object was last seen.
    list: u32,
    version: u64,
}

impl ObjectEntry {
    fn new(
        ObjectIdentity { namespace, name, uid, version }: ObjectIdentity<'_>,
        list: u32,
    ) -> Self {
        let text = [namespace, name].concat().into();
        Self { text, name_at: namespace.len() as u32, uid, list, version }
    }

    fn key(&self) -> ObjectKey<'_> {
        let (namespace, name) = self.name();
        ObjectKey { namespace, name, uid: &self.uid }
    }

    fn name(&self) -> NamespacedName<'_> {
        self.text.split_at(self.name_at as usize)
    }
}

/// Namespace and name.
type NamespacedName<'a> = (&'a str, &'a str);

/// Name, uid and resourceVersion of an object.
#[derive(Debug)]
pub(super) struct ObjectIdentity<'a> {
    namespace: &'a str,
    pub(super) name: &'a str,
    uid: Uid,
    pub(super) version: u64,
}

/// Result of an update.
#[derive(Default)]
pub(super) struct ObjectUpdate {
    /// Deletion of the object that had the name before; applied first.
    pub(super) gone: Option<Change>,
    /// The change, if there is one.
    pub(super) change: Option<Change>,
    /// Fields that could not be read, for the log.
    pub(super) problems: Vec<String>,
}

impl ObjectTable {
    pub(super) fn new(kind: &'static Kind) -> Self {
        Self {
            kind,
            known: Slab::default(),
            by_name: HashTable::new(),
            lowering_cache: LoweringCache::default(),
            hasher: DefaultHashBuilder::default(),
            version: 0,
            complete: false,
            complete_through: 0,
            had_unreadable: false,
            lists: 0,
        }
    }

    /// Keeps the annotations of these keys.
    pub(super) fn with_annotations(self, keys: Arc<AnnotationKeys>) -> Self {
        Self { lowering_cache: LoweringCache::new(keys), ..self }
    }

    /// Updates the table with an object of a list or an event, unless it is not newer than what is known.
    pub(super) fn update(&mut self, object: Source<'_>, news: ObjectIdentity<'_>) -> ObjectUpdate {
        let floor = if self.complete { self.version } else { self.complete_through };
        self.version = self.version.max(news.version);
        let slot = self.find((news.namespace, news.name));
        let known = slot.and_then(|slot| self.known.get_mut(slot));
        let newest = known.map_or(floor, |known| {
            known.list = self.lists;
            known.version
        });
        if news.version <= newest {
            return ObjectUpdate::default();
        }
        let (change, problems) = (self.kind.lower)(object, &mut self.lowering_cache);
        let known = slot.and_then(|slot| self.known.get_mut(slot));
        let gone = match (&change, known) {
            (Some(_), _) => self.record(news, slot),
            // The object exists but cannot be read: its last readable version stays in effect.
            (None, Some(known)) if !problems.is_empty() && known.uid == news.uid => {
                known.version = news.version;
                None
            }
            // The object does not count any more, or replaces the one that had its name.
            (None, _) => slot.and_then(|slot| self.remove(slot)),
        };
        ObjectUpdate {
            gone: gone.map(|known| (self.kind.gone)(known.key())),
            change,
            problems: problems.iter().map(ToString::to_string).collect(),
        }
    }

    fn find(&self, name: NamespacedName<'_>) -> Option<usize> {
        let named =
            |slot: &u32| self.known.get(*slot as usize).map(ObjectEntry::name) == Some(name);
        let slot = self.by_name.find(self.hasher.hash_one(name), named)?;
        Some(*slot as usize)
    }

    /// Records an object in the slot of its name. Returns the entry of another object that had the name
    /// before.
    fn record(&mut self, news: ObjectIdentity<'_>, slot: Option<usize>) -> Option<ObjectEntry> {
        if let Some(known) = slot.and_then(|slot| self.known.get_mut(slot)) {
            if known.uid == news.uid {
                known.version = news.version;
                return None;
            }
            return Some(std::mem::replace(known, ObjectEntry::new(news, self.lists)));
        }
        let hash = self.hasher.hash_one((news.namespace, news.name));
        let slot = self.known.insert(ObjectEntry::new(news, self.lists)) as u32;
        self.by_name.insert_unique(hash, slot, |slot| {
            self.known.get(*slot as usize).map_or(0, |known| self.hasher.hash_one(known.name()))
        });
        None
    }

    fn remove(&mut self, slot: usize) -> Option<ObjectEntry> {
        let known = self.known.remove(slot)?;
        let hash = self.hasher.hash_one(known.name());
        if let Ok(entry) = self.by_name.find_entry(hash, |other| *other as usize == slot) {
            entry.remove();
        }
        Some(known)
    }

    /// Removes an object that was deleted at `news.version`. Returns its deletion, if it was known.
    pub(super) fn delete(&mut self, news: &ObjectIdentity<'_>) -> Option<Change> {
        self.version = self.version.max(news.version);
        let slot = self.find((news.namespace, news.name))?;
        // The deletion of an older object of this name does not concern the present one.
        self.known.get(slot).filter(|known| known.version <= news.version)?;
        let known = self.remove(slot)?;
        Some((self.kind.gone)(known.key()))
    }

    /// Starts a list, which [`Self::finish`] completes.
    pub(super) fn begin(&mut self) {
        self.lists = self.lists.wrapping_add(1);
    }

    /// Fails if a list is older than the newest object seen, as the list of a stale replica is.
    pub(super) fn check_list(&self, version: u64) -> Result<(), WatchError> {
        let seen = self.version;
        if version < seen { Err(WatchError::StaleList { version, seen }) } else { Ok(()) }
    }

    /// Completes a list. Returns the deletions of the objects that it lacks.
    pub(super) fn finish(&mut self, version: u64) -> Vec<Change> {
        let missing = self.known.iter().filter(|(_, known)| known.list != self.lists);
        let missing: Vec<usize> = missing.map(|(slot, _)| slot).collect();
        let mut missing: Vec<ObjectEntry> =
            missing.into_iter().filter_map(|slot| self.remove(slot)).collect();
        missing.sort_unstable_by(|one, other| one.name().cmp(&other.name()));
        self.version = self.version.max(version);
        self.complete = true;
        missing.iter().map(|known| (self.kind.gone)(known.key())).collect()
    }

    /// Marks the table as incomplete, so that the next request is a list.
    pub(super) fn invalidate(&mut self) {
        if self.complete {
            self.complete = false;
            self.complete_through = if self.had_unreadable { 0 } else { self.version };
        }
    }
}

/// Reads name, uid and resourceVersion of an object.
pub(super) fn identity_of(object: Source<'_>) -> Result<ObjectIdentity<'_>, DecodeError> {
    let api::lower::ObjectIdentity { namespace, name, uid, version } = object.identity();
    let version = version.parse().map_err(|_| DecodeError::Version(version.to_owned()))?;
    Ok(ObjectIdentity { namespace, name, uid: uid.into(), version })
}
