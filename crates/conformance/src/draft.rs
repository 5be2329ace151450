//! A case under construction: the objects that the topics add to, and small pools of values, so that values coincide.

use serde_json::{Map, Value, json};

use crate::rng::Rng;
use crate::theme::{Theme, Topic};

/// Namespaces of pods and claims; the first is the most common.
pub(crate) const NAMESPACES: [&str; 3] = ["default", "team-a", "team-b"];
/// Label keys of pods with their values.
pub(crate) const POD_LABELS: [(&str, &[&str]); 4] = [
    ("app", &["web", "db", "cache"]),
    ("tier", &["front", "back"]),
    ("track", &["stable", "canary"]),
    ("empty", &["", "x"]),
];
/// Zones of nodes and volumes.
pub(crate) const ZONES: [&str; 3] = ["z1", "z2", "z3"];
/// Key of the host name label.
pub(crate) const HOSTNAME: &str = "kubernetes.io/hostname";
/// Key of the zone label.
pub(crate) const ZONE: &str = "topology.kubernetes.io/zone";
/// Key of the region label.
pub(crate) const REGION: &str = "topology.kubernetes.io/region";
/// Deprecated key of the zone label.
pub(crate) const ZONE_BETA: &str = "failure-domain.beta.kubernetes.io/zone";
/// Deprecated key of the region label.
pub(crate) const REGION_BETA: &str = "failure-domain.beta.kubernetes.io/region";
/// Topology keys of spreading and affinity; the last is missing on about half of the nodes.
pub(crate) const TOPOLOGY_KEYS: [&str; 4] = [ZONE, HOSTNAME, REGION, "rack"];

/// The objects of a case under construction.
pub(crate) struct CaseDraft {
    pub(crate) rng: Rng,
    pub(crate) theme: Theme,
    /// Nodes, in the order in which the scheduler receives them.
    pub(crate) nodes: Vec<Value>,
    /// Pods except the one to schedule.
    pub(crate) pods: Vec<Value>,
    /// All other objects: namespaces, services, volumes, budgets.
    pub(crate) others: Vec<Value>,
    /// The pod to schedule.
    pub(crate) pod: Value,
    /// The configuration; null for the default one.
    pub(crate) config: Value,
}

impl CaseDraft {
    /// Returns a case without objects.
    pub(crate) fn new(rng: Rng, theme: Theme) -> Self {
        let (nodes, pods, others) = (Vec::new(), Vec::new(), Vec::new());
        Self { rng, theme, nodes, pods, others, pod: Value::Null, config: Value::Null }
    }

    /// Returns `true` in `dense` of 100 calls if the case is about the topic, in `sparse` of 1000 otherwise.
    pub(crate) fn often(&mut self, topic: Topic, dense: usize, sparse: usize) -> bool {
        if self.theme.is_about(topic) { self.rng.chance(dense) } else { self.rng.rarely(sparse) }
    }

    /// Returns the names of the nodes, in order.
    pub(crate) fn node_names(&self) -> Vec<String> {
        self.nodes.iter().map(name_of).collect()
    }

    /// Returns the name of a node; in 8 % of calls, or without nodes, of one that does not exist.
    pub(crate) fn some_node_name(&mut self) -> String {
        let names = self.node_names();
        if names.is_empty() || self.rng.chance(8) {
            "nowhere".to_owned()
        } else {
            self.rng.pick(&names)
        }
    }

    /// Returns the case in the oracle's form.
    pub(crate) fn finish(self, id: &str) -> Value {
        let objects: Vec<Value> =
            self.nodes.into_iter().chain(self.others).chain(self.pods).collect();
        json!({"id": id, "config": self.config, "objects": objects, "pod": self.pod})
    }
}

/// Returns the name of an object.
pub(crate) fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap_or_default().to_owned()
}

/// Returns the namespace of an object.
pub(crate) fn namespace_of(object: &Value) -> String {
    object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned()
}

/// Appends to the list at `field`, creating it if absent.
pub(crate) fn push(parent: &mut Value, field: &str, item: Value) {
    if !parent[field].is_array() {
        parent[field] = json!([]);
    }
    if let Some(list) = parent[field].as_array_mut() {
        list.push(item);
    }
}

/// Returns random pod labels, mostly one to three of [`POD_LABELS`].
pub(crate) fn pod_labels(rng: &mut Rng) -> Value {
    let mut labels = Map::new();
    for (index, (key, values)) in POD_LABELS.iter().enumerate() {
        if rng.chance([85, 55, 35, 12][index]) {
            labels.insert((*key).to_owned(), json!(rng.pick(values)));
        }
    }
    Value::Object(labels)
}

/// Returns a random label selector over [`POD_LABELS`]; `Null` stands for an absent selector.
pub(crate) fn pod_selector(rng: &mut Rng) -> Value {
    selector(
        rng,
        &POD_LABELS,
        &[(5, "nil"), (8, "all"), (50, "labels"), (27, "expressions"), (10, "both")],
    )
}

/// Returns a random label selector over the labels of `pool`, of one of the weighted shapes.
pub(crate) fn selector(
    rng: &mut Rng,
    pool: &[(&str, &[&str])],
    shapes: &[(usize, &'static str)],
) -> Value {
    let shape = rng.weighted(shapes);
    let mut result = json!({});
    match shape {
        "nil" => return Value::Null,
        "all" => return result,
        _ => {}
    }
    if shape != "expressions" {
        let mut labels = Map::new();
        let count = rng.weighted(&[(80, 1), (20, 2)]);
        for (key, values) in rng.some(pool, count) {
            labels.insert(key.to_owned(), json!(rng.pick(values)));
        }
        result["matchLabels"] = Value::Object(labels);
    }
    if shape != "labels" {
        let count = rng.weighted(&[(75, 1), (25, 2)]);
        for (key, values) in rng.some(pool, count) {
            push(&mut result, "matchExpressions", label_requirement(rng, key, values));
        }
    }
    result
}

/// Returns a requirement on a label with one of the four operators of label selectors.
fn label_requirement(rng: &mut Rng, key: &str, values: &[&str]) -> Value {
    match rng.weighted(&[(35, "In"), (25, "NotIn"), (22, "Exists"), (18, "DoesNotExist")]) {
        operator @ ("In" | "NotIn") => {
            let count = rng.between(1, 2);
            json!({"key": key, "operator": operator, "values": rng.some(values, count)})
        }
        operator => json!({"key": key, "operator": operator}),
    }
}

/// Returns the time `minutes` after the first of January 2026, as text.
pub(crate) fn time(minutes: usize) -> String {
    format!("2026-01-{:02}T{:02}:{:02}:00Z", 1 + minutes / 1440, minutes / 60 % 24, minutes % 60)
}
