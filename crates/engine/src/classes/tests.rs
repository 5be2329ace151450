//! Tests of the classes in use and of their evaluations.

use super::*;
use crate::cycle::testing::{Stub, nodes, profile};
use crate::framework::{KeyPart, Plugin, Point, PreFilterResult};
use crate::object::{ClusterObject, Namespace, Pod};
use crate::testing::{self, labels};

/// A filter that depends on the label `app` and on the labels of the namespace, of all that is not in the spec.
struct ByApp;

impl Plugin for ByApp {
    fn name(&self) -> &'static str {
        "ByApp"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Filter]
    }

    fn evaluation_key(&self, class: &Class, state: &State) -> KeyPart {
        let team = state.namespace_labels(&class.namespace).get("team").map_or(0, str::len);
        let app = class.labels.get("app").map_or(0, str::len);
        KeyPart::Fields(vec![app as u32, team as u32])
    }
}

fn pod(name: &str, app: &str, other: &str) -> Pod {
    Pod { labels: labels(&[("app", app), ("other", other)]), ..testing::pod(name) }
}

/// Classes of pods named after their numbers.
struct Bench {
    classes: Classes,
    state: State,
    profile: Profile,
}

impl Bench {
    fn new(pods: impl IntoIterator<Item = Pod>) -> Self {
        let state = testing::state(nodes(2), pods);
        Self { classes: Classes::default(), state, profile: testing::profile(Box::new(ByApp)) }
    }

    fn acquire(&mut self, name: &str) -> ClassIdx {
        let pod = self.state.find_pod("default", name).unwrap();
        self.classes.acquire(&mut self.state, pod, 0)
    }

    fn representative(&mut self, class: ClassIdx) -> ClassIdx {
        self.classes.representative(&self.state, &self.profile, class)
    }

    fn evaluate(&mut self, class: ClassIdx) -> Box<Evaluation> {
        let shared = self.classes.class(class).clone();
        Box::new(Evaluation::new(&self.profile, shared, &mut self.state))
    }

    fn all(&self) -> Vec<ClassIdx> {
        let mut all = Vec::new();
        while let Some(next) =
            self.classes.next_from(all.last().map_or(0, |last: &ClassIdx| last.at() + 1))
        {
            all.push(next);
        }
        all
    }
}

#[test]
fn pods_alike_share_a_class_that_goes_with_the_last_of_them() {
    let mut bench = Bench::new([pod("a", "x", "1"), pod("b", "x", "1"), pod("c", "x", "2")]);
    let class = bench.acquire("a");
    assert_eq!(bench.acquire("b"), class);
    let other = bench.acquire("c");
    assert_ne!(other, class);
    let a = bench.state.find_pod("default", "a").unwrap();
    assert_ne!(bench.classes.acquire(&mut bench.state, a, 1), class, "of another profile");
    assert_eq!(bench.classes.profile(class), 0);
    assert_eq!(bench.classes.class(class).labels, labels(&[("app", "x"), ("other", "1")]));
    assert_eq!(bench.all().len(), 3);
    bench.classes.release(&mut bench.state, class);
    assert_eq!(bench.all().len(), 3);
    bench.classes.release(&mut bench.state, class);
    assert_eq!(bench.all().len(), 2);
    assert_eq!(bench.acquire("b"), class, "the slot is used again");
}

#[test]
fn a_pod_with_claims_of_its_own_has_a_class_of_its_own() {
    let with_claim = |name: &str| {
        let mut pod = pod(name, "x", "1");
        pod.spec_mut().volumes = [Volume::Ephemeral { claim: "c".into() }].into();
        pod
    };
    let mut bench = Bench::new([with_claim("a"), with_claim("b")]);
    let (a, b) = (bench.acquire("a"), bench.acquire("b"));
    assert_ne!(a, b);
    assert_eq!((bench.representative(a), bench.representative(b)), (a, b));
    // Another pod may get the index of this one: its evaluation is not kept.
    let evaluation = bench.evaluate(a);
    bench.classes.keep_evaluation(&mut bench.state, a, evaluation);
    bench.classes.release(&mut bench.state, a);
    assert_eq!((bench.all(), bench.classes.evaluations), (vec![b], 0));
}

#[test]
fn a_class_without_pods_stays_as_long_as_its_evaluation() {
    let mut bench = Bench::new([pod("a", "x", "1")]);
    let class = bench.acquire("a");
    let evaluation = bench.evaluate(class);
    bench.classes.keep_evaluation(&mut bench.state, class, evaluation);
    let pod_index = bench.state.find_pod("default", "a").unwrap();
    bench.classes.release(&mut bench.state, class);
    bench.state.remove_pod(pod_index);
    assert_eq!(bench.all(), [class]);
    bench.state.add_pod(pod("again", "x", "1"));
    assert_eq!(bench.acquire("again"), class);
    assert!(bench.classes.take_evaluation(class).is_some());
    assert!(bench.classes.take_evaluation(class).is_none());
    let evaluation = bench.evaluate(class);
    bench.classes.put_back(class, evaluation);
    bench.classes.release(&mut bench.state, class);
    bench.classes.drop_evaluation(&mut bench.state, class);
    assert_eq!((bench.all(), bench.classes.evaluations), (vec![], 0));
}

