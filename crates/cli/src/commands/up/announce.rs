//! Output of `jindou up` about its cluster.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use sandbox::Sandbox;
use sandbox::cluster::Cluster;
use serde::Serialize;

use crate::output::{Format, STRONG, painted, printable, say};

/// Interval of the status line.
const STATUS_INTERVAL: Duration = Duration::from_millis(500);

/// Address and properties of a cluster, for people and programs.
#[derive(Serialize)]
pub(super) struct About {
    /// URL of the API server.
    address: String,
    /// Absolute path of the kubeconfig.
    #[serde(serialize_with = "lossy")]
    pub(super) kubeconfig: PathBuf,
    nodes: usize,
    /// `true` if Jindou schedules the pods.
    scheduler: bool,
}

/// Serialises a path; bytes that are not UTF-8 are replaced.
fn lossy<S: serde::Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&path.display())
}

impl About {
    pub(super) fn new(sandbox: &Sandbox, kubeconfig: &Path, scheduler: bool) -> Self {
        Self {
            address: sandbox.url(),
            kubeconfig: kubeconfig.to_owned(),
            nodes: sandbox.cluster.resource("", "nodes").objects.len(),
            scheduler,
        }
    }

    /// Prints that the cluster is ready and how to reach it.
    pub(super) fn say(&self, format: Format) -> Result<()> {
        match format {
            Format::Json => say(&(serde_json::to_string(self)? + "\n")),
            Format::Yaml => say(&serde_saphyr::to_string(self)?),
            Format::Table if std::io::stdout().is_terminal() => say(&self.welcome()),
            Format::Table => {
                say(&format!("API server: {}\n{}\nready\n", self.address, self.export()))
            }
        }
    }

    /// Returns the shell command that selects the cluster.
    fn export(&self) -> String {
        format!("export KUBECONFIG={}", quoted(&self.kubeconfig))
    }

    fn welcome(&self) -> String {
        let title = painted(STRONG, "The cluster is ready");
        let schedules = if self.scheduler {
            "scheduled by Jindou"
        } else {
            "no scheduler: pods stay pending until you start one"
        };
        format!(
            "{title} at {}: {} simulated nodes, {schedules}.\n\n  {}\n\nThen try, in another terminal:\n\n  kubectl get nodes\n  kubectl create deployment web --image=nginx --replicas=300 && kubectl get pods -o wide --watch\n  kubectl drain node-0 --ignore-daemonsets && kubectl get events\n\nCtrl-C stops the cluster and discards its objects.\n",
            self.address,
            self.nodes,
            painted(STRONG, &self.export()),
        )
    }
}

/// Returns a path quoted for a shell.
fn quoted(path: &Path) -> String {
    let shown = path.display().to_string();
    let shown = printable(&shown);
    shlex::try_quote(&shown).map_or_else(|_| shown.to_string(), Cow::into_owned)
}

/// Shows the numbers of nodes and pods on a status line of the terminal. Does not return.
pub(super) async fn status(cluster: &Cluster) {
    if !std::io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    let (pods, nodes) = (cluster.resource("", "pods"), cluster.resource("", "nodes"));
    let mut last = String::new();
    loop {
        tokio::time::sleep(STATUS_INTERVAL).await;
        let all = pods.objects.list("").objects;
        let of = |phase| all.iter().filter(|pod| pod.field_named("status.phase") == phase).count();
        let line = format!(
            "{} nodes, {} pods: {} running, {} pending",
            nodes.objects.len(),
            all.len(),
            of("Running"),
            of("Pending")
        );
        if line != last {
            let mut out = std::io::stderr().lock();
            // Errors of a closed terminal are ignored.
            let _ = write!(out, "\r\u{1b}[K{line}").and_then(|()| out.flush());
            last = line;
        }
    }
}

/// Ends the status line with a line break.
pub(super) fn end_of_status() {
    if std::io::stderr().is_terminal() {
        let _ = writeln!(std::io::stderr());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_quoted_for_shells() {
        for (path, shown) in [
            ("/home/a/.kube/config", "/home/a/.kube/config"),
            ("/home/a b/it's", "\"/home/a b/it's\""),
            ("/tmp/$(reboot)", "'/tmp/$(reboot)'"),
            ("/tmp/a\u{1b}[2J", "'/tmp/a\u{fffd}[2J'"),
        ] {
            assert_eq!(quoted(Path::new(path)), shown);
        }
    }
}
