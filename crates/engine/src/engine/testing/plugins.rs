//! Stub plugins, one for each extension point, that follow a [`Script`].

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cycle::what_if::{Candidate, ExtenderPreemption, PostFilter};
use crate::framework::{
    Action, BindContext, Class, Code, Event, Filter, KeyPart, NodeVerdict, Permit, Plugin, Point,
    PostFilterOutcome, PreFilterResult, Preparation, QueueKey, Rejection, Reservation, Resource,
    Scorer, Subscription, VolumeRequest,
};
use crate::index::{NodeIdx, PodIdx, ResourceIdx};
use crate::object::{Labels, PodSpec, Uid, Volume};
use crate::state::State;
use crate::testing::Shared;

use super::SECOND;

/// What the stub plugins answer, and a record of what they were called for. Pods are known by name.
#[derive(Default)]
pub(in crate::engine) struct Script {
    /// Answers of Permit plugins by plugin and pod; without an entry a plugin allows.
    pub(in crate::engine) permits: Shared<BTreeMap<(&'static str, String), Permit>>,
    /// Rejections of Reserve plugins by plugin and pod.
    pub(in crate::engine) refusals: Shared<BTreeMap<(&'static str, String), Rejection>>,
    /// What PreFilter answers by pod label `prefilter`.
    pub(in crate::engine) pre_filters: Shared<BTreeMap<String, Rejection>>,
    /// What PostFilter answers for a pod instead of looking for victims.
    pub(in crate::engine) post_filters: Shared<BTreeMap<String, &'static str>>,
    /// Calls of Reserve, Unreserve and PostBind, in order.
    pub(in crate::engine) log: Shared<Vec<String>>,
    /// Reservations in effect, by plugin and uid.
    pub(in crate::engine) reserved: Shared<BTreeSet<(&'static str, Uid)>>,
    /// Calls of the filter.
    pub(in crate::engine) filter_calls: Shared<usize>,
    /// Queueing hints of the filter refuse every event.
    pub(in crate::engine) deaf: Shared<bool>,
    /// The filter rejects every node, without an event: it breaks its contract.
    pub(in crate::engine) closed: Shared<bool>,
    /// Added to the score of nodes whose name ends in 1, without an event.
    pub(in crate::engine) bonus: Shared<i64>,
}

impl Script {
    fn note(&self, what: &str, state: &State, pod: PodIdx, node: NodeIdx) {
        let (pod, node) = (&state.pods.get(pod).name, state.nodes.name(node));
        self.log.lock().push(format!("{what} {pod} on {node}"));
    }
}

fn name_of(state: &State, pod: PodIdx) -> String {
    state.pods.get(pod).name.to_string()
}

/// PreEnqueue: gates pods with scheduling gates.
pub(in crate::engine) struct Gate;

impl Plugin for Gate {
    fn name(&self) -> &'static str {
        "Gate"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::PreEnqueue]
    }

    fn pre_enqueue(&self, state: &State, pod: PodIdx) -> Result<(), Rejection> {
        if state.pods.get(pod).gates.is_empty() {
            return Ok(());
        }
        Err(Rejection::unresolvable("gated"))
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        let action = Action::UPDATE_POD_SCHEDULING_GATES_ELIMINATED;
        vec![Subscription { resource: Resource::Pod, action }]
    }
}

/// QueueSort: by priority, then by time.
pub(super) struct Sort;

impl Plugin for Sort {
    fn name(&self) -> &'static str {
        "Sort"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::QueueSort]
    }

    fn queue_order(&self, a: &QueueKey, b: &QueueKey) -> Ordering {
        b.priority.cmp(&a.priority).then(a.timestamp.cmp(&b.timestamp))
    }
}

/// PreFilter and Filter: free cpu, node selectors and cordoned nodes; label `fails` is an error.
pub(super) struct Fit(pub(super) Arc<Script>);

struct PreparedFit {
    script: Arc<Script>,
    spec: Arc<PodSpec>,
    fails: bool,
}

const FULL: NodeVerdict = NodeVerdict(1);
const CORDONED: NodeVerdict = NodeVerdict(2);
const NOT_SELECTED: NodeVerdict = NodeVerdict(3);
const BROKEN: NodeVerdict = NodeVerdict(4);

impl Plugin for Fit {
    fn name(&self) -> &'static str {
        "Fit"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::PreFilter, Point::Filter]
    }

    fn prepare_filter(&self, class: &Class, _preparation: &mut Preparation) -> PreFilterResult {
        let label = class.labels.get("prefilter").unwrap_or_default();
        if let Some(rejection) = self.0.pre_filters.lock().get(label) {
            return PreFilterResult::Reject(rejection.clone());
        }
        PreFilterResult::Filter(Box::new(PreparedFit {
            script: Arc::clone(&self.0),
            spec: Arc::clone(&class.spec),
            fails: class.labels.get("fails").is_some(),
        }))
    }

    fn evaluation_key(&self, class: &Class, _state: &State) -> KeyPart {
        KeyPart::nothing_if(class.labels.iter().next().is_none())
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        let nodes = Action::ADD
            .with(Action::UPDATE_NODE_ALLOCATABLE)
            .with(Action::UPDATE_NODE_LABEL)
            .with(Action::UPDATE_NODE_TAINT);
        vec![
            Subscription { resource: Resource::Pod, action: Action::DELETE },
            Subscription { resource: Resource::Pod, action: Action::UPDATE_POD_SCALE_DOWN },
            Subscription { resource: Resource::Node, action: nodes },
        ]
    }

    fn hint(&self, _state: &State, _class: &Class, _event: &Event) -> bool {
        !self.0.deaf.get()
    }
}

