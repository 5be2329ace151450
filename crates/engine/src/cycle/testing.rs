//! Plugins made of functions, for the tests of the cycle.

use crate::bitset::NodeSet;
use crate::framework::scorer::{EXCLUDED, ScoreBuckets, proportional_reversed};
use crate::framework::{
    Class, Code, Extremes, Filter, Freshness, NodeVerdict, Plugin, Point, PostFilterOutcome,
    PreFilterResult, Preparation, Profile, Rejection, ScoreChanges, Scorer,
};
use crate::index::{DomainIdx, NodeIdx, PodIdx};
use crate::object::{Labels, Node, Pod, PodSpec};
use crate::state::State;
use crate::state::domains::DomainSums;
use crate::state::tallies::{Matcher, NamespaceScope, TallySource};
use crate::testing::{self, labels, selector};

use super::what_if::PostFilter;

type PrepareFilter = Box<dyn Fn(&Class, &mut Preparation) -> PreFilterResult + Send + Sync>;
type PrepareScore = Box<dyn Fn(&Class, &mut Preparation) -> Option<Box<dyn Scorer>> + Send + Sync>;
type RunPostFilter = Box<dyn Fn(&mut PostFilter) -> PostFilterOutcome + Send + Sync>;

/// A plugin that does what its functions do.
pub(crate) struct Stub {
    name: &'static str,
    points: &'static [Point],
    weight: i64,
    prepare_filter: Option<PrepareFilter>,
    prepare_score: Option<PrepareScore>,
    post_filter: Option<RunPostFilter>,
    /// What goes wrong without PreFilter or PreScore.
    without_pre: Option<&'static str>,
}

impl Stub {
    fn new(name: &'static str, points: &'static [Point]) -> Self {
        Self {
            name,
            points,
            weight: 1,
            prepare_filter: None,
            prepare_score: None,
            post_filter: None,
            without_pre: None,
        }
    }

    /// A plugin at PreFilter and Filter.
    pub(crate) fn filter(
        name: &'static str,
        prepare: impl Fn(&Class, &mut Preparation) -> PreFilterResult + Send + Sync + 'static,
    ) -> Self {
        let prepare_filter: Option<PrepareFilter> = Some(Box::new(prepare));
        Self { prepare_filter, ..Self::new(name, &[Point::PreFilter, Point::Filter]) }
    }

    /// A plugin at PreFilter and Filter that judges nodes by a function.
    pub(crate) fn judge(
        name: &'static str,
        judge: impl Fn(&State, NodeIdx) -> u32 + Copy + Send + Sync + 'static,
        rejections: &[Rejection],
    ) -> Self {
        let rejections = rejections.to_vec();
        Self::filter(name, move |_, _| {
            let rejections = rejections.clone();
            PreFilterResult::Filter(Box::new(Judge { judge, rejections, varies: false }))
        })
    }

    /// A plugin at PreScore and Score.
    pub(crate) fn scorer(
        name: &'static str,
        prepare: impl Fn(&Class, &mut Preparation) -> Option<Box<dyn Scorer>> + Send + Sync + 'static,
    ) -> Self {
        let prepare_score: Option<PrepareScore> = Some(Box::new(prepare));
        Self { prepare_score, ..Self::new(name, &[Point::PreScore, Point::Score]) }
    }

    /// A plugin that scores nodes by a function.
    pub(crate) fn score_by(name: &'static str, scorer: ByNode) -> Self {
        Self::scorer(name, move |_, _| Some(Box::new(scorer)))
    }

    /// A plugin at PostFilter.
    pub(crate) fn post_filter(
        name: &'static str,
        run: impl Fn(&mut PostFilter) -> PostFilterOutcome + Send + Sync + 'static,
    ) -> Self {
        let post_filter: Option<RunPostFilter> = Some(Box::new(run));
        Self { post_filter, ..Self::new(name, &[Point::PostFilter]) }
    }

