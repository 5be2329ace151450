//! Tests of NodeAffinity.

use super::nodes::allowed_nodes;
use super::*;

use api::config::args;
use engine::object::{NodeAffinity as Affinity, Operator, Requirement};
use engine::testing::{class, labels, node, node_event, scores, state, verdicts};
use proptest::prelude::*;

const NOT_ALLOWED: &str =
    "UnschedulableAndUnresolvable node(s) didn't match Pod's node affinity/selector";
const NOT_ENFORCED: &str =
    "UnschedulableAndUnresolvable node(s) didn't match scheduler-enforced node affinity";

fn labelled(name: &str, pairs: &[(&str, &str)]) -> Node {
    Node { labels: labels(pairs), ..node(name) }
}

fn requires(key: &str, operator: Operator, values: &[&str]) -> Requirement {
    let values = values.iter().map(|value| (*value).into()).collect();
    Requirement { key: key.into(), operator, values }
}

fn term(expressions: &[Requirement]) -> NodeTerm {
    NodeTerm { expressions: expressions.into(), fields: [].into(), malformed: false }
}

fn named(names: &[&str]) -> NodeTerm {
    let field = |name: &&str| requires("metadata.name", Operator::In, &[name]);
    NodeTerm { fields: names.iter().map(field).collect(), ..term(&[]) }
}

fn malformed() -> NodeTerm {
    NodeTerm { malformed: true, ..term(&[requires("size", Operator::Gt, &["word"])]) }
}

fn requiring(terms: &[NodeTerm]) -> PodSpec {
    let node_affinity = Affinity { required: Some(terms.into()), preferred: None };
    PodSpec { node_affinity, ..PodSpec::default() }
}

fn preferring(terms: &[(i32, NodeTerm)]) -> PodSpec {
    let node_affinity = Affinity { required: None, preferred: Some(terms.into()) };
    PodSpec { node_affinity, ..PodSpec::default() }
}

fn selecting(pairs: &[(&str, &str)]) -> PodSpec {
    PodSpec { node_selector: Some(labels(pairs)), ..PodSpec::default() }
}

/// Returns a plugin whose configuration requires or prefers that a label exists.
fn with_added(required: Option<&str>, preferred: Option<(i32, &str)>) -> Box<dyn Plugin> {
    let exists = |key: &str| args::NodeSelectorTerm {
        match_expressions: vec![args::NodeSelectorRequirement {
            key: key.into(),
            operator: args::Operator::Exists,
            values: Vec::new(),
        }],
        match_fields: Vec::new(),
    };
    let required =
        required.map(|key| args::NodeSelector { node_selector_terms: vec![exists(key)] });
    let preferred = preferred
        .map(|(weight, key)| args::PreferredSchedulingTerm { weight, preference: exists(key) });
    let added_affinity =
        Some(args::NodeAffinity { required, preferred: preferred.into_iter().collect() });
    build(Some(&PluginArgs::NodeAffinity(args::NodeAffinityArgs { added_affinity })))
}

fn verdict(spec: &PodSpec, node: Node) -> String {
    let name = node.name.clone();
    let found = verdicts(build(None), class(spec.clone()), &mut state([node], []));
    found[0].strip_prefix(&format!("{name}: ")).unwrap_or(&found[0]).to_owned()
}

#[test]
fn every_label_of_the_node_selector_must_match() {
    let node = || labelled("a", &[("disk", "ssd"), ("zone", "z")]);
    for (pairs, expected) in [
        (&[][..], "ok"),
        (&[("disk", "ssd")], "ok"),
        (&[("disk", "ssd"), ("zone", "z")], "ok"),
        (&[("disk", "hdd")], NOT_ALLOWED),
        (&[("disk", "ssd"), ("gpu", "")], NOT_ALLOWED),
    ] {
        assert_eq!(verdict(&selecting(pairs), node()), expected, "{pairs:?}");
    }
}

