//! What is known of all objects of one kind, and what becomes news by what is heard.

use std::hash::{BuildHasher as _, RandomState};

use anyhow::{Result, anyhow, bail};
use api::lower::{Siblings, Source};
use engine::change::Change;
use engine::object::Text;
use hashbrown::{Equivalent, HashMap};

use crate::kinds::{Key, Kind};

/// All objects of a kind, as far as they are known.
pub(super) struct Objects {
    kind: &'static Kind,
    known: HashMap<Key, Known, RandomState>,
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

struct Known {
    uid: Text,
    version: u64,
    /// The last list that was begun when it was seen last.
    list: u32,
}

/// Which object it is, and which version of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Identity<'a> {
    key: KeyRef<'a>,
    uid: &'a str,
    pub(super) version: u64,
}

/// A key that belongs to somebody else.
#[derive(Clone, Copy, Debug, Hash)]
struct KeyRef<'a> {
    namespace: &'a str,
    name: &'a str,
}

impl Equivalent<Key> for KeyRef<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        *key.name == *self.name && *key.namespace == *self.namespace
    }
}

impl KeyRef<'_> {
    fn to_key(self) -> Key {
        Key { namespace: self.namespace.into(), name: self.name.into() }
    }
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
        Self {
            kind,
            known: HashMap::default(),
            siblings: Siblings::new(RandomState::new().hash_one(kind.name)),
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
        let known = self.known.get_mut(&news.key);
        let newest = known.map_or(floor, |known| {
            known.list = self.lists;
            known.version
        });
        if news.version <= newest {
            return Taken::default();
        }
        let (change, problems) = (self.kind.lower)(object, &mut self.siblings);
        let gone = match change {
            Some(_) => self.note(news),
            None => self.known.remove_entry(&news.key),
        };
        Taken {
            gone: gone.map(|(key, known)| (self.kind.gone)(&key, &known.uid)),
            change,
            problems: problems.iter().map(ToString::to_string).collect(),
        }
    }

    /// Notes that an object is there. The one that had the name before, if it was another.
    fn note(&mut self, Identity { key, uid, version }: Identity<'_>) -> Option<(Key, Known)> {
        if let Some(known) = self.known.get_mut(&key)
            && *known.uid == *uid
        {
            known.version = version;
            return None;
        }
        let before = self.known.remove_entry(&key);
        self.known.insert(key.to_key(), Known { uid: uid.into(), version, list: self.lists });
        before
    }

    /// Takes over that an object was deleted in a version.
    pub(super) fn delete(&mut self, Identity { key, version, .. }: Identity<'_>) -> Option<Change> {
        self.version = self.version.max(version);
        // A delete of an older incarnation says nothing of the present one.
        if self.known.get(&key)?.version > version {
            return None;
        }
        let (key, known) = self.known.remove_entry(&key)?;
        Some((self.kind.gone)(&key, &known.uid))
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
        let missing = self.known.extract_if(|_, known| known.list != self.lists);
        let mut missing: Vec<(Key, Known)> = missing.collect();
        missing.sort_unstable_by(|one, other| one.0.cmp(&other.0));
        self.version = self.version.max(version);
        self.complete = true;
        missing.iter().map(|(key, known)| (self.kind.gone)(key, &known.uid)).collect()
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
    Ok(Identity { key: KeyRef { namespace, name }, uid, version })
}
