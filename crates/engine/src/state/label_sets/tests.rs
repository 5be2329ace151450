//! Tests of the label sets.

use proptest::prelude::*;

use super::*;
use crate::testing::{labels, requirement, selector};

#[test]
fn pods_with_equal_namespace_and_labels_share_a_set_that_lives_as_long_as_its_users() {
    let mut sets = LabelSets::default();
    let web = labels(&[("app", "web")]);
    let (first, is_new) = sets.acquire("default", &web);
    assert!(is_new);
    assert_eq!(sets.acquire("default", &web), (first, false));
    let (other, is_new) = sets.acquire("other", &web);
    assert!(is_new && other != first);
    sets.hold(first);
    sets.release(first);
    sets.release(first);
    assert_eq!(&*sets.get(first).namespace, "default", "one user is left");
    sets.release(first);
    // The slot of the one that is gone is taken by the next.
    let (next, is_new) = sets.acquire("default", &labels(&[("app", "db")]));
    assert!(is_new);
    assert_eq!((next, sets.get(next).labels.get("app")), (first, Some("db")));
    assert_eq!(sets.candidates(&selector(&[("app", "web")])), [other]);
    sets.release(next);
    sets.release(other);
    assert!(sets.by_name.is_empty() && sets.by_pair.is_empty());
    assert_eq!(sets.candidates(&Selector::default()), []);
}

#[test]
fn candidates_of_several_values_are_those_of_each() {
    let mut sets = LabelSets::default();
    let [web, db, cache] =
        ["web", "db", "cache"].map(|app| sets.acquire("default", &labels(&[("app", app)])).0);
    let either = requirement("app", Operator::In, &["web", "cache", "absent"]);
    let either = Selector { requirements: [either].into() };
    assert_eq!(sets.candidates(&either), [web, cache]);
    let not_web = requirement("app", Operator::NotIn, &["web"]);
    let not_web = Selector { requirements: [not_web].into() };
    assert_eq!(sets.candidates(&not_web), [web, db, cache], "to be looked at one by one");
}

proptest! {
    #[test]
    fn every_set_that_a_selector_matches_is_a_candidate(
        steps in prop::collection::vec((0_usize..9, any::<bool>()), 1..40),
        wanted in prop::sample::subsequence(vec!["x", "y", "z"], 1..=3),
    ) {
        let (keys, values) = (["a", "b", "c"], ["x", "y", "z"]);
        let labels_of = |kind: usize| labels(&[(keys[kind / 3], values[kind % 3]), ("d", "x")]);
        let mut sets = LabelSets::default();
        let mut users = vec![Vec::new(); 9];
        for (kind, comes) in steps {
            if comes {
                users[kind].push(sets.acquire("default", &labels_of(kind)).0);
            } else if let Some(index) = users[kind].pop() {
                sets.release(index);
            }
        }
        for key in ["a", "b", "d"] {
            let selector = Selector { requirements: [requirement(key, Operator::In, &wanted)].into() };
            let candidates = sets.candidates(&selector);
            let all = users.iter().enumerate().filter_map(|(kind, users)| Some((kind, users.first()?)));
            let mut matching: Vec<LabelSetIdx> = all
                .filter(|(kind, _)| selector.matches(&labels_of(*kind)))
                .map(|(_, index)| *index)
                .collect();
            matching.sort_unstable();
            prop_assert_eq!(candidates, matching);
        }
        let mut in_use: Vec<LabelSetIdx> = users.iter().filter_map(|users| users.first().copied()).collect();
        in_use.sort_unstable();
        prop_assert_eq!(sets.candidates(&Selector::default()), in_use);
    }
}
