//! The store against a model: lists, watches, lists at a version, and indexes.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const FIELDS: &[SelectableField] = &[SelectableField { name: "spec.node", default: "" }];

fn object(name: &str, number: u32) -> Value {
    json!({
        "kind": "Thing",
        "metadata": {
            "name": name, "namespace": "a", "uid": format!("uid-{name}"),
            "labels": {"number": number.to_string()},
            "ownerReferences": [{"uid": format!("owner-{}", number % 2), "controller": true}],
        },
        "spec": {"node": format!("node-{}", number % 3)},
    })
}

fn draft(name: &str, number: u32) -> Draft {
    Draft::new(&object(name, number), FIELDS)
}

fn things() -> Collection {
    Store::starting_at(10).collection(FIELDS, Some(0))
}

#[test]
fn versions_increase_and_are_part_of_the_object() {
    let things = things();
    let first = things.create(draft("x", 1)).unwrap();
    assert_eq!(first.version, 11);
    assert_eq!(first.value()["metadata"]["resourceVersion"], "11");
    let second = things.replace(draft("x", 2), 11).unwrap();
    assert_eq!((second.version, second.label("number")), (12, Some("2")));
    assert_eq!(first.value()["metadata"]["labels"]["number"], "1");
}

#[test]
fn writes_from_an_outdated_version_are_rejected() {
    let things = things();
    things.create(draft("x", 1)).unwrap();
    assert!(matches!(things.create(draft("x", 1)), Err(StoreError::KeyExists)));
    assert!(matches!(things.replace(draft("x", 1), 9), Err(StoreError::Conflict)));
    assert!(matches!(things.remove(draft("x", 1), 9), Err(StoreError::Conflict)));
    assert!(matches!(things.replace(draft("y", 1), 11), Err(StoreError::KeyNotFound)));
    let gone = things.remove(draft("x", 1), 11).unwrap();
    assert_eq!(gone.value()["metadata"]["resourceVersion"], "12");
    assert!(things.is_empty() && things.owned_by("owner-1").is_empty());
}

#[test]
fn a_full_watch_cache_expires_old_versions() {
    let things = things();
    things.limit_watch_cache(2);
    for number in 0..5 {
        things.create(draft(&format!("x{number}"), number)).unwrap();
    }
    assert_eq!(things.after(12, 10).unwrap_err(), Expired { oldest: 13 });
    assert_eq!(things.after(13, 10).unwrap().changes.len(), 2);
    assert!(things.list_at("", 12).is_err());
}

#[test]
fn watch_events_are_encoded_once() {
    let things = things();
    things.create(draft("x", 1)).unwrap();
    let change = things.after(10, 10).unwrap().changes.remove(0);
    let line = change.object.line(change.kind);
    assert_eq!(line.as_ptr(), change.object.line(change.kind).as_ptr());
    assert!(line.as_ptr_range().contains(&change.object.json.as_ptr()));
    for (kind, name) in [(ChangeKind::Added, "ADDED"), (ChangeKind::Deleted, "DELETED")] {
        let line: Value = serde_json::from_slice(&change.object.line(kind)).unwrap();
        assert_eq!((&line["type"], &line["object"]), (&json!(name), &change.object.value()));
    }
}

#[test]
fn the_watch_cache_is_bounded_by_the_bytes_of_live_objects() {
    let things = things();
    let big = |name: &str| {
        let mut value = object(name, 1);
        value["spec"]["filler"] = "x".repeat(4000).into();
        Draft::new(&value, FIELDS)
    };
    let mut most = 0;
    for number in 0..20_000_u64 {
        let made = things.create(big(&format!("x{number}"))).unwrap();
        let changed = things.replace(big(&made.name), made.version).unwrap();
        if number >= 100 {
            let old = things.get(&format!("a/x{}", number - 100)).unwrap();
            things.remove(big(&old.name), old.version).unwrap();
        }
        let (live, log) = things.bytes();
        assert!(log <= things.watch_cache_bytes_max(), "{log} bytes for {live} of live objects");
        assert!(things.after(changed.version - 1, 1).is_ok(), "the latest change is available");
        most = most.max(log);
    }
    let (live, log) = things.bytes();
    // A hundred objects of 4 kB each: the minimum, and twice the live bytes.
    assert!((400_000..600_000).contains(&live), "{live}");
    assert!(most < (4 << 20) + 2 * 600_000, "{most}");
    assert_eq!(log, things.read().watch_cache.bytes_counted_anew());
    assert!(things.after(11, 1).is_err(), "the oldest changes have expired");
    // Objects that were live for a short time leave nothing behind.
    for old in things.list("").objects {
        things.remove(big(&old.name), old.version).unwrap();
    }
    let (live, log) = things.bytes();
    assert_eq!(live, 0);
    assert!(log <= 4 << 20, "{log}");
}

