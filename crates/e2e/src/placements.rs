//! Checks of placements and of the number of binds, without code of the scheduler.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use api::lower::quantity::Quantity;
use bench::metrics::label_value;
use serde_json::Value;

use crate::test_env::TestEnv;

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
        let containers = pod["spec"]["containers"].as_array();
        for container in containers.into_iter().flatten() {
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

/// Fails with all violations of hard constraints by placements.
pub(crate) fn check(env: &TestEnv) -> Result<()> {
    let violations = violations(env)?;
    if violations.is_empty() { Ok(()) } else { bail!("{}", violations.join("\n")) }
}

/// Returns all violations of hard constraints by placements, as `bench live` finds them.
pub(crate) fn violations(env: &TestEnv) -> Result<Vec<String>> {
    let [nodes, pods, namespaces] = ["nodes", "pods", "namespaces"].map(|kind| env.list(kind));
    bench::placements::violations(&nodes?, &pods?, &namespaces?)
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