#[test]
fn operators_compare_as_in_kubernetes() {
    use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    let node = || labelled("a", &[("disk", "ssd"), ("size", "10"), ("word", "ten")]);
    for (requirement, matches) in [
        (requires("disk", In, &["hdd", "ssd"]), true),
        (requires("disk", In, &["hdd"]), false),
        (requires("gpu", In, &["hdd"]), false),
        (requires("disk", NotIn, &["hdd"]), true),
        (requires("disk", NotIn, &["ssd"]), false),
        (requires("gpu", NotIn, &["ssd"]), true),
        (requires("disk", Exists, &[]), true),
        (requires("gpu", Exists, &[]), false),
        (requires("disk", DoesNotExist, &[]), false),
        (requires("gpu", DoesNotExist, &[]), true),
        (requires("size", Gt, &["9"]), true),
        (requires("size", Gt, &["10"]), false),
        (requires("size", Lt, &["11"]), true),
        (requires("size", Lt, &["10"]), false),
        (requires("word", Gt, &["0"]), false),
        (requires("gpu", Lt, &["1"]), false),
    ] {
        let expected = if matches { "ok" } else { NOT_ALLOWED };
        let spec = requiring(&[term(std::slice::from_ref(&requirement))]);
        assert_eq!(verdict(&spec, node()), expected, "{requirement:?}");
    }
}

#[test]
fn one_term_must_match_with_all_its_requirements() {
    use Operator::{Exists, In};
    let node = || labelled("a", &[("disk", "ssd"), ("zone", "z")]);
    let ssd = || requires("disk", In, &["ssd"]);
    let gpu = || requires("gpu", Exists, &[]);
    let elsewhere = || NodeTerm { expressions: [ssd()].into(), ..named(&["b"]) };
    let not_here = NodeTerm {
        fields: [requires("metadata.name", Operator::NotIn, &["a"])].into(),
        ..term(&[ssd()])
    };
    for (terms, expected) in [
        (vec![term(&[ssd()]), term(&[gpu()])], "ok"),
        (vec![term(&[gpu()]), term(&[ssd()])], "ok"),
        (vec![term(&[ssd(), gpu()])], NOT_ALLOWED),
        (vec![], NOT_ALLOWED),
        (vec![term(&[])], NOT_ALLOWED),
        (vec![term(&[]), term(&[ssd()])], "ok"),
        (vec![malformed()], NOT_ALLOWED),
        (vec![malformed(), term(&[ssd()])], "ok"),
        (vec![not_here], NOT_ALLOWED),
        (vec![elsewhere(), term(&[gpu()])], NOT_ALLOWED),
        (vec![elsewhere(), term(&[ssd()])], "ok"),
        (vec![elsewhere()], "narrowed"),
    ] {
        assert_eq!(verdict(&requiring(&terms), node()), expected, "{terms:?}");
    }
}

#[test]
fn selector_and_affinity_must_both_match() {
    let node = || labelled("a", &[("disk", "ssd")]);
    let ssd = || term(&[requires("disk", Operator::In, &["ssd"])]);
    let mut spec = requiring(&[ssd()]);
    spec.node_selector = Some(labels(&[("gpu", "yes")]));
    assert_eq!(verdict(&spec, node()), NOT_ALLOWED);
    spec.node_selector = Some(labels(&[]));
    assert_eq!(verdict(&spec, node()), "ok");
}

#[test]
fn terms_by_node_name_narrow_the_nodes() {
    let conflict = "UnschedulableAndUnresolvable: pod affinity terms conflict";
    let gpu = requires("gpu", Operator::Exists, &[]);
    let not_named = NodeTerm {
        fields: [requires("metadata.name", Operator::NotIn, &["a"])].into(),
        ..term(&[])
    };
    let not_allowed = format!("a: {NOT_ALLOWED}");
    for (terms, expected) in [
        (vec![named(&["a"])], vec!["a: ok", "b: narrowed", "c: narrowed"]),
        (vec![named(&["a"]), named(&["c"])], vec!["a: ok", "b: narrowed", "c: ok"]),
        (vec![named(&["a"]), named(&["a", "b"])], vec!["a: ok", "b: narrowed", "c: narrowed"]),
        (vec![named(&["nowhere"])], vec!["a: narrowed", "b: narrowed", "c: narrowed"]),
        (vec![named(&["a", "b"])], vec![conflict]),
        (vec![not_named], vec![&not_allowed, "b: ok", "c: ok"]),
        (
            vec![NodeTerm { expressions: [gpu].into(), ..named(&["a"]) }],
            vec![&not_allowed, "b: narrowed", "c: narrowed"],
        ),
    ] {
        let mut state = state(["a", "b", "c"].map(node), []);
        let found = verdicts(build(None), class(requiring(&terms)), &mut state);
        assert_eq!(found, expected, "{terms:?}");
    }
}

