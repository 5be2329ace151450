//! Checks placements against hard constraints. It reads Kubernetes objects and shares no code with the engine.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use api::lower::quantity::Quantity;
use serde_json::{Value, json};

/// The objects that decide about placements.
struct Cluster<'a> {
    nodes: BTreeMap<&'a str, &'a Value>,
    /// Pods on nodes that exist.
    placed: Vec<Placed<'a>>,
    /// Labels of namespaces, for terms that select them.
    namespaces: BTreeMap<&'a str, &'a Value>,
}

struct Placed<'a> {
    pod: &'a Value,
    node: &'a Value,
}

/// Returns the violations of hard constraints by placements: requests above a node's allocatable resources, taints that
/// are not tolerated, node affinity, pod affinity, and spreading. Pods without a node and terminated pods are ignored.
///
/// No pod may have been deleted after the last one was placed, since that changes spreading.
pub fn violations(nodes: &[Value], pods: &[Value], namespaces: &[Value]) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    let by_name = |objects| {
        let list: &[Value] = objects;
        list.iter().map(|object| (text(object, "/metadata/name"), object)).collect()
    };
    let mut cluster =
        Cluster { nodes: by_name(nodes), placed: Vec::new(), namespaces: by_name(namespaces) };
    for pod in pods {
        let on = text(pod, "/spec/nodeName");
        if matches!(text(pod, "/status/phase"), "Succeeded" | "Failed") {
            continue;
        }
        match cluster.nodes.get(on) {
            Some(node) => cluster.placed.push(Placed { pod, node }),
            None if on.is_empty() => {}
            None => wrong.push(format!("{} is on {on}, which does not exist", name(pod))),
        }
    }
    cluster.check_resources(&mut wrong)?;
    cluster.check_nodes(&mut wrong);
    cluster.check_terms(&mut wrong);
    cluster.check_spreading(&mut wrong);
    Ok(wrong)
}

