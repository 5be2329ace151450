//! The schedulers that are measured, as processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use controlplane::{Cores, ProcessIdentity, free_ports, write_private};
use serde::Serialize;
use serde_json::json;

/// Requests per second that both may send, and at once: so high that neither is held up by it.
pub(crate) const QPS: u32 = 10_000;
const BURST: u32 = 20_000;

/// Lines of a log that are shown when its scheduler fails.
const TAIL_LINES: usize = 15;

/// Who is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// Upstream's scheduler.
    KubeScheduler,
    /// Ours.
    Jindou,
}

impl Contender {
    /// As people call it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KubeScheduler => "kube-scheduler",
            Self::Jindou => "jindou",
        }
    }
}

/// Where the programs are and what they need.
pub(crate) struct Contenders<'a> {
    /// Program of upstream's scheduler.
    pub(crate) kube: PathBuf,
    /// Program of ours.
    pub(crate) jindou: PathBuf,
    /// Credentials for both.
    pub(crate) kubeconfig: PathBuf,
    /// For their configuration and logs.
    pub(crate) folder: PathBuf,
    /// The core that they have for themselves, if they have one.
    pub(crate) cores: Option<&'a Cores>,
}

/// A scheduler that runs. It ends when it is dropped.
pub(crate) struct Process {
    /// Who it is.
    pub(crate) identity: ProcessIdentity,
    contender: Contender,
    child: Child,
    log: PathBuf,
}

impl Contenders<'_> {
    /// Starts one. Both get the same file.
    pub(crate) fn start(&self, contender: Contender) -> Result<Process> {
        let config = self.folder.join("scheduler.yaml");
        write_private(&config, &configuration(&self.kubeconfig))?;
        let [port] = free_ports()?;
        let mut command = match contender {
            Contender::KubeScheduler => {
                let mut command = Command::new(&self.kube);
                for flag in ["authentication", "authorization"] {
                    command.arg(format!("--{flag}-kubeconfig={}", self.kubeconfig.display()));
                }
                // It writes a certificate there.
                command.arg("--cert-dir").arg(self.folder.join("kube-scheduler"));
                command
            }
            Contender::Jindou => {
                let mut command = Command::new(&self.jindou);
                command.arg("scheduler");
                command
            }
        };
        command.arg("--config").arg(config);
        command.args(["--bind-address=127.0.0.1", &format!("--secure-port={port}")]);
        let log = self.folder.join(format!("{}.log", contender.name()));
        let output =
            File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        command.stdin(Stdio::null()).stderr(output.try_clone()?).stdout(output);
        let spawned = match self.cores {
            Some(cores) => cores.start_apart(|| command.spawn())?,
            None => command.spawn(),
        };
        let mut child = spawned.with_context(|| format!("cannot start {}", contender.name()))?;
        let Some(identity) = ProcessIdentity::of(child.id().cast_signed()) else {
            let status = child.wait()?;
            bail!("{} ended at once: {status}\n{}", contender.name(), tail(&log));
        };
        Ok(Process { identity, contender, child, log })
    }
}

/// The same for both, and all else as it is by default.
fn configuration(kubeconfig: &Path) -> String {
    // JSON is YAML.
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": QPS, "burst": BURST},
        // One at a time runs, and waiting for a lease is not what is measured.
        "leaderElection": {"leaderElect": false},
        "enableProfiling": false,
    });
    format!("{config:#}\n")
}

impl Process {
    /// Fails when it has ended by itself.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => {
                bail!("{} ended: {status}\n{}", self.contender.name(), self.tail())
            }
            None => Ok(()),
        }
    }

    /// The end of what it logged.
    pub(crate) fn tail(&self) -> String {
        tail(&self.log)
    }

    /// Seconds of processor time that it has used.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        self.identity.cpu_seconds().with_context(|| format!("{} ended", self.contender.name()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Asked first, then killed; the number is its own until it is waited for.
        if self.identity.end().is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<_> = text.lines().collect();
    let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
    format!("the end of its log:\n{}", tail.join("\n"))
}
