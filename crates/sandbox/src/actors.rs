//! The actors of the cluster: kubelets and controllers.
//!
//! Each controller is triggered by changes of the kinds that it watches, reconciles one object at a
//! time, and keeps no state that it could not read again from the API.

mod affinity;
mod controller;
mod custom;
pub(crate) mod daemon_set;
mod deployment;
mod disruption;
mod ephemeral_volumes;
mod expiry;
pub(crate) mod gc;
mod job;
mod kubelet;
mod namespace;
pub mod nodes;
mod outage;
mod pod_gc;
mod protection;
mod quota;
mod recorder;
mod replica_set;
pub(crate) mod revision;
mod stateful_set;
mod taint_eviction;
#[cfg(test)]
mod test_cluster;
pub mod usage;
mod volumes;
mod workload;

pub(crate) use workload::fingerprint;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::cluster::Cluster;

/// Settings shared by all actors.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Factor by which the time of actors runs faster than real time.
    pub speed: f64,
}

/// Lower limit of [`Settings::speed`]; smaller values count as this one.
const SPEED_MIN: f64 = 0.001;
/// Longest real time that an actor waits: 34 years.
const WAIT_MAX: Duration = Duration::from_secs(1 << 30);

impl Default for Settings {
    fn default() -> Self {
        Self { speed: 1.0 }
    }
}

impl Settings {
    /// Returns the speed, at least [`SPEED_MIN`].
    fn speed(self) -> f64 {
        self.speed.max(SPEED_MIN)
    }

    /// Returns the real time that corresponds to `time` of the actors.
    fn wait(self, time: Duration) -> Duration {
        let seconds = time.as_secs_f64() / self.speed();
        Duration::try_from_secs_f64(seconds).map_or(WAIT_MAX, |wait| wait.min(WAIT_MAX))
    }
}

/// Starts all actors as tasks that end when `stop` is cancelled.
pub fn start(cluster: &Arc<Cluster>, settings: Settings, stop: &CancellationToken) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let controllers: Vec<Box<dyn controller::Controller>> = vec![
        Box::new(custom::Definitions),
        Box::new(daemon_set::DaemonSets),
        Box::new(deployment::Deployments::new(settings)),
        Box::new(disruption::Budgets),
        Box::new(ephemeral_volumes::EphemeralVolumes),
        Box::new(job::Jobs::new(settings)),
        Box::new(namespace::Namespaces),
        Box::new(nodes::Nodes),
        Box::new(outage::Outages::new(settings)),
        Box::new(protection::ClaimProtection),
        Box::new(protection::VolumeProtection),
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