impl Cluster<'_> {
    fn check_resources(&self, wrong: &mut Vec<String>) -> Result<()> {
        let mut used: BTreeMap<&str, BTreeMap<&str, i128>> = BTreeMap::new();
        for Placed { pod, node } in &self.placed {
            let used = used.entry(text(node, "/metadata/name")).or_default();
            *used.entry("pods").or_default() += MILLI;
            for container in list(pod, "/spec/containers") {
                for (resource, amount) in amounts(container, "/resources/requests")? {
                    *used.entry(resource).or_default() += amount;
                }
            }
        }
        for (on, used) in used {
            let Some(node) = self.nodes.get(on) else { continue };
            let allocatable = amounts(node, "/status/allocatable")?;
            for (resource, amount) in used {
                let has = allocatable.get(resource).copied().unwrap_or(0);
                if amount > has {
                    let (has, amount) = (shown(has), shown(amount));
                    wrong.push(format!(
                        "{on} has {has} of {resource} and its pods request {amount}"
                    ));
                }
            }
        }
        Ok(())
    }

    fn check_nodes(&self, wrong: &mut Vec<String>) {
        for Placed { pod, node } in &self.placed {
            let on = text(node, "/metadata/name");
            if let Some(taint) = untolerated_taint(pod, node) {
                wrong.push(format!("{} is on {on} and does not tolerate {taint}", name(pod)));
            }
            if !matches_node_affinity(pod, node) {
                wrong.push(format!("{} is on {on}, which its affinity excludes", name(pod)));
            }
        }
    }

    /// Required affinity and anti-affinity between pods.
    fn check_terms(&self, wrong: &mut Vec<String>) {
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let mut counts = Counts::default();
        for (kind, attracts) in [("podAffinity", true), ("podAntiAffinity", false)] {
            let pointer = format!("/spec/affinity/{kind}/{required}");
            for placed in &self.placed {
                for term in list(placed.pod, &pointer) {
                    let key = text(term, "/topologyKey");
                    let Some(domain) = label(placed.node, key) else {
                        if attracts {
                            wrong.push(format!("{} is on a node without {key}", name(placed.pod)));
                        }
                        continue;
                    };
                    let per_domain = counts.of(self, placed.pod, term);
                    let others = |domain: &str, selves: usize| {
                        per_domain.get(domain).copied().unwrap_or(0) - selves
                    };
                    let selves = usize::from(self.term_selects(placed.pod, term, placed.pod));
                    let near = others(domain, selves);
                    let anywhere = per_domain.values().sum::<usize>() - selves;
                    // The first of a set of pods with affinity to each other may go anywhere.
                    let alone = selves == 1 && anywhere == 0;
                    if attracts && near == 0 && !alone {
                        wrong.push(format!("{} violates its required affinity", name(placed.pod)));
                    }
                    if !attracts && near > 0 {
                        wrong.push(format!(
                            "{} violates its anti-affinity: {key} {domain} has {near} pods that it excludes",
                            name(placed.pod)
                        ));
                    }
                }
            }
        }
    }

    fn check_spreading(&self, wrong: &mut Vec<String>) {
        // Pods of one workload have equal constraints, which are checked once.
        let mut done = BTreeSet::new();
        for Placed { pod, .. } in &self.placed {
            for constraint in list(pod, "/spec/topologySpreadConstraints") {
                let hard = text(constraint, "/whenUnsatisfiable") == "DoNotSchedule";
                let chosen = (&pod["spec"]["affinity"], &pod["spec"]["nodeSelector"]);
                let chosen = format!("{}{}{}", chosen.0, chosen.1, pod["spec"]["tolerations"]);
                let namespace = text(pod, "/metadata/namespace");
                if hard && done.insert((namespace, constraint.to_string(), chosen)) {
                    self.check_constraint(pod, constraint, wrong);
                }
            }
        }
    }

    fn check_constraint(&self, pod: &Value, constraint: &Value, wrong: &mut Vec<String>) {
        let key = text(constraint, "/topologyKey");
        let is_eligible = |node: &Value| {
            let by_affinity = text(constraint, "/nodeAffinityPolicy") != "Ignore";
            let by_taints = text(constraint, "/nodeTaintsPolicy") == "Honor";
            (!by_affinity || matches_node_affinity(pod, node))
                && (!by_taints || untolerated_taint(pod, node).is_none())
        };
        let eligible = self.nodes.values().filter(|node| is_eligible(node));
        let mut per_domain: BTreeMap<&str, i64> =
            eligible.filter_map(|node| Some((label(node, key)?, 0))).collect();
        for other in &self.placed {
            let same = text(other.pod, "/metadata/namespace") == text(pod, "/metadata/namespace");
            if same && selects(&constraint["labelSelector"], &other.pod["metadata"]["labels"]) {
                let count = label(other.node, key).and_then(|domain| per_domain.get_mut(domain));
                *count.unwrap_or(&mut 0) += 1;
            }
        }
        let domains_min = constraint["minDomains"].as_i64().unwrap_or(1);
        let fewest = per_domain.values().min().copied().unwrap_or(0);
        let fewest = if (per_domain.len() as i64) < domains_min { 0 } else { fewest };
        let most = per_domain.values().max().copied().unwrap_or(0);
        let allowed = constraint["maxSkew"].as_i64().unwrap_or(1);
        if most - fewest > allowed {
            wrong.push(format!(
                "pods like {} have a skew of {} over {key}, above {allowed}",
                name(pod),
                most - fewest
            ));
        }
    }

    /// Returns `true` if a pod affinity term of a pod selects another pod.
    fn term_selects(&self, pod: &Value, term: &Value, other: &Value) -> bool {
        let there = text(other, "/metadata/namespace");
        let by_labels = &term["namespaceSelector"];
        let named = list(term, "/namespaces");
        let in_namespace = if named.is_empty() && by_labels.is_null() {
            there == text(pod, "/metadata/namespace")
        } else {
            let labels = self.namespaces.get(there).map(|found| &found["metadata"]["labels"]);
            named.iter().any(|name| name == there)
                || selects(by_labels, labels.unwrap_or(&Value::Null))
        };
        in_namespace && selects(&term["labelSelector"], &other["metadata"]["labels"])
    }
}

