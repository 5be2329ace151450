//! Tests of the selector index.

use proptest::prelude::*;

use super::*;
use crate::testing::{labels, requirement, selector};

fn any_selector() -> impl Strategy<Value = Selector> {
    let operator = prop::sample::select(vec![
        Operator::In,
        Operator::NotIn,
        Operator::Exists,
        Operator::DoesNotExist,
    ]);
    let values = prop::collection::btree_set("[xyz]", 1..3);
    let one = (prop::sample::select(vec!["a", "b"]), operator, values).prop_map(
        |(key, operator, values)| {
            let values: Vec<&str> = values.iter().map(|value| &**value).collect();
            let has_values = matches!(operator, Operator::In | Operator::NotIn);
            requirement(key, operator, if has_values { &values } else { &[] })
        },
    );
    prop::collection::btree_set(one, 0..3)
        .prop_map(|all| Selector { requirements: all.into_iter().collect() })
}

fn any_labels() -> impl Strategy<Value = Labels> {
    prop::collection::btree_map("[abc]", "[xyz]", 0..3).prop_map(|map| map.into_iter().collect())
}

proptest! {
    #[test]
    fn every_selector_that_matches_is_a_candidate_until_it_is_removed(
        selectors in prop::collection::vec((any_selector(), any::<bool>()), 0..12),
        asked in prop::collection::vec(any_labels(), 1..8),
    ) {
        let mut index = SelectorIndex::default();
        for (id, (selector, _)) in selectors.iter().enumerate() {
            index.insert(selector, id);
        }
        for (id, (selector, removed)) in selectors.iter().enumerate() {
            if *removed {
                index.remove(selector, id);
            }
        }
        for labels in &asked {
            let candidates = index.candidates(labels);
            prop_assert!(candidates.is_sorted_by(|one, next| one < next), "each once");
            for (id, (selector, removed)) in selectors.iter().enumerate() {
                let candidate = candidates.contains(&id);
                prop_assert!(candidate || *removed || !selector.matches(labels));
                prop_assert!(!(candidate && *removed));
            }
        }
    }

    #[test]
    fn nothing_is_left_of_selectors_that_were_removed(selectors in prop::collection::vec(any_selector(), 0..12)) {
        let mut index = SelectorIndex::default();
        for (id, selector) in selectors.iter().enumerate() {
            index.insert(selector, id);
        }
        for (id, selector) in selectors.iter().enumerate().rev() {
            index.remove(selector, id);
        }
        prop_assert!(index.by_pair.is_empty() && index.others.is_empty());
    }
}

#[test]
fn selectors_that_require_other_values_are_not_looked_at() {
    let mut index = SelectorIndex::default();
    index.insert(&selector(&[("app", "web")]), 1);
    index.insert(&selector(&[("app", "db")]), 2);
    index.insert(&Selector::default(), 3);
    let absent =
        Selector { requirements: [requirement("app", Operator::DoesNotExist, &[])].into() };
    index.insert(&absent, 4);
    assert_eq!(index.candidates(&labels(&[("app", "web"), ("x", "y")])), [1, 3, 4]);
    assert_eq!(index.candidates(&labels(&[("app", "cache")])), [3, 4]);
    assert_eq!(index.candidates(&Labels::default()), [3, 4]);
}
