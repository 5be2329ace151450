//! The control plane that schedulers are measured on: one started here, or a running one.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use cli::api_client::ApiClient;
use cli::output::complain;
use controlplane::{
    ControlPlane, ProcessIdentity, RunningControlPlane, SchedulerChoice, StartOptions,
};

use crate::metrics;
use crate::server::Server;

/// A control plane.
pub(super) struct LiveCluster {
    /// Kubeconfig of an administrator.
    pub(super) kubeconfig: PathBuf,
    /// Kubeconfig of the schedulers.
    pub(super) scheduler_kubeconfig: PathBuf,
    /// Folder of upstream's programs.
    pub(super) bin: PathBuf,
    /// Its description, if `controlplane` started it on this machine.
    plane: Option<ControlPlane>,
    /// The handle that stops it, if it was started here.
    running: Option<RunningControlPlane>,
    /// The sandbox, if it is the API server.
    sandbox: Option<Server>,
}

/// CPU seconds used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CpuUse {
    /// CPU seconds of the API server.
    pub(super) apiserver: f64,
    /// CPU seconds of all processes but the scheduler (API server, etcd, controllers, this process), as far as they run
    /// on this machine.
    pub(super) outside: f64,
}

impl LiveCluster {
    /// Starts a control plane without controllers, so that nodes stay as created and nothing else uses the API server.
    pub(super) async fn start() -> Result<Self> {
        complain("starting a control plane …");
        let options = StartOptions {
            kwok: false,
            controllers: false,
            ..StartOptions::owned(SchedulerChoice::None)?
        };
        let running = tokio::task::spawn_blocking(move || ControlPlane::start(&options)).await??;
        let plane = running.plane.clone();
        Ok(Self {
            kubeconfig: plane.kubeconfig.clone(),
            scheduler_kubeconfig: plane.scheduler_kubeconfig.clone(),
            bin: plane.bin.clone(),
            plane: Some(plane),
            running: Some(running),
            sandbox: None,
        })
    }

    /// Starts a sandbox without kubelets and controllers.
    pub(super) async fn sandbox() -> Result<Self> {
        let bin = tokio::task::spawn_blocking(controlplane::build_programs).await??;
        let server = Server::start(false)?;
        let kubeconfig = server.kubeconfig.clone();
        Ok(Self {
            scheduler_kubeconfig: kubeconfig.clone(),
            kubeconfig,
            bin,
            plane: None,
            running: None,
            sandbox: Some(server),
        })
    }

    /// Uses a running control plane.
    pub(super) async fn of(kubeconfig: &Path) -> Result<Self> {
        if !kubeconfig.exists() {
            bail!("there is no kubeconfig {}", kubeconfig.display());
        }
        let kubeconfig = std::path::absolute(kubeconfig)?;
        // `cargo xtask controlplane` writes a description beside the kubeconfig.
        let plane = kubeconfig.parent().map(ControlPlane::load).transpose()?.flatten();
        let plane = plane.filter(ControlPlane::is_up);
        let bin = tokio::task::spawn_blocking(controlplane::build_programs).await??;
        let scheduler = plane.as_ref().map(|plane| plane.scheduler_kubeconfig.clone());
        Ok(Self {
            scheduler_kubeconfig: scheduler.unwrap_or_else(|| kubeconfig.clone()),
            kubeconfig,
            bin,
            plane,
            running: None,
            sandbox: None,
        })
    }

    /// Returns `true` if it was started here and ends with this process.
    pub(super) fn is_own(&self) -> bool {
        self.running.is_some() || self.sandbox.is_some()
    }

    /// Records a process with the control plane, so that it is ended even if this process is killed: the next start of a
    /// control plane ends recorded processes.
    pub(super) fn adopt(&self, name: &str, identity: &ProcessIdentity) -> Result<()> {
        let own = self.plane.as_ref().filter(|_| self.is_own());
        if let Some(plane) = own {
            plane.record_process(name, identity.clone())?;
        }
        Ok(())
    }

    /// Returns the CPU seconds used so far.
    pub(super) async fn cpu_use(&self, requests: &ApiClient) -> Result<CpuUse> {
        let own = ProcessIdentity::own()?
            .cpu_seconds()
            .context("cannot read the time of this process")?;
        if let Some(sandbox) = &self.sandbox {
            let apiserver = sandbox.identity.cpu_seconds().context("the sandbox ended")?;
            return Ok(CpuUse { apiserver, outside: apiserver + own });
        }
        let Some(plane) = &self.plane else {
            let text = requests.get_text("/metrics").await?;
            let apiserver = metrics::sum(&text, "process_cpu_seconds_total", &[]);
            return Ok(CpuUse { apiserver, outside: apiserver + own });
        };
        let mut used = CpuUse { apiserver: 0.0, outside: own };
        for (name, identity) in &plane.processes {
            let seconds = identity
                .cpu_seconds()
                .with_context(|| format!("{name} of {} ended", plane.name))?;
            used.outside += seconds;
            if name == "kube-apiserver" {
                used.apiserver += seconds;
            }
        }
        Ok(used)
    }

    /// Stops it if it was started here.
    pub(super) async fn stop(self) -> Result<()> {
        match self.running {
            Some(running) => Ok(tokio::task::spawn_blocking(move || running.stop()).await??),
            None => Ok(()),
        }
    }
}