/// Number of pods that a term selects, by domain; counted once for equal terms of a namespace.
#[derive(Default)]
struct Counts<'a>(BTreeMap<(String, String), BTreeMap<&'a str, usize>>);

impl<'a> Counts<'a> {
    fn of(
        &mut self,
        cluster: &Cluster<'a>,
        pod: &'a Value,
        term: &'a Value,
    ) -> &BTreeMap<&'a str, usize> {
        let key = (text(pod, "/metadata/namespace").to_owned(), term.to_string());
        self.0.entry(key).or_insert_with(|| {
            let mut counts = BTreeMap::new();
            for other in cluster.placed.iter().filter(|o| cluster.term_selects(pod, term, o.pod)) {
                if let Some(domain) = label(other.node, text(term, "/topologyKey")) {
                    *counts.entry(domain).or_default() += 1;
                }
            }
            counts
        })
    }
}

/// Key of the taint that `spec.unschedulable` implies, whether or not the node has it.
const CORDON: &str = "node.kubernetes.io/unschedulable";

/// Returns the key of a taint of the node that the pod does not tolerate.
fn untolerated_taint<'a>(pod: &Value, node: &'a Value) -> Option<&'a str> {
    let cordon = json!({"key": CORDON, "effect": "NoSchedule"});
    if node["spec"]["unschedulable"] == true
        && !list(pod, "/spec/tolerations").iter().any(|t| tolerates(t, &cordon))
    {
        return Some(CORDON);
    }
    let mut taints = list(node, "/spec/taints").iter();
    let taint = taints.find(|taint| {
        let keeps_out = matches!(text(taint, "/effect"), "NoSchedule" | "NoExecute");
        keeps_out && !list(pod, "/spec/tolerations").iter().any(|t| tolerates(t, taint))
    });
    taint.map(|taint| text(taint, "/key"))
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let field = |name: &str| text(toleration, &format!("/{name}"));
    let any_or_equal = |own: &str, taints: &str| own.is_empty() || own == taints;
    any_or_equal(field("effect"), text(taint, "/effect"))
        && any_or_equal(field("key"), text(taint, "/key"))
        && (field("operator") == "Exists" || field("value") == text(taint, "/value"))
}

/// Returns `true` if the node matches the pod's node selector and required node affinity.
fn matches_node_affinity(pod: &Value, node: &Value) -> bool {
    let required =
        &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let terms = list(required, "/nodeSelectorTerms");
    let selector = pod["spec"]["nodeSelector"].as_object();
    let selected =
        selector.into_iter().flatten().all(|(key, value)| label(node, key) == value.as_str());
    let holds = |term: &Value| {
        let (labels, fields) = (list(term, "/matchExpressions"), list(term, "/matchFields"));
        !(labels.is_empty() && fields.is_empty())
            && labels.iter().all(|wanted| accepts(wanted, label(node, text(wanted, "/key"))))
            && fields.iter().all(|wanted| accepts(wanted, Some(text(node, "/metadata/name"))))
    };
    selected && (required.is_null() || terms.iter().any(holds))
}

/// Returns `true` if a label selector selects labels; null selects nothing.
fn selects(selector: &Value, labels: &Value) -> bool {
    let value = |key: &str| labels.get(key).and_then(Value::as_str);
    let equal = selector["matchLabels"].as_object();
    !selector.is_null()
        && equal.into_iter().flatten().all(|(key, wanted)| value(key) == wanted.as_str())
        && list(selector, "/matchExpressions")
            .iter()
            .all(|wanted| accepts(wanted, value(text(wanted, "/key"))))
}

