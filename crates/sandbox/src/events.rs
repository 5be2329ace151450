//! Conversion of events between the groups `events.k8s.io` and core. The core form is stored.

use serde_json::Value;

use crate::json::members;
use crate::kinds::Resource;

/// Fields with different names: in `events.k8s.io`, in the core group.
const NAMES: &[(&str, &str)] = &[
    ("note", "message"),
    ("regarding", "involvedObject"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
    ("reportingController", "reportingComponent"),
];

/// Returns `true` if the objects of a kind are stored in the form of another kind.
pub(crate) fn converted(resource: &Resource) -> bool {
    resource.kind.strategy.stored_as.is_some()
}

/// Converts an object of a kind into the stored form.
pub(crate) fn to_stored(resource: &Resource, object: &mut Value) {
    if converted(resource) {
        rename(object, "v1", |(new, old)| (*new, *old));
    }
}

/// Converts a stored object into the form of a kind.
pub(crate) fn from_stored(resource: &Resource, object: &mut Value) {
    if converted(resource) {
        rename(object, &resource.kind.api_version(), |(new, old)| (*old, *new));
    }
}

fn rename<'a>(
    object: &mut Value,
    api_version: &str,
    direction: impl Fn(&'a (&'a str, &'a str)) -> (&'a str, &'a str),
) {
    let object = members(object);
    for (from, to) in NAMES.iter().map(direction) {
        if let Some(value) = object.remove(from) {
            object.insert(to.to_owned(), value);
        }
    }
    object.insert("apiVersion".to_owned(), api_version.into());
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::Cluster;

    #[test]
    fn converting_back_and_forth_keeps_events_unchanged() {
        let cluster = Cluster::new();
        let resource = cluster.kinds.get("events.k8s.io", "v1", "events").unwrap();
        let new = json!({"apiVersion": "events.k8s.io/v1", "note": "a", "regarding": {"name": "b"}, "reason": "c"});
        let mut object = new.clone();
        to_stored(&resource, &mut object);
        assert_eq!(
            object,
            json!({"apiVersion": "v1", "message": "a", "involvedObject": {"name": "b"}, "reason": "c"})
        );
        from_stored(&resource, &mut object);
        assert_eq!(object, new);
    }
}
