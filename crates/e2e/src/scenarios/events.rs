//! Jindou and upstream's scheduler write the same events and conditions for equal pods.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::history::History;
use crate::schedulers::{self, SchedulerProcess};
use crate::test_env::{TestEnv, condition, text};

/// Prefixes of the names of pods, nodes and schedulers, removed before the comparison.
const SIDES: [&str; 2] = ["jindou", "kube"];

const JINDOU: &str = "conformance/e2e/jindou-side.yaml";

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    let jindou = schedulers::jindou(env, JINDOU)?;
    let kube = schedulers::kube(env, "conformance/e2e/kube-side.yaml")?;
    env.apply("conformance/e2e/events.yaml", None)?;
    env.wait_for_nodes(4)?;

    // Once these run, both schedulers are up and know all nodes.
    create(env, "fits", &json!({}), true)?;
    for side in SIDES {
        env.wait_for_pods(&[&format!("{side}-fits")])?;
    }
    compare(env, "fits", "Scheduled")?;
    refused(env)?;
    let jindou = restarted(env, jindou)?;
    preempted(env)?;
    // kube-scheduler exits with an error on SIGTERM.
    kube.kill()?;
    jindou.stop()
}

/// Creates pods that fit on no node, each for different reasons.
fn refused(env: &TestEnv) -> Result<()> {
    let claim = |name: &str| json!({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]});
    let requests = |requests: Value| {
        json!({"containers": [{
            "name": "main", "image": "example.com/none", "resources": {"requests": requests},
        }]})
    };
    let selector = json!({"matchLabels": {"app": "none"}});
    let term = json!({"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"});
    let required = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    let constraint = json!({
        "maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    });
    let gpu = json!({
        "limits": {"example.com/gpu": "1"}, "requests": {"cpu": "3", "example.com/gpu": "1"},
    });
    let cases = [
        ("large", requests(json!({"cpu": "100"}))),
        ("huge", requests(json!({"cpu": "100", "memory": "100Ti"}))),
        ("gpu", json!({"containers": [{"name": "m", "image": "none", "resources": gpu}]})),
        ("selector", json!({"nodeSelector": {"disk": "none"}})),
        ("missing", claim("missing")),
        ("immediate", claim("immediate")),
        ("waiting", claim("waiting")),
        ("affinity", json!({"affinity": {"podAffinity": required}})),
        ("spread", json!({"topologySpreadConstraints": [constraint]})),
        ("polite", {
            let mut spec = requests(json!({"cpu": "100"}));
            spec["priorityClassName"] = "event-polite".into();
            spec
        }),
    ];
    for (name, spec) in &cases {
        create(env, name, spec, false)?;
    }
    for (name, _) in &cases {
        for side in SIDES {
            env.wait_for_refusal(&format!("{side}-{name}"))?;
        }
        compare(env, name, "FailedScheduling")?;
    }
    Ok(())
}

/// Checks that a restarted scheduler writes no condition that is already there.
fn restarted(env: &TestEnv, before: SchedulerProcess) -> Result<SchedulerProcess> {
    const POD: &str = "jindou-large";
    let list_events = || {
        let mut events = env.list("events")?;
        events.retain(|event| event["involvedObject"]["name"] == POD);
        Ok::<_, anyhow::Error>(events.len())
    };
    before.stop()?;
    let (pod, events) = (env.get("pod", POD)?, list_events()?);
    let after = schedulers::jindou(env, JINDOU)?;
    env.wait("the next one to try", || {
        let now = list_events()?;
        ensure!(now > events, "{now} events");
        Ok(())
    })?;
    let now = env.get("pod", POD)?;
    let versions = [&pod, &now].map(|pod| text(pod, "/metadata/resourceVersion"));
    ensure!(versions[0] == versions[1], "{POD} was written to: {pod}, then {now}");
    Ok(after)
}

/// A pod on each side is preempted.
fn preempted(env: &TestEnv) -> Result<()> {
    let big = json!({"containers": [{
        "name": "main", "image": "example.com/none", "resources": {"requests": {"cpu": "1500m"}},
    }]});
    create(env, "victim", &big, true)?;
    for side in SIDES {
        env.wait_for_pods(&[&format!("{side}-victim")])?;
    }
    let known = env.list("pods")?.len();
    let history = History::start(env)?;
    env.wait("the watch to begin", || {
        ensure!(history.pods() == known, "{} of {known} pods were seen", history.pods());
        Ok(())
    })?;
    let mut urgent = big;
    urgent["priorityClassName"] = "event-high".into();
    create(env, "preemptor", &urgent, true)?;
    for side in SIDES {
        env.wait_for_pods(&[&format!("{side}-preemptor")])?;
    }
    compare(env, "preemptor", "FailedScheduling")?;
    compare(env, "preemptor", "Scheduled")?;
    env.wait("the event Preempted", || {
        let [one, other] = SIDES.map(|side| event(env, side, "victim", "Preempted"));
        let (mut one, mut other) = (one?, other?);
        // Upstream also passes the preemptor as the related object, but v1.36 passes a wrapper, from
        // which no reference can be made.
        let (related, _) = (one["related"].take(), other["related"].take());
        ensure!(related["name"] == "SIDE-preemptor", "it is related to {related}");
        same("the event Preempted", &one, &other)
    })?;
    let [one, other] = SIDES.map(|side| {
        let versions = history.of(&format!("{side}-victim"));
        let last = versions.last().context("a victim was never seen")?;
        let target = condition(last, "DisruptionTarget").context("the victim has no condition")?;
        Ok::<_, anyhow::Error>(plain_condition(target, side))
    });
    same("DisruptionTarget of the victim", &one?, &other?)?;
    for side in SIDES {
        let node = format!("{side}-node");
        let versions = history.of(&format!("{side}-preemptor"));
        let nominated = |pod: &Value| text(pod, "/status/nominatedNodeName") == node;
        ensure!(versions.iter().any(nominated), "{side}-preemptor was never nominated");
    }
    Ok(())
}

/// Creates a pod of the same spec on each side; `at_home` restricts it to the node of its side.
fn create(env: &TestEnv, name: &str, spec: &Value, at_home: bool) -> Result<()> {
    let pods = SIDES.map(|side| {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("{side}-{name}")},
            "spec": spec,
        });
        pod["spec"]["schedulerName"] = format!("{side}-side").into();
        if pod["spec"]["containers"].is_null() {
            pod["spec"]["containers"] = json!([{"name": "main", "image": "example.com/none"}]);
        }
        if at_home {
            pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": format!("{side}-node")});
        }
        pod
    });
    env.create(name, &pods)
}

