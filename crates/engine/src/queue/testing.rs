//! Plugins that do as a test says.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::BTreeMap;

use crate::framework::event::Object;
use crate::framework::profile::PluginPosition;
use crate::framework::{Action, Event, QueueKey, QueueTraits, Resource, Subscription};
use crate::index::{ClassIdx, PodIdx};

use super::{
    FailedAttempt, Gate, PendingPod, PluginSet, Queue, QueueConfig, QueueContext, QueueStage,
    QueuedPod, Subscriptions,
};

pub(super) const SECOND: i64 = 1_000_000_000;
pub(super) const MILLISECOND: i64 = 1_000_000;

/// A gate that only a change of its pod opens.
pub(super) const GATES: PluginPosition = 0;
/// Wants to hear of pods that go and nodes that come.
pub(super) const FIT: PluginPosition = 1;
/// Wants to hear of taints.
pub(super) const TAINTS: PluginPosition = 2;
/// Wants to hear of claims.
pub(super) const CLAIMS: PluginPosition = 3;
/// A gate that any pod that goes may open.
pub(super) const PREEMPTION: PluginPosition = 4;

pub(super) const POD_GONE: (Resource, Action) = (Resource::AssignedPod, Action::DELETE);
pub(super) const NODE_ADDED: (Resource, Action) = (Resource::Node, Action::ADD);
pub(super) const TAINTED: (Resource, Action) = (Resource::Node, Action::UPDATE_NODE_TAINT);
pub(super) const CLAIM_ADDED: (Resource, Action) = (Resource::PersistentVolumeClaim, Action::ADD);
pub(super) const UNGATED: (Resource, Action) =
    (Resource::UnschedulablePod, Action::UPDATE_POD_SCHEDULING_GATES_ELIMINATED);
pub(super) const TOLERATES: (Resource, Action) =
    (Resource::UnschedulablePod, Action::UPDATE_POD_TOLERATION);
pub(super) const UPDATED: (Resource, Action) = (Resource::UnschedulablePod, Action::UPDATE);

/// A question that was put to a hint: plugin, class, own.
type Question = (PluginPosition, ClassIdx, bool);

/// Plugins that do as told. Hints say yes unless told otherwise.
pub(super) struct Plugins {
    pub(super) gates: RefCell<BTreeMap<PodIdx, Gate>>,
    pub(super) willing: Cell<fn(PluginPosition, ClassIdx, &Event) -> bool>,
    pub(super) asked: RefCell<Vec<Question>>,
    pub(super) pre_enqueue_calls: RefCell<Vec<(PodIdx, Option<PluginPosition>)>>,
}

impl Default for Plugins {
    fn default() -> Self {
        Self {
            gates: RefCell::default(),
            willing: Cell::new(|_, _, _| true),
            asked: RefCell::default(),
            pre_enqueue_calls: RefCell::default(),
        }
    }
}

impl QueueContext for Plugins {
    fn pre_enqueue(
        &self,
        pod: PodIdx,
        _profile: usize,
        first: Option<PluginPosition>,
    ) -> Result<(), Gate> {
        self.pre_enqueue_calls.borrow_mut().push((pod, first));
        self.gates.borrow().get(&pod).map_or(Ok(()), |gate| Err(*gate))
    }

    fn order(&self, a: &QueueKey, b: &QueueKey) -> Ordering {
        b.priority.cmp(&a.priority).then(a.timestamp.cmp(&b.timestamp))
    }

    fn hint(
        &self,
        _profile: usize,
        plugin: PluginPosition,
        class: ClassIdx,
        event: &Event,
    ) -> bool {
        self.asked.borrow_mut().push((plugin, class, event.own));
        (self.willing.get())(plugin, class, event)
    }
}

/// What the plugins of a profile subscribe to.
pub(super) fn subscriptions() -> Vec<Vec<Subscription>> {
    let subscription = |resource, action| Subscription { resource, action };
    vec![
        vec![subscription(Resource::Pod, Action::UPDATE_POD_SCHEDULING_GATES_ELIMINATED)],
        vec![
            subscription(Resource::Pod, Action::DELETE),
            subscription(Resource::Node, Action::ADD.with(Action::UPDATE_NODE_ALLOCATABLE)),
        ],
        vec![
            subscription(Resource::Node, Action::ADD.with(Action::UPDATE_NODE_TAINT)),
            subscription(Resource::Pod, Action::UPDATE_POD_TOLERATION),
        ],
        vec![subscription(Resource::PersistentVolumeClaim, Action::ADD.with(Action::UPDATE))],
        vec![subscription(Resource::Pod, Action::DELETE)],
    ]
}

/// An event without an object.
pub(super) fn event((resource, action): (Resource, Action), own: bool) -> Event<'static> {
    Event { resource, action, object: Object::None, own }
}

/// A pod with the number of its class in its name: pod 12 is of class 2.
pub(super) fn pending(pod: u32) -> PendingPod {
    PendingPod {
        pod: PodIdx(pod),
        profile: 0,
        class: ClassIdx(pod % 10),
        priority: 0,
        traits: QueueTraits::default(),
    }
}

