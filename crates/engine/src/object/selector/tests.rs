//! Tests of selectors.

use proptest::prelude::*;

use super::*;
use crate::testing::{labels, requirement, selector};

#[test]
fn each_operator_accepts_its_values_only() {
    use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    for (operator, values, value, accepted) in [
        (In, &["b", "a", "c"][..], Some("a"), true),
        (In, &["b", "a", "c"], Some("c"), true),
        (In, &["b", "a"], Some("ab"), false),
        (In, &["b", "a"], Some(""), false),
        (In, &[""], Some(""), true),
        (In, &["a"], None, false),
        (In, &[""], None, false),
        (In, &[], Some("a"), false),
        (NotIn, &["b", "a"], Some("a"), false),
        (NotIn, &["b", "a"], Some("c"), true),
        (NotIn, &["b", "a"], None, true),
        (NotIn, &[], Some("a"), true),
        (Exists, &[], Some(""), true),
        (Exists, &[], Some("a"), true),
        (Exists, &[], None, false),
        (DoesNotExist, &[], None, true),
        (DoesNotExist, &[], Some(""), false),
        (Gt, &["5"], Some("6"), true),
        (Gt, &["5"], Some("5"), false),
        (Gt, &["-5"], Some("-4"), true),
        (Gt, &["5"], None, false),
        (Lt, &["5"], Some("4"), true),
        (Lt, &["5"], Some("5"), false),
        (Lt, &["5"], Some("-9223372036854775808"), true),
        (Lt, &["5"], None, false),
    ] {
        let requirement = requirement("key", operator, values);
        assert_eq!(requirement.accepts(value), accepted, "{requirement:?} {value:?}");
    }
}

/// As Go's `strconv.ParseInt` with base 10 and 64 bits, by which upstream reads them.
#[test]
fn numbers_are_decimal_integers_of_64_bits_and_nothing_else_compares() {
    for (text, number) in [
        ("0", Some(0)),
        ("-0", Some(0)),
        ("+7", Some(7)),
        ("007", Some(7)),
        ("9223372036854775807", Some(i64::MAX)),
        ("9223372036854775808", None),
        ("-9223372036854775808", Some(i64::MIN)),
        ("-9223372036854775809", None),
        ("", None),
        ("-", None),
        (" 1", None),
        ("1 ", None),
        ("1.0", None),
        ("1e3", None),
        ("0x10", None),
        ("1_000", None),
        ("١", None),
        ("one", None),
    ] {
        for bound in [-1_i64, 0, 7, 100] {
            let (written, bound_text) = (number, bound.to_string());
            let more = requirement("key", Operator::Gt, &[&bound_text]);
            let less = requirement("key", Operator::Lt, &[&bound_text]);
            assert_eq!(more.accepts(Some(text)), written.is_some_and(|n| n > bound), "{text:?}");
            assert_eq!(less.accepts(Some(text)), written.is_some_and(|n| n < bound), "{text:?}");
        }
        // The bound is read in the same way.
        let bounded = requirement("key", Operator::Gt, &[text]);
        assert_eq!(bounded.accepts(Some("8")), number.is_some_and(|n| 8 > n), "{text:?}");
    }
    let without_bound = requirement("key", Operator::Gt, &[]);
    assert!(!without_bound.accepts(Some("8")));
}

#[test]
fn all_requirements_must_hold_and_none_matches_everything() {
    let both = selector(&[("app", "web"), ("tier", "front")]);
    for (pairs, matches) in [
        (&[("app", "web"), ("tier", "front"), ("x", "y")][..], true),
        (&[("app", "web")], false),
        (&[("app", "web"), ("tier", "back")], false),
        (&[], false),
    ] {
        assert_eq!(both.matches(&labels(pairs)), matches, "{pairs:?}");
        assert!(Selector::default().matches(&labels(pairs)));
    }
    assert!(Selector::default().is_empty() && !both.is_empty());
}

#[test]
fn a_node_term_needs_a_condition_and_all_of_its_conditions() {
    let zone = requirement("zone", Operator::In, &["a"]);
    let name = requirement("metadata.name", Operator::In, &["n1"]);
    let not_name = requirement("metadata.name", Operator::NotIn, &["n1"]);
    let term = |expressions: &[&Requirement], fields: &[&Requirement]| NodeTerm {
        expressions: expressions.iter().copied().cloned().collect(),
        fields: fields.iter().copied().cloned().collect(),
        malformed: false,
    };
    let in_zone = labels(&[("zone", "a")]);
    for (case, term, node, labels, matches) in [
        ("no condition", term(&[], &[]), "n1", &in_zone, false),
        ("label", term(&[&zone], &[]), "n1", &in_zone, true),
        ("label of no node", term(&[&zone], &[]), "n1", &Labels::default(), false),
        ("name", term(&[], &[&name]), "n1", &Labels::default(), true),
        ("other name", term(&[], &[&name]), "n2", &in_zone, false),
        ("not the name", term(&[], &[&not_name]), "n2", &in_zone, true),
        ("label and name", term(&[&zone], &[&name]), "n1", &in_zone, true),
        ("label and other name", term(&[&zone], &[&name]), "n2", &in_zone, false),
    ] {
        assert_eq!(term.matches(node, labels), matches, "{case}");
        let malformed = NodeTerm { malformed: true, ..term };
        assert!(!malformed.matches(node, labels), "{case}, malformed");
    }
}

proptest! {
    #[test]
    fn opposite_operators_have_opposite_answers(
        values in prop::collection::btree_set("[ab]{0,2}", 0..4),
        value in prop::option::of("[ab]{0,2}"),
    ) {
        let values: Vec<&str> = values.iter().map(|value| &**value).collect();
        let accepts = |operator| requirement("key", operator, &values).accepts(value.as_deref());
        prop_assert_ne!(accepts(Operator::In), accepts(Operator::NotIn));
        prop_assert_ne!(accepts(Operator::Exists), accepts(Operator::DoesNotExist));
        let listed = value.as_deref().is_some_and(|value| values.contains(&value));
        prop_assert_eq!(accepts(Operator::In), listed);
    }

    #[test]
    fn greater_and_less_follow_the_numbers(label: i64, bound: i64, near in -2_i64..3) {
        for label in [label, bound.saturating_add(near)] {
            let (text, bound_text) = (label.to_string(), bound.to_string());
            let accepts =
                |operator| requirement("key", operator, &[&bound_text]).accepts(Some(&text));
            prop_assert_eq!(accepts(Operator::Gt), label > bound);
            prop_assert_eq!(accepts(Operator::Lt), label < bound);
        }
    }
}
