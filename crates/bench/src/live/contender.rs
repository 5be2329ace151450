//! The measured schedulers, as processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use controlplane::{Cores, ProcessIdentity, free_ports, write_private};
use serde::Serialize;
use serde_json::json;

/// Client-side rate limit of both schedulers, in requests per second, which neither reaches.
pub(crate) const QPS: u32 = 10_000;
/// Burst of this limit, in requests.
const BURST: u32 = 20_000;

/// Lines of the log that are shown if a scheduler fails.
const TAIL_LINES: usize = 15;

/// A measured scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// Upstream's scheduler.
    KubeScheduler,
    /// Jindou.
    Jindou,
}

impl Contender {
    /// Returns its name for output.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::KubeScheduler => "kube-scheduler",
            Self::Jindou => "jindou",
        }
    }
}

/// Paths and settings needed to start schedulers.
pub(crate) struct Contenders<'a> {
    /// Path of kube-scheduler.
    pub(crate) kube: PathBuf,
    /// Path of Jindou.
    pub(crate) jindou: PathBuf,
    /// Kubeconfig for both.
    pub(crate) kubeconfig: PathBuf,
    /// Folder for configuration and logs.
    pub(crate) folder: PathBuf,
    /// The core reserved for schedulers, if there is one.
    pub(crate) cores: Option<&'a Cores>,
}

/// A running scheduler, which ends when this is dropped.
pub(crate) struct Process {
    /// Identity of the process.
    pub(crate) identity: ProcessIdentity,
    contender: Contender,
    child: Child,
    log: PathBuf,
}

impl Contenders<'_> {
    /// Starts a scheduler. Both get the same configuration file.
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
                // It writes its serving certificate to this folder.
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

/// Returns the configuration file of both schedulers, with defaults for all other fields.
fn configuration(kubeconfig: &Path) -> String {
    // JSON is YAML.
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": QPS, "burst": BURST},
        // Only one scheduler runs at a time, and acquiring a lease would add to its times.
        "leaderElection": {"leaderElect": false},
        "enableProfiling": false,
    });
    format!("{config:#}\n")
}

impl Process {
    /// Fails if the process has exited.
    pub(crate) fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            Some(status) => {
                bail!("{} ended: {status}\n{}", self.contender.name(), self.tail())
            }
            None => Ok(()),
        }
    }

    /// Returns the last lines of its log.
    pub(crate) fn tail(&self) -> String {
        tail(&self.log)
    }

    /// Returns the CPU seconds that it has used.
    pub(crate) fn cpu_seconds(&self) -> Result<f64> {
        self.identity.cpu_seconds().with_context(|| format!("{} ended", self.contender.name()))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGTERM first, then SIGKILL. The process id stays valid until it is waited for.
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
