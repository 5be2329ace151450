//! What is known of all objects of one kind, and what becomes news by what is heard.

use std::hash::BuildHasher as _;

use anyhow::{Result, anyhow, bail};
use api::lower::{LoweringCache, Source};
use engine::change::Change;
use engine::object::Uid;
use engine::slab::Slab;
use hashbrown::{DefaultHashBuilder, HashTable};

use crate::kinds::{ObjectKey, WatchedKind};

/// All objects of a kind, as far as they are known.
pub(super) struct ObjectTable {
    kind: &'static WatchedKind,
    known: Slab<ObjectEntry>,
    /// Slots of those by namespace and name.
    by_name: HashTable<u32>,
    hasher: DefaultHashBuilder,
    lowering_cache: LoweringCache,
    /// The newest version seen.
    pub(super) version: u64,
    /// All objects of that version were seen.
    pub(super) complete: bool,
    /// The last version of which all objects were seen: what is older and not known was deleted.
    complete_through: u64,
    /// Something could not be read, so that what is not known may still be there.
    pub(super) had_unreadable: bool,
    /// How many lists were begun.
    lists: u32,
}

/// An object that is there. There may be a million, so it is small.
struct ObjectEntry {
    /// Namespace and name, one after the other.
    text: Box<str>,
    name_at: u32,
    uid: Uid,
    /// The last list that was begun when it was seen last.
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

/// Which object it is, and which version of it.
#[derive(Debug)]
pub(super) struct ObjectIdentity<'a> {
    namespace: &'a str,
    pub(super) name: &'a str,
    uid: Uid,
    pub(super) version: u64,
}

/// What came of an object.
#[derive(Default)]
pub(super) struct ObjectUpdate {
    /// What the engine is to be told first, of an object that had the name before.
    pub(super) gone: Option<Change>,
    /// What the engine is to be told then.
    pub(super) change: Option<Change>,
    /// What people are to be told.
    pub(super) problems: Vec<String>,
}

impl ObjectTable {
    pub(super) fn new(kind: &'static WatchedKind) -> Self {
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

    /// Takes an object over if it is news.
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
            (Some(_), _) => self.note(news, slot),
            // It cannot be read but is there: the last version that could be read still counts.
            (None, Some(known)) if !problems.is_empty() && known.uid == news.uid => {
                known.version = news.version;
                None
            }
            // It has ended, or is not the object that had the name before.
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

    /// Notes that an object is there, in the slot of its name if it has one. The object that had the
    /// name before, if it was another.
    fn note(&mut self, news: ObjectIdentity<'_>, slot: Option<usize>) -> Option<ObjectEntry> {
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

    /// Takes over that an object was deleted in a version.
    pub(super) fn delete(&mut self, news: &ObjectIdentity<'_>) -> Option<Change> {
        self.version = self.version.max(news.version);
        let slot = self.find((news.namespace, news.name))?;
        // A delete of an older incarnation says nothing of the present one.
        self.known.get(slot).filter(|known| known.version <= news.version)?;
        let known = self.remove(slot)?;
        Some((self.kind.gone)(known.key()))
    }

    /// A list begins, to be finished when all of it was seen.
    pub(super) fn begin(&mut self) {
        self.lists = self.lists.wrapping_add(1);
    }

    /// Refuses a list that is older than what was seen.
    pub(super) fn check_list(&self, version: u64) -> Result<()> {
        if version < self.version {
            let seen = self.version;
            bail!("the list is of version {version}, but version {seen} was seen before");
        }
        Ok(())
    }

    /// Everything of a version was seen since a list began: what was not is gone.
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

    /// Everything is to be listed again.
    pub(super) fn invalidate(&mut self) {
        if self.complete {
            self.complete = false;
            self.complete_through = if self.had_unreadable { 0 } else { self.version };
        }
    }
}

/// Which object it is.
pub(super) fn identity_of(object: Source<'_>) -> Result<ObjectIdentity<'_>> {
    let api::lower::ObjectIdentity { namespace, name, uid, version } = object.identity();
    let version = version
        .parse()
        .map_err(|_| anyhow!("metadata.resourceVersion {version:?} is not a number"))?;
    Ok(ObjectIdentity { namespace, name, uid: uid.into(), version })
}