#[test]
fn the_configuration_may_require_more() {
    let nodes = [
        labelled("both", &[("ours", ""), ("disk", "ssd")]),
        labelled("ours", &[("ours", "")]),
        labelled("theirs", &[("disk", "ssd")]),
        labelled("neither", &[]),
    ];
    let verdicts_for =
        |spec| verdicts(with_added(Some("ours"), None), class(spec), &mut state(nodes.clone(), []));
    let enforced = |name: &str| format!("{name}: {NOT_ENFORCED}");
    assert_eq!(
        verdicts_for(PodSpec::default()),
        ["both: ok".into(), "ours: ok".into(), enforced("theirs"), enforced("neither")]
    );
    let not_allowed = format!("ours: {NOT_ALLOWED}");
    assert_eq!(
        verdicts_for(selecting(&[("disk", "ssd")])),
        ["both: ok".into(), not_allowed, enforced("theirs"), enforced("neither")]
    );
}

#[test]
fn weights_of_matching_preferences_add_up() {
    let exists = |key| term(&[requires(key, Operator::Exists, &[])]);
    let nodes = [
        labelled("none", &[]),
        labelled("x", &[("x", "")]),
        labelled("y", &[("y", "")]),
        labelled("xy", &[("x", ""), ("y", "")]),
    ];
    let score = |plugin: Box<dyn Plugin>, spec| {
        scores(&*plugin, &class(spec), &mut state(nodes.clone(), []))
    };
    let expected = |scores: [i64; 4]| {
        let names = ["none", "x", "y", "xy"].iter().zip(scores);
        Some(names.map(|(name, score)| format!("{name}: {score}")).collect::<Vec<_>>())
    };
    for (terms, scores) in [
        (vec![(1, exists("x")), (2, exists("y"))], [0, 33, 66, 100]),
        (vec![(1, exists("x")), (0, exists("y"))], [0, 100, 0, 100]),
        (vec![(1, exists("x")), (9, term(&[]))], [0, 100, 0, 100]),
        (vec![(1, named(&["y"]))], [0, 0, 100, 0]),
        (vec![(1, exists("z"))], [0; 4]),
        (vec![(7, term(&[requires("z", Operator::DoesNotExist, &[])]))], [100; 4]),
        (vec![], [0; 4]),
    ] {
        let found = score(build(None), preferring(&terms));
        assert_eq!(found, expected(scores), "{terms:?}");
    }
    assert_eq!(score(build(None), PodSpec::default()), None);
    assert_eq!(score(with_added(Some("x"), None), PodSpec::default()), None);
    let added = || with_added(None, Some((3, "x")));
    assert_eq!(score(added(), PodSpec::default()), expected([0, 100, 0, 100]));
    assert_eq!(score(added(), preferring(&[(1, exists("y"))])), expected([0, 75, 25, 100]));
}

#[test]
fn malformed_preferences_are_an_error() {
    let failure = |terms: &[(i32, NodeTerm)]| {
        let mut state = state([node("a")], []);
        let plugin = build(None);
        let mut preparation = Preparation::new(&mut state);
        let scorer = plugin.prepare_score(&class(preferring(terms)), &mut preparation);
        scorer.and_then(|scorer| scorer.failure())
    };
    let text = |index| {
        format!(
            "[{index}].matchExpressions[0].values[0]: Invalid value: \"word\": \
             for 'Gt', 'Lt' operators, the value must be an integer"
        )
    };
    assert_eq!(failure(&[(0, malformed()), (1, named(&["a"]))]), None);
    assert_eq!(failure(&[(1, named(&["a"])), (1, malformed())]), Some(text(1).into()));
    let both = format!("[{}, {}]", text(0), text(1));
    assert_eq!(failure(&[(1, malformed()), (1, malformed())]), Some(both.into()));
}

