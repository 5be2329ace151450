//! The queue against a model that looks at every pod for every event.

use std::collections::BTreeMap;

use proptest::prelude::*;

use crate::framework::{Action, Event, QueueTraits, Resource, Subscription};
use crate::index::{ClassIdx, PodIdx};
use crate::queue::testing::*;
use crate::queue::{FailedAttempt, NEVER, PendingPod, PluginSet, QueueStage, QueuedPod, WakeScope};

/// One operation on the queue. Numbers that name pods are taken modulo the number of pods.
#[derive(Clone, Debug)]
enum Step {
    Add { pod: u32, class: u32, priority: i32 },
    Update { pod: u32, class: u32, priority: i32, kinds: Vec<usize> },
    Delete { pod: u32 },
    Pop,
    Done { pod: u32 },
    Fail { pod: u32, rejectors: u8, pending: u8 },
    Happen { kind: usize, scope: WakeScope },
    Activate { pod: u32 },
    Gate { pod: u32, plugin: Option<usize> },
    Wait { milliseconds: i64 },
    Tick,
}

type Kind = (Resource, Action);

const PODS: u32 = 12;
const CLASSES: u32 = 3;
const PLUGINS: u8 = 1 << 5;
const EVENTS: [Kind; 5] = [POD_GONE, NODE_ADDED, TAINTED, CLAIM_ADDED, UNSUBSCRIBED];
const UNSUBSCRIBED: Kind = (Resource::CsiNode, Action::ADD);
const OWN: [Kind; 3] = [UPDATED, TOLERATES, UNGATED];

fn step() -> impl Strategy<Value = Step> {
    let pod = 0..PODS;
    let class = 0..CLASSES;
    let priority = 0..3;
    let plugins = prop_oneof![Just(0), 0..PLUGINS];
    let few_plugins = prop_oneof![3 => Just(0), 1 => 0..PLUGINS];
    let scope = prop_oneof![
        3 => Just(WakeScope::All),
        1 => (0..3).prop_map(WakeScope::UpToPriority),
        1 => (0..PODS).prop_map(|pod| WakeScope::AllExcept(PodIdx(pod))),
    ];
    let wait = prop_oneof![3 => 0..1500_i64, 2 => 0..12_000_i64, 1 => 0..400_000_i64];
    prop_oneof![
        3 => (pod.clone(), class.clone(), priority.clone())
            .prop_map(|(pod, class, priority)| Step::Add { pod, class, priority }),
        2 => (pod.clone(), class, priority, prop::collection::vec(0..OWN.len(), 1..3))
            .prop_map(|(pod, class, priority, kinds)| Step::Update { pod, class, priority, kinds }),
        1 => pod.clone().prop_map(|pod| Step::Delete { pod }),
        6 => Just(Step::Pop),
        1 => pod.clone().prop_map(|pod| Step::Done { pod }),
        5 => (pod.clone(), plugins, few_plugins)
            .prop_map(|(pod, rejectors, pending)| Step::Fail { pod, rejectors, pending }),
        4 => (0..EVENTS.len(), scope).prop_map(|(kind, scope)| Step::Happen { kind, scope }),
        1 => pod.clone().prop_map(|pod| Step::Activate { pod }),
        2 => (pod, prop_oneof![Just(None), Just(Some(GATES)), Just(Some(PREEMPTION))])
            .prop_map(|(pod, plugin)| Step::Gate { pod, plugin }),
        3 => wait.prop_map(|milliseconds| Step::Wait { milliseconds }),
        3 => Just(Step::Tick),
    ]
}

/// Hints without rhyme or reason, but always the same.
fn willing(plugin: usize, class: ClassIdx, event: &Event) -> bool {
    let mix = plugin * 7 + class.0 as usize * 3 + event.resource as usize + event.action.0 as usize;
    !mix.is_multiple_of(3) || event.own
}

/// A pod as the model sees it.
#[derive(Clone, Debug)]
struct Modelled {
    info: QueuedPod,
    stage: QueueStage,
    /// Number of events that had happened when it was popped.
    popped_at: usize,
}

/// Upstream's queue in the plainest words.
#[derive(Default)]
struct Model {
    pods: BTreeMap<u32, Modelled>,
    gates: BTreeMap<u32, usize>,
    /// Every event, with the pod it is about; `None` is a wildcard.
    events: Vec<(Option<Kind>, Option<u32>)>,
    now: i64,
    sequence: u64,
}

