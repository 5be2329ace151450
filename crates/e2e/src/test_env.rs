//! The surroundings of a scenario: a namespace, `kubectl`, files, and waiting with a deadline.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::checkout::root;
use controlplane::{ControlPlane, POLL_INTERVAL, write_private};

/// Deadline of every wait, generous because the machine may be busy.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);

/// Last lines of each log, shown when a scenario fails.
const TAIL_LINES: usize = 25;

/// Maximum of pods described when a scenario fails.
const DESCRIBED_MAX: usize = 3;

/// Kinds of cluster-wide objects that scenarios create; all but nodes have the label `e2e`.
const CLUSTER_WIDE: &str = "persistentvolumes,storageclasses,priorityclasses,csidrivers,csinodes,volumeattachments,deviceclasses";

/// The surroundings of a scenario.
pub(crate) struct TestEnv<'a> {
    pub(crate) plane: &'a ControlPlane,
    /// The program under test.
    pub(crate) jindou: &'a Path,
    /// Its namespace.
    pub(crate) namespace: &'static str,
    /// Folder of its files; the ends of those in `*.log` are shown when it fails.
    pub(crate) folder: PathBuf,
    /// Length of the scenarios with faults.
    pub(crate) size: RunSize,
}

/// Length of the scenarios with faults, and the seed of their random times.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RunSize {
    /// Whether the long form runs.
    pub(crate) long: bool,
    /// Number of rounds, instead of that of the form.
    pub(crate) rounds: Option<usize>,
    pub(crate) seed: u64,
}

impl RunSize {
    /// Returns the number of rounds, given those of the short and of the long form.
    pub(crate) fn rounds(self, short: usize, long: usize) -> usize {
        self.rounds.unwrap_or(self.pick(short, long))
    }

    /// Returns the value for the form that runs.
    pub(crate) fn pick<T>(self, short: T, long: T) -> T {
        if self.long { long } else { short }
    }
}

impl<'a> TestEnv<'a> {
    /// Creates the namespace, and waits until pods can be created in it.
    pub(crate) fn open(
        plane: &'a ControlPlane,
        jindou: &'a Path,
        namespace: &'static str,
        size: RunSize,
    ) -> Result<Self> {
        let folder = plane.folder.join("e2e").join(namespace);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let env = Self { plane, jindou, namespace, folder, size };
        env.kubectl(&["create", "namespace", namespace])?;
        env.wait("a service account for pods", || {
            env.kubectl(&["get", "serviceaccount", "default"]).map(|_| ())
        })?;
        Ok(env)
    }

    /// Removes the namespace with its pods, all nodes, and the other cluster-wide objects.
    pub(crate) fn close(&self) -> Result<()> {
        // Controllers create no pods in a namespace that is terminating.
        self.kubectl(&["delete", "namespace", self.namespace, "--wait=false"])?;
        self.kubectl(&["delete", "nodes", "--all", "--wait=false"])?;
        self.kubectl(&["delete", CLUSTER_WIDE, "-l", "e2e", "--wait=false"])?;
        let pods = format!("/api/v1/namespaces/{}/pods?gracePeriodSeconds=0", self.namespace);
        self.wait("all pods and nodes to be gone", || {
            self.kubectl(&["delete", "--raw", &pods])?;
            let left = self.kubectl(&["get", "pods,nodes", "-o", "name"])?;
            if left.is_empty() { Ok(()) } else { bail!("{} are left", left.lines().count()) }
        })
    }