#[test]
fn classes_with_equal_evaluation_keys_share_the_evaluation_of_the_first() {
    let mut bench = Bench::new([pod("a", "x", "1"), pod("b", "y", "2"), pod("c", "long", "3")]);
    let [a, b, c] = ["a", "b", "c"].map(|name| bench.acquire(name));
    let mut representatives = || [a, b, c].map(|class| bench.representative(class));
    assert_eq!(representatives(), [a, a, c]);
    // Once the first is gone, the next one stands for the key.
    bench.classes.release(&mut bench.state, a);
    assert_eq!([b, c].map(|class| bench.representative(class)), [b, c]);
}

#[test]
fn classes_part_and_meet_as_what_they_depend_on_changes() {
    let elsewhere = Pod { namespace: "other".into(), uid: "o".into(), ..pod("b", "x", "1") };
    let mut bench = Bench::new([pod("a", "x", "1"), elsewhere]);
    let a = bench.acquire("a");
    let other = bench.state.find_pod("other", "b").unwrap();
    let b = bench.classes.acquire(&mut bench.state, other, 0);
    let namespace = |name: &str, team: &str| {
        let namespace = Namespace { name: name.into(), labels: labels(&[("team", team)]) };
        ClusterObject::Namespace(namespace.into())
    };
    assert_eq!((bench.representative(a), bench.representative(b)), (a, a));
    bench.state.set_object(namespace("default", "red"));
    assert_eq!((bench.representative(b), bench.representative(a)), (b, a));
    bench.state.set_object(namespace("other", "any"));
    let shared = bench.representative(b);
    assert_eq!(bench.representative(a), shared);
}

#[test]
fn a_class_whose_plugins_depend_on_everything_shares_no_evaluation() {
    let mut bench = Bench::new([pod("a", "x", "1"), pod("b", "x", "2")]);
    bench.profile = profile([Stub::filter("Whole", |_, _| PreFilterResult::Skip)]);
    let (a, b) = (bench.acquire("a"), bench.acquire("b"));
    assert_eq!((bench.representative(a), bench.representative(b)), (a, b));
}

#[test]
fn the_evaluation_of_a_single_pod_is_kept_once_the_like_was_seen() {
    let mut bench = Bench::new([pod("a", "x", "1"), pod("b", "x", "2"), pod("c", "x", "2")]);
    let a = bench.acquire("a");
    for kept in [false, true] {
        let evaluation = bench.evaluate(a);
        bench.classes.keep_if_recurring(&mut bench.state, a, evaluation);
        assert_eq!(bench.classes.take_evaluation(a).is_some(), kept);
    }
    let b = bench.acquire("b");
    bench.acquire("c");
    let evaluation = bench.evaluate(b);
    bench.classes.keep_if_recurring(&mut bench.state, b, evaluation);
    assert!(bench.classes.take_evaluation(b).is_some(), "there is a second pod");
}

#[test]
fn of_too_many_evaluations_those_not_used_for_longest_are_dropped() {
    let most = EVALUATIONS_MAX + EVALUATIONS_DROP_BATCH;
    let name = |number: usize| format!("p{number}");
    let mut bench = Bench::new((0..=most).map(|number| pod(&name(number), "x", &name(number))));
    let classes: Vec<ClassIdx> = (0..=most).map(|number| bench.acquire(&name(number))).collect();
    let keep = |bench: &mut Bench, class| {
        let evaluation = bench.evaluate(class);
        bench.classes.keep_evaluation(&mut bench.state, class, evaluation);
    };
    for class in &classes[..most] {
        keep(&mut bench, *class);
    }
    // The first is used again, and the last one is one too many.
    let first = bench.classes.take_evaluation(classes[0]).unwrap();
    bench.classes.keep_evaluation(&mut bench.state, classes[0], first);
    keep(&mut bench, classes[most]);
    assert_eq!(bench.classes.evaluations, EVALUATIONS_MAX + 1);
    let dropped: Vec<usize> = (0..=most)
        .filter(|number| bench.classes.take_evaluation(classes[*number]).is_none())
        .collect();
    assert_eq!(dropped, (1..=EVALUATIONS_DROP_BATCH).collect::<Vec<_>>());
    assert_eq!(bench.all().len(), most + 1, "classes with pods stay");
}