#[test]
fn a_node_that_begins_to_match_helps() {
    let ssd = term(&[requires("disk", Operator::In, &["ssd"])]);
    let (bare, fitting) = (labelled("a", &[]), labelled("a", &[("disk", "ssd")]));
    let other = labelled("a", &[("disk", "ssd"), ("zone", "z")]);
    let state = state([], []);
    for (terms, old, new, expected) in [
        (vec![ssd.clone()], None, &fitting, true),
        (vec![ssd.clone()], None, &bare, false),
        (vec![ssd.clone()], Some(&bare), &fitting, true),
        (vec![ssd.clone()], Some(&fitting), &other, false),
        (vec![ssd.clone()], Some(&fitting), &bare, false),
        (vec![malformed()], Some(&bare), &bare, true),
        (vec![malformed(), ssd.clone()], Some(&fitting), &other, false),
    ] {
        let event = node_event(Action::UPDATE_NODE_LABEL, old, new);
        let found = build(None).hint(&state, &class(requiring(&terms)), &event);
        assert_eq!(found, expected, "{terms:?} {old:?} {new:?}");
    }
}

#[test]
fn a_node_that_begins_to_match_the_added_affinity_helps() {
    let (bare, ours) = (labelled("a", &[]), labelled("a", &[("ours", "")]));
    let state = state([], []);
    let plugin = with_added(Some("ours"), None);
    for (old, new, expected) in [
        (None, &bare, false),
        (None, &ours, true),
        (Some(&bare), &ours, true),
        (Some(&ours), &ours, false),
        (Some(&ours), &bare, false),
    ] {
        let event = node_event(Action::UPDATE_NODE_LABEL, old, new);
        assert_eq!(plugin.hint(&state, &class(PodSpec::default()), &event), expected);
    }
}

fn any_requirement() -> impl Strategy<Value = Requirement> {
    use Operator::{DoesNotExist, Exists, Gt, In, Lt, NotIn};
    let operator = prop::sample::select(vec![In, NotIn, Exists, DoesNotExist, Gt, Lt]);
    let values = prop::collection::btree_set(0u8..4, 1..3);
    (0..3, operator, values).prop_map(|(key, operator, values)| Requirement {
        key: format!("k{key}").into(),
        operator,
        values: values.into_iter().map(|value| value.to_string().into()).collect(),
    })
}

fn any_term() -> impl Strategy<Value = NodeTerm> {
    let field = (prop::bool::ANY, 0..25).prop_map(|(listed, name)| {
        let operator = if listed { Operator::In } else { Operator::NotIn };
        requires("metadata.name", operator, &[&format!("n{name}")])
    });
    let expressions = prop::collection::vec(any_requirement(), 0..3);
    let fields = prop::collection::vec(field, 0..2);
    (expressions, fields, prop::bool::weighted(0.1)).prop_map(|(expressions, fields, malformed)| {
        NodeTerm { expressions: expressions.into(), fields: fields.into(), malformed }
    })
}

proptest! {
    #[test]
    fn label_columns_agree_with_matching_each_node(
        values in prop::collection::vec(prop::array::uniform3(0u8..6), 1..25),
        selector in prop::option::of((0u8..3, 0u8..4)),
        terms in prop::option::of(prop::collection::vec(any_term(), 0..3)),
    ) {
        let nodes = values.iter().enumerate().map(|(index, values)| {
            // The value 5 means that the label is absent.
            let pairs = values.iter().enumerate().filter(|(_, value)| **value < 5);
            let labels = pairs.map(|(key, value)| (format!("k{key}"), value.to_string())).collect();
            Node { labels, ..node(&format!("n{index}")) }
        });
        let mut state = state(nodes, []);
        let selector = selector
            .map(|(key, value)| [(format!("k{key}"), value.to_string())].into_iter().collect());
        let mut spec = PodSpec { node_selector: selector, ..PodSpec::default() };
        spec.node_affinity.required = terms.map(Into::into);
        let allowed = allowed_nodes(&mut state, &spec);
        let required = RequiredNodeAffinity::new(&spec);
        for node in state.nodes.order() {
            let expected = required.matches(state.nodes.object(*node));
            let found = allowed.as_ref().is_none_or(|nodes| nodes.contains(*node));
            prop_assert_eq!(found, expected, "{}", state.nodes.name(*node));
        }
    }
}
