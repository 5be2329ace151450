//! The objects of one resource, and what happened to them lately.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use bytes::Bytes;
use tokio::sync::watch;

use super::object::{Draft, FieldPath, Object};
use crate::limits::{LOG_BYTES_MAX, LOG_EVENTS_MAX};

/// The objects of one resource.
#[derive(Debug)]
pub struct Collection {
    /// Shared by all collections of a store.
    version: Arc<AtomicU64>,
    fields: &'static [FieldPath],
    indexed: Option<usize>,
    inner: RwLock<Inner>,
    news: watch::Sender<u64>,
}

type Index = HashMap<Box<str>, BTreeMap<Arc<str>, Arc<Object>>>;

#[derive(Debug, Default)]
struct Inner {
    objects: BTreeMap<Arc<str>, Arc<Object>>,
    /// Objects by the uid of each of their owners.
    by_owner: Index,
    /// Objects by the value of the indexed field, unless it is empty.
    by_field: Index,
    /// Oldest first, versions rising.
    log: VecDeque<Arc<Change>>,
    log_bytes: usize,
    /// The newest version that the log does not hold any more.
    forgotten: u64,
    log_events_max: usize,
}

/// What happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// It came to be.
    Added,
    /// It has a new version.
    Modified,
    /// It is gone.
    Deleted,
}

impl ChangeKind {
    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One change of one object.
#[derive(Debug)]
pub struct Change {
    /// What happened.
    pub kind: ChangeKind,
    /// The object after it; of a deletion, the last state with the version of the deletion.
    pub object: Arc<Object>,
    /// The object before it.
    pub previous: Option<Arc<Object>>,
    frame: OnceLock<Bytes>,
}

impl Change {
    /// The presence of an object, for those who see it for the first time.
    pub fn present(object: Arc<Object>) -> Self {
        Self { kind: ChangeKind::Added, object, previous: None, frame: OnceLock::new() }
    }

    /// The change as a line of a watch, made once for all watches.
    pub fn frame(&self) -> Bytes {
        self.frame.get_or_init(|| frame(self.kind.name(), &self.object.json)).clone()
    }
}

/// A line of a watch.
pub(crate) fn frame(kind: &str, json: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(json.len() + kind.len() + 24);
    line.extend_from_slice(b"{\"type\":\"");
    line.extend_from_slice(kind.as_bytes());
    line.extend_from_slice(b"\",\"object\":");
    line.extend_from_slice(json);
    line.extend_from_slice(b"}\n");
    line.into()
}

/// Why a write was not made.
#[derive(Debug)]
pub enum Refusal {
    /// There is one of this name.
    Exists,
    /// There is none of this name.
    Missing,
    /// It has another version than expected.
    Changed,
}

/// Objects as of a version.
#[derive(Debug)]
pub struct Listing {
    /// The version.
    pub version: u64,
    /// The objects, by key.
    pub objects: Vec<Arc<Object>>,
}

/// Changes, in order.
#[derive(Debug)]
pub struct Batch {
    /// The changes.
    pub changes: Vec<Arc<Change>>,
    /// Up to which version nothing is missing.
    pub version: u64,
}

/// The log does not reach back to the version.
#[derive(Debug, PartialEq, Eq)]
pub struct Expired {
    /// The oldest version from which it can be read.
    pub oldest: u64,
}

impl Collection {
    pub(super) fn new(
        version: Arc<AtomicU64>,
        fields: &'static [FieldPath],
        indexed: Option<usize>,
    ) -> Self {
        let now = version.load(Ordering::SeqCst);
        let inner = Inner { forgotten: now, log_events_max: LOG_EVENTS_MAX, ..Inner::default() };
        let news = watch::Sender::new(now);
        Self { version, fields, indexed, inner: RwLock::new(inner), news }
    }

    /// The selectable fields of its objects.
    pub fn fields(&self) -> &'static [FieldPath] {
        self.fields
    }

    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        // Nothing panics while it holds the lock; if it did, the maps would still be whole.
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// The object of this key.
    pub fn get(&self, key: &str) -> Option<Arc<Object>> {
        self.read().objects.get(key).cloned()
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.read().objects.is_empty()
    }

    /// Stores a new object.
    pub fn create(&self, draft: Draft) -> Result<Arc<Object>, Refusal> {
        let mut inner = self.write();
        if inner.objects.contains_key(draft.key()) {
            return Err(Refusal::Exists);
        }
        Ok(self.commit(&mut inner, draft, None))
    }

    /// Stores a new version of an object that has the expected one.
    pub fn replace(&self, draft: Draft, expected: u64) -> Result<Arc<Object>, Refusal> {
        let mut inner = self.write();
        let previous = expect(&inner, draft.key(), expected)?;
        Ok(self.commit(&mut inner, draft, Some(previous)))
    }

    /// Removes an object that has the expected version; the draft is its last state.
    pub fn remove(&self, draft: Draft, expected: u64) -> Result<Arc<Object>, Refusal> {
        let mut inner = self.write();
        let previous = expect(&inner, draft.key(), expected)?;
        let object = Arc::new(draft.seal(self.next_version()));
        inner.objects.remove(&previous.key);
        inner.unindex(&previous, self.indexed);
        self.note(&mut inner, ChangeKind::Deleted, Arc::clone(&object), Some(previous));
        Ok(object)
    }

    fn commit(
        &self,
        inner: &mut Inner,
        draft: Draft,
        previous: Option<Arc<Object>>,
    ) -> Arc<Object> {
        let object = Arc::new(draft.seal(self.next_version()));
        if let Some(previous) = &previous {
            inner.unindex(previous, self.indexed);
        }
        inner.index(&object, self.indexed);
        inner.objects.insert(Arc::clone(&object.key), Arc::clone(&object));
        let kind = if previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        self.note(inner, kind, Arc::clone(&object), previous);
        object
    }

