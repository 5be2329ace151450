//! Tests of the affinity terms in use.

use super::*;
use crate::object::Selector;
use crate::testing::{labels, pod_term, selector};

fn add(terms: &mut Terms, kind: TermKind, term: &PodTerm, spec: u32) -> TermIdx {
    let index = terms.intern(kind, term);
    terms.add_carrier(index, SpecIdx(spec));
    index
}

#[test]
fn terms_of_different_kind_or_weight_are_different() {
    let mut terms = Terms::default();
    let term = pod_term("zone", &[("app", "web")]);
    let kinds = [
        TermKind::Required,
        TermKind::RequiredAnti,
        TermKind::Preferred(1),
        TermKind::Preferred(2),
        TermKind::PreferredAnti(1),
    ];
    let indexes = kinds.map(|kind| add(&mut terms, kind, &term, 0));
    for (kind, index) in kinds.into_iter().zip(indexes) {
        assert_eq!(terms.intern(kind, &term), index);
        assert_eq!((terms.get(index).kind, &terms.get(index).term), (kind, &term));
    }
    assert_eq!(terms.version(), 5, "known terms leave the version as it is");
    let other_key = pod_term("host", &[("app", "web")]);
    assert!(!indexes.contains(&add(&mut terms, TermKind::Required, &other_key, 0)));
}

#[test]
fn a_term_goes_with_the_last_spec_that_carries_it() {
    let mut terms = Terms::default();
    let term = pod_term("zone", &[("app", "web")]);
    let index = add(&mut terms, TermKind::Required, &term, 1);
    // One spec may carry a term twice and counts twice.
    add(&mut terms, TermKind::Required, &term, 1);
    add(&mut terms, TermKind::Required, &term, 2);
    terms.get_mut(index).tally = Some(TallyIdx(9));
    let version = terms.version();
    assert_eq!(terms.remove_carrier(index, SpecIdx(1)), None);
    assert_eq!(terms.remove_carrier(index, SpecIdx(1)), None);
    assert_eq!((terms.version(), terms.get(index).specs.len()), (version, 1));
    assert_eq!(terms.remove_carrier(index, SpecIdx(2)), Some(TallyIdx(9)));
    assert_eq!(terms.version(), version + 1);
    let web = labels(&[("app", "web")]);
    assert_eq!(terms.matching("default", &web, &Labels::default()), []);
    let other = pod_term("zone", &[("app", "db")]);
    assert_eq!(add(&mut terms, TermKind::Required, &other, 3), index, "the slot is used again");
    assert_eq!(terms.get(index).tally, None);
}

#[test]
fn a_term_matches_pods_of_its_namespaces_or_of_those_it_selects() {
    let (web, team) = (labels(&[("app", "web")]), labels(&[("team", "a")]));
    let term = |namespaces: &[&str], namespace_selector| PodTerm {
        namespaces: namespaces.iter().map(|name| (*name).into()).collect(),
        namespace_selector,
        ..pod_term("zone", &[("app", "web")])
    };
    let of_team = || Some(selector(&[("team", "a")]));
    let no_selector = PodTerm { selector: None, ..term(&["default"], None) };
    for (case, term, matches) in [
        ("listed", term(&["default"], None), true),
        ("listed among others", term(&["a", "default"], None), true),
        ("not listed", term(&["a"], None), false),
        ("neither list nor selector", term(&[], None), false),
        ("selected", term(&[], of_team()), true),
        ("every namespace is selected", term(&[], Some(Selector::default())), true),
        ("listed, not selected", term(&["default"], Some(selector(&[("team", "b")]))), true),
        ("neither", term(&["a"], Some(selector(&[("team", "b")]))), false),
        ("no selector of pods", no_selector, false),
    ] {
        let mut terms = Terms::default();
        let index = add(&mut terms, TermKind::RequiredAnti, &term, 0);
        let expected = if matches { vec![index] } else { Vec::new() };
        assert_eq!(terms.matching("default", &web, &team), expected, "{case}");
        let db = labels(&[("app", "db")]);
        assert_eq!(terms.matching("default", &db, &team), [], "{case}");
    }
}

#[test]
fn matching_terms_come_in_the_order_of_their_indexes() {
    let mut terms = Terms::default();
    let every_pod = PodTerm { selector: Some(Selector::default()), ..pod_term("zone", &[]) };
    let of_web = pod_term("zone", &[("app", "web")]);
    let of_tier = pod_term("zone", &[("tier", "front")]);
    let indexes =
        [&of_web, &every_pod, &of_tier].map(|term| add(&mut terms, TermKind::Required, term, 0));
    let both = labels(&[("app", "web"), ("tier", "front")]);
    assert_eq!(terms.matching("default", &both, &Labels::default()), indexes);
    assert_eq!(terms.matching("other", &both, &Labels::default()), []);
}