fn accepts(requirement: &Value, value: Option<&str>) -> bool {
    let values = list(requirement, "/values");
    let listed = value.is_some_and(|value| values.iter().any(|listed| listed == value));
    let than = |holds: fn(&i64, &i64) -> bool| {
        let bound = values.first().and_then(Value::as_str).and_then(|bound| bound.parse().ok());
        let value = value.and_then(|value| value.parse().ok());
        value.zip(bound).is_some_and(|(value, bound)| holds(&value, &bound))
    };
    match text(requirement, "/operator") {
        "In" => listed,
        "NotIn" => !listed,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => than(i64::gt),
        "Lt" => than(i64::lt),
        _ => false,
    }
}

/// Amounts are summed in thousandths, which is exact.
const MILLI: i128 = 1000;

fn amounts<'a>(object: &'a Value, pointer: &str) -> Result<BTreeMap<&'a str, i128>> {
    let written = object.pointer(pointer).and_then(Value::as_object);
    let read = |(resource, written): (&'a String, &Value)| {
        let written = written.as_str().unwrap_or("0");
        let quantity = Quantity::parse(written);
        let quantity =
            quantity.with_context(|| format!("{resource} {written:?} is no quantity"))?;
        // Only cpu has fractions, and thousandths of bytes would overflow the milli value.
        let amount = if resource == "cpu" {
            i128::from(quantity.milli_value())
        } else {
            i128::from(quantity.value()) * MILLI
        };
        Ok((resource.as_str(), amount))
    };
    written.into_iter().flatten().map(read).collect()
}

fn shown(thousandths: i128) -> f64 {
    thousandths as f64 / MILLI as f64
}

