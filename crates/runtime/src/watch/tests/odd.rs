//! Tests of objects that exist although they are too large or cannot be read.

use engine::object::Pod;

use super::*;

const TOO_MANY: usize = api::lower::limits::LIST_ENTRIES_MAX + 1;

/// A pod on a node, with a request of 6 GiB.
fn pod(version: u64, tolerations: usize) -> Value {
    let requests = json!({"requests": {"memory": "6Gi"}});
    let toleration = json!({"operator": "Exists"});
    json!({
        "metadata": {
            "namespace": "default", "name": "p", "uid": "uid-p",
            "resourceVersion": version.to_string(), "labels": {"app": "web"},
        },
        "spec": {
            "nodeName": "n", "priority": 7,
            "containers": [{"image": "i", "resources": requests, "ports": [{"hostPort": 80}]}],
            "tolerations": vec![toleration; tolerations],
        },
    })
}

fn table(kind: &str) -> ObjectTable {
    ObjectTable::new(KINDS.iter().find(|known| known.name == kind).unwrap())
}

/// Updates a table. Returns the deletion, the change and the problems.
fn update(
    objects: &mut ObjectTable,
    object: &Value,
) -> (Option<Change>, Option<Change>, Vec<String>) {
    let object = Source::Json(object);
    let update = objects.update(object, identity_of(object).unwrap());
    (update.gone, update.change, update.problems)
}

fn as_pod(change: Option<Change>) -> Pod {
    match change {
        Some(Change::Pod(pod)) => *pod,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_pod_with_too_many_tolerations_keeps_its_requests_and_ports() {
    for known_before in [true, false] {
        let mut pods = table("Pod");
        if known_before {
            update(&mut pods, &pod(1, 1));
        }
        let (gone, change, problems) = update(&mut pods, &pod(2, TOO_MANY));
        assert!(gone.is_none(), "{gone:?}");
        let found = as_pod(change);
        let spec = &found.spec;
        assert_eq!((&*found.node, found.priority), ("n", 7));
        assert_eq!(spec.requests_on_node.memory, 6 << 30);
        assert_eq!((spec.host_ports.len(), found.labels.get("app")), (1, Some("web")));
        let what = "spec.tolerations: found 16385 entries, expected at most 16384";
        assert!(spec.too_large.as_ref().is_some_and(|why| why.contains(what)), "{spec:?}");
        assert_eq!(problems, [format!("Pod default/p: {what}")]);
        // A later version is an ordinary change.
        let (gone, change, _) = update(&mut pods, &pod(3, 1));
        assert!(gone.is_none() && as_pod(change).spec.too_large.is_none());
    }
}

#[test]
fn a_pod_that_becomes_unreadable_keeps_its_last_readable_version() {
    let mut pods = table("Pod");
    update(&mut pods, &pod(1, 1));
    let mut odd = pod(2, 1);
    odd["spec"]["containers"][0]["resources"]["requests"]["memory"] = json!("much");
    let (gone, change, problems) = update(&mut pods, &odd);
    assert!(gone.is_none() && change.is_none(), "{gone:?} {change:?}");
    assert!(problems[0].contains("found \"much\", expected a quantity"), "{problems:?}");
    // It exists until it is deleted.
    let source = Source::Json(&odd);
    let gone = pods.delete(&identity_of(source).unwrap());
    assert!(matches!(gone, Some(Change::PodGone { uid }) if uid == "uid-p".into()));
}

#[test]
fn an_unreadable_pod_replaces_the_one_of_its_name() {
    let mut pods = table("Pod");
    update(&mut pods, &pod(1, 1));
    let mut other = pod(2, 1);
    other["metadata"]["uid"] = json!("uid-other");
    other["spec"]["priority"] = json!("high");
    let (gone, change, _) = update(&mut pods, &other);
    assert!(matches!(gone, Some(Change::PodGone { uid }) if uid == "uid-p".into()));
    assert!(change.is_none());
}

#[test]
fn a_pod_that_has_ended_is_deleted() {
    let mut pods = table("Pod");
    update(&mut pods, &pod(1, 1));
    let mut ended = pod(2, TOO_MANY);
    ended["status"] = json!({"phase": "Succeeded"});
    let (gone, change, problems) = update(&mut pods, &ended);
    assert!(matches!(gone, Some(Change::PodGone { .. })) && change.is_none());
    assert_eq!(problems, Vec::<String>::new());
}

#[test]
fn too_large_and_unreadable_objects_of_other_kinds_are_kept() {
    let too_many = |entry: Value| json!(vec![entry; TOO_MANY]);
    let named =
        |version: u64| json!({"name": "a", "uid": "uid-a", "resourceVersion": version.to_string()});
    let taint = json!({"key": "k", "effect": "NoSchedule"});
    let image = json!({"names": ["example.com/i:1"]});
    for (kind, field, list) in [
        ("Node", "spec", json!({"taints": too_many(taint)})),
        ("Node", "status", json!({"images": too_many(image)})),
        ("PersistentVolume", "spec", json!({"accessModes": too_many(json!("ReadWriteOnce"))})),
        ("PersistentVolumeClaim", "spec", json!({"accessModes": too_many(json!("ReadWriteOnce"))})),
        ("CSINode", "spec", json!({"drivers": too_many(json!({"name": "d"}))})),
    ] {
        let mut objects = table(kind);
        let (_, change, _) = update(&mut objects, &json!({"metadata": named(1)}));
        assert!(change.is_some(), "{kind}");
        let (gone, change, problems) =
            update(&mut objects, &json!({"metadata": named(2), field: list}));
        assert!(gone.is_none() && change.is_some(), "{kind}: {gone:?}");
        assert!(problems.iter().any(|problem| problem.contains("found 16385 entries")), "{kind}");
        let (gone, change, problems) =
            update(&mut objects, &json!({"metadata": named(3), "spec": 5}));
        assert!(gone.is_none() && change.is_none() && !problems.is_empty(), "{kind}: {gone:?}");
    }
}