    /// Runs `kubectl` in the namespace and returns what it prints.
    pub(crate) fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let bounds = ["--namespace", self.namespace, "--request-timeout=30s"];
        Ok(self.plane.kubectl(&[&bounds, arguments].concat())?)
    }

    /// Returns the objects of a kind, in the namespace or cluster-wide.
    pub(crate) fn list(&self, kind: &str) -> Result<Vec<Value>> {
        let text = self.kubectl(&["get", kind, "-o", "json"])?;
        let mut list: Value = serde_json::from_str(&text)?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => bail!("kubectl get {kind} gives no list"),
        }
    }

    /// Returns one object.
    pub(crate) fn get(&self, kind: &str, name: &str) -> Result<Value> {
        Ok(serde_json::from_str(&self.kubectl(&["get", kind, name, "-o", "json"])?)?)
    }

    /// Writes a file into the folder and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.folder.join(name);
        write_private(&path, text)?;
        Ok(path)
    }

    /// Creates objects.
    pub(crate) fn create(&self, name: &str, objects: &[Value]) -> Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let path = self.write(&format!("{name}.json"), &list.to_string())?;
        self.kubectl(&["create", "-f", &path.to_string_lossy()]).map(|_| ())
    }

    /// Creates the objects of a file of the checkout, or only those with a label.
    pub(crate) fn apply(&self, file: &str, label: Option<&str>) -> Result<()> {
        let path = root().join(file);
        let path = path.to_string_lossy();
        let mut arguments = vec!["apply", "-f", &path];
        arguments.extend(label.map(|label| ["-l", label]).iter().flatten());
        self.kubectl(&arguments).map(|_| ())
    }

    /// Waits until this number of nodes is ready.
    pub(crate) fn wait_for_nodes(&self, count: usize) -> Result<()> {
        self.wait(&format!("{count} nodes that are ready"), || {
            let nodes = self.list("nodes")?;
            let ready = nodes.iter().filter(|node| is_ready(node)).count();
            if ready == count { Ok(()) } else { bail!("{ready} of {} are ready", nodes.len()) }
        })
    }

    /// Waits until pods run, and returns their nodes in the order of the names.
    pub(crate) fn wait_for_pods(&self, names: &[&str]) -> Result<Vec<String>> {
        self.wait(&format!("{} to run", names.join(", ")), || {
            names
                .iter()
                .map(|name| {
                    let pod = self.get("pod", name)?;
                    if pod["status"]["phase"] != "Running" {
                        bail!("{name} is {}", pod_state(&pod));
                    }
                    Ok(text(&pod, "/spec/nodeName").to_owned())
                })
                .collect()
        })
    }

    /// Waits for the condition that a pod is unschedulable, and returns its message.
    pub(crate) fn wait_for_refusal(&self, name: &str) -> Result<String> {
        self.wait(&format!("{name} to be refused"), || {
            let pod = self.get("pod", name)?;
            match condition(&pod, "PodScheduled") {
                Some(found) if found["reason"] == "Unschedulable" && found["status"] == "False" => {
                    Ok(text(found, "/message").to_owned())
                }
                _ => bail!("{name} is {}", pod_state(&pod)),
            }
        })
    }

    /// Repeats an attempt until it succeeds; after [`TIMEOUT`], fails with its last error.
    pub(crate) fn wait<T>(&self, what: &str, attempt: impl Fn() -> Result<T>) -> Result<T> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let error = match attempt() {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let ended = self.plane.exited_processes();
            if !ended.is_empty() {
                bail!("{} of the control plane ended", ended.join(", "));
            }
            if Instant::now() > deadline {
                let seconds = TIMEOUT.as_secs();
                return Err(error.context(format!("waited {seconds} s for {what}")));
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Returns the ends of the logs and descriptions of pods, for the report of a failure.
    pub(crate) fn describe(&self) -> String {
        let mut said = format!("── {} ──\n", self.namespace);
        for path in self.logs() {
            let log = fs::read(&path).unwrap_or_default();
            let log = String::from_utf8_lossy(&log);
            let lines: Vec<_> = log.lines().collect();
            let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
            let _ = writeln!(said, "the end of {}:\n{}", path.display(), tail.join("\n"));
        }
        let pods = self.list("pods").unwrap_or_default();
        let _ = writeln!(said, "{} pods", pods.len());
        let waiting = pods.iter().filter(|pod| pod["status"]["phase"] != "Running");
        for pod in waiting.take(DESCRIBED_MAX) {
            let shown = self.kubectl(&["describe", "pod", text(pod, "/metadata/name")]);
            said += &shown.unwrap_or_else(|error| format!("{error:#}\n"));
        }
        said += "── end ──";
        said
    }

    fn logs(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut logs: Vec<_> = entries.map(|entry| entry.path()).collect();
        logs.retain(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.sort();
        logs
    }
}

/// Returns a text field, or an empty text.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// Returns a condition of an object by its type.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array)?;
    conditions.iter().find(|condition| condition["type"] == kind)
}

fn is_ready(node: &Value) -> bool {
    let ready = condition(node, "Ready").is_some_and(|ready| ready["status"] == "True");
    let taints = node.pointer("/spec/taints").and_then(Value::as_array);
    let new = |taint: &Value| text(taint, "/key") == "node.kubernetes.io/not-ready";
    ready && !taints.is_some_and(|taints| taints.iter().any(new))
}

fn pod_state(pod: &Value) -> String {
    let why = condition(pod, "PodScheduled").map_or("", |found| text(found, "/message"));
    format!("{} on {:?} {why}", text(pod, "/status/phase"), text(pod, "/spec/nodeName"))
}
