//! Tests of the table of kinds.

use std::collections::BTreeSet;

use serde_json::json;

use super::*;

#[test]
fn every_kind_of_the_engine_has_a_row() {
    let object = json!({"metadata": {"name": "x"}, "spec": {"containers": [{}]}});
    let mut kinds = BTreeSet::new();
    for kind in KINDS {
        let (change, _) = (kind.lower)(Source::Json(&object), &mut LoweringCache::default());
        let Some(Change::Object(object)) = change else { continue };
        let name = object.name();
        assert_eq!(name.namespace.is_empty(), !kind.namespaced, "{}", kind.name);
        assert!(kinds.insert(name.kind), "{}", kind.name);
        let uid = Uid::from("u");
        let key = ObjectKey { namespace: &name.namespace, name: "x", uid: &uid };
        let gone = (kind.gone)(key);
        assert!(matches!(gone, Change::ObjectGone(gone) if gone == name), "{}", kind.name);
        // As in upstream's metrics.
        let label = match kind.group() {
            "" => kind.name.to_owned(),
            group => format!("{group}/{}", kind.name),
        };
        assert_eq!(name.kind.resource().name(), label);
    }
    assert!(kinds.iter().eq(ObjectKind::ALL));
}

#[test]
fn groups_and_resources_are_those_of_the_paths() {
    let of = |name| KINDS.iter().find(|kind| kind.name == name).unwrap();
    let names = |kind: &Kind| (kind.group(), kind.resource());
    assert_eq!(names(of("Pod")), ("", "pods"));
    assert_eq!(names(of("CSINode")), ("storage.k8s.io", "csinodes"));
    let paths: BTreeSet<&str> = KINDS.iter().map(|kind| kind.path).collect();
    assert_eq!(paths.len(), KINDS.len());
}