/// Compares the first event of a kind, what `kubectl describe` shows of it, and the condition.
fn compare(env: &TestEnv, name: &str, reason: &str) -> Result<()> {
    env.wait(&format!("{reason} of {name} to be the same"), || {
        let [one, other] = SIDES.map(|side| event(env, side, name, reason));
        same(&format!("the event of {name}"), &one?, &other?)?;
        let [one, other] = SIDES.map(|side| described(env, side, name, reason));
        same(&format!("what is described of {name}"), &one?, &other?)?;
        let [one, other] = SIDES.map(|side| {
            let pod = env.get("pod", &format!("{side}-{name}"))?;
            let found = condition(&pod, "PodScheduled").context("there is no condition")?;
            Ok::<_, anyhow::Error>(plain_condition(found, side))
        });
        same(&format!("the condition of {name}"), &one?, &other?)
    })
}

fn same(what: &str, jindou: &Value, kube: &Value) -> Result<()> {
    let mut said = String::new();
    let _ = write!(said, "{what} differs:\njindou {jindou:#}\nkube   {kube:#}");
    ensure!(jindou == kube, "{said}");
    Ok(())
}

/// Returns the first event of a pod for a reason, without the fields that differ between any two events.
fn event(env: &TestEnv, side: &str, name: &str, reason: &str) -> Result<Value> {
    let pod = format!("{side}-{name}");
    let mut events = env.list("events")?;
    events.retain(|event| event["reason"] == reason && event["involvedObject"]["name"] == *pod);
    events.sort_by(|one, other| text(one, "/eventTime").cmp(text(other, "/eventTime")));
    let mut event =
        events.into_iter().next().with_context(|| format!("{pod} has no event {reason}"))?;
    for field in ["metadata", "eventTime", "series"] {
        event[field].take();
    }
    for object in ["involvedObject", "related"] {
        if let Some(fields) = event[object].as_object_mut() {
            fields.remove("resourceVersion");
            fields.remove("uid");
        }
    }
    // Preemption names the preemptor by its uid.
    let mut written = event.to_string();
    for pod in env.list("pods")? {
        written = written.replace(text(&pod, "/metadata/uid"), text(&pod, "/metadata/name"));
    }
    Ok(serde_json::from_str(&without_side(&written, side))?)
}

/// Returns type, reason, source and message of the first line for a reason in the output of
/// `kubectl describe`.
fn described(env: &TestEnv, side: &str, name: &str, reason: &str) -> Result<Value> {
    let shown = env.kubectl(&["describe", "pod", &format!("{side}-{name}")])?;
    let (_, events) = shown.split_once("\nEvents:").context("no events are described")?;
    let line = events.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let line = line.into_iter().find(|words| words.get(1) == Some(&reason));
    let line = line.with_context(|| format!("{reason} is not described:\n{events}"))?;
    // The age is one word, or `1s (x2 over 3s)`.
    let origin = line.iter().position(|word| word.ends_with("-side")).context("no origin")?;
    let rest = line[origin..].join(" ");
    Ok(json!([line[0], line[1], without_side(&rest, side)]))
}

fn plain_condition(condition: &Value, side: &str) -> Value {
    let mut condition = condition.clone();
    condition["lastTransitionTime"].take();
    serde_json::from_str(&without_side(&condition.to_string(), side)).unwrap_or(condition)
}

fn without_side(text: &str, side: &str) -> String {
    text.replace(&format!("{side}-"), "SIDE-")
}
