//! Who makes things happen in the cluster: nodes with kubelets, and controllers.
//!
//! Each controller is woken by changes of the objects that it is about, brings one object at a time
//! to where it should be, and remembers nothing that it could not find out again.

mod affinity;
mod controller;
mod custom;
pub(crate) mod daemon_set;
mod deployment;
mod disruption;
mod expiry;
pub(crate) mod gc;
mod job;
mod kubelet;
mod namespace;
pub mod nodes;
mod outage;
mod pod_gc;
mod quota;
mod recorder;
mod replica_set;
pub(crate) mod revision;
mod stateful_set;
mod taint_eviction;
pub mod usage;
mod volumes;
mod workload;
#[cfg(test)]
mod yard;

pub(crate) use workload::fingerprint;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;

/// How actors behave.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// How many seconds of theirs pass in one second.
    pub speed: f64,
}

/// The least speed that counts.
const SPEED_LEAST: f64 = 0.001;
/// The longest that an actor waits for anything: 34 years.
const WAIT_LONGEST: Duration = Duration::from_secs(1 << 30);

impl Default for Settings {
    fn default() -> Self {
        Self { speed: 1.0 }
    }
}

impl Settings {
    /// How long an actor waits for so much of its time to pass.
    fn wait(self, time: Duration) -> Duration {
        let seconds = time.as_secs_f64() / self.speed.max(SPEED_LEAST);
        Duration::try_from_secs_f64(seconds).map_or(WAIT_LONGEST, |wait| wait.min(WAIT_LONGEST))
    }
}

/// Starts all actors; they end when told to stop.
pub fn start(cluster: &Arc<Cluster>, settings: Settings, stop: &CancellationToken) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let controllers: Vec<Box<dyn controller::Controller>> = vec![
        Box::new(custom::Definitions),
        Box::new(daemon_set::DaemonSets),
        Box::new(deployment::Deployments::new(settings)),
        Box::new(disruption::Budgets),
        Box::new(job::Jobs::new(settings)),
        Box::new(namespace::Namespaces),
        Box::new(nodes::Nodes),
        Box::new(outage::Outages::new(settings)),
        Box::new(quota::Quotas),
        Box::new(replica_set::ReplicaSets::new("apps", "replicasets", "ReplicaSet")),
        Box::new(replica_set::ReplicaSets::new(
            "",
            "replicationcontrollers",
            "ReplicationController",
        )),
        Box::new(stateful_set::StatefulSets),
        Box::new(taint_eviction::TaintEvictions::new(settings)),
        Box::new(volumes::Claims::default()),
    ];
    for controller in controllers {
        let (cluster, stop) = (Arc::clone(cluster), stop.clone());
        tasks.spawn(async move {
            stop.run_until_cancelled(controller::run(&cluster, &*controller)).await;
        });
    }
    let (of, until) = (Arc::clone(cluster), stop.clone());
    tasks.spawn(async move {
        until.run_until_cancelled(kubelet::run(&of, settings)).await;
    });
    let (of, until) = (Arc::clone(cluster), stop.clone());
    tasks.spawn(async move {
        until.run_until_cancelled(pod_gc::run(&of, settings)).await;
    });
    let (of, until) = (Arc::clone(cluster), stop.clone());
    tasks.spawn(async move {
        until.run_until_cancelled(gc::run(&of)).await;
    });
    let (of, until) = (Arc::clone(cluster), stop.clone());
    tasks.spawn(async move {
        until.run_until_cancelled(expiry::run(&of)).await;
    });
    let (of, until) = (Arc::clone(cluster), stop.clone());
    tasks.spawn(async move {
        until.run_until_cancelled(expiry::forget_changes(&of)).await;
    });
    tasks
}