    /// The plugin at other extension points.
    pub(crate) fn at(self, points: &'static [Point]) -> Self {
        Self { points, ..self }
    }

    /// The plugin with a weight.
    pub(crate) fn weighing(self, weight: i64) -> Self {
        Self { weight, ..self }
    }

    /// The plugin, unable to do without PreFilter or PreScore.
    pub(crate) fn failing_without_pre(self, text: &'static str) -> Self {
        Self { without_pre: Some(text), ..self }
    }
}

impl Plugin for Stub {
    fn name(&self) -> &str {
        self.name
    }

    fn points(&self) -> &'static [Point] {
        self.points
    }

    fn prepare_filter(&self, class: &Class, preparation: &mut Preparation) -> PreFilterResult {
        self.prepare_filter
            .as_ref()
            .map_or(PreFilterResult::Skip, |prepare| prepare(class, preparation))
    }

    fn filter_without_pre_filter(&self) -> Option<&'static str> {
        self.without_pre
    }

    fn score_without_pre_score(&self) -> Option<&'static str> {
        self.without_pre
    }

    fn prepare_score(
        &self,
        class: &Class,
        preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        self.prepare_score.as_ref().and_then(|prepare| prepare(class, preparation))
    }

    fn post_filter(&self, cycle: &mut PostFilter) -> PostFilterOutcome {
        let nothing =
            || PostFilterOutcome::Unschedulable { reasons: Vec::new(), clear_nomination: false };
        self.post_filter.as_ref().map_or_else(nothing, |run| run(cycle))
    }
}

/// A profile with these plugins in this order at each of their extension points.
pub(crate) fn profile(stubs: impl IntoIterator<Item = Stub>) -> Profile {
    let stubs: Vec<Stub> = stubs.into_iter().collect();
    let all = [
        Point::PreEnqueue,
        Point::PreFilter,
        Point::Filter,
        Point::PostFilter,
        Point::PreScore,
        Point::Score,
    ];
    let at = |point: &Point| -> Vec<usize> {
        let positions = stubs.iter().enumerate().filter(|(_, stub)| stub.points.contains(point));
        positions.map(|(position, _)| position).collect()
    };
    let points = all.iter().map(|point| (*point, at(point))).collect();
    let weights = at(&Point::Score).into_iter().map(|position| stubs[position].weight).collect();
    let plugins = stubs.into_iter().map(|stub| -> Box<dyn Plugin> { Box::new(stub) });
    Profile {
        name: "default-scheduler".into(),
        plugins: plugins.collect(),
        points,
        weights,
        percentage_of_nodes_to_score: None,
        extenders: Vec::new(),
    }
}

/// A filter that reads the node and its pods: the answer is a position in the rejections, plus one.
pub(crate) struct Judge<F> {
    pub(crate) judge: F,
    pub(crate) rejections: Vec<Rejection>,
    /// The name of the node is put after each reason.
    pub(crate) varies: bool,
}

impl<F: Fn(&State, NodeIdx) -> u32 + Send> Filter for Judge<F> {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        NodeVerdict((self.judge)(state, node))
    }

    fn rejection(&self, state: &State, node: NodeIdx, answer: NodeVerdict) -> Rejection {
        let mut rejection = self.rejections[answer.0 as usize - 1].clone();
        if self.varies {
            for reason in &mut rejection.reasons {
                *reason = format!("{reason} {}", state.nodes.name(node)).into();
            }
        }
        rejection
    }

    fn rejection_varies(&self, _answer: NodeVerdict) -> bool {
        self.varies
    }

    fn reads_pods(&self) -> bool {
        true
    }

    fn can_fail(&self) -> bool {
        self.rejections.iter().any(|rejection| rejection.code == Code::Error)
    }
}

/// A filter that allows fewer than this many pods with label `app=web` in each zone.
pub(crate) struct ZoneLimit {
    zones: DomainSums,
    limit: i64,
}

