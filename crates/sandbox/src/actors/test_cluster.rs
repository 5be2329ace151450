//! A cluster of one node in virtual time, for tests of kubelets and nodes.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;

use super::{Settings, controller, kubelet, nodes, outage, taint_eviction};
use crate::cluster::{Cluster, DeleteOptions, Part, WriteOptions};
use crate::json::{slot, text};
use crate::kinds::Resource;
use crate::store::ChangeKind;

pub(super) const SECOND: Duration = Duration::from_secs(1);

/// A cluster with one node, its kubelet, and the controllers of nodes.
pub(super) struct TestCluster {
    pub(super) inner: Arc<Cluster>,
    _tasks: JoinSet<()>,
}

impl TestCluster {
    pub(super) fn new(speed: f64) -> Self {
        let cluster = Arc::new(crate::testing::cluster());
        let node = crate::actors::nodes::plain(0);
        cluster.create(&cluster.resource("", "nodes"), "", node, &WriteOptions::default()).unwrap();
        let settings = Settings { speed };
        let mut tasks = JoinSet::new();
        let of = Arc::clone(&cluster);
        tasks.spawn(async move { kubelet::run(&of, settings).await });
        let controllers: [Box<dyn controller::Controller>; 3] = [
            Box::new(nodes::Nodes),
            Box::new(outage::Outages::new(settings)),
            Box::new(taint_eviction::TaintEvictions::new(settings)),
        ];
        for controller in controllers {
            let of = Arc::clone(&cluster);
            tasks.spawn(async move { controller::run(&of, &*controller).await });
        }
        Self { inner: cluster, _tasks: tasks }
    }

    pub(super) fn pods(&self) -> Arc<Resource> {
        self.inner.resource("", "pods")
    }

    /// Creates a pod, bound to `node` unless that is empty.
    pub(super) fn create(&self, name: &str, node: &str, edit: impl FnOnce(&mut Value)) {
        let mut pod = crate::testing::pod(name);
        if !node.is_empty() {
            pod["spec"]["nodeName"] = node.into();
        }
        edit(&mut pod);
        self.inner.create(&self.pods(), "default", pod, &WriteOptions::default()).unwrap();
    }

    pub(super) fn get(&self, name: &str) -> Option<Value> {
        self.inner.value(&self.pods(), "default", name)
    }

    pub(super) fn delete(&self, name: &str, grace: Option<i64>) {
        let options = DeleteOptions { grace, ..DeleteOptions::default() };
        self.inner.delete(&self.pods(), "default", name, &options).unwrap();
    }

    pub(super) fn edit(&self, name: &str, part: Part, edit: impl Fn(&mut Value)) {
        let options = WriteOptions::default();
        let written =
            self.inner.change(&self.pods(), "default", name, part, &options, |_, before| {
                let mut pod = before.clone();
                edit(&mut pod);
                Ok(Some(pod))
            });
        written.unwrap();
    }

    /// Waits in virtual time until `holds` accepts the pod, which is `None` once it is removed.
    pub(super) async fn wait_until(
        &self,
        name: &str,
        holds: impl Fn(Option<&Value>) -> bool,
    ) -> Option<Value> {
        for _ in 0..100_000 {
            let pod = self.get(name);
            if holds(pod.as_ref()) {
                return pod;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("timed out waiting for {name}: {:#?}", self.get(name));
    }

    pub(super) async fn wait_for_phase(&self, name: &str, phase: &str) -> Value {
        let pod =
            self.wait_until(name, |pod| pod.is_some_and(|pod| pod["status"]["phase"] == phase));
        pod.await.unwrap()
    }

    pub(super) async fn wait_until_removed(&self, name: &str) {
        self.wait_until(name, |pod| pod.is_none()).await;
    }

    /// Returns the reasons of all events about a pod, in order.
    pub(super) fn events(&self, name: &str) -> Vec<String> {
        let events = self.inner.resource("", "events").objects.list("").objects;
        let mut events: Vec<_> =
            events.iter().map(|event| (event.version, event.value())).collect();
        events.sort_by_key(|(version, _)| *version);
        let about = events.iter().filter(|(_, event)| event["involvedObject"]["name"] == name);
        about.map(|(_, event)| text(event, &["reason"]).to_owned()).collect()
    }

    /// Returns the watch events of a pod: kind, phase, and whether it was being deleted.
    pub(super) fn history(&self, name: &str) -> Vec<(ChangeKind, String, bool)> {
        let batch = self.pods().objects.after(0, 1000).unwrap();
        let about = batch.changes.iter().filter(|change| &*change.object.name == name);
        about
            .map(|change| {
                let phase = change.object.field_named("status.phase").to_owned();
                (change.kind, phase, change.object.deleting)
            })
            .collect()
    }
}

pub(super) fn annotated(annotation: &str, value: &str) -> impl FnOnce(&mut Value) {
    move |pod| slot(pod, &["metadata", "annotations"])[annotation] = value.into()
}

pub(super) fn requests(resource: &'static str, amount: &'static str) -> impl Fn(&mut Value) {
    move |pod| {
        pod["spec"]["containers"][0]["resources"]["requests"][resource] = amount.into();
    }
}