impl Filter for PreparedFit {
    fn check(&mut self, state: &State, node: NodeIdx) -> NodeVerdict {
        self.script.filter_calls.set(self.script.filter_calls.get() + 1);
        let object = state.nodes.object(node);
        let selector = self.spec.node_selector.iter().flat_map(Labels::iter);
        let cpu = ResourceIdx::CPU;
        let free = state.nodes.allocatable_of(cpu, node) - state.nodes.requested_of(cpu, node);
        if self.fails {
            BROKEN
        } else if object.unschedulable {
            CORDONED
        } else if selector.into_iter().any(|(key, value)| object.labels.get(key) != Some(value)) {
            NOT_SELECTED
        } else if self.spec.requests.cpu > free || self.script.closed.get() {
            FULL
        } else {
            NodeVerdict::PASS
        }
    }

    fn rejection(&self, _state: &State, _node: NodeIdx, answer: NodeVerdict) -> Rejection {
        match answer {
            FULL => Rejection::unschedulable("Insufficient cpu"),
            CORDONED => Rejection::unresolvable("node(s) were unschedulable"),
            NOT_SELECTED => Rejection::unresolvable("node(s) did not match the selector"),
            _ => Rejection::error("the filter broke"),
        }
    }

    fn reads_pods(&self) -> bool {
        true
    }

    fn can_fail(&self) -> bool {
        self.fails
    }
}

/// PostFilter: evicts the pods of lower priority from the first node where that makes room.
pub(super) struct Preempt(pub(super) Arc<Script>);

impl Preempt {
    fn candidate(cycle: &mut PostFilter, node: NodeIdx) -> Option<Candidate> {
        let priority = cycle.state().pods.get(cycle.pod).priority;
        let state = cycle.state();
        let lower: Vec<PodIdx> = state.nodes.pods(node).to_vec();
        let lower = lower.into_iter().filter(|pod| state.pods.get(*pod).priority < priority);
        let lower: Vec<PodIdx> = lower.collect();
        let mut what_if = cycle.what_if(node);
        for pod in &lower {
            what_if.remove(*pod);
        }
        if lower.is_empty() || !what_if.passes() {
            return None;
        }
        let mut victims = Vec::new();
        for pod in lower {
            what_if.put_back(pod);
            if !what_if.passes() {
                what_if.remove(pod);
                victims.push(pod);
            }
        }
        Some(Candidate { node, victims, violations: 0 })
    }
}

impl Plugin for Preempt {
    fn name(&self) -> &'static str {
        "Preempt"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::PreEnqueue, Point::PostFilter]
    }

    fn post_filter(&self, cycle: &mut PostFilter) -> PostFilterOutcome {
        let state = cycle.state();
        match self.0.post_filters.lock().get(&name_of(state, cycle.pod)) {
            Some(&"error") => return PostFilterOutcome::Error("PostFilter broke".into()),
            Some(reason) => {
                let reasons = vec![(*reason).into()];
                return PostFilterOutcome::Unschedulable { reasons, clear_nomination: false };
            }
            None => {}
        }
        let own = state.pods.get(cycle.pod);
        let leaves = |pod: &PodIdx| {
            let pod = state.pods.get(*pod);
            pod.priority < own.priority && (pod.preempted || pod.terminating)
        };
        if own.nominated.is_some()
            && cycle.diagnosis.code(own.nominated) == Code::Unschedulable
            && state.nodes.pods(own.nominated).iter().any(leaves)
        {
            let reasons = vec!["victims terminate".into()];
            return PostFilterOutcome::Unschedulable { reasons, clear_nomination: false };
        }
        let nodes = state.nodes.order().to_vec();
        let nodes = nodes.into_iter();
        let nodes = nodes.filter(|node| cycle.diagnosis.code(*node) == Code::Unschedulable);
        let nodes: Vec<NodeIdx> = nodes.collect();
        let found = nodes.into_iter().filter_map(|node| Self::candidate(cycle, node));
        let found: Vec<Candidate> = found.collect();
        let chosen = match cycle.victims {
            ExtenderPreemption::NotNeeded => found.into_iter().next(),
            ExtenderPreemption::Required if found.is_empty() => None,
            ExtenderPreemption::Required => return PostFilterOutcome::AskExtenders(found),
            ExtenderPreemption::Answered(left) => left.first().cloned(),
            ExtenderPreemption::Failed(text) => {
                return PostFilterOutcome::Error(text.to_string().into());
            }
        };
        match chosen {
            Some(Candidate { node, victims, .. }) => PostFilterOutcome::Nominate { node, victims },
            None => PostFilterOutcome::Unschedulable {
                reasons: vec!["no victims".into()],
                clear_nomination: true,
            },
        }
    }

    fn subscriptions(&self) -> Vec<Subscription> {
        vec![Subscription { resource: Resource::Pod, action: Action::DELETE }]
    }

    fn hint(&self, _state: &State, _class: &Class, _event: &Event) -> bool {
        false
    }
}

