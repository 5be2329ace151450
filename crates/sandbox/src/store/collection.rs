//! The objects of one resource and their recent changes.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;

use super::object::{Draft, Object, SelectableField};
use super::watch_cache::WatchCache;
use crate::limits::WATCH_CHUNK_BYTES;
use crate::lock;

/// The objects of one resource.
#[derive(Debug)]
pub struct Collection {
    /// Shared by all collections of a store.
    version: Arc<AtomicU64>,
    /// Number of objects in all collections of the store.
    count: Arc<AtomicUsize>,
    fields: &'static [SelectableField],
    indexed: Option<usize>,
    inner: RwLock<Inner>,
    updates: watch::Sender<u64>,
}

type Objects = BTreeMap<Arc<str>, Arc<Object>>;
type Index = HashMap<Box<str>, Objects>;

/// The dependents of one owner. They are indexed so that foreground deletion visits each of them once.
#[derive(Debug, Default)]
struct Dependents {
    objects: Objects,
    /// Dependents without a deletion timestamp.
    live: Objects,
    /// Number of references that block the deletion of the owner.
    blocking: usize,
}

#[derive(Debug)]
pub(super) struct Inner {
    objects: Objects,
    /// Memory of all objects, in bytes.
    live_bytes: usize,
    /// Objects by the uid of each of their owners.
    by_owner: HashMap<Box<str>, Dependents>,
    /// Objects by the value of the indexed field, unless it is empty.
    by_field: Index,
    pub(super) watch_cache: WatchCache,
}

/// Type of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The object was created.
    Added,
    /// The object was updated.
    Modified,
    /// The object was removed.
    Deleted,
}

