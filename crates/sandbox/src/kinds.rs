//! The registered kinds. Built-in kinds are rows of a table.

mod row;
mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, RwLock, RwLockReadGuard};

use serde_json::Value;

pub use row::{Columns, Kind, Scale, SchemaSource, Strategy, Verbs};
pub use table::TABLE;

pub(crate) fn kind_of(row: &row::Row) -> Kind {
    row.kind()
}

use crate::lock;
use crate::status_error::GroupResource;
use crate::store::{Collection, Store};

/// A kind and its objects.
#[derive(Debug)]
pub struct Resource {
    /// Description of the kind.
    pub kind: Kind,
    /// Objects of the kind. Two API versions of a kind share them.
    pub objects: Arc<Collection>,
}

impl Resource {
    /// Returns group and plural, for error messages.
    pub fn group_resource(&self) -> GroupResource<'_> {
        GroupResource { group: &self.kind.group, resource: &self.kind.plural }
    }

    /// Returns the key prefix of a namespace; empty for all namespaces and cluster-scoped kinds.
    pub fn prefix(&self, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) if self.kind.namespaced => format!("{namespace}/"),
            _ => String::new(),
        }
    }
}

/// API versions of the kinds, by group and plural.
type Groups = BTreeMap<String, BTreeMap<String, Vec<Arc<Resource>>>>;

/// All kinds of a cluster: built-in and custom.
#[derive(Debug, Default)]
pub struct Kinds {
    groups: RwLock<Groups>,
}

impl Kinds {
    /// Creates the built-in kinds without objects.
    pub fn new(store: &Store) -> Self {
        let kinds = Self::default();
        for row in TABLE {
            let shared =
                row.strategy.stored_as.and_then(|(group, plural)| kinds.find(group, plural));
            let objects = shared.map_or_else(
                || Arc::new(store.collection(row.strategy.fields, row.strategy.indexed)),
                |shared| Arc::clone(&shared.objects),
            );
            kinds.add(Arc::new(Resource { kind: row.kind(), objects }));
        }
        kinds
    }

    fn read(&self) -> RwLockReadGuard<'_, Groups> {
        lock::read(&self.groups)
    }

    /// Adds or replaces an API version of a kind.
    pub fn add(&self, resource: Arc<Resource>) {
        let mut groups = lock::write(&self.groups);
        let kind = &resource.kind;
        let plurals = groups.entry(kind.group.to_string()).or_default();
        let versions = plurals.entry(kind.plural.to_string()).or_default();
        versions.retain(|other| other.kind.version != kind.version);
        versions.push(resource);
    }

    /// Removes all API versions of a kind.
    pub fn remove(&self, group: &str, plural: &str) {
        let mut groups = lock::write(&self.groups);
        if let Some(plurals) = groups.get_mut(group) {
            plurals.remove(plural);
            if plurals.is_empty() {
                groups.remove(group);
            }
        }
    }

    /// Returns the kind at a path.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let groups = self.read();
        let versions = groups.get(group)?.get(plural)?;
        versions.iter().find(|resource| resource.kind.version == version).cloned()
    }

    /// Returns an API version of the kind with this plural.
    pub fn find(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        self.read().get(group)?.get(plural)?.first().cloned()
    }

    /// Returns the kind of an object, by `apiVersion` and `kind`.
    pub fn of_object(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let groups = self.read();
        let mut all = groups.get(group)?.values().flatten();
        all.find(|resource| resource.kind.version == version && resource.kind.kind == kind).cloned()
    }

    /// Returns all kinds, ordered by group and plural.
    pub fn all(&self) -> Vec<Arc<Resource>> {
        self.read().values().flat_map(BTreeMap::values).flatten().cloned().collect()
    }
}

/// Returns the `apiVersion` and `kind` of an object.
pub(crate) fn type_of(object: &Value) -> (&str, &str) {
    let text = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion"), text("kind"))
}
