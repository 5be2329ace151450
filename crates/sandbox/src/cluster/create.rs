//! Creation of objects.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::{Cluster, WriteOptions, WriteResult, decode, default_and_validate, seconds};
use crate::json::{at, members, name, slot, text};
use crate::kinds::Resource;
use crate::limits::NAME_ATTEMPTS_MAX;
use crate::status_error::{ApiResult, GroupResource, StatusError};
use crate::store::{ChangeKind, Draft, StoreError};
use crate::{admission, store};

/// Letters of generated names: no vowels, and no digits that look like letters.
pub(crate) const NAME_LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Number of random letters at the end of generated names.
const SUFFIX_LETTERS: usize = 5;

/// Maximum length of the part of a generated name that comes from `generateName`.
const BASE_LETTERS_MAX: usize = 63 - SUFFIX_LETTERS;

/// Kinds whose status may be set at creation.
const KINDS_WITH_INITIAL_STATUS: &[&str] = &["nodes"];

impl Cluster {
    /// Creates an object in a namespace, which is empty for cluster-scoped kinds.
    pub fn create(
        &self,
        resource: &Resource,
        namespace: &str,
        mut object: Value,
        options: &WriteOptions,
    ) -> ApiResult<WriteResult> {
        let warnings = decode(resource, &mut object, options.field_validation)?;
        crate::events::to_stored(resource, &mut object);
        self.set_system_fields(resource, namespace, &mut object)?;
        let written = |object| WriteResult { object, warnings, created: true };
        if !name(&object).is_empty() {
            return self.store_new(resource, object, options).map(written);
        }
        for _ in 1..NAME_ATTEMPTS_MAX {
            let mut attempt = object.clone();
            generate_name(&mut attempt);
            match self.store_new(resource, attempt, options) {
                Err(failure) if failure.reason == "AlreadyExists" => {}
                answer => return answer.map(written),
            }
        }
        generate_name(&mut object);
        self.store_new(resource, object, options).map(written)
    }