impl ChangeKind {
    /// Returns the type of the watch event.
    pub fn name(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// A change of one object.
#[derive(Debug)]
pub struct Change {
    /// Type of the change.
    pub kind: ChangeKind,
    /// The object after the change; after a deletion, its last state with the version of the deletion.
    pub object: Arc<Object>,
    /// The object before the change.
    pub previous: Option<Arc<Object>>,
}

impl Change {
    /// Returns a change that reports an existing object as added.
    pub fn present(object: Arc<Object>) -> Self {
        Self { kind: ChangeKind::Added, object, previous: None }
    }
}

/// Reason why a write failed.
#[derive(Debug)]
pub enum StoreError {
    /// An object with this key exists.
    KeyExists,
    /// No object has this key.
    KeyNotFound,
    /// The object does not have the expected version.
    Conflict,
}

/// Objects as of a version.
#[derive(Debug)]
pub struct Listing {
    /// The version.
    pub version: u64,
    /// The objects, ordered by key.
    pub objects: Vec<Arc<Object>>,
}

/// Consecutive changes.
#[derive(Debug)]
pub struct Batch {
    /// The changes, ordered by version.
    pub changes: Vec<Arc<Change>>,
    /// Version up to which no change is missing.
    pub version: u64,
    /// `true` if the watch cache has further changes.
    pub more: bool,
}

/// The watch cache was compacted beyond the requested version.
#[derive(Debug, PartialEq, Eq)]
pub struct Expired {
    /// Oldest version from which changes can be read.
    pub oldest: u64,
}

impl Collection {
    pub(super) fn new(
        version: Arc<AtomicU64>,
        count: Arc<AtomicUsize>,
        fields: &'static [SelectableField],
        indexed: Option<usize>,
    ) -> Self {
        let now = version.load(Ordering::SeqCst);
        let inner = Inner {
            objects: Objects::new(),
            live_bytes: 0,
            by_owner: HashMap::new(),
            by_field: Index::new(),
            watch_cache: WatchCache::new(now),
        };
        let updates = watch::Sender::new(now);
        Self { version, count, fields, indexed, inner: RwLock::new(inner), updates }
    }

    /// Returns the selectable fields of its objects.
    pub fn fields(&self) -> &'static [SelectableField] {
        self.fields
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, Inner> {
        lock::read(&self.inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        lock::write(&self.inner)
    }

    fn next_version(&self) -> u64 {
        self.version.fetch_add(1, Ordering::SeqCst) + 1
    }

    /// Returns the object with this key.
    pub fn get(&self, key: &str) -> Option<Arc<Object>> {
        self.read().objects.get(key).cloned()
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.read().objects.len()
    }

    /// Returns `true` if there are no objects.
    pub fn is_empty(&self) -> bool {
        self.read().objects.is_empty()
    }

    /// Stores a new object.
    pub fn create(&self, draft: Draft) -> Result<Arc<Object>, StoreError> {
        let mut inner = self.write();
        if inner.objects.contains_key(draft.key()) {
            return Err(StoreError::KeyExists);
        }
        Ok(self.commit(&mut inner, draft, None))
    }

    /// Replaces an object that has the expected version.
    pub fn replace(&self, draft: Draft, expected: u64) -> Result<Arc<Object>, StoreError> {
        let mut inner = self.write();
        let previous = expect(&inner, draft.key(), expected)?;
        Ok(self.commit(&mut inner, draft, Some(previous)))
    }

    /// Removes an object that has the expected version; the draft is its last state.
    pub fn remove(&self, draft: Draft, expected: u64) -> Result<Arc<Object>, StoreError> {
        let mut inner = self.write();
        let previous = expect(&inner, draft.key(), expected)?;
        let object = Arc::new(draft.seal(self.next_version(), ChangeKind::Deleted));
        inner.objects.remove(&previous.key);
        inner.live_bytes -= previous.bytes;
        self.count.fetch_sub(1, Ordering::Relaxed);
        inner.unindex(&previous, self.indexed);
        self.record_change(&mut inner, ChangeKind::Deleted, Arc::clone(&object), Some(previous));
        Ok(object)
    }

    fn commit(
        &self,
        inner: &mut Inner,
        draft: Draft,
        previous: Option<Arc<Object>>,
    ) -> Arc<Object> {
        let kind = if previous.is_some() { ChangeKind::Modified } else { ChangeKind::Added };
        let object = Arc::new(draft.seal(self.next_version(), kind));
        if let Some(previous) = &previous {
            inner.live_bytes -= previous.bytes;
            inner.unindex(previous, self.indexed);
        } else {
            self.count.fetch_add(1, Ordering::Relaxed);
        }
        inner.live_bytes += object.bytes;
        inner.index(&object, self.indexed);
        inner.objects.insert(Arc::clone(&object.key), Arc::clone(&object));
        self.record_change(inner, kind, Arc::clone(&object), previous);
        object
    }

    fn record_change(
        &self,
        inner: &mut Inner,
        kind: ChangeKind,
        object: Arc<Object>,
        previous: Option<Arc<Object>>,
    ) {
        let version = object.version;
        let Inner { objects, live_bytes, watch_cache, .. } = inner;
        watch_cache.push(Change { kind, object, previous }, *live_bytes, |object| {
            current(objects, object)
        });
        self.updates.send_replace(version);
    }

    /// Returns all objects whose keys start with a prefix.
    pub fn list(&self, prefix: &str) -> Listing {
        let inner = self.read();
        let version = self.version.load(Ordering::SeqCst);
        Listing { version, objects: inner.with_prefix(prefix).cloned().collect() }
    }

    /// Returns the objects as of an earlier version, as far as the watch cache reaches.
    pub fn list_at(&self, prefix: &str, version: u64) -> Result<Listing, Expired> {
        let inner = self.read();
        let changes = inner.watch_cache.after(version)?;
        let mut then: BTreeMap<&str, Option<&Arc<Object>>> = BTreeMap::new();
        for change in changes {
            if change.object.key.starts_with(prefix) {
                // The first change after the version has the object as of the version.
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

    /// Returns changes after a version, limited by their number and by the size of a chunk of a watch.
    pub fn after(&self, version: u64, max: usize) -> Result<Batch, Expired> {
        let inner = self.read();
        let mut left = inner.watch_cache.after(version)?;
        let mut changes = Vec::new();
        let mut bytes = 0;
        while changes.len() < max && bytes < WATCH_CHUNK_BYTES {
            let Some(change) = left.next() else { break };
            bytes += change.object.json.len();
            changes.push(Arc::clone(change));
        }
        let more = left.next().is_some();
        let version = match changes.last() {
            Some(last) if more => last.object.version,
            _ => self.version.load(Ordering::SeqCst).max(version),
        };
        Ok(Batch { changes, version, more })
    }

    /// Returns the oldest version that can be listed and watched from.
    pub fn oldest(&self) -> u64 {
        self.read().watch_cache.oldest()
    }

    /// Returns a receiver of the latest version.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.updates.subscribe()
    }

    /// Returns the dependents of an owner.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<Object>> {
        let inner = self.read();
        all_of(inner.by_owner.get(uid).map(|dependents| &dependents.objects))
    }

    /// Returns the dependents of an owner that are not being deleted.
    pub fn live_dependents(&self, uid: &str) -> Vec<Arc<Object>> {
        let inner = self.read();
        all_of(inner.by_owner.get(uid).map(|dependents| &dependents.live))
    }

    /// Returns `true` if a dependent blocks the foreground deletion of an owner.
    pub fn blocks_deletion(&self, uid: &str) -> bool {
        self.read().by_owner.get(uid).is_some_and(|dependents| dependents.blocking > 0)
    }

    /// Returns the objects whose indexed field has this value.
    pub fn by_field(&self, value: &str) -> Listing {
        let inner = self.read();
        let version = self.version.load(Ordering::SeqCst);
        Listing { version, objects: all_of(inner.by_field.get(value)) }
    }

    /// Returns the name of the indexed field.
    pub fn indexed(&self) -> Option<&'static str> {
        self.indexed.and_then(|index| self.fields.get(index)).map(|path| path.name)
    }

    /// Limits the watch cache to a number of changes, for tests.
    pub fn limit_watch_cache(&self, events_max: usize) {
        let mut inner = self.write();
        let Inner { objects, watch_cache, .. } = &mut *inner;
        watch_cache.limit(events_max, |object| current(objects, object));
    }

    /// Removes the changes that existed at the previous call, except for the newest ones.
    pub fn compact(&self) {
        let mut inner = self.write();
        let Inner { objects, watch_cache, .. } = &mut *inner;
        let now = self.version.load(Ordering::SeqCst);
        watch_cache.compact(now, |object| current(objects, object));
    }

    /// Returns the memory of the objects, and of the watch cache beyond them, in bytes.
    pub fn bytes(&self) -> (usize, usize) {
        let inner = self.read();
        (inner.live_bytes, inner.watch_cache.bytes())
    }

    /// Returns the current limit of the memory of the watch cache, in bytes.
    pub fn watch_cache_bytes_max(&self) -> usize {
        super::watch_cache::bytes_max(self.read().live_bytes)
    }
}

/// Returns `true` if an object is the stored version of its key.
fn current(objects: &Objects, object: &Object) -> bool {
    objects.get(&object.key).is_some_and(|stored| stored.version == object.version)
}

fn expect(inner: &Inner, key: &str, expected: u64) -> Result<Arc<Object>, StoreError> {
    let object = inner.objects.get(key).ok_or(StoreError::KeyNotFound)?;
    if object.version == expected { Ok(Arc::clone(object)) } else { Err(StoreError::Conflict) }
}

impl Drop for Collection {
    fn drop(&mut self) {
        self.count.fetch_sub(self.len(), Ordering::Relaxed);
    }
}

impl Inner {
    fn with_prefix<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Arc<Object>> {
        self.objects
            .range::<str, _>((Bound::Included(prefix), Bound::Unbounded))
            .take_while(move |(key, _)| key.starts_with(prefix))
            .map(|(_, object)| object)
    }

    fn index(&mut self, object: &Arc<Object>, indexed: Option<usize>) {
        let add = |objects: &mut Objects| {
            objects.insert(Arc::clone(&object.key), Arc::clone(object));
        };
        for owner in &object.owners {
            let dependents = self.by_owner.entry(owner.uid.clone()).or_default();
            add(&mut dependents.objects);
            if !object.deleting {
                add(&mut dependents.live);
            }
            dependents.blocking += usize::from(owner.blocks_deletion);
        }
        let value = indexed.map_or("", |index| object.field(index));
        if !value.is_empty() {
            add(self.by_field.entry(value.into()).or_default());
        }
    }

    fn unindex(&mut self, object: &Object, indexed: Option<usize>) {
        for owner in &object.owners {
            if let Some(dependents) = self.by_owner.get_mut(&owner.uid) {
                dependents.objects.remove(&object.key);
                dependents.live.remove(&object.key);
                dependents.blocking -= usize::from(owner.blocks_deletion);
                // An object may name an owner twice; the second reference still counts.
                if dependents.objects.is_empty() && dependents.blocking == 0 {
                    self.by_owner.remove(&owner.uid);
                }
            }
        }
        let value = indexed.map_or("", |index| object.field(index));
        if let Some(objects) = self.by_field.get_mut(value) {
            objects.remove(&object.key);
            if objects.is_empty() {
                self.by_field.remove(value);
            }
        }
    }
}

fn all_of(objects: Option<&Objects>) -> Vec<Arc<Object>> {
    objects.into_iter().flat_map(BTreeMap::values).cloned().collect()
}
