//! Random sequences of steps for the small world.

use engine::object::{
    CsiDriver, CsiNode, CsiStorageCapacity, DisruptionBudget, Labels, Namespace, Node,
    PersistentVolume, PersistentVolumeClaim, Pod, StorageClass, Toleration, Workload,
};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::generators::{self, storage};

/// One step of a scenario. Numbers that name objects are taken modulo the number of such objects.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// A node is created or changed.
    Node(Box<Node>),
    NodeGone(usize),
    /// A number of equal pods are created and wait.
    Pods(Box<Pod>, usize),
    /// A pod is created that another scheduler bound to a node, which need not exist.
    Foreign(Box<Pod>, usize),
    /// Another scheduler binds a waiting pod.
    Steal(usize, usize),
    /// A pod is created with a nominated node, which need not exist.
    Nominated(Box<Pod>, usize),
    /// Another program nominates a waiting pod; node 0 stands for ending its nomination.
    Nominate(usize, usize),
    /// The API server carries out the first pending write of a pod's nomination.
    Write(usize),
    Relabel(usize, Labels),
    Ungate(usize),
    Resize(usize, (i64, i64, i64)),
    Tolerate(usize, Toleration),
    Terminate(usize),
    Gone(usize),
    /// A pod is deleted, and one of the same name is created.
    Again(usize),
    Namespace(Namespace),
    NamespaceGone(usize),
    Workload(Workload),
    WorkloadGone(Workload),
    Budget(DisruptionBudget),
    BudgetGone(usize),
    Class(StorageClass),
    ClassGone(StorageClass),
    Claim(PersistentVolumeClaim),
    /// A controller creates the claim of a pod's ephemeral volume.
    EphemeralClaim(usize),
    ClaimGone(usize),
    Volume(Box<PersistentVolume>),
    VolumeGone(usize),
    /// A controller binds a claim to a volume.
    Join(usize, usize),
    CsiNode(CsiNode),
    CsiNodeGone(usize),
    Driver(CsiDriver),
    DriverGone,
    Capacity(CsiStorageCapacity),
    CapacityGone(CsiStorageCapacity),
    /// A volume is attached to a node.
    Attach(usize, usize),
    /// A volume is detached from a node.
    Detach(usize, usize),
    DeviceClass,
    DeviceClassGone,
    /// The API server accepts or rejects a bind.
    Land(usize, bool),
    /// The engines receive the answer to a bind; `lost` reports a failure even if it was accepted.
    AnswerBind {
        which: usize,
        lost: bool,
    },
    /// Volumes are prepared or fail, and the watch shows it before or after the answer.
    AnswerVolumes {
        which: usize,
        fails: bool,
        shown_first: bool,
    },
    /// A victim is evicted or not, and is gone at once or terminates first.
    AnswerEviction {
        which: usize,
        fails: bool,
        at_once: bool,
    },
    /// Extenders answer: they fail, or pass the nodes or candidates whose bit is set in `leave`.
    AnswerExtenders {
        which: usize,
        fails: bool,
        leave: u64,
    },
    /// The watch shows a pod that the scheduler's own commands changed.
    Show(usize),
    ShowAll,
    /// Milliseconds pass.
    Wait(i64),
    Schedule(usize),
}

/// Steps, in order.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    /// All commands are answered and shown before the next step.
    pub(crate) prompt: bool,
    pub(crate) steps: Vec<Step>,
}

