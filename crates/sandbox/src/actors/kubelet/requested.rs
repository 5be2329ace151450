//! Requests and host ports of the admitted pods of each node, and the check whether one more pod fits.
//!
//! The sums are updated with every admitted and finished pod, so a check takes time proportional to the
//! requests of the pod, not to the number of pods on the node.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::actors::affinity;
use crate::json::{at, int, list, map, quantity, text, truth};
use crate::quantity::Quantity;

/// Reason and message of a rejected pod.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) reason: String,
    pub(super) message: String,
}

/// Amounts by resource: thousandths for CPU, whole units for all others.
type Amounts = BTreeMap<String, i128>;

/// A host port: protocol, number, and host address.
type Port = (String, i64, String);

/// Requests and host ports of one pod.
#[derive(Debug, PartialEq, Eq)]
struct PodRequests {
    node: String,
    amounts: Amounts,
    ports: Vec<Port>,
}

/// Sum of the requests and host ports of the pods of a node.
#[derive(Debug, Default, PartialEq, Eq)]
struct NodeRequests {
    pods: i128,
    amounts: Amounts,
    ports: BTreeMap<Port, usize>,
}

/// Requests and host ports of the admitted pods of all nodes.
#[derive(Debug, Default)]
pub(super) struct Requested {
    pods_by_uid: BTreeMap<Box<str>, PodRequests>,
    nodes: BTreeMap<String, NodeRequests>,
}

impl Requested {
    /// Counts an admitted pod once, with its current requests.
    pub(super) fn add(&mut self, pod: &Value) {
        let pod_requests = PodRequests::of(pod);
        let uid = crate::json::uid(pod);
        if self.pods_by_uid.get(uid) == Some(&pod_requests) {
            return;
        }
        self.remove(uid);
        let node_requests = self.nodes.entry(pod_requests.node.clone()).or_default();
        node_requests.pods += 1;
        for (resource, amount) in &pod_requests.amounts {
            *node_requests.amounts.entry(resource.clone()).or_default() += amount;
        }
        for port in &pod_requests.ports {
            *node_requests.ports.entry(port.clone()).or_default() += 1;
        }
        self.pods_by_uid.insert(uid.into(), pod_requests);
    }

    /// Removes a pod from the sums.
    pub(super) fn remove(&mut self, uid: &str) {
        let Some(pod_requests) = self.pods_by_uid.remove(uid) else { return };
        let Some(node_requests) = self.nodes.get_mut(&pod_requests.node) else { return };
        node_requests.pods -= 1;
        for (resource, amount) in &pod_requests.amounts {
            *node_requests.amounts.entry(resource.clone()).or_default() -= amount;
        }
        for port in &pod_requests.ports {
            if let Some(count) = node_requests.ports.get_mut(port) {
                *count -= 1;
            }
        }
        node_requests.amounts.retain(|_, amount| *amount != 0);
        node_requests.ports.retain(|_, count| *count > 0);
        if node_requests.pods == 0 {
            self.nodes.remove(&pod_requests.node);
        }
    }

    /// Checks whether a pod that is not counted yet fits on a node, in upstream's order.
    pub(super) fn check(&self, pod: &Value, node: &Value) -> Result<(), Rejection> {
        let pod_requests = PodRequests::of(pod);
        let none = NodeRequests::default();
        let node_requests = self.nodes.get(crate::json::name(node)).unwrap_or(&none);
        check_amounts(&pod_requests, node_requests, node)?;
        if !affinity::matches(pod, node) {
            let message = "node(s) didn't match Pod's node affinity/selector";
            return Err(Rejection::predicate("NodeAffinity", message));
        }
        if pod_requests.ports.iter().any(|port| node_requests.conflicts(port)) {
            let message = "node(s) didn't have free ports for the requested pod ports";
            return Err(Rejection::predicate("NodePorts", message));
        }
        // Kubelets ignore taints with other effects.
        if !affinity::tolerates_all(pod, node, &["NoExecute"]) {
            let message = "node(s) had taints that the pod didn't tolerate";
            return Err(Rejection::predicate("TaintToleration", message));
        }
        Ok(())
    }
}

impl Rejection {
    fn predicate(name: &str, message: &str) -> Self {
        Self { reason: name.to_owned(), message: format!("Predicate {name} failed: {message}") }
    }

    fn resource(name: &str, requested: i128, used: i128, capacity: i128) -> Self {
        Self {
            reason: format!("OutOf{name}"),
            message: format!(
                "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
            ),
        }
    }
}

