//! The store against a model: what a list, a watch and a list at a version must show.

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const FIELDS: &[FieldPath] = &[FieldPath { name: "spec.node", default: "" }];

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
fn versions_rise_and_are_part_of_the_object() {
    let things = things();
    let first = things.create(draft("x", 1)).unwrap();
    assert_eq!(first.version, 11);
    assert_eq!(first.value()["metadata"]["resourceVersion"], "11");
    let second = things.replace(draft("x", 2), 11).unwrap();
    assert_eq!((second.version, second.label("number")), (12, Some("2")));
    assert_eq!(first.value()["metadata"]["labels"]["number"], "1");
}

#[test]
fn writes_from_an_old_version_are_refused() {
    let things = things();
    things.create(draft("x", 1)).unwrap();
    assert!(matches!(things.create(draft("x", 1)), Err(Refusal::Exists)));
    assert!(matches!(things.replace(draft("x", 1), 9), Err(Refusal::Changed)));
    assert!(matches!(things.remove(draft("x", 1), 9), Err(Refusal::Changed)));
    assert!(matches!(things.replace(draft("y", 1), 11), Err(Refusal::Missing)));
    let gone = things.remove(draft("x", 1), 11).unwrap();
    assert_eq!(gone.value()["metadata"]["resourceVersion"], "12");
    assert!(things.is_empty() && things.owned_by("owner-1").is_empty());
}

#[test]
fn a_short_log_expires() {
    let things = things();
    things.shorten_log(2);
    for number in 0..5 {
        things.create(draft(&format!("x{number}"), number)).unwrap();
    }
    assert_eq!(things.after(12, 10).unwrap_err(), Expired { oldest: 13 });
    assert_eq!(things.after(13, 10).unwrap().changes.len(), 2);
    assert!(things.list_at("", 12).is_err());
}

#[test]
fn lines_of_a_watch_are_made_once() {
    let things = things();
    things.create(draft("x", 1)).unwrap();
    let change = things.after(10, 10).unwrap().changes.remove(0);
    assert_eq!(change.frame().as_ptr(), change.frame().as_ptr());
    let line: Value = serde_json::from_slice(&change.frame()).unwrap();
    assert_eq!(line["type"], "ADDED");
    assert_eq!(line["object"]["metadata"]["name"], "x");
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
        // A list at any version is what it was then.
        for (version, then) in &history {
            prop_assert_eq!(&state(&things.list_at("", *version).unwrap().objects), then);
        }
        // A watch from any version leads to the present.
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
                if next.changes.len() < batch { break }
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
