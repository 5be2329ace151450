//! What is known of all objects of one kind, and what becomes news by what is heard.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use anyhow::{Result, anyhow, bail};
use api::lower::{Siblings, Source};
use engine::change::Change;
use engine::object::Text;

use crate::kinds::{Key, Kind};

/// All objects of a kind, as far as they are known.
pub(super) struct Objects {
    kind: &'static Kind,
    known: HashMap<Key, Identity>,
    siblings: Siblings,
    /// The newest version seen.
    pub(super) version: u64,
    /// All objects of that version were seen.
    pub(super) complete: bool,
    /// The last version of which all objects were seen: what is older and not known was deleted.
    floor: u64,
    /// Something could not be read, so that what is not known may still be there.
    pub(super) holes: bool,
}

/// Which object it is, and which version of it.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) uid: Text,
    pub(super) version: u64,
}

/// What came of an object.
pub(super) struct Taken {
    pub(super) key: Key,
    /// What the engine is to be told.
    pub(super) changes: Vec<Change>,
    /// What people are to be told.
    pub(super) problems: Vec<String>,
}

impl Objects {
    pub(super) fn new(kind: &'static Kind) -> Self {
        let siblings = Siblings::new(RandomState::new().hash_one(kind.name));
        let known = HashMap::new();
        Self { kind, known, siblings, version: 0, complete: false, floor: 0, holes: false }
    }

    /// Takes an object over if it is news.
    pub(super) fn take(&mut self, object: Source<'_>, key: Key, news: Identity) -> Taken {
        let floor = if self.complete { self.version } else { self.floor };
        let newest = self.known.get(&key).map_or(floor, |known| known.version);
        self.version = self.version.max(news.version);
        let mut changes = Vec::new();
        if news.version <= newest {
            return Taken { key, changes, problems: Vec::new() };
        }
        let (change, problems) = (self.kind.lower)(object, &mut self.siblings);
        let uid = news.uid.clone();
        let before = match change {
            Some(_) => self.known.insert(key.clone(), news),
            None => self.known.remove(&key),
        };
        if let Some(before) = before
            && (before.uid != uid || change.is_none())
        {
            changes.push((self.kind.gone)(&key, &before.uid));
        }
        changes.extend(change);
        Taken { key, changes, problems: problems.iter().map(ToString::to_string).collect() }
    }

    /// Takes over that an object was deleted in a version.
    pub(super) fn delete(&mut self, key: &Key, version: u64) -> Option<Change> {
        self.version = self.version.max(version);
        // A delete of an older incarnation says nothing of the present one.
        if self.known.get(key)?.version > version {
            return None;
        }
        let known = self.known.remove(key)?;
        Some((self.kind.gone)(key, &known.uid))
    }

    /// Refuses a list that is older than what was seen.
    pub(super) fn check_list(&self, version: u64) -> Result<()> {
        if version < self.version {
            let seen = self.version;
            bail!("the list is of version {version}, but version {seen} was seen before");
        }
        Ok(())
    }

    /// Everything of a version was seen: what was not is gone.
    pub(super) fn finish(&mut self, seen: &HashSet<Key>, version: u64) -> Vec<Change> {
        let missing = self.known.keys().filter(|key| !seen.contains(*key));
        let mut missing: Vec<Key> = missing.cloned().collect();
        missing.sort_unstable();
        self.version = self.version.max(version);
        self.complete = true;
        let gone = |key: &Key| Some((self.kind.gone)(key, &self.known.remove(key)?.uid));
        missing.iter().filter_map(gone).collect()
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
pub(super) fn identity(object: Source<'_>) -> Result<(Key, Identity)> {
    let api::lower::Identity { namespace, name, uid, version } = object.identity();
    let version = version
        .parse()
        .map_err(|_| anyhow!("metadata.resourceVersion {version:?} is not a number"))?;
    let key = Key { namespace: namespace.into(), name: name.into() };
    Ok((key, Identity { uid: uid.into(), version }))
}