fn check_amounts(
    pod_requests: &PodRequests,
    node_requests: &NodeRequests,
    node: &Value,
) -> Result<(), Rejection> {
    let given = |part| at(node, &["status", part]).filter(|given| given.is_object());
    // The node has reported neither allocatable nor capacity yet.
    let Some(given) = given("allocatable").or_else(|| given("capacity")) else { return Ok(()) };
    let capacity =
        |resource: &str| quantity(given, &[resource]).map(|quantity| units(resource, quantity));
    let pods = capacity("pods").unwrap_or(0);
    if node_requests.pods + 1 > pods {
        return Err(Rejection::resource("pods", 1, node_requests.pods, pods));
    }
    let first = ["cpu", "memory", "ephemeral-storage"];
    let others =
        pod_requests.amounts.keys().map(String::as_str).filter(|name| !first.contains(name));
    for resource in first.into_iter().chain(others) {
        let requested = pod_requests.amounts.get(resource).copied().unwrap_or(0);
        let capacity = match capacity(resource) {
            Some(capacity) => capacity,
            // As upstream, an extended resource that the node lacks counts as managed at cluster level.
            None if extended(resource) => continue,
            None => 0,
        };
        let used = node_requests.amounts.get(resource).copied().unwrap_or(0);
        if requested > 0 && requested > capacity - used {
            return Err(Rejection::resource(resource, requested, used, capacity));
        }
    }
    Ok(())
}

/// Returns `true` if a resource name has a domain other than `kubernetes.io`.
fn extended(resource: &str) -> bool {
    let domain = resource.split_once('/').map_or("", |(domain, _)| domain);
    !domain.is_empty() && domain != "kubernetes.io" && !domain.ends_with(".kubernetes.io")
}

fn units(resource: &str, quantity: Quantity) -> i128 {
    i128::from(if resource == "cpu" { quantity.milli() } else { quantity.whole() })
}

impl PodRequests {
    fn of(pod: &Value) -> Self {
        let mut names = crate::pods::resources(pod, "requests");
        names.extend(map(pod, &["spec", "overhead"]).map(|(name, _)| name.clone()));
        names.extend(map(pod, &["spec", "resources", "requests"]).map(|(name, _)| name.clone()));
        let amounts = names.into_iter().map(|name| {
            let amount = units(&name, crate::pods::amount(pod, "requests", &name));
            (name, amount)
        });
        Self {
            node: text(pod, &["spec", "nodeName"]).to_owned(),
            amounts: amounts.filter(|(_, amount)| *amount > 0).collect(),
            ports: ports(pod),
        }
    }
}

impl NodeRequests {
    /// Returns `true` if a port is in use on the same address, or either address is the wildcard.
    fn conflicts(&self, (protocol, number, address): &Port) -> bool {
        let of_number = (protocol.clone(), *number, String::new())..;
        let taken = self.ports.range(of_number).map(|(port, _)| port);
        let mut taken = taken.take_while(|port| port.0 == *protocol && port.1 == *number);
        taken.any(|port| port.2 == ANY || *address == ANY || port.2 == *address)
    }
}

const ANY: &str = "0.0.0.0";

