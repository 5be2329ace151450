//! What is known of all objects of one kind, and what becomes news by what is heard.

use std::hash::{BuildHasher as _, RandomState};

use anyhow::{Result, anyhow, bail};
use api::lower::{Siblings, Source};
use engine::change::Change;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::kinds::{Key, Kind};

/// All objects of a kind, as far as they are known.
pub(super) struct Objects {
    kind: &'static Kind,
    /// By namespace and name.
    known: HashTable<Known>,
    hasher: RandomState,
    siblings: Siblings,
    /// The newest version seen.
    pub(super) version: u64,
    /// All objects of that version were seen.
    pub(super) complete: bool,
    /// The last version of which all objects were seen: what is older and not known was deleted.
    floor: u64,
    /// Something could not be read, so that what is not known may still be there.
    pub(super) holes: bool,
    /// How many lists were begun.
    lists: u32,
}

/// An object that is there. There may be a million, so it is small.
struct Known {
    /// Namespace, name and uid, one after the other.
    text: Box<str>,
    name_at: u32,
    uid_at: u32,
    /// The last list that was begun when it was seen last.
    list: u32,
    version: u64,
}

impl Known {
    fn new(Identity { key, version }: Identity<'_>, list: u32) -> Self {
        let text = [key.namespace, key.name, key.uid].concat().into();
        let name_at = key.namespace.len();
        let uid_at = name_at + key.name.len();
        Self { text, name_at: name_at as u32, uid_at: uid_at as u32, list, version }
    }

    fn key(&self) -> Key<'_> {
        let (rest, uid) = self.text.split_at(self.uid_at as usize);
        let (namespace, name) = rest.split_at(self.name_at as usize);
        Key { namespace, name, uid }
    }
}

/// Which object it is, and which version of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'a> {
    key: Key<'a>,
    pub(super) version: u64,
}

impl Identity<'_> {
    pub(super) fn name(&self) -> &str {
        self.key.name
    }
}

/// What came of an object.
#[derive(Default)]
pub(super) struct Taken {
    /// What the engine is to be told first, of an object that had the name before.
    pub(super) gone: Option<Change>,
    /// What the engine is to be told then.
    pub(super) change: Option<Change>,
    /// What people are to be told.
    pub(super) problems: Vec<String>,
}

impl Objects {
    pub(super) fn new(kind: &'static Kind) -> Self {
        let hasher = RandomState::new();
        Self {
            kind,
            known: HashTable::new(),
            siblings: Siblings::new(hasher.hash_one(kind.name)),
            hasher,
            version: 0,
            complete: false,
            floor: 0,
            holes: false,
            lists: 0,
        }
    }

    /// Takes an object over if it is news.
    pub(super) fn take(&mut self, object: Source<'_>, news: Identity<'_>) -> Taken {
        let floor = if self.complete { self.version } else { self.floor };
        self.version = self.version.max(news.version);
        let hash = hash(&self.hasher, news.key);
        let known = self.known.find_mut(hash, |known| is_named(known, news.key));
        let newest = known.map_or(floor, |known| {
            known.list = self.lists;
            known.version
        });
        if news.version <= newest {
            return Taken::default();
        }
        let (change, problems) = (self.kind.lower)(object, &mut self.siblings);
        let gone = match change {
            Some(_) => self.note(news, hash),
            None => self.remove(news.key, |_| true),
        };
        Taken {
            gone: gone.map(|known| (self.kind.gone)(known.key())),
            change,
            problems: problems.iter().map(ToString::to_string).collect(),
        }
    }

    /// Notes that an object is there. The one that had the name before, if it was another.
    fn note(&mut self, news: Identity<'_>, hash: u64) -> Option<Known> {
        let rehash = |known: &Known| self::hash(&self.hasher, known.key());
        match self.known.entry(hash, |known| is_named(known, news.key), rehash) {
            Entry::Vacant(entry) => {
                entry.insert(Known::new(news, self.lists));
                None
            }
            Entry::Occupied(mut entry) => {
                let known = entry.get_mut();
                if known.key().uid == news.key.uid {
                    known.version = news.version;
                    return None;
                }
                Some(std::mem::replace(known, Known::new(news, self.lists)))
            }
        }
    }

    fn remove(&mut self, key: Key<'_>, goes: impl FnOnce(&Known) -> bool) -> Option<Known> {
        let hash = hash(&self.hasher, key);
        let entry = self.known.find_entry(hash, |known| is_named(known, key)).ok()?;
        goes(entry.get()).then(|| entry.remove().0)
    }

    /// Takes over that an object was deleted in a version.
    pub(super) fn delete(&mut self, Identity { key, version }: Identity<'_>) -> Option<Change> {
        self.version = self.version.max(version);
        // A delete of an older incarnation says nothing of the present one.
        let known = self.remove(key, |known| known.version <= version)?;
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
        let missing = self.known.extract_if(|known| known.list != self.lists);
        let mut missing: Vec<Known> = missing.collect();
        missing.sort_unstable_by(|one, other| {
            let (one, other) = (one.key(), other.key());
            (one.namespace, one.name).cmp(&(other.namespace, other.name))
        });
        self.version = self.version.max(version);
        self.complete = true;
        missing.iter().map(|known| (self.kind.gone)(known.key())).collect()
    }

    /// Everything is to be listed again.
    pub(super) fn distrust(&mut self) {
        if self.complete {
            self.complete = false;
            self.floor = if self.holes { 0 } else { self.version };
        }
    }
}

/// Which object it is.
pub(super) fn identity(object: Source<'_>) -> Result<Identity<'_>> {
    let api::lower::Identity { namespace, name, uid, version } = object.identity();
    let version = version
        .parse()
        .map_err(|_| anyhow!("metadata.resourceVersion {version:?} is not a number"))?;
    Ok(Identity { key: Key { namespace, name, uid }, version })
}

fn hash(hasher: &RandomState, key: Key<'_>) -> u64 {
    hasher.hash_one((key.namespace, key.name))
}

fn is_named(known: &Known, key: Key<'_>) -> bool {
    let known = known.key();
    known.name == key.name && known.namespace == key.namespace
}
