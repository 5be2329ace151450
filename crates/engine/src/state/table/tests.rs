//! Tests of the objects of one kind.

use super::*;
use crate::object::PersistentVolumeClaim;

fn claim(namespace: &str, name: &str, version: &str) -> PersistentVolumeClaim {
    PersistentVolumeClaim {
        namespace: namespace.into(),
        name: name.into(),
        resource_version: version.into(),
        ..PersistentVolumeClaim::default()
    }
}

#[test]
fn objects_come_by_namespace_and_name_and_are_replaced() {
    let mut table = Table::default();
    for (namespace, name) in [("b", "z"), ("ab", "x"), ("b", "y"), ("a", "z")] {
        assert_eq!(table.insert(claim(namespace, name, "1")), None);
    }
    assert_eq!(table.insert(claim("b", "y", "2")), Some(claim("b", "y", "1").into()));
    let names: Vec<_> = table.values().map(Stored::key).collect();
    let want = [("a", "z"), ("ab", "x"), ("b", "y"), ("b", "z")];
    assert!(names.iter().map(|(namespace, name)| (&**namespace, &**name)).eq(want));
    let versions = |table: &Table<PersistentVolumeClaim>| -> Vec<Text> {
        table.in_namespace("b").map(|claim| claim.resource_version.clone()).collect()
    };
    assert_eq!(versions(&table), ["2", "1"]);
    assert_eq!(table.get_in("b", "y"), Some(&claim("b", "y", "2")));
    assert_eq!((table.get_in("a", "y"), table.get("y")), (None, None));
}

#[test]
fn nothing_is_left_of_removed_objects() {
    let mut table = Table::default();
    table.insert(claim("a", "x", "1"));
    assert_eq!(table.remove("a", "y"), None);
    assert_eq!(table.remove("b", "x"), None);
    assert_eq!(table.remove("a", "x"), Some(claim("a", "x", "1").into()));
    assert_eq!(table, Table::default());
}
