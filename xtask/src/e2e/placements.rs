//! Whether pods are where they may be: the judge knows nothing of Jindou.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use cli::bench::placements::violations;

use super::scene::Scene;

/// Checks all pods of the namespace against all nodes: nobody asks for more than there is, and
/// nobody is where a taint or a constraint keeps it out.
pub(crate) fn check(scene: &Scene) -> Result<()> {
    let (nodes, pods) = (scene.list("nodes")?, scene.list("pods")?);
    let problems = violations(&nodes, &pods, &scene.list("namespaces")?)?;
    if problems.is_empty() { Ok(()) } else { bail!("{}", problems.join("\n")) }
}

/// How many requests to bind a pod the API server answered since it started, by status code.
pub(crate) fn bindings(scene: &Scene) -> Result<BTreeMap<String, u64>> {
    let metrics = scene.kubectl(&["get", "--raw", "/metrics"])?;
    let mut counts = BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        if label(line, "subresource") == Some("binding") && label(line, "resource") == Some("pods")
        {
            let code = label(line, "code").context("a request without a code")?;
            let count = line.rsplit(' ').next().and_then(|count| count.parse::<f64>().ok());
            *counts.entry(code.to_owned()).or_default() += count.context("no count")? as u64;
        }
    }
    Ok(counts)
}

/// Checks that since `before` as many pods were bound as there are, so that none was bound twice.
pub(crate) fn check_bindings(
    scene: &Scene,
    before: &BTreeMap<String, u64>,
    pods: u64,
) -> Result<()> {
    let done = |counts: &BTreeMap<String, u64>| counts.get("201").copied().unwrap_or(0);
    let now = bindings(scene)?;
    let bound = done(&now) - done(before);
    if bound != pods {
        bail!("{pods} pods were bound {bound} times; answers before {before:?}, now {now:?}");
    }
    Ok(())
}

fn label<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let wanted = format!("{name}=\"");
    // One label's name may be the end of another's.
    let mut found = line.match_indices(&wanted);
    let (at, _) = found.find(|(at, _)| line[..*at].ends_with(['{', ',']))?;
    line[at + wanted.len()..].split_once('"').map(|(value, _)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_read_from_a_metric() {
        let line = r#"apiserver_request_total{code="201",resource="pods",subresource="binding"} 7"#;
        assert_eq!(label(line, "code"), Some("201"));
        assert_eq!(label(line, "subresource"), Some("binding"));
        assert_eq!(label(line, "resource"), Some("pods"));
        assert_eq!(label(line, "source"), None);
    }
}