pub(super) fn queued(pod: u32) -> QueuedPod {
    QueuedPod::new(&pending(pod), 0, 0)
}

/// A queue with its plugins and a clock, checked after each step.
pub(super) struct Bench {
    pub(super) queue: Queue,
    pub(super) plugins: Plugins,
    pub(super) now: i64,
}

impl Bench {
    /// At ten seconds past the epoch.
    pub(super) fn new() -> Self {
        let subscriptions = Subscriptions { profiles: vec![subscriptions(), subscriptions()] };
        let queue = Queue::new(QueueConfig::default(), subscriptions);
        Self { queue, plugins: Plugins::default(), now: 10 * SECOND }
    }

    pub(super) fn at(&mut self, milliseconds: i64) -> &mut Self {
        self.now = milliseconds * MILLISECOND;
        self
    }

    pub(super) fn gate(&mut self, pod: u32, plugin: PluginPosition) -> &mut Self {
        self.plugins.gates.borrow_mut().insert(PodIdx(pod), Gate::of(plugin));
        self
    }

    pub(super) fn gate_until(&mut self, pod: u32, plugin: PluginPosition, time: i64) -> &mut Self {
        let gate = Gate { plugin, retry_at: Some(time) };
        self.plugins.gates.borrow_mut().insert(PodIdx(pod), gate);
        self
    }

    pub(super) fn open(&mut self, pod: u32) -> &mut Self {
        self.plugins.gates.borrow_mut().remove(&PodIdx(pod));
        self
    }

    pub(super) fn add(&mut self, pod: u32) -> QueueStage {
        self.add_pod(&pending(pod))
    }

    pub(super) fn add_pod(&mut self, pod: &PendingPod) -> QueueStage {
        let stage = self.queue.add(&self.plugins, pod, self.now);
        self.check();
        stage
    }

    pub(super) fn update(&mut self, pod: u32, kinds: &[(Resource, Action)]) -> QueueStage {
        self.update_pod(&pending(pod), kinds)
    }

    pub(super) fn update_pod(
        &mut self,
        pod: &PendingPod,
        kinds: &[(Resource, Action)],
    ) -> QueueStage {
        let events: Vec<_> = kinds.iter().map(|kind| event(*kind, true)).collect();
        let stage = self.queue.update(&self.plugins, pod, &events, self.now);
        self.check();
        stage
    }

    pub(super) fn delete(&mut self, pod: u32) -> bool {
        let known = self.queue.delete(&self.plugins, PodIdx(pod));
        self.check();
        known
    }

    pub(super) fn pop(&mut self) -> Option<u32> {
        let popped = self.queue.pop(&self.plugins);
        self.check();
        popped.map(|info| info.pod.0)
    }

    pub(super) fn done(&mut self, pod: u32) {
        self.queue.done(&self.plugins, PodIdx(pod));
        self.check();
    }

    /// An attempt that plugins ended.
    pub(super) fn fail(&mut self, pod: u32, rejectors: &[PluginPosition]) -> Option<QueueStage> {
        self.fail_pending(pod, rejectors, &[])
    }

    pub(super) fn fail_pending(
        &mut self,
        pod: u32,
        rejectors: &[PluginPosition],
        pending: &[PluginPosition],
    ) -> Option<QueueStage> {
        let set = |plugins: &[PluginPosition]| plugins.iter().copied().collect::<PluginSet>();
        let failed = FailedAttempt {
            rejectors: set(rejectors),
            pending: set(pending),
            ..FailedAttempt::default()
        };
        let stage = self.queue.add_unschedulable(&self.plugins, PodIdx(pod), failed, self.now);
        self.check();
        stage
    }

    /// Adds a pod, pops it and lets it fail.
    pub(super) fn add_failed(&mut self, pod: u32, rejectors: &[PluginPosition]) -> QueueStage {
        self.add(pod);
        assert_eq!(self.pop(), Some(pod));
        self.fail(pod, rejectors).unwrap()
    }

    pub(super) fn event(&mut self, kind: (Resource, Action)) -> usize {
        self.event_for(kind, super::WakeScope::All)
    }

    pub(super) fn event_for(&mut self, kind: (Resource, Action), scope: super::WakeScope) -> usize {
        let moved = self.queue.move_all(&self.plugins, &event(kind, false), scope, self.now);
        self.check();
        moved
    }

    pub(super) fn activate(&mut self, pod: u32) {
        self.queue.activate(&self.plugins, &[PodIdx(pod)], self.now);
        self.check();
    }

    pub(super) fn tick(&mut self) -> &mut Self {
        self.queue.tick(&self.plugins, self.now);
        self.check();
        self
    }

    pub(super) fn stage(&self, pod: u32) -> Option<QueueStage> {
        self.queue.stage(PodIdx(pod))
    }

    pub(super) fn info(&self, pod: u32) -> QueuedPod {
        *self.queue.get(PodIdx(pod)).unwrap()
    }

    /// What hints were asked since the last call.
    pub(super) fn asked(&self) -> Vec<Question> {
        self.plugins.asked.take()
    }

    #[track_caller]
    fn check(&self) {
        self.queue.check(&self.plugins).unwrap();
    }
}
