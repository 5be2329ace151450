//! Workloads with a disturbance, each compared with the same workload without it.

use engine::change::Change;
use engine::object::{Pod, Volume};

use super::{Family, Measures, Stream, Work, basic, many, nodes, none, work};
use crate::objects::{HOSTNAME, default_pod, is_in, labels, pod, with_node_affinity};

pub(super) const NOMINATED_1: Family = Family {
    name: "Nominated1",
    work: |count| nominated(count, 1),
    quiet: Some(|count| undisputed(count, 1)),
    measures: Measures::Decisions,
};

pub(super) const NOMINATED_100: Family = Family {
    name: "Nominated100",
    work: |count| nominated(count, 100),
    quiet: Some(|count| undisputed(count, 100)),
    measures: Measures::Decisions,
};

pub(super) const NOMINATED_1000: Family = Family {
    name: "Nominated1000",
    work: |count| nominated(count, 1000),
    quiet: Some(|count| undisputed(count, 1000)),
    measures: Measures::Decisions,
};

pub(super) const FULL_CLUSTER: Family = Family {
    name: "FullCluster",
    work: full_cluster,
    quiet: Some(|count| Work { waiting: none(), ..full_cluster(count) }),
    measures: Measures::Decisions,
};

pub(super) const AUDIT_WAITING: Family = Family {
    name: "AuditWaiting",
    work: audit_waiting,
    quiet: Some(basic),
    measures: Measures::AuditParts,
};

/// Returns pods that run on nodes, `on_each` per node.
fn running(
    nodes: usize,
    on_each: usize,
    make: impl Fn(&str, usize) -> Pod + 'static,
) -> Stream<Pod> {
    Box::new(many("run", nodes * on_each, make).enumerate().map(move |(index, mut pod)| {
        pod.node = format!("node-{:05}", index % nodes).into();
        pod.start_time = Some(index as i64);
        pod
    }))
}

/// `nominated` pods wait for their victims to terminate, each on a node where a measured pod would fit without the
/// nominated one.
fn nominated(count: usize, nominated: usize) -> Work {
    let nominated = nominated.min(count);
    let waiting = many("high", nominated, |name, index| {
        let mut high = pod("ns", name, 4000, 500 << 20, &[]);
        high.priority = 10;
        high.nominated_node = format!("node-{index:05}").into();
        with_node_affinity(high, &[is_in("pool", &["reserved"])], &[])
    });
    Work { waiting, ..undisputed(count, nominated) }
}

/// The workload of [`nominated`] without the nominated pods.
fn undisputed(count: usize, nominated: usize) -> Work {
    let nominated = nominated.min(count);
    let nodes = nodes(count, 0).enumerate().map(move |(index, mut node)| {
        if index < nominated {
            node.labels = labels(&[(HOSTNAME, &*node.name), ("pool", "reserved")]);
        }
        node
    });
    let victims = running(nominated, 1, |name, _| {
        let mut victim = pod("ns", name, 3000, 500 << 20, &[]);
        victim.priority = -10;
        (victim.terminating, victim.preempted) = (true, true);
        victim
    });
    let objects = Box::new(victims.map(|victim| Change::Pod(victim.into())));
    Work { nodes: Box::new(nodes), objects, ..basic(count) }
}

/// All nodes are full of pods of one priority. Twice as many pods as nodes are unschedulable and tried again whenever a
/// pod leaves and makes room for a measured one.
fn full_cluster(count: usize) -> Work {
    const ON_EACH: usize = 10;
    let full = || running(count, ON_EACH, |name, _| pod("ns", name, 400, 500 << 20, &[]));
    let measured = many("pod", count.min(1000), |name, _| pod("ns", name, 400, 500 << 20, &[]));
    let waiting = many("large", 2 * count, |name, index| {
        let app = format!("app-{}", index % 10);
        pod("ns", name, 800, 500 << 20, &[("app", &*app)])
    });
    let leaving = full().step_by(ON_EACH).map(|pod| pod.uid).take(count.min(1000));
    Work {
        objects: Box::new(full().map(|pod| Change::Pod(pod.into()))),
        waiting,
        leaving: Box::new(leaving),
        ..work(nodes(count, 0), none(), measured)
    }
}

/// Up to 100,000 different pods wait, because the claims that they name do not exist.
fn audit_waiting(count: usize) -> Work {
    let waiting = many("pod-with-claim", (20 * count).min(100_000), |name, _| {
        let mut pod = default_pod("ns", name, &[]);
        pod.spec_mut().volumes = [Volume::Claim { name: name.into() }].into();
        pod
    });
    Work { waiting, ..basic(count) }
}