    /// Sets the system fields of a new object and clears those that clients cannot set.
    fn set_system_fields(
        &self,
        resource: &Resource,
        namespace: &str,
        object: &mut Value,
    ) -> ApiResult<()> {
        let kind = &resource.kind;
        let given = text(object, &["metadata", "namespace"]);
        if !given.is_empty() && given != namespace && kind.namespaced {
            return Err(StatusError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if !text(object, &["metadata", "resourceVersion"]).is_empty() {
            return Err(StatusError::bad_request(
                "resourceVersion should not be set on objects to be created",
            ));
        }
        let metadata = members(slot(object, &["metadata"]));
        for gone in [
            "namespace",
            "resourceVersion",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "selfLink",
            "managedFields",
            "generation",
        ] {
            metadata.remove(gone);
        }
        metadata.insert("uid".to_owned(), uuid::Uuid::new_v4().to_string().into());
        metadata.insert("creationTimestamp".to_owned(), seconds(self.now()).into());
        if kind.namespaced {
            metadata.insert("namespace".to_owned(), namespace.into());
        }
        if kind.strategy.generations || matches!(kind.schema, crate::kinds::SchemaSource::Custom(_))
        {
            metadata.insert("generation".to_owned(), 1.into());
        }
        if kind.status && !KINDS_WITH_INITIAL_STATUS.contains(&&*kind.plural) {
            members(object).remove("status");
        }
        if kind.namespaced {
            self.check_namespace(resource, namespace, name(object))?;
        }
        Ok(())
    }

    /// Checks that the namespace of a new object exists and is not being deleted.
    fn check_namespace(&self, resource: &Resource, namespace: &str, name: &str) -> ApiResult<()> {
        let namespaces = self.resource("", "namespaces");
        let Some(found) = namespaces.objects.get(namespace) else {
            return Err(StatusError::not_found(
                GroupResource { group: "", resource: "namespaces" },
                namespace,
            ));
        };
        if found.deleting {
            let why = format!(
                "unable to create new content in namespace {namespace} because it is being terminated"
            );
            return Err(StatusError::forbidden(resource.group_resource(), name, &why));
        }
        Ok(())
    }

    /// Rejects a new object once the maximum number of objects is stored.
    fn check_object_limit(&self, resource: &Resource, name: &str) -> ApiResult<()> {
        let (count, max) = (self.store.count(), self.objects_max.load(Ordering::Relaxed));
        if count < max {
            return Ok(());
        }
        let why = format!(
            "the cluster holds {count} objects, and --objects-max allows {max}; delete some or start it with more"
        );
        Err(StatusError::forbidden(resource.group_resource(), name, &why))
    }

    fn store_new(
        &self,
        resource: &Resource,
        mut object: Value,
        options: &WriteOptions,
    ) -> ApiResult<Arc<store::Object>> {
        self.check_object_limit(resource, name(&object))?;
        set_cluster_fields(self, resource, &mut object)?;
        let guard = admission::create(self, resource, &mut object, options.dry_run)?;
        // Recounting takes the same lock.
        let uncharge = |guard: Option<_>, object: &Value| {
            if guard.is_some() {
                drop(guard);
                admission::uncharge(self, resource, object);
            }
        };
        if let Err(failure) = default_and_validate(resource, &mut object, None) {
            uncharge(guard, &object);
            return Err(failure);
        }
        crate::patch::apply::record_created(resource, &mut object, options, self.now());
        let draft = Draft::new(&object, resource.objects.fields());
        let key = draft.key().to_string();
        if options.dry_run {
            if resource.objects.get(&key).is_some() {
                return Err(StatusError::already_exists(resource.group_resource(), name(&object)));
            }
            return Ok(Arc::new(draft.seal(0, ChangeKind::Added)));
        }
        match resource.objects.create(draft) {
            Ok(object) => Ok(object),
            Err(StoreError::KeyExists | StoreError::KeyNotFound | StoreError::Conflict) => {
                uncharge(guard, &object);
                Err(StatusError::already_exists(resource.group_resource(), name(&object)))
            }
        }
    }
}

/// Sets fields that depend on the cluster: addresses of services, names of definitions.
fn set_cluster_fields(cluster: &Cluster, resource: &Resource, object: &mut Value) -> ApiResult<()> {
    if resource.kind.plural == "services" && resource.kind.group.is_empty() {
        let kind = text(object, &["spec", "type"]);
        let wants = kind != "ExternalName" && text(object, &["spec", "clusterIP"]).is_empty();
        if wants {
            let number = cluster.addresses.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let [_, _, high, low] = number.to_be_bytes();
            object["spec"]["clusterIP"] = format!("10.96.{high}.{low}").into();
        }
        let address = text(object, &["spec", "clusterIP"]).to_owned();
        if !address.is_empty() && at(object, &["spec", "clusterIPs"]).is_none() {
            object["spec"]["clusterIPs"] = json!([address]);
        }
    }
    if resource.kind.plural == "customresourcedefinitions" {
        crate::custom::check_names(cluster, object)?;
    }
    Ok(())
}

fn generate_name(object: &mut Value) {
    let base = text(object, &["metadata", "generateName"]).to_owned();
    if base.is_empty() {
        return;
    }
    let mut cut = base.len().min(BASE_LETTERS_MAX);
    while !base.is_char_boundary(cut) {
        cut -= 1;
    }
    object["metadata"]["name"] =
        format!("{}{}", &base[..cut], random_letters(SUFFIX_LETTERS)).into();
}

/// Returns random letters for names.
pub(crate) fn random_letters(count: usize) -> String {
    let bytes = uuid::Uuid::new_v4().into_bytes();
    bytes
        .iter()
        .take(count)
        .map(|byte| char::from(NAME_LETTERS[usize::from(*byte) % NAME_LETTERS.len()]))
        .collect()
}