#[derive(Clone, Copy, PartialEq, PartialOrd)]
enum Worth {
    Skip,
    AfterBackoff,
    Immediately,
}

impl Model {
    fn add(&mut self, pod: &PendingPod) {
        if self.pods.contains_key(&pod.pod.0) {
            return;
        }
        self.sequence += 1;
        let info = QueuedPod::new(pod, self.now, self.sequence);
        let modelled = Modelled { info, stage: QueueStage::Binding, popped_at: 0 };
        self.pods.insert(pod.pod.0, modelled);
        self.make_active(pod.pod.0);
    }

    fn update(&mut self, pod: &PendingPod, kinds: &[Kind]) {
        let id = pod.pod.0;
        if self.pods.get(&id).is_some_and(|known| known.stage == QueueStage::Binding) {
            self.pods.remove(&id);
        }
        let Some(known) = self.pods.get_mut(&id) else { return self.add(pod) };
        known.info.class = pod.class;
        known.info.priority = pod.priority;
        match known.stage {
            QueueStage::InFlight => {
                self.events.extend(kinds.iter().map(|kind| (Some(*kind), Some(id))));
            }
            QueueStage::Unschedulable | QueueStage::Gated => {
                for kind in kinds {
                    let worth = worth(&self.pods[&id].info, *kind, true);
                    if worth != Worth::Skip {
                        self.requeue(id, worth);
                    }
                    if !matches!(
                        self.pods[&id].stage,
                        QueueStage::Unschedulable | QueueStage::Gated
                    ) {
                        break;
                    }
                }
            }
            _ => {}
        }
    }

    fn pop(&mut self) -> Option<u32> {
        let first = |stage: QueueStage| {
            let pods = self.pods.values().filter(|pod| pod.stage == stage);
            pods.min_by_key(|pod| {
                let QueuedPod { priority, timestamp, sequence, .. } = pod.info;
                let expiration =
                    (stage == QueueStage::Backoff).then_some(pod.info.backoff_expiration);
                (expiration, -priority, timestamp, sequence)
            })
        };
        let found = first(QueueStage::Active).or_else(|| first(QueueStage::Backoff))?.info.pod.0;
        let pod = self.pods.get_mut(&found)?;
        pod.stage = QueueStage::InFlight;
        pod.info.attempts += 1;
        pod.popped_at = self.events.len();
        Some(found)
    }

    fn fail(&mut self, id: u32, rejectors: PluginSet, pending: PluginSet) {
        let Some(pod) = self.pods.get_mut(&id) else { return };
        let done = pod.stage == QueueStage::Binding;
        if pod.stage != QueueStage::InFlight && !done {
            return;
        }
        self.sequence += 1;
        let info = &mut pod.info;
        (info.rejectors, info.pending) = (rejectors, pending);
        info.set_gating(None);
        if rejectors.is_empty() && pending.is_empty() {
            info.consecutive_errors += 1;
        } else {
            info.unschedulable_count += 1;
            info.consecutive_errors = 0;
        }
        let failures = if info.consecutive_errors > 0 {
            info.consecutive_errors
        } else {
            info.unschedulable_count
        };
        let seconds = [1, 2, 4, 8].get(failures as usize - 1).copied().unwrap_or(10);
        info.timestamp = self.now;
        info.sequence = self.sequence;
        info.backoff_expiration = (self.now + seconds * SECOND) / SECOND * SECOND;
        info.was_flushed = false;
        info.flush_timestamp = NEVER;
        let (info, popped_at) = (*info, pod.popped_at);
        let mut best = Worth::Skip;
        for (kind, about) in &self.events[popped_at..] {
            let found = match kind {
                Some(kind) => worth(&info, *kind, *about == Some(id)),
                None if about.is_none_or(|other| other == id) => Worth::AfterBackoff,
                None => Worth::Skip,
            };
            if found > best {
                best = found;
            }
        }
        if done || info.blockers().is_empty() {
            best = Worth::AfterBackoff;
        }
        if best == Worth::Skip {
            self.put(id, QueueStage::Unschedulable);
        } else {
            self.requeue(id, best);
        }
    }