/// Returns the host ports of a pod.
fn ports(pod: &Value) -> Vec<Port> {
    let host = truth(pod, &["spec", "hostNetwork"]);
    let sidecars = list(pod, &["spec", "initContainers"])
        .iter()
        .filter(|container| text(container, &["restartPolicy"]) == "Always");
    let containers = list(pod, &["spec", "containers"]).iter().chain(sidecars);
    let ports = containers.flat_map(|container| list(container, &["ports"]));
    ports
        .filter_map(|port| {
            let own = || int(port, &["containerPort"]).filter(|_| host);
            let number = int(port, &["hostPort"]).filter(|number| *number > 0).or_else(own)?;
            let or = |field: &str, usual: &str| {
                let given = text(port, &[field]);
                if given.is_empty() { usual.to_owned() } else { given.to_owned() }
            };
            Some((or("protocol", "TCP"), number, or("hostIP", ANY)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node() -> Value {
        json!({"metadata": {"name": "n", "labels": {"zone": "z"}}, "status": {"allocatable": {
            "cpu": "1", "memory": "1Gi", "pods": "3", "example.com/gpu": "2"}}})
    }

    fn pod(uid: &str, requests: &Value) -> Value {
        json!({"metadata": {"name": uid, "uid": uid}, "spec": {"nodeName": "n", "containers": [
            {"name": "c", "resources": {"requests": requests}}]}})
    }

    fn rejection(requested: &Requested, pod: &Value) -> (String, String) {
        let rejection = requested.check(pod, &node()).unwrap_err();
        (rejection.reason, rejection.message)
    }

    #[test]
    fn a_pod_that_exceeds_the_free_resources_is_rejected_in_upstreams_words() {
        let mut requested = Requested::default();
        requested.add(&pod("a", &json!({"cpu": "900m", "example.com/gpu": "1"})));
        assert_eq!(
            rejection(&requested, &pod("b", &json!({"cpu": "101m", "memory": "2Gi"}))),
            (
                "OutOfcpu".to_owned(),
                "Node didn't have enough resource: cpu, requested: 101, used: 900, capacity: 1000"
                    .to_owned()
            )
        );
        for (requests, reason) in [
            (json!({"memory": "1025Mi"}), "OutOfmemory"),
            (json!({"ephemeral-storage": "1"}), "OutOfephemeral-storage"),
            (json!({"example.com/gpu": "2"}), "OutOfexample.com/gpu"),
        ] {
            assert_eq!(rejection(&requested, &pod("b", &requests)).0, reason);
        }
        for requests in
            [json!({"cpu": "100m", "memory": "1Gi"}), json!({"example.com/other": "9"}), json!({})]
        {
            assert_eq!(requested.check(&pod("b", &requests), &node()), Ok(()), "{requests}");
        }
        requested.add(&pod("b", &json!({})));
        requested.add(&pod("c", &json!({})));
        assert_eq!(rejection(&requested, &pod("d", &json!({}))).0, "OutOfpods");
    }

    #[test]
    fn adding_and_removing_pods_leaves_the_sums_as_they_were() {
        let mut requested = Requested::default();
        let mut first = pod("a", &json!({"cpu": "500m"}));
        first["spec"]["containers"][0]["ports"] =
            json!([{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]);
        requested.add(&first);
        requested.add(&first);
        assert_eq!(requested.nodes["n"].amounts["cpu"], 500);
        first["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "700m".into();
        requested.add(&first);
        assert_eq!(requested.nodes["n"].amounts["cpu"], 700);
        assert_eq!(rejection(&requested, &pod("b", &json!({"cpu": "301m"}))).0, "OutOfcpu");
        requested.remove("a");
        requested.remove("a");
        assert!(requested.nodes.is_empty() && requested.pods_by_uid.is_empty());
    }

    #[test]
    fn ports_labels_and_taints_are_checked_as_by_a_kubelet() {
        let mut requested = Requested::default();
        let with_port = |uid: &str, address: &str, protocol: &str| {
            let mut pod = pod(uid, &json!({}));
            pod["spec"]["containers"][0]["ports"] = json!([
                {"containerPort": 8080, "hostPort": 80, "hostIP": address, "protocol": protocol}]);
            pod
        };
        requested.add(&with_port("a", "10.0.0.1", "TCP"));
        for (address, protocol, taken) in [
            ("10.0.0.1", "TCP", true),
            ("", "TCP", true),
            ("10.0.0.2", "TCP", false),
            ("10.0.0.1", "UDP", false),
        ] {
            let pod = with_port("b", address, protocol);
            assert_eq!(requested.check(&pod, &node()).is_err(), taken, "{address} {protocol}");
        }
        let mut host = pod("c", &json!({}));
        host["spec"]["hostNetwork"] = true.into();
        host["spec"]["containers"][0]["ports"] = json!([{"containerPort": 80}]);
        assert_eq!(rejection(&requested, &host).0, "NodePorts");
        let mut elsewhere = pod("d", &json!({}));
        elsewhere["spec"]["nodeSelector"] = json!({"zone": "y"});
        assert_eq!(
            rejection(&requested, &elsewhere),
            (
                "NodeAffinity".to_owned(),
                "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
                    .to_owned()
            )
        );
        let mut tainted = node();
        for (effect, reason) in [("NoSchedule", None), ("NoExecute", Some("TaintToleration"))] {
            tainted["spec"]["taints"] = json!([{"key": "k", "effect": effect}]);
            let rejection = Requested::default().check(&pod("e", &json!({})), &tainted).err();
            assert_eq!(rejection.map(|one| one.reason).as_deref(), reason);
        }
    }
}