    fn note(
        &self,
        inner: &mut Inner,
        kind: ChangeKind,
        object: Arc<Object>,
        previous: Option<Arc<Object>>,
    ) {
        let version = object.version;
        inner.log_bytes += object.json.len();
        inner.log.push_back(Arc::new(Change { kind, object, previous, frame: OnceLock::new() }));
        while inner.log.len() > inner.log_events_max || inner.log_bytes > LOG_BYTES_MAX {
            let Some(oldest) = inner.log.pop_front() else { break };
            inner.log_bytes -= oldest.object.json.len();
            inner.forgotten = oldest.object.version;
        }
        self.news.send_replace(version);
    }

    /// All objects whose keys begin with a prefix.
    pub fn list(&self, prefix: &str) -> Listing {
        let inner = self.read();
        let version = self.version.load(Ordering::SeqCst);
        Listing { version, objects: inner.with_prefix(prefix).cloned().collect() }
    }

    /// The same as of an earlier version, as far as the log reaches back.
    pub fn list_at(&self, prefix: &str, version: u64) -> Result<Listing, Expired> {
        let inner = self.read();
        inner.check(version)?;
        let mut then: BTreeMap<&str, Option<&Arc<Object>>> = BTreeMap::new();
        for change in inner.log_after(version) {
            if change.object.key.starts_with(prefix) {
                // The first change after the version tells what was there before.
                then.entry(&change.object.key).or_insert(change.previous.as_ref());
            }
        }
        let mut objects: Vec<Arc<Object>> = inner
            .with_prefix(prefix)
            .filter(|object| !then.contains_key(&*object.key))
            .cloned()
            .collect();
        objects.extend(then.into_values().flatten().cloned());
        objects.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Listing { version, objects })
    }

    /// Changes after a version, at most so many.
    pub fn after(&self, version: u64, max: usize) -> Result<Batch, Expired> {
        let inner = self.read();
        inner.check(version)?;
        let changes: Vec<_> = inner.log_after(version).take(max).cloned().collect();
        let version = match changes.last() {
            Some(last) if changes.len() == max => last.object.version,
            _ => self.version.load(Ordering::SeqCst).max(version),
        };
        Ok(Batch { changes, version })
    }

    /// Tells when something changes.
    pub fn news(&self) -> watch::Receiver<u64> {
        self.news.subscribe()
    }

    /// The objects that somebody owns.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<Object>> {
        let inner = self.read();
        all_of(inner.by_owner.get(uid))
    }

    /// The objects whose indexed field has this value.
    pub fn by_field(&self, value: &str) -> Listing {
        let inner = self.read();
        let version = self.version.load(Ordering::SeqCst);
        Listing { version, objects: all_of(inner.by_field.get(value)) }
    }

    /// The name of the indexed field.
    pub fn indexed(&self) -> Option<&'static str> {
        self.indexed.and_then(|place| self.fields.get(place)).map(|path| path.name)
    }

    /// Remembers no more than so many changes from now on, for tests of what happens then.
    pub fn shorten_log(&self, events_max: usize) {
        let mut inner = self.write();
        inner.log_events_max = events_max;
        while inner.log.len() > events_max {
            let Some(oldest) = inner.log.pop_front() else { break };
            inner.log_bytes -= oldest.object.json.len();
            inner.forgotten = oldest.object.version;
        }
    }
}

fn expect(inner: &Inner, key: &str, expected: u64) -> Result<Arc<Object>, Refusal> {
    let object = inner.objects.get(key).ok_or(Refusal::Missing)?;
    if object.version == expected { Ok(Arc::clone(object)) } else { Err(Refusal::Changed) }
}

impl Inner {
    fn check(&self, version: u64) -> Result<(), Expired> {
        if version < self.forgotten { Err(Expired { oldest: self.forgotten }) } else { Ok(()) }
    }

    fn log_after(&self, version: u64) -> impl Iterator<Item = &Arc<Change>> {
        let start = self.log.partition_point(|change| change.object.version <= version);
        self.log.range(start..)
    }

    fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Arc<Object>> {
        self.objects
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(_, object)| object)
    }

    fn index(&mut self, object: &Arc<Object>, indexed: Option<usize>) {
        let add = |index: &mut Index, under: &str| {
            let objects = index.entry(under.into()).or_default();
            objects.insert(Arc::clone(&object.key), Arc::clone(object));
        };
        for owner in &object.owners {
            add(&mut self.by_owner, &owner.uid);
        }
        let value = indexed.map_or("", |place| object.field(place));
        if !value.is_empty() {
            add(&mut self.by_field, value);
        }
    }

    fn unindex(&mut self, object: &Object, indexed: Option<usize>) {
        for owner in &object.owners {
            forget(&mut self.by_owner, &owner.uid, &object.key);
        }
        let value = indexed.map_or("", |place| object.field(place));
        if !value.is_empty() {
            forget(&mut self.by_field, value, &object.key);
        }
    }
}

fn all_of(objects: Option<&BTreeMap<Arc<str>, Arc<Object>>>) -> Vec<Arc<Object>> {
    objects.into_iter().flat_map(BTreeMap::values).cloned().collect()
}

fn forget(index: &mut Index, under: &str, key: &str) {
    if let Some(objects) = index.get_mut(under) {
        objects.remove(key);
        if objects.is_empty() {
            index.remove(under);
        }
    }
}