    fn happen(&mut self, kind: Kind, scope: WakeScope) {
        let ids: Vec<u32> = self.pods.keys().copied().collect();
        for id in ids {
            let Modelled { info, stage, .. } = &self.pods[&id];
            let meant = match scope {
                WakeScope::All => true,
                WakeScope::UpToPriority(priority) => info.priority <= priority,
                WakeScope::AllExcept(other) => other.0 != id,
            };
            let waits = match stage {
                QueueStage::Unschedulable => true,
                QueueStage::Gated => info.gating().is_some_and(|gate| subscribed(gate, kind)),
                _ => false,
            };
            let worth = worth(info, kind, false);
            if meant && waits && worth != Worth::Skip {
                self.requeue(id, worth);
            }
        }
        if (0..subscriptions().len()).any(|plugin| subscribed(plugin, kind)) {
            self.events.push((Some(kind), None));
        }
    }

    fn activate(&mut self, id: u32) {
        match self.pods.get(&id).map(|pod| pod.stage) {
            Some(QueueStage::Unschedulable | QueueStage::Gated) => self.make_active(id),
            Some(QueueStage::Backoff | QueueStage::ErrorBackoff) => {
                self.put(id, QueueStage::Active);
            }
            Some(QueueStage::InFlight) => self.events.push((None, Some(id))),
            _ => {}
        }
    }

    fn tick(&mut self) {
        let second = self.now / SECOND * SECOND;
        for pod in self.pods.values_mut() {
            let backing_off = matches!(pod.stage, QueueStage::Backoff | QueueStage::ErrorBackoff);
            if backing_off && pod.info.backoff_expiration < second {
                pod.stage = QueueStage::Active;
            }
        }
        let last_look = self.now / (30 * SECOND) * 30 * SECOND;
        let due = |pod: &Modelled| {
            let since = pod.info.timestamp.max(pod.info.flush_timestamp);
            let waits = matches!(pod.stage, QueueStage::Unschedulable | QueueStage::Gated);
            waits && last_look - since > 300 * SECOND
        };
        let due: Vec<u32> =
            self.pods.iter().filter(|(_, pod)| due(pod)).map(|(id, _)| *id).collect();
        if !due.is_empty() {
            self.events.push((None, None));
        }
        for id in due {
            if let Some(pod) = self.pods.get_mut(&id) {
                pod.info.was_flushed = true;
                pod.info.flush_timestamp = self.now;
            }
            self.requeue(id, Worth::AfterBackoff);
        }
    }

    fn requeue(&mut self, id: u32, worth: Worth) {
        let info = &self.pods[&id].info;
        let second = self.now / SECOND * SECOND;
        let backing_off = info.backoff_expiration >= second;
        if worth == Worth::AfterBackoff && backing_off {
            let error = info.blockers().is_empty();
            if !self.is_gated(id) {
                self.put(id, if error { QueueStage::ErrorBackoff } else { QueueStage::Backoff });
            }
        } else {
            self.make_active(id);
        }
    }

    fn make_active(&mut self, id: u32) {
        if !self.is_gated(id) {
            let now = self.now;
            if let Some(pod) = self.pods.get_mut(&id) {
                pod.info.activated(now);
            }
            self.put(id, QueueStage::Active);
        }
    }

    fn is_gated(&mut self, id: u32) -> bool {
        let Some(pod) = self.pods.get_mut(&id) else { return false };
        pod.info.set_gating(self.gates.get(&id).copied());
        let Some(plugin) = pod.info.gating() else { return false };
        pod.info.rejectors.insert(plugin);
        pod.info.was_flushed = false;
        pod.stage = QueueStage::Gated;
        true
    }

    fn put(&mut self, id: u32, stage: QueueStage) {
        if let Some(pod) = self.pods.get_mut(&id) {
            pod.stage = stage;
        }
    }
}

fn subscribed(plugin: usize, (resource, action): Kind) -> bool {
    let event = event((resource, action), false);
    let all = subscriptions();
    let taints = Subscription { resource: Resource::Node, action: Action::UPDATE_NODE_TAINT };
    all[plugin].iter().any(|subscription| subscription.covers(&event))
        || plugin == FIT && taints.covers(&event)
}

fn worth(info: &QueuedPod, kind: Kind, own: bool) -> Worth {
    let mut best = Worth::Skip;
    for plugin in info.blockers().iter().filter(|plugin| subscribed(*plugin, kind)) {
        let unasked = plugin == FIT && kind == TAINTED;
        if !unasked && !willing(plugin, info.class, &event(kind, own)) {
            continue;
        }
        if info.pending.contains(plugin) {
            return Worth::Immediately;
        }
        best = Worth::AfterBackoff;
    }
    best
}

/// A queue and its model, told the same.
struct Pair {
    bench: Bench,
    model: Model,
}