impl ZoneLimit {
    pub(crate) fn plugin(limit: i64) -> Stub {
        Stub::filter("ZoneLimit", move |_, preparation| {
            let zones = web_by_zone(preparation.state);
            PreFilterResult::Filter(Box::new(Self { zones, limit }))
        })
    }

    fn count(&mut self, state: &State, pod: PodIdx, node: NodeIdx, change: i64) {
        if state.labels(pod).get("app") == Some("web") {
            self.zones.add(state, node, change);
        }
    }
}

impl Filter for ZoneLimit {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        let domain = state.topology.column(self.zones.key()).domain(node);
        if !domain.is_some() {
            return NodeVerdict(2);
        }
        NodeVerdict(u32::from(self.zones.sum(domain) >= self.limit))
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, answer: NodeVerdict) -> Rejection {
        match answer.0 {
            1 => Rejection::unschedulable("zone(s) were full"),
            _ => Rejection::unresolvable("node(s) had no zone"),
        }
    }

    fn reads_other_nodes(&self) -> bool {
        true
    }

    fn refresh(&mut self, state: &State, passing: &mut NodeSet) -> Freshness {
        let mut changed = Vec::new();
        if !self.zones.refresh(state, |domain| changed.push(domain)) {
            return Freshness::Stale;
        }
        let mut freshness = Freshness::Same;
        let column = state.topology.column(self.zones.key());
        for domain in changed {
            let passes = self.zones.sum(domain) < self.limit;
            for node in column.nodes(domain) {
                if passing.contains(*node) != passes {
                    passing.set(*node, passes);
                    freshness = Freshness::Changed;
                }
            }
        }
        freshness
    }

    fn add_pod(&mut self, state: &State, pod: PodIdx, node: NodeIdx) {
        self.count(state, pod, node, 1);
    }

    fn remove_pod(&mut self, state: &State, pod: PodIdx, node: NodeIdx) {
        self.count(state, pod, node, -1);
    }
}

/// A scorer that reads the node and its pods.
#[derive(Clone, Copy)]
pub(crate) struct ByNode {
    pub(crate) score: fn(&State, NodeIdx) -> i64,
    pub(crate) normalise: Option<fn(i64, Extremes) -> i64>,
    pub(crate) constant: Option<i64>,
    pub(crate) failure: Option<&'static str>,
    pub(crate) skips: bool,
}

impl ByNode {
    pub(crate) fn new(score: fn(&State, NodeIdx) -> i64) -> Self {
        Self { score, normalise: None, constant: None, failure: None, skips: false }
    }

    pub(crate) fn normalised(self, normalise: fn(i64, Extremes) -> i64) -> Self {
        Self { normalise: Some(normalise), ..self }
    }
}

impl Scorer for ByNode {
    fn score(&mut self, state: &State, node: NodeIdx) -> i64 {
        (self.score)(state, node)
    }

    fn constant(&self) -> Option<i64> {
        self.constant
    }

    fn reads_pods(&self) -> bool {
        true
    }

    fn skipped(&self) -> bool {
        self.skips
    }

    fn failure(&self) -> Option<crate::framework::Reason> {
        self.failure.map(Into::into)
    }

    fn normalises(&self) -> bool {
        self.normalise.is_some()
    }

    fn normalise(&self, raw: i64, extremes: Extremes) -> i64 {
        self.normalise.map_or(raw, |normalise| normalise(raw, extremes))
    }
}

/// A scorer that prefers zones with few pods of label `app=web`; nodes without a zone are excluded.
/// It sits out while their number is a multiple of five.
pub(crate) struct ZoneScores {
    zones: DomainSums,
    is_bucketed: bool,
    of_slot: Vec<u32>,
    raw: Vec<i64>,
    extremes: Extremes,
}

