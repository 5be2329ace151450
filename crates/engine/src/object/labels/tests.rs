//! Tests of labels.

use super::*;

#[test]
fn they_are_sorted_and_the_last_of_a_key_stays() {
    let given = [("b", "1"), ("a", "2"), ("c", "3"), ("b", "4"), ("a", "5")];
    let labels: Labels = given.into_iter().collect();
    assert_eq!(labels.iter().collect::<Vec<_>>(), [("a", "5"), ("b", "4"), ("c", "3")]);
    assert_eq!(labels, [("a", "5"), ("b", "4"), ("c", "3")].into_iter().collect());
    assert_eq!([("a", "1"), ("a", "2")].into_iter().collect::<Labels>().get("a"), Some("2"));
}

mod properties {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::Labels;

    proptest! {
        #[test]
        fn labels_are_an_ordered_map_however_the_pairs_come(
            pairs in prop::collection::vec(("[a-d.-]{0,2}", "[xy]{0,2}"), 0..12),
        ) {
            let labels: Labels = pairs.iter().map(|(key, value)| (&**key, &**value)).collect();
            let map: BTreeMap<&str, &str> =
                pairs.iter().map(|(key, value)| (&**key, &**value)).collect();
            prop_assert!(labels.iter().eq(map.iter().map(|(key, value)| (*key, *value))));
            prop_assert_eq!((labels.len(), labels.is_empty()), (map.len(), map.is_empty()));
            for key in ["", "a", "b", "aa", "d.", "z"] {
                prop_assert_eq!(labels.get(key), map.get(key).copied());
            }
        }
    }
}