/// Score: the number in the node's label `score`, otherwise 50.
pub(super) struct Rank(pub(super) Arc<Script>);

struct PreparedRank(Arc<Script>);

impl Plugin for Rank {
    fn name(&self) -> &'static str {
        "Rank"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Score]
    }

    fn prepare_score(
        &self,
        _class: &Class,
        _preparation: &mut Preparation,
    ) -> Option<Box<dyn Scorer>> {
        Some(Box::new(PreparedRank(Arc::clone(&self.0))))
    }

    fn evaluation_key(&self, _class: &Class, _state: &State) -> KeyPart {
        KeyPart::NOTHING
    }
}

impl Scorer for PreparedRank {
    fn score(&mut self, state: &State, node: NodeIdx) -> i64 {
        let label = state.nodes.object(node).labels.get("score");
        let bonus = if state.nodes.name(node).ends_with('1') { self.0.bonus.get() } else { 0 };
        label.and_then(|score| score.parse().ok()).unwrap_or(50) + bonus
    }
}

/// Reserve and PostBind: records its calls, and refuses as the script says.
pub(super) struct Reserve(pub(super) &'static str, pub(super) Arc<Script>);

impl Plugin for Reserve {
    fn name(&self) -> &str {
        self.0
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Reserve, Point::PostBind]
    }

    fn reserve(&self, reservation: &mut Reservation) -> Result<(), Rejection> {
        let Reservation { state, pod, node, .. } = reservation;
        assert_eq!(state.pods.get(*pod).node, *node, "the pod is assumed first");
        let key = (self.0, name_of(state, *pod));
        if let Some(rejection) = self.1.refusals.lock().get(&key) {
            return Err(rejection.clone());
        }
        self.1.note(&format!("{} reserves", self.0), state, *pod, *node);
        let uid = state.pods.get(*pod).uid.clone();
        assert!(self.1.reserved.lock().insert((self.0, uid)), "reserved twice");
        Ok(())
    }

    fn unreserve(&self, reservation: &mut Reservation) {
        let Reservation { state, pod, node, .. } = reservation;
        assert_eq!(state.pods.get(*pod).node, *node, "the pod is still on its node");
        self.1.note(&format!("{} unreserves", self.0), state, *pod, *node);
        self.1.reserved.lock().remove(&(self.0, state.pods.get(*pod).uid.clone()));
    }

    fn post_bind(&self, context: &mut BindContext) {
        let BindContext { state, pod, node, .. } = *context;
        self.1.note(&format!("{} post-binds", self.0), state, pod, node);
    }
}

/// Permit: answers as the script says.
pub(super) struct Ask(pub(super) &'static str, pub(super) Arc<Script>);

impl Plugin for Ask {
    fn name(&self) -> &str {
        self.0
    }

    fn points(&self) -> &'static [Point] {
        &[Point::Permit]
    }

    fn permit(&self, context: &mut BindContext) -> Permit {
        let key = (self.0, name_of(context.state, context.pod));
        self.1.permits.lock().get(&key).cloned().unwrap_or(Permit::Allow)
    }

    /// A pod that was denied permission is tried again when a node is added.
    fn subscriptions(&self) -> Vec<Subscription> {
        vec![
            Subscription { resource: Resource::Node, action: Action::ADD },
            Subscription { resource: Resource::Pod, action: Action::DELETE },
        ]
    }
}

/// PreBind: has the volumes of pods with claims provisioned.
pub(super) struct Provision;

impl Plugin for Provision {
    fn name(&self) -> &'static str {
        "Provision"
    }

    fn points(&self) -> &'static [Point] {
        &[Point::PreBind]
    }

    fn pre_bind(&self, context: &mut BindContext) -> Vec<VolumeRequest> {
        let BindContext { state, pod, node, .. } = *context;
        let claims = state.spec(pod).volumes.iter().filter_map(|volume| match volume {
            Volume::Claim { name } => Some(name.clone()),
            _ => None,
        });
        let namespace = || state.namespace(pod).into();
        let node = || state.nodes.name(node).into();
        let provision =
            |claim| VolumeRequest::Provision { namespace: namespace(), claim, node: node() };
        claims.map(provision).collect()
    }

    fn pre_bind_timeout(&self) -> i64 {
        5 * SECOND
    }
}
