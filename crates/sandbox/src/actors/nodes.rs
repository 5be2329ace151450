//! Controller of Nodes, and the node objects of the sandbox.

use std::net::Ipv4Addr;
use std::time::Duration;

use serde_json::{Value, json};

use super::controller::{Controller, Key, own_key};
use crate::cluster::{Cluster, DeleteOptions, Part, WriteOptions, micros, seconds};
use crate::json::{at, list, slot, text, truth};
use crate::status_error::ApiResult;
use crate::store::{Change, ChangeKind};
use crate::subresources::set_condition;

/// Interval of heartbeats. Only clients read them here.
const HEARTBEAT: Duration = Duration::from_secs(40);
const LEASE_SECONDS: i64 = 120;
const LEASES: &str = "kube-node-lease";
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// Returns the node with this number, as `--nodes` creates them.
pub fn plain(number: usize) -> Value {
    let zone = ["zone-a", "zone-b", "zone-c"][number % 3];
    group_node(
        &format!("node-{number}"),
        &json!({
            "labels": {"topology.kubernetes.io/zone": zone, "topology.kubernetes.io/region": "sandbox"},
        }),
    )
}

/// Returns a node with the labels, taints and capacity of a node group.
pub fn group_node(name: &str, group: &Value) -> Value {
    let mut labels = json!({
        "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "sandbox",
    });
    for (key, value) in crate::json::map(group, &["labels"]) {
        labels[key] = value.clone();
    }
    let mut capacity = json!({
        "cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110",
        "hugepages-1Gi": "0", "hugepages-2Mi": "0",
    });
    for (key, value) in crate::json::map(group, &["capacity"]) {
        capacity[key] = value.as_str().map_or_else(|| Value::from(value.to_string()), Value::from);
    }
    let mut node = json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {"capacity": capacity, "allocatable": capacity},
    });
    if let Some(taints) = group.get("taints") {
        node["spec"]["taints"] = taints.clone();
    }
    node
}

/// The controller of Nodes: registers them, taints cordoned ones, and renews their leases.
pub(super) struct Nodes;

impl Controller for Nodes {
    fn sources(&self) -> &'static [(&'static str, &'static str)] {
        &[("", "nodes")]
    }

    fn keys_of_change(&self, cluster: &Cluster, _: usize, change: &Change) -> Vec<Key> {
        if change.kind == ChangeKind::Deleted {
            let leases = cluster.resource("coordination.k8s.io", "leases");
            let _ = cluster.delete(&leases, LEASES, &change.object.name, &DeleteOptions::default());
            return Vec::new();
        }
        vec![own_key(change)]
    }

    fn reconcile(&self, cluster: &Cluster, (_, node_name): &Key) -> ApiResult<Option<Duration>> {
        let nodes = cluster.resource("", "nodes");
        let Some(node) = cluster.value(&nodes, "", node_name) else { return Ok(None) };
        register(cluster, node_name)?;
        taint(cluster, &node)?;
        // A failed node does not renew its lease.
        if !super::outage::fails(&node) {
            renew_lease(cluster, node_name)?;
        }
        Ok(Some(HEARTBEAT))
    }
}

/// Sets the missing status fields of a node, as a kubelet does when it registers.
fn register(cluster: &Cluster, name: &str) -> ApiResult<()> {
    let nodes = cluster.resource("", "nodes");
    let now = seconds(cluster.now());
    cluster.change(&nodes, "", name, Part::Status, &WriteOptions::default(), |current, before| {
        if crate::json::condition(before, "Ready").is_some() {
            return Ok(None);
        }
        let mut node = before.clone();
        let status = slot(&mut node, &["status"]);
        set_healthy(status, &now);
        let address = Ipv4Addr::from(u32::from(Ipv4Addr::new(172, 20, 0, 0)) + (current.version % (1 << 16)) as u32);
        crate::json::default(status, "addresses", json!([
            {"type": "InternalIP", "address": address.to_string()}, {"type": "Hostname", "address": name},
        ]));
        crate::json::default(status, "nodeInfo", json!({
            "architecture": "amd64", "bootID": "", "containerRuntimeVersion": "sandbox://1.0",
            "kernelVersion": "simulated", "kubeProxyVersion": "", "kubeletVersion": "v1.36.4",
            "machineID": "", "operatingSystem": "linux", "osImage": "Jindou sandbox", "systemUUID": "",
        }));
        crate::json::default(status, "daemonEndpoints", json!({"kubeletEndpoint": {"Port": 10250}}));
        if at(status, &["allocatable"]).is_none()
            && let Some(capacity) = at(status, &["capacity"]).cloned()
        {
            status["allocatable"] = capacity;
        }
        Ok(Some(node))
    })?;
    Ok(())
}

/// Sets the conditions of a node whose kubelet works.
pub(super) fn set_healthy(status: &mut Value, now: &str) {
    for (kind, truth, reason, message) in [
        (
            "MemoryPressure",
            "False",
            "KubeletHasSufficientMemory",
            "kubelet has sufficient memory available",
        ),
        ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
    ] {
        set_condition(
            status,
            json!({
                "type": kind, "status": truth, "reason": reason, "message": message,
                "lastHeartbeatTime": now, "lastTransitionTime": now,
            }),
        );
    }
}

/// Adds or removes the taint of cordoned nodes.
fn taint(cluster: &Cluster, node: &Value) -> ApiResult<()> {
    let cordoned = truth(node, &["spec", "unschedulable"]);
    let tainted =
        list(node, &["spec", "taints"]).iter().any(|taint| text(taint, &["key"]) == CORDONED);
    if cordoned == tainted {
        return Ok(());
    }
    let (nodes, now) = (cluster.resource("", "nodes"), seconds(cluster.now()));
    let options = WriteOptions::default();
    cluster.change(&nodes, "", crate::json::name(node), Part::Main, &options, |_, before| {
        let mut node = before.clone();
        let taints = list(before, &["spec", "taints"]).iter();
        let mut taints: Vec<Value> =
            taints.filter(|taint| text(taint, &["key"]) != CORDONED).cloned().collect();
        if truth(before, &["spec", "unschedulable"]) {
            taints.push(json!({"key": CORDONED, "effect": "NoSchedule", "timeAdded": now}));
        }
        if taints.is_empty() {
            crate::json::members(slot(&mut node, &["spec"])).remove("taints");
        } else {
            slot(&mut node, &["spec"])["taints"] = taints.into();
        }
        Ok(Some(node))
    })?;
    Ok(())
}

fn renew_lease(cluster: &Cluster, name: &str) -> ApiResult<()> {
    let leases = cluster.resource("coordination.k8s.io", "leases");
    let now = micros(cluster.now());
    if leases.objects.get(&format!("{LEASES}/{name}")).is_none() {
        let owner = cluster.value(&cluster.resource("", "nodes"), "", name).map(|node| {
            json!([{"apiVersion": "v1", "kind": "Node", "name": name, "uid": crate::json::uid(&node)}])
        });
        let lease = json!({
            "metadata": {"name": name, "ownerReferences": owner},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
        });
        return super::workload::create(cluster, &leases, LEASES, lease).map(drop);
    }
    cluster.change(&leases, LEASES, name, Part::Main, &WriteOptions::default(), |_, before| {
        let mut lease = before.clone();
        lease["spec"]["renewTime"] = now.as_str().into();
        Ok(Some(lease))
    })?;
    Ok(())
}
