//! The control plane that schedulers are measured on: one of our own, or one that runs already.

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
pub(super) struct Place {
    /// Access as an administrator.
    pub(super) kubeconfig: PathBuf,
    /// Access for schedulers.
    pub(super) scheduler_kubeconfig: PathBuf,
    /// Folder of upstream's programs.
    pub(super) bin: PathBuf,
    /// What is known of it, if it runs on this machine and was started by us.
    plane: Option<ControlPlane>,
    /// Ends it, if it is our own.
    running: Option<RunningControlPlane>,
    /// The sandbox, if it is one.
    sandbox: Option<Server>,
}

/// Seconds of processor time used so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// By the API server.
    pub(super) apiserver: f64,
    /// By all but the scheduler: API server, store, controllers and this process, as far as they can be seen.
    pub(super) outside: f64,
}

impl Place {
    /// Starts one without controllers: nodes are what they are made as, and nothing else uses the API server.
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

    /// Uses one that runs.
    pub(super) async fn of(kubeconfig: &Path) -> Result<Self> {
        if !kubeconfig.exists() {
            bail!("there is no kubeconfig {}", kubeconfig.display());
        }
        let kubeconfig = std::path::absolute(kubeconfig)?;
        // One of `cargo xtask controlplane` tells more beside it.
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

    /// Whether it goes away with this process.
    pub(super) fn is_own(&self) -> bool {
        self.running.is_some() || self.sandbox.is_some()
    }

    /// Ends a process with this one, even if this one is killed: the next start of a control plane then ends it.
    pub(super) fn adopt(&self, name: &str, identity: &ProcessIdentity) -> Result<()> {
        let own = self.plane.as_ref().filter(|_| self.is_own());
        if let Some(plane) = own {
            plane.record_process(name, identity.clone())?;
        }
        Ok(())
    }

    /// What has been used until now.
    pub(super) async fn usage(&self, requests: &ApiClient) -> Result<Usage> {
        let own = ProcessIdentity::own()?
            .cpu_seconds()
            .context("cannot read the time of this process")?;
        if let Some(sandbox) = &self.sandbox {
            let apiserver = sandbox.identity.cpu_seconds().context("the sandbox ended")?;
            return Ok(Usage { apiserver, outside: apiserver + own });
        }
        let Some(plane) = &self.plane else {
            let text = requests.get_text("/metrics").await?;
            let apiserver = metrics::sum(&text, "process_cpu_seconds_total", &[]);
            return Ok(Usage { apiserver, outside: apiserver + own });
        };
        let mut usage = Usage { apiserver: 0.0, outside: own };
        for (name, identity) in &plane.processes {
            let seconds = identity
                .cpu_seconds()
                .with_context(|| format!("{name} of {} ended", plane.name))?;
            usage.outside += seconds;
            if name == "kube-apiserver" {
                usage.apiserver += seconds;
            }
        }
        Ok(usage)
    }

    /// Ends it if it is our own.
    pub(super) async fn stop(self) -> Result<()> {
        match self.running {
            Some(running) => Ok(tokio::task::spawn_blocking(move || running.stop()).await??),
            None => Ok(()),
        }
    }
}
