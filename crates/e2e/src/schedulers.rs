//! Schedulers as processes, which end with their scenario.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::checkout::root;
use crate::test_env::{TIMEOUT, TestEnv};
use controlplane::{POLL_INTERVAL, ProcessIdentity, free_ports};

/// Configuration of a scheduler without special settings.
pub(crate) const DEFAULT_CONFIG: &str = "conformance/e2e/scheduler.yaml";

/// Configuration of a scheduler that binds 100 pods per second.
pub(crate) const LIMITED_CONFIG: &str = "conformance/e2e/unhurried.yaml";

/// Configuration of a scheduler without a limit on binds.
pub(crate) const UNLIMITED_CONFIG: &str = "conformance/e2e/eager.yaml";

/// A running process, killed when it is dropped.
pub(crate) struct SchedulerProcess {
    name: String,
    child: Child,
    ended: bool,
}

/// Starts Jindou with a configuration file of the checkout.
pub(crate) fn jindou(env: &TestEnv, config: &str) -> Result<SchedulerProcess> {
    jindou_as(env, "jindou", &root().join(config), &[])
}

/// Starts Jindou with a name for its log.
pub(crate) fn jindou_as(
    env: &TestEnv,
    name: &str,
    config: &Path,
    more: &[&str],
) -> Result<SchedulerProcess> {
    jindou_by(env, name, config, &env.plane.scheduler_kubeconfig, more)
}

/// Starts Jindou with a kubeconfig.
pub(crate) fn jindou_by(
    env: &TestEnv,
    name: &str,
    config: &Path,
    kubeconfig: &Path,
    more: &[&str],
) -> Result<SchedulerProcess> {
    let [port] = free_ports()?;
    jindou_with(env, name, config, kubeconfig, port, more)
}

/// Starts Jindou with its HTTPS endpoints on a port.
pub(crate) fn jindou_at(
    env: &TestEnv,
    name: &str,
    config: &Path,
    port: u16,
    more: &[&str],
) -> Result<SchedulerProcess> {
    jindou_with(env, name, config, &env.plane.scheduler_kubeconfig, port, more)
}

fn jindou_with(
    env: &TestEnv,
    name: &str,
    config: &Path,
    kubeconfig: &Path,
    port: u16,
    more: &[&str],
) -> Result<SchedulerProcess> {
    let mut command = Command::new(env.jindou);
    command.args(["scheduler", "--config"]).arg(config);
    command.arg("--kubeconfig").arg(kubeconfig);
    command.args(["--bind-address=127.0.0.1", &format!("--secure-port={port}")]);
    command.args(more).arg("-v=5");
    start(env, name, command)
}

/// Starts upstream's scheduler with a configuration file of the checkout.
pub(crate) fn kube(env: &TestEnv, config: &str) -> Result<SchedulerProcess> {
    kube_by(env, config, &env.plane.scheduler_kubeconfig)
}

/// Starts upstream's scheduler with a kubeconfig.
pub(crate) fn kube_by(env: &TestEnv, config: &str, kubeconfig: &Path) -> Result<SchedulerProcess> {
    let kubeconfig = kubeconfig.display();
    let [port] = free_ports()?;
    // With a configuration file, upstream ignores `--kubeconfig`.
    let config = std::fs::read_to_string(root().join(config))?;
    let connection = format!("clientConnection:\n  kubeconfig: {kubeconfig}\n");
    let config = if config.contains("clientConnection:\n") {
        config.replace("clientConnection:\n", &connection)
    } else {
        config + &connection
    };
    let config = env.write("kube-scheduler.yaml", &config)?;
    let mut command = Command::new(env.plane.bin.join("kube-scheduler"));
    command.arg("--config").arg(config);
    command.arg(format!("--authentication-kubeconfig={kubeconfig}"));
    command.arg(format!("--authorization-kubeconfig={kubeconfig}"));
    command.args(["--bind-address=127.0.0.1", &format!("--secure-port={port}")]);
    command.arg("--cert-dir").arg(env.folder.join("kube-scheduler"));
    start(env, "kube-scheduler", command)
}

/// Starts a program with a name for its log.
pub(crate) fn start(env: &TestEnv, name: &str, mut command: Command) -> Result<SchedulerProcess> {
    let path = env.folder.join(format!("{name}.log"));
    let log = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    command.stdin(Stdio::null()).stderr(log.try_clone()?).stdout(log);
    let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
    let process = SchedulerProcess { name: name.to_owned(), child, ended: false };
    if let Some(identity) = process.identity() {
        env.plane.record_process(name, identity)?;
    }
    Ok(process)
}

impl SchedulerProcess {
    /// Kills the process by SIGKILL.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill().with_context(|| format!("cannot kill {}", self.name))?;
        self.child.wait()?;
        self.ended = true;
        Ok(())
    }

    /// Stops the process by SIGSTOP, or continues it.
    pub(crate) fn freeze(&self, frozen: bool) -> Result<()> {
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        kill_process(Pid::from_child(&self.child), signal)
            .with_context(|| format!("cannot stop {}", self.name))
    }

    /// Returns the identity of the process, or `None` if it has exited.
    pub(crate) fn identity(&self) -> Option<ProcessIdentity> {
        ProcessIdentity::of(self.child.id().cast_signed())
    }

    /// Returns the exit status if the process has exited.
    pub(crate) fn has_ended(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait()?;
        self.ended |= status.is_some();
        Ok(status)
    }

    /// Waits until the process exits by itself.
    pub(crate) fn end(mut self) -> Result<ExitStatus> {
        let status = wait(&mut self.child, &self.name)?;
        self.ended = true;
        Ok(status)
    }

    /// Stops the process by SIGTERM; it must exit in time and with status 0.
    pub(crate) fn stop(mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            self.ended = true;
            bail!("{} ended by itself: {status}", self.name);
        }
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = wait(&mut self.child, &self.name)?;
        self.ended = true;
        if !status.success() {
            bail!("{} was asked to stop and ended with {status}", self.name);
        }
        Ok(())
    }
}

impl Drop for SchedulerProcess {
    fn drop(&mut self) {
        if !self.ended {
            // A child that was not waited for keeps its pid.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// Waits until a process exits.
pub(crate) fn wait(child: &mut Child, name: &str) -> Result<ExitStatus> {
    let deadline = Instant::now() + TIMEOUT;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if Instant::now() > deadline {
            bail!("{name} still runs after {} s", TIMEOUT.as_secs());
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
