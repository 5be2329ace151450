//! Output and errors of the binary `jindou` on files.

mod bench;
mod config;
mod decisions;
mod examples;
mod hostile;
mod invocation;
mod snapshots;
mod suggestions;
mod up;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::Value;

/// Result of a run.
struct Run {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Run {
    /// Returns the whole result as one text.
    fn text(&self) -> String {
        let mut text = self.stdout.clone();
        if !self.stderr.is_empty() {
            let _ = write!(text, "--- stderr\n{}", self.stderr);
        }
        text + &format!("--- exit code {}\n", self.code)
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|_| panic!("JSON expected: {}", self.text()))
    }

    /// Returns the suggestions of the JSON output, one per line.
    fn suggestions(&self) -> String {
        let json = self.json();
        let lines = json["suggestions"].as_array().expect("an array").iter();
        lines.map(|line| line.as_str().expect("a sentence").to_owned() + "\n").collect()
    }
}

/// Returns the directory of the workspace.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn jindou(folder: &Path, arguments: &[&str]) -> Run {
    let program = env!("CARGO_BIN_EXE_jindou");
    let output =
        Command::new(program).args(arguments).current_dir(folder).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    Run {
        code: output.status.code().expect("it ends by itself"),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// A directory with files, removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("command-line-{}-{number}", std::process::id());
        let folder = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        fs::create_dir_all(&folder.0).expect("a folder can be made");
        for (name, text) in files {
            fs::write(folder.0.join(name), text).expect("a file can be written");
        }
        folder
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // On failure, the files stay in the target directory.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs `jindou explain` on a cluster and a pod, both as text.
fn explain(cluster: &str, pod: &str, more: &[&str]) -> Run {
    let folder = Folder::new(&[("cluster.yaml", cluster), ("pod.yaml", pod)]);
    let mut arguments = vec!["explain", "--snapshot", "cluster.yaml", "--pod", "pod.yaml"];
    arguments.extend(more);
    jindou(&folder.0, &arguments)
}

/// Returns a small pod with additional fields in its spec.
fn pod(spec: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: p, labels: {{app: p}}}}, spec: {{{spec} \
         containers: [{{name: c, image: i, resources: {{requests: {{cpu: 500m, memory: 1Gi}}}}}}]}}}}"
    )
}

/// Returns a node of 4 cores and 8Gi, with labels and additional fields in its spec.
fn node(name: &str, labels: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}, \
         labels: {{kubernetes.io/hostname: {name}, {labels}}}}}, spec: {{{spec}}}, \
         status: {{allocatable: {{cpu: 4, memory: 8Gi, pods: 10}}}}}}\n"
    )
}

/// Returns a bound pod with additional fields in its spec.
fn placed(name: &str, node: &str, spec: &str) -> String {
    format!(
        "---\n{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, labels: {{app: {name}}}}}, \
         spec: {{nodeName: {node}, {spec} containers: [{{name: c, image: i}}]}}}}\n"
    )
}
