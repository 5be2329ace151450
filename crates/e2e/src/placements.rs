//! Checks placements against capacity and taints, without code of the scheduler.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use api::lower::quantity::Quantity;
use bench::metrics::label_value;
use serde_json::Value;

use crate::test_env::{TestEnv, text};

/// Capacity of a node, or requests of pods.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ResourceAmounts {
    milli_cpu: i64,
    memory: i64,
    pods: i64,
}

impl ResourceAmounts {
    /// Returns the allocatable amounts of a node.
    pub(crate) fn of_node(node: &Value) -> Result<Self> {
        amounts(&node["status"]["allocatable"])
    }

    /// Returns the requests of a pod; it counts as one pod.
    pub(crate) fn of_pod(pod: &Value) -> Result<Self> {
        let mut sum = Self { pods: 1, ..Self::default() };
        for container in list(pod, "/spec/containers") {
            sum = sum.plus(amounts(&container["resources"]["requests"])?);
        }
        Ok(sum)
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            milli_cpu: self.milli_cpu + other.milli_cpu,
            memory: self.memory + other.memory,
            pods: self.pods + other.pods,
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            milli_cpu: self.milli_cpu - other.milli_cpu,
            memory: self.memory - other.memory,
            pods: self.pods - other.pods,
        }
    }

    /// Returns `true` if no amount is larger than that of a node.
    pub(crate) fn fit(self, node: Self) -> bool {
        self.milli_cpu <= node.milli_cpu && self.memory <= node.memory && self.pods <= node.pods
    }
}

/// Checks that no node is overcommitted and that every pod tolerates the taints of its node.
pub(crate) fn check(env: &TestEnv) -> Result<()> {
    let problems = problems(env)?;
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n")) }
}

/// Returns all problems with the placements of pods.
pub(crate) fn problems(env: &TestEnv) -> Result<Vec<String>> {
    find_problems(&env.list("nodes")?, &env.list("pods")?)
}

fn find_problems(nodes: &[Value], pods: &[Value]) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let mut requests: BTreeMap<&str, ResourceAmounts> = BTreeMap::new();
    for pod in pods {
        let (name, on) = (text(pod, "/metadata/name"), text(pod, "/spec/nodeName"));
        if on.is_empty() {
            continue;
        }
        let Some(node) = nodes.iter().find(|node| text(node, "/metadata/name") == on) else {
            problems.push(format!("{name} is on {on}, which does not exist"));
            continue;
        };
        for taint in list(node, "/spec/taints") {
            let keeps_out = matches!(text(taint, "/effect"), "NoSchedule" | "NoExecute");
            let tolerated = list(pod, "/spec/tolerations").iter().any(|t| tolerates(t, taint));
            if keeps_out && !tolerated {
                problems.push(format!("{name} is on {on} in spite of {}", text(taint, "/key")));
            }
        }
        let requested = requests.entry(on).or_default();
        *requested = requested.plus(ResourceAmounts::of_pod(pod)?);
    }
    for node in nodes {
        let name = text(node, "/metadata/name");
        let capacity = ResourceAmounts::of_node(node)?;
        let requested = requests.get(name).copied().unwrap_or_default();
        if !requested.fit(capacity) {
            problems.push(format!("{name} has {capacity:?} and its pods request {requested:?}"));
        }
    }
    Ok(problems)
}

fn amounts(resources: &Value) -> Result<ResourceAmounts> {
    let read = |name: &str| -> Result<Quantity> {
        let written = resources[name].as_str().unwrap_or("0");
        Quantity::parse(written).with_context(|| format!("{name} {written:?} is no quantity"))
    };
    Ok(ResourceAmounts {
        milli_cpu: read("cpu")?.milli_value(),
        memory: read("memory")?.value(),
        pods: read("pods")?.value(),
    })
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let field = |name: &str| text(toleration, &format!("/{name}"));
    let any_or_equal = |own: &str, taints: &str| own.is_empty() || own == taints;
    any_or_equal(field("effect"), text(taint, "/effect"))
        && any_or_equal(field("key"), text(taint, "/key"))
        && (field("operator") == "Exists" || field("value") == text(taint, "/value"))
}

fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Returns the number of bind requests that the API server answered since its start, by status code.
pub(crate) fn bindings(env: &TestEnv) -> Result<BTreeMap<String, u64>> {
    let metrics = env.kubectl(&["get", "--raw", "/metrics"])?;
    let mut counts = BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        if label_value(line, "subresource") == Some("binding")
            && label_value(line, "resource") == Some("pods")
        {
            let code = label_value(line, "code").context("a request without a code")?;
            let count = line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok());
            *counts.entry(code.to_owned()).or_default() += count.context("no count")? as u64;
        }
    }
    Ok(counts)
}

/// Checks that since `before` no more binds succeeded than there are pods, so that none was bound
/// twice. Fewer may be confirmed only if responses of the API server were 5xx.
pub(crate) fn check_bindings(
    env: &TestEnv,
    before: &BTreeMap<String, u64>,
    pods: u64,
) -> Result<()> {
    let now = bindings(env)?;
    let since = |code: &str| {
        let count = |counts: &BTreeMap<String, u64>| counts.get(code).copied().unwrap_or(0);
        count(&now).saturating_sub(count(before))
    };
    let confirmed = since("201");
    let unconfirmed: u64 =
        now.keys().filter(|code| code.starts_with('5')).map(|code| since(code)).sum();
    if confirmed > pods || confirmed + unconfirmed < pods {
        bail!("{pods} pods were bound {confirmed} times; answers before {before:?}, now {now:?}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(taints: &Value) -> Value {
        json!({
            "metadata": {"name": "one"},
            "spec": {"taints": taints},
            "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "2"}},
        })
    }

    fn pod(cpu: &str, tolerations: &Value) -> Value {
        json!({
            "metadata": {"name": "pod"},
            "spec": {
                "nodeName": "one",
                "tolerations": tolerations,
                "containers": [{"resources": {"requests": {"cpu": cpu, "memory": "64Mi"}}}],
            },
        })
    }

    #[test]
    fn full_nodes_pass_and_overcommitted_ones_fail() {
        let nodes = [node(&json!([]))];
        let half = pod("500m", &json!([]));
        assert_eq!(find_problems(&nodes, &[half.clone(), half.clone()]).unwrap(), [""; 0]);
        let many = [half.clone(), half, pod("0", &json!([]))];
        assert!(find_problems(&nodes, &many).unwrap()[0].contains("pods: 3"));
        assert!(find_problems(&nodes, &[pod("1001m", &json!([]))]).unwrap()[0].contains("1001"));
    }

    #[test]
    fn untolerated_taints_are_problems() {
        let nodes = [node(&json!([{"key": "k", "value": "v", "effect": "NoSchedule"}]))];
        let problems = find_problems(&nodes, &[pod("1m", &json!([]))]).unwrap();
        assert!(problems[0].contains("in spite of k"), "{problems:?}");
        for toleration in [
            json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"}),
            json!({"operator": "Exists"}),
        ] {
            assert_eq!(find_problems(&nodes, &[pod("1m", &json!([toleration]))]).unwrap(), [""; 0]);
        }
    }
}
