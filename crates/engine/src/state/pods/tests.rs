//! Tests of the pod table.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn record(uid: &str) -> PodRecord {
    PodRecord {
        uid: uid.into(),
        name: uid.into(),
        resource_version: 0,
        label_set: LabelSetIdx(0),
        spec: SpecIdx(0),
        priority: 0,
        node: NodeIdx::NONE,
        nominated: NodeIdx::NONE,
        start_time: 0,
        creation_time: 0,
        generation: 0,
        position_in_label_set: 0,
        position_in_spec: 0,
        terminating: false,
        preempted: false,
        facts: PodFacts::default(),
        assumed: false,
        gates: Box::default(),
    }
}

proptest! {
    #[test]
    fn pods_are_found_by_uid_and_only_while_they_exist(
        steps in prop::collection::vec((0_u32..40, any::<bool>()), 1..200),
    ) {
        let (mut pods, mut model) = (Pods::default(), BTreeMap::new());
        let uid = |number: u32| match number % 2 {
            0 => format!("01234567-89ab-cdef-0123-4567{number:08x}"),
            _ => format!("pod-{number}"),
        };
        for (number, inserts) in steps {
            match model.remove(&number) {
                Some(index) => {
                    let removed = pods.remove(index).unwrap();
                    prop_assert_eq!(removed.uid, Uid::from(uid(number)));
                }
                None if inserts => {
                    model.insert(number, pods.insert(record(&uid(number))));
                }
                None => {}
            }
            prop_assert_eq!(pods.count(), model.len());
            for number in 0..40 {
                let index = model.get(&number).copied();
                prop_assert_eq!(pods.find(&uid(number).into()), index);
            }
        }
        let mut indexes: Vec<_> = model.into_values().collect();
        indexes.sort_unstable();
        prop_assert!(pods.iter().map(|(index, _)| index).eq(indexes));
    }
}

#[test]
fn a_stretch_of_slots_ends_with_the_table() {
    let mut pods = Pods::default();
    for uid in ["a", "b", "c", "d"] {
        pods.insert(record(uid));
    }
    pods.remove(PodIdx(2));
    let within = |slots| -> Vec<u32> { pods.iter_within(slots).map(|(pod, _)| pod.0).collect() };
    assert_eq!(within(1..usize::MAX), [1, 3]);
    assert_eq!(within(0..3), [0, 1]);
    assert_eq!(within(9..12), []);
    assert_eq!((pods.slots(), pods.count()), (4, 3));
}