impl Pair {
    fn new() -> Self {
        let bench = Bench::new();
        bench.plugins.willing.set(willing);
        let model = Model { now: bench.now, ..Model::default() };
        Self { bench, model }
    }

    fn apply(&mut self, step: &Step) {
        let Self { bench, model } = self;
        let pod = |pod: u32, class: u32, priority: i32| PendingPod {
            pod: PodIdx(pod),
            profile: 0,
            traits: QueueTraits::default(),
            class: ClassIdx(class),
            priority,
        };
        let set = |bits: u8| (0..8).filter(|plugin| bits >> plugin & 1 == 1).collect::<PluginSet>();
        match *step {
            Step::Add { pod: id, class, priority } => {
                bench.add_pod(&pod(id, class, priority));
                model.add(&pod(id, class, priority));
            }
            Step::Update { pod: id, class, priority, ref kinds } => {
                let kinds: Vec<_> = kinds.iter().map(|kind| OWN[*kind]).collect();
                bench.update_pod(&pod(id, class, priority), &kinds);
                model.update(&pod(id, class, priority), &kinds);
            }
            Step::Delete { pod } => {
                assert_eq!(bench.delete(pod), model.pods.remove(&pod).is_some());
            }
            Step::Pop => assert_eq!(bench.pop(), model.pop()),
            Step::Done { pod } => {
                bench.done(pod);
                if model.pods.get(&pod).is_some_and(|pod| pod.stage == QueueStage::InFlight) {
                    model.put(pod, QueueStage::Binding);
                }
            }
            Step::Fail { pod, rejectors, pending } => {
                let (rejectors, pending) = (set(rejectors), set(pending));
                let Bench { queue, plugins, now } = bench;
                let failed = FailedAttempt { rejectors, pending, retry_at: None };
                queue.add_unschedulable(plugins, PodIdx(pod), failed, *now);
                model.fail(pod, rejectors, pending);
            }
            Step::Happen { kind, scope } => {
                bench.event_for(EVENTS[kind], scope);
                model.happen(EVENTS[kind], scope);
            }
            Step::Activate { pod } => {
                bench.activate(pod);
                model.activate(pod);
            }
            Step::Gate { pod, plugin: Some(plugin) } => {
                bench.gate(pod, plugin);
                model.gates.insert(pod, plugin);
            }
            Step::Gate { pod, plugin: None } => {
                bench.open(pod);
                model.gates.remove(&pod);
            }
            Step::Wait { milliseconds } => {
                bench.now += milliseconds * MILLISECOND;
                model.now = bench.now;
            }
            Step::Tick => {
                bench.tick();
                model.tick();
            }
        }
        self.compare();
    }

    fn compare(&self) {
        let Self { bench, model } = self;
        bench.queue.check(&bench.plugins).unwrap();
        assert_eq!(bench.queue.iter().count(), model.pods.len(), "no pod is lost or made up");
        for (id, pod) in &model.pods {
            assert_eq!(bench.stage(*id), Some(pod.stage), "stage of {id}: {pod:?}");
            assert_eq!(bench.info(*id), pod.info, "history of {id}");
        }
        let counts = bench.queue.counts();
        assert_eq!(counts.total(), model.pods.len());
        let gated = model.pods.values().filter(|pod| pod.stage == QueueStage::Gated).count();
        assert_eq!(counts.gated, gated);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_queue_does_what_the_model_does(steps in prop::collection::vec(step(), 1..120)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.apply(step);
        }
    }

    #[test]
    fn every_pod_is_tried_in_the_end(steps in prop::collection::vec(step(), 1..60)) {
        let mut pair = Pair::new();
        for step in &steps {
            pair.apply(step);
        }
        for pod in 0..PODS {
            pair.apply(&Step::Gate { pod, plugin: None });
        }
        let waiting = |pair: &Pair| {
            let counts = pair.bench.queue.counts();
            counts.active + counts.backoff + counts.unschedulable + counts.gated
        };
        while waiting(&pair) > 0 {
            let bench = &pair.bench;
            let wait = match bench.queue.next_deadline() {
                Some(deadline) if !bench.queue.has_next() => (deadline - bench.now).max(0),
                _ => 0,
            };
            pair.bench.now += wait;
            pair.model.now = pair.bench.now;
            pair.apply(&Step::Tick);
            let before = waiting(&pair);
            pair.apply(&Step::Pop);
            prop_assert!(waiting(&pair) < before, "the deadline had nothing to do");
        }
    }
}
