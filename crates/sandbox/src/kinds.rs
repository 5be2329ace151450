//! What the cluster knows of each kind: one row of a table. To add a kind is to add a row.

mod row;
mod table;

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use serde_json::Value;

pub use row::{Columns, Kind, Scale, SchemaSource, Strategy, Verbs};
pub use table::TABLE;

pub(crate) fn kind_of(row: &row::Row) -> Kind {
    row.kind()
}

use crate::status_error::GroupResource;
use crate::store::{Collection, Store};

/// A kind and its objects.
#[derive(Debug)]
pub struct Resource {
    /// What is known of the kind.
    pub kind: Kind,
    /// Its objects. Two versions of a kind share them.
    pub objects: Arc<Collection>,
}

impl Resource {
    /// Its name in messages.
    pub fn group_resource(&self) -> GroupResource<'_> {
        GroupResource { group: &self.kind.group, resource: &self.kind.plural }
    }

    /// The list path of a namespace (or of all, or of what has none).
    pub fn prefix(&self, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) if self.kind.namespaced => format!("{namespace}/"),
            _ => String::new(),
        }
    }
}

/// The versions of a kind by its plural, by group.
type Groups = BTreeMap<String, BTreeMap<String, Vec<Arc<Resource>>>>;

/// All kinds of a cluster: those of the table and custom ones.
#[derive(Debug, Default)]
pub struct Kinds {
    groups: RwLock<Groups>,
}

impl Kinds {
    /// The kinds of the table, without objects.
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
        self.groups.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a kind or replaces it.
    pub fn add(&self, resource: Arc<Resource>) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        let kind = &resource.kind;
        let plurals = groups.entry(kind.group.to_string()).or_default();
        let versions = plurals.entry(kind.plural.to_string()).or_default();
        versions.retain(|other| other.kind.version != kind.version);
        versions.push(resource);
    }

    /// Forgets all versions of a kind.
    pub fn remove(&self, group: &str, plural: &str) {
        let mut groups = self.groups.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(plurals) = groups.get_mut(group) {
            plurals.remove(plural);
            if plurals.is_empty() {
                groups.remove(group);
            }
        }
    }

    /// The kind at a path.
    pub fn get(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        let groups = self.read();
        let versions = groups.get(group)?.get(plural)?;
        versions.iter().find(|resource| resource.kind.version == version).cloned()
    }

    /// A version of the kind with this plural.
    pub fn find(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        self.read().get(group)?.get(plural)?.first().cloned()
    }

    /// The kind of an object, by `apiVersion` and `kind`.
    pub fn of_object(&self, api_version: &str, kind: &str) -> Option<Arc<Resource>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let groups = self.read();
        let mut all = groups.get(group)?.values().flatten();
        all.find(|resource| resource.kind.version == version && resource.kind.kind == kind).cloned()
    }

    /// All of them, by group and name.
    pub fn all(&self) -> Vec<Arc<Resource>> {
        self.read().values().flat_map(BTreeMap::values).flatten().cloned().collect()
    }
}

/// The `apiVersion` and `kind` of an object.
pub(crate) fn type_of(object: &Value) -> (&str, &str) {
    let text = |name| object.get(name).and_then(Value::as_str).unwrap_or_default();
    (text("apiVersion"), text("kind"))
}