impl ZoneScores {
    pub(crate) fn plugin(name: &'static str, is_bucketed: bool) -> Stub {
        Stub::scorer(name, move |_, preparation| {
            let state = &mut *preparation.state;
            let zones = web_by_zone(state);
            let column = state.topology.column(zones.key());
            let without_zone = column.domain_count() as u32;
            let bucket = |slot: usize| match column.domain(slot.into()) {
                DomainIdx::NONE => without_zone,
                domain => domain.0,
            };
            let of_slot = (0..state.nodes.slots()).map(bucket).collect();
            let (raw, extremes) = (Vec::new(), Extremes::NONE);
            let mut scores = Self { zones, is_bucketed, of_slot, raw, extremes };
            scores.gather(&NodeSet::default());
            Some(Box::new(scores))
        })
    }

    fn gather(&mut self, feasible: &NodeSet) {
        self.raw = self.zones.sums().to_vec();
        self.raw.push(EXCLUDED);
        self.extremes = Extremes::NONE;
        for node in feasible.iter() {
            let raw = self.raw[self.of_slot[node.at()] as usize];
            if raw != EXCLUDED {
                self.extremes.take(raw);
            }
        }
    }
}

impl Scorer for ZoneScores {
    fn score(&mut self, state: &State, node: NodeIdx) -> i64 {
        let domain = state.topology.column(self.zones.key()).domain(node);
        if domain.is_some() { self.zones.sum(domain) } else { EXCLUDED }
    }

    fn score_buckets(&self) -> Option<ScoreBuckets<'_>> {
        let Self { of_slot, raw, extremes, .. } = self;
        self.is_bucketed.then_some(ScoreBuckets { of_slot, raw, extremes: *extremes })
    }

    fn refresh(&mut self, state: &State, feasible: &NodeSet, _changed: bool) -> ScoreChanges {
        let mut changed = Vec::new();
        if !self.zones.refresh(state, |domain| changed.push(domain)) {
            return ScoreChanges::Stale;
        }
        self.gather(feasible);
        let column = state.topology.column(self.zones.key());
        match &*changed {
            [] => ScoreChanges::Nothing,
            [domain] => ScoreChanges::Nodes(column.nodes(*domain).to_vec()),
            _ => ScoreChanges::All,
        }
    }

    fn skipped(&self) -> bool {
        self.zones.pods() % 5 == 0
    }

    fn normalises(&self) -> bool {
        true
    }

    fn normalise(&self, raw: i64, extremes: Extremes) -> i64 {
        proportional_reversed(raw, extremes)
    }
}

fn web_by_zone(state: &mut State) -> DomainSums {
    let matcher = Matcher { scope: NamespaceScope::All, selector: selector(&[("app", "web")]) };
    let source = TallySource::Matching { matchers: [matcher].into(), live_only: true };
    let mut zones = DomainSums::new(state, "zone", None);
    zones.follow(state, &source, 1);
    zones
}

/// How many pods are on a node.
pub(crate) fn pods_on(state: &State, node: NodeIdx) -> i64 {
    state.nodes.pod_counts()[node.at()]
}

/// The value of a node label as a number; zero if there is none.
pub(crate) fn number(state: &State, node: NodeIdx, key: &str) -> i64 {
    let value = state.nodes.object(node).labels.get(key);
    value.map_or(0, |value| value.parse().expect("the label is a number"))
}

/// The class of pods without labels and requests.
pub(crate) fn class() -> Class {
    testing::class(PodSpec::default())
}

/// A node with labels.
pub(crate) fn labelled(name: &str, pairs: &[(&str, &str)]) -> Node {
    Node { labels: labels(pairs), ..testing::node(name) }
}

/// Nodes `n0`, `n1`, …, each with its number as label `number`.
pub(crate) fn nodes(count: usize) -> Vec<Node> {
    let node = |number: usize| labelled(&format!("n{number}"), &[("number", &number.to_string())]);
    (0..count).map(node).collect()
}

/// A pod with label `app=web`, pending or on a node.
pub(crate) fn web(name: &str, node: &str) -> Pod {
    let labels: Labels = labels(&[("app", "web")]);
    Pod { labels, node: node.into(), ..testing::pod(name) }
}