#[test]
fn compaction_removes_old_changes_except_the_newest() {
    let things = things();
    let fill = |from: u32, to: u32| {
        for number in from..to {
            things.create(draft(&format!("x{number}"), number)).unwrap();
        }
    };
    fill(0, 500);
    things.compact();
    assert!(things.after(10, 1).is_ok(), "removed by the second compaction only");
    fill(500, 550);
    things.compact();
    assert_eq!(things.after(10, 1).unwrap_err(), Expired { oldest: 460 });
    assert_eq!(things.after(460, 1000).unwrap().changes.len(), 100);
    assert_eq!(things.bytes().1, things.read().watch_cache.bytes_counted_anew());
    things.compact();
    assert!(things.after(460, 1).is_ok(), "the newest changes stay at any age");
}

#[test]
fn batches_of_changes_are_bounded_in_bytes() {
    let things = things();
    for number in 0..10 {
        let mut value = object(&format!("x{number}"), 1);
        value["spec"]["filler"] = "x".repeat(100_000).into();
        things.create(Draft::new(&value, FIELDS)).unwrap();
    }
    let (mut seen, mut version) = (0, 10);
    loop {
        let batch = things.after(version, 100).unwrap();
        assert!(batch.changes.len() <= 3);
        (seen, version) = (seen + batch.changes.len(), batch.version);
        if !batch.more {
            break;
        }
    }
    assert_eq!((seen, version), (10, 20));
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8, u32),
    Remove(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..6_u8, 0..9_u32).prop_map(|(name, number)| Step::Put(name, number)),
        1 => (0..6_u8).prop_map(Step::Remove),
    ];
    prop::collection::vec(step, 0..60)
}

type State = BTreeMap<String, (u64, u32)>;

fn state(objects: &[Arc<Object>]) -> State {
    let entry = |object: &Arc<Object>| {
        let number = object.label("number").unwrap().parse().unwrap();
        (object.key.to_string(), (object.version, number))
    };
    objects.iter().map(entry).collect()
}

proptest! {
    #[test]
    fn the_bytes_of_the_watch_cache_are_counted_exactly(steps in steps(), short in 1..20_usize) {
        let things = things();
        things.limit_watch_cache(short);
        for step in &steps {
            let (name, number) = match step {
                Step::Put(name, number) => (format!("n{name}"), Some(*number)),
                Step::Remove(name) => (format!("n{name}"), None),
            };
            match (things.get(&format!("a/{name}")), number) {
                (None, Some(number)) => drop(things.create(draft(&name, number)).unwrap()),
                (Some(old), Some(number)) => drop(things.replace(draft(&name, number), old.version).unwrap()),
                (Some(old), None) => drop(things.remove(draft(&name, 0), old.version).unwrap()),
                (None, None) => things.compact(),
            }
            prop_assert_eq!(things.bytes().1, things.read().watch_cache.bytes_counted_anew());
            let live: usize = things.list("").objects.iter().map(|object| object.bytes).sum();
            prop_assert_eq!(things.bytes().0, live);
        }
    }

    #[test]
    fn lists_watches_and_indexes_agree_with_a_model(steps in steps(), batch in 1..5_usize) {
        let things = things();
        let mut model = State::new();
        let mut history = vec![(10, model.clone())];
        for step in &steps {
            match step {
                Step::Put(name, number) => {
                    let name = format!("n{name}");
                    let key = format!("a/{name}");
                    let stored = match model.get(&key) {
                        None => things.create(draft(&name, *number)),
                        Some((version, _)) => things.replace(draft(&name, *number), *version),
                    };
                    model.insert(key, (stored.unwrap().version, *number));
                }
                Step::Remove(name) => {
                    let key = format!("a/n{name}");
                    if let Some((version, _)) = model.remove(&key) {
                        things.remove(draft(&format!("n{name}"), 0), version).unwrap();
                    }
                }
            }
            history.push((things.list("").version, model.clone()));
        }
        prop_assert_eq!(&state(&things.list("a/").objects), &model);
        prop_assert!(things.list("b/").objects.is_empty());
        // A list at any version shows the objects of that version.
        for (version, then) in &history {
            prop_assert_eq!(&state(&things.list_at("", *version).unwrap().objects), then);
        }
        // A watch from any version ends at the current objects.
        for (version, then) in &history {
            let (mut seen, mut at) = (then.clone(), *version);
            loop {
                let next = things.after(at, batch).unwrap();
                for change in &next.changes {
                    prop_assert!(change.object.version > at);
                    at = change.object.version;
                    let key = change.object.key.to_string();
                    prop_assert_eq!(change.previous.as_ref().map(|o| o.version), seen.get(&key).map(|s| s.0));
                    match change.kind {
                        ChangeKind::Deleted => { seen.remove(&key); }
                        _ => seen.extend(state(std::slice::from_ref(&change.object))),
                    }
                }
                at = next.version;
                if !next.more { break }
            }
            prop_assert_eq!(&seen, &model);
        }
        for owner in 0..2 {
            let owned = state(&things.owned_by(&format!("owner-{owner}")));
            let want: State = model.iter().filter(|(_, (_, n))| n % 2 == owner).map(|(k, v)| (k.clone(), *v)).collect();
            prop_assert_eq!(owned, want);
        }
        for node in 0..3 {
            let placed = state(&things.by_field(&format!("node-{node}")).objects);
            let want: State = model.iter().filter(|(_, (_, n))| n % 3 == node).map(|(k, v)| (k.clone(), *v)).collect();
            prop_assert_eq!(placed, want);
        }
    }
}