/// A few nodes, storage objects and pods, and then any steps.
pub(crate) fn scenario(most: usize) -> impl Strategy<Value = Scenario> {
    let nodes = vec(generators::node().prop_map(|node| Step::Node(Box::new(node))), 3..=6);
    let classes = vec(storage::storage_class().prop_map(Step::Class), 2..=3);
    let storage = vec(of_storage(), 0..=8);
    // There is no order between kinds: pods may be read before their nodes.
    let before = (nodes, classes, storage, vec(pods(), 0..=4))
        .prop_map(|(nodes, classes, storage, pods)| [nodes, classes, storage, pods].concat())
        .prop_shuffle();
    (any::<bool>(), before, vec(step(), 1..=most)).prop_map(|(prompt, before, steps)| Scenario {
        prompt,
        steps: before.into_iter().chain(steps).collect(),
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => of_pods(),
        5 => of_nodes(),
        3 => of_namespaces(),
        6 => of_storage(),
        8 => answers(),
        20 => decisions(),
    ]
}

fn which() -> impl Strategy<Value = usize> {
    0..64_usize
}

fn of_pods() -> impl Strategy<Value = Step> {
    let pod = || generators::pod().prop_map(Box::new);
    prop_oneof![
        18 => pods(),
        2 => (pod(), 0..generators::NODES).prop_map(|(pod, node)| Step::Foreign(pod, node)),
        1 => (generators::hostile_pod().prop_map(Box::new), 0..generators::NODES)
            .prop_map(|(pod, node)| Step::Foreign(pod, node)),
        1 => (which(), generators::hostile_requests())
            .prop_map(|(pod, requests)| Step::Resize(pod, requests)),
        1 => (which(), 0..generators::NODES).prop_map(|(pod, node)| Step::Steal(pod, node)),
        2 => (pod(), 0..generators::NODES).prop_map(|(pod, node)| Step::Nominated(pod, node)),
        1 => (which(), 0..generators::NODES).prop_map(|(pod, node)| Step::Nominate(pod, node)),
        2 => (which(), generators::app_labels()).prop_map(|(pod, labels)| Step::Relabel(pod, labels)),
        1 => which().prop_map(Step::Ungate),
        2 => (which(), generators::requests()).prop_map(|(pod, requests)| Step::Resize(pod, requests)),
        1 => (which(), generators::toleration()).prop_map(|(pod, more)| Step::Tolerate(pod, more)),
        2 => which().prop_map(Step::Terminate),
        3 => which().prop_map(Step::Gone),
        2 => which().prop_map(Step::Again),
    ]
}

fn pods() -> impl Strategy<Value = Step> {
    (generators::pod(), 1..=4_usize).prop_map(|(pod, count)| Step::Pods(Box::new(pod), count))
}

fn of_nodes() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => generators::node().prop_map(|node| Step::Node(Box::new(node))),
        1 => (0..generators::NODES).prop_map(Step::NodeGone),
    ]
}

fn of_namespaces() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => generators::namespace().prop_map(Step::Namespace),
        1 => which().prop_map(Step::NamespaceGone),
        2 => generators::workload().prop_map(Step::Workload),
        1 => generators::workload().prop_map(Step::WorkloadGone),
        1 => generators::budget().prop_map(Step::Budget),
        1 => which().prop_map(Step::BudgetGone),
        4 => Just(Step::DeviceClass),
        1 => Just(Step::DeviceClassGone),
    ]
}

fn of_storage() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => storage::storage_class().prop_map(Step::Class),
        1 => storage::storage_class().prop_map(Step::ClassGone),
        8 => storage::claim().prop_map(Step::Claim),
        6 => which().prop_map(Step::EphemeralClaim),
        1 => which().prop_map(Step::ClaimGone),
        6 => storage::volume_object().prop_map(|volume| Step::Volume(Box::new(volume))),
        1 => which().prop_map(Step::VolumeGone),
        6 => (which(), which()).prop_map(|(claim, volume)| Step::Join(claim, volume)),
        4 => storage::csi_node().prop_map(Step::CsiNode),
        1 => (0..generators::NODES).prop_map(Step::CsiNodeGone),
        2 => storage::csi_driver().prop_map(Step::Driver),
        1 => Just(Step::DriverGone),
        2 => storage::capacity().prop_map(Step::Capacity),
        1 => storage::capacity().prop_map(Step::CapacityGone),
        1 => (which(), 0..generators::NODES).prop_map(|(volume, node)| Step::Attach(volume, node)),
        1 => (which(), 0..generators::NODES).prop_map(|(volume, node)| Step::Detach(volume, node)),
    ]
}

fn answers() -> impl Strategy<Value = Step> {
    let rarely = || prop::bool::weighted(0.2);
    prop_oneof![
        3 => (which(), prop::bool::weighted(0.85)).prop_map(|(bind, lands)| Step::Land(bind, lands)),
        4 => (which(), rarely()).prop_map(|(which, lost)| Step::AnswerBind { which, lost }),
        3 => (which(), rarely(), any::<bool>()).prop_map(|(which, fails, shown_first)| {
            Step::AnswerVolumes { which, fails, shown_first }
        }),
        3 => (which(), rarely(), any::<u64>()).prop_map(|(which, fails, leave)| {
            Step::AnswerExtenders { which, fails, leave }
        }),
        3 => (which(), rarely(), any::<bool>()).prop_map(|(which, fails, at_once)| {
            Step::AnswerEviction { which, fails, at_once }
        }),
        3 => which().prop_map(Step::Write),
        3 => which().prop_map(Step::Show),
        1 => Just(Step::ShowAll),
    ]
}

fn decisions() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..3000_i64).prop_map(Step::Wait),
        1 => (0..20_000_i64).prop_map(Step::Wait),
        6 => (1..=8_usize).prop_map(Step::Schedule),
    ]
}