fn name(object: &Value) -> String {
    format!("{}/{}", text(object, "/metadata/namespace"), text(object, "/metadata/name"))
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"].get(key).and_then(Value::as_str)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, zone: &str, taints: &Value) -> Value {
        json!({
            "metadata": {"name": name, "labels": {"zone": zone}},
            "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "2"}},
        })
    }

    fn pod(name: &str, on: &str, spec: &Value) -> Value {
        let mut pod = json!({
            "metadata": {"namespace": "ns", "name": name, "labels": {"app": "web"}},
            "spec": {"nodeName": on, "containers": [{}]},
        });
        for (field, value) in spec.as_object().into_iter().flatten() {
            pod["spec"][field] = value.clone();
        }
        pod
    }

    fn requests(cpu: &str) -> Value {
        let amounts = json!({"cpu": cpu, "memory": "64Mi"});
        json!({"containers": [{"resources": {"requests": amounts}}]})
    }

    fn found(nodes: &[Value], pods: &[Value]) -> Vec<String> {
        violations(nodes, pods, &[]).unwrap()
    }

    const NOTHING: [&str; 0] = [];

    #[test]
    fn nodes_may_be_full_but_not_overcommitted() {
        let nodes = [node("one", "a", &json!([]))];
        let half = pod("half", "one", &requests("500m"));
        assert_eq!(found(&nodes, &[half.clone(), half.clone()]), NOTHING);
        let three = found(&nodes, &[half.clone(), half, pod("third", "one", &requests("0"))]);
        assert_eq!(three, ["one has 2 of pods and its pods request 3"]);
        let large = found(&nodes, &[pod("large", "one", &requests("1001m"))]);
        assert_eq!(large, ["one has 1 of cpu and its pods request 1.001"]);
        let lost = found(&nodes, &[pod("lost", "two", &requests("0"))]);
        assert_eq!(lost, ["ns/lost is on two, which does not exist"]);
        assert_eq!(found(&nodes, &[pod("waiting", "", &requests("9"))]), NOTHING);
        let mut finished = pod("finished", "one", &requests("9"));
        finished["status"]["phase"] = "Succeeded".into();
        assert_eq!(found(&nodes, &[finished]), NOTHING);
    }

    #[test]
    fn untolerated_taints_are_violations() {
        let taint = json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]);
        let nodes = [node("one", "a", &taint)];
        assert_eq!(
            found(&nodes, &[pod("pod", "one", &json!({}))]),
            ["ns/pod is on one and does not tolerate k"]
        );
        for toleration in [
            json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}),
            json!({"operator": "Exists"}),
        ] {
            let pod = pod("pod", "one", &json!({"tolerations": [toleration]}));
            assert_eq!(found(&nodes, &[pod]), NOTHING);
        }
    }

    #[test]
    fn pods_on_cordoned_nodes_are_violations() {
        let mut cordoned = node("one", "a", &json!([]));
        cordoned["spec"]["unschedulable"] = true.into();
        let nodes = [cordoned];
        assert_eq!(
            found(&nodes, &[pod("pod", "one", &json!({}))]),
            ["ns/pod is on one and does not tolerate node.kubernetes.io/unschedulable"]
        );
        let toleration = json!({"key": CORDON, "operator": "Exists"});
        let daemon = pod("daemon", "one", &json!({"tolerations": [toleration]}));
        assert_eq!(found(&nodes, &[daemon]), NOTHING);
    }

    #[test]
    fn node_affinity_must_hold() {
        let nodes = [node("one", "a", &json!([])), node("two", "b", &json!([]))];
        let wants = |on: &str| {
            let term =
                json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
            let required = json!({"nodeSelectorTerms": [term]});
            let affinity = json!({"nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": required}});
            pod("pod", on, &json!({"affinity": affinity}))
        };
        assert_eq!(found(&nodes, &[wants("one")]), NOTHING);
        assert_eq!(
            found(&nodes, &[wants("two")]),
            ["ns/pod is on two, which its affinity excludes"]
        );
    }

    fn with_term(kind: &str, name: &str, on: &str) -> Value {
        let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"});
        let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        pod(name, on, &json!({"affinity": {kind: required}}))
    }

    #[test]
    fn pods_with_anti_affinity_must_be_in_different_zones() {
        let nodes = ["a", "a", "b"].map(|zone| (zone, json!([])));
        let names = ["one", "two", "three"].iter().zip(&nodes);
        let nodes: Vec<_> = names.map(|(name, (zone, taints))| node(name, zone, taints)).collect();
        let anti_affine = |name: &str, on: &str| with_term("podAntiAffinity", name, on);
        assert_eq!(found(&nodes, &[anti_affine("x", "one"), anti_affine("y", "three")]), NOTHING);
        let both = found(&nodes, &[anti_affine("x", "one"), anti_affine("y", "two")]);
        assert_eq!(both.len(), 2, "{both:?}");
        assert_eq!(both[0], "ns/x violates its anti-affinity: zone a has 1 pods that it excludes");
    }

    #[test]
    fn pods_with_affinity_must_be_in_one_zone() {
        let nodes = [node("one", "a", &json!([])), node("two", "b", &json!([]))];
        let wants = |name: &str, on: &str| with_term("podAffinity", name, on);
        assert_eq!(found(&nodes, &[wants("x", "one"), wants("y", "one")]), NOTHING);
        assert_eq!(found(&nodes, &[wants("x", "one")]), NOTHING);
        let apart = found(&nodes, &[wants("x", "one"), wants("y", "two")]);
        assert_eq!(apart[0], "ns/x violates its required affinity");
    }

    #[test]
    fn spreading_must_hold_over_all_zones() {
        let nodes = [node("one", "a", &json!([])), node("two", "b", &json!([]))];
        let spread = json!({"topologySpreadConstraints": [{
            "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }]});
        let on = |name: &str, on: &str| pod(name, on, &spread);
        assert_eq!(found(&nodes, &[on("x", "one")]), NOTHING);
        let skewed = found(&nodes, &[on("x", "one"), on("y", "one")]);
        assert_eq!(skewed, ["pods like ns/x have a skew of 2 over zone, above 1"]);
    }
}
