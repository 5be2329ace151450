//! Programs of the control plane that a scenario kills and restarts with the same arguments.

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::schedulers::{self, SchedulerProcess};
use crate::test_env::TestEnv;
use controlplane::{ControlPlane, ProcessIdentity};

/// A program, running or not.
pub(crate) struct ControlPlaneProgram<'a> {
    env: &'a TestEnv<'a>,
    name: &'a str,
    /// Path and arguments.
    words: Vec<String>,
    /// Addresses that it listens on.
    addresses: Vec<String>,
    identity: ProcessIdentity,
    /// The process, if it was started by [`Self::start`].
    process: Option<SchedulerProcess>,
}

impl<'a> ControlPlaneProgram<'a> {
    /// Returns a program of a control plane, with the command line of its process.
    pub(crate) fn of(env: &'a TestEnv<'a>, plane: &ControlPlane, name: &'a str) -> Result<Self> {
        let (_, identity) = plane
            .processes
            .iter()
            .find(|(program, _)| program == name)
            .with_context(|| format!("the control plane has no {name}"))?;
        let line = fs::read_to_string(format!("/proc/{}/cmdline", identity.pid))?;
        let words: Vec<_> = line.trim_end_matches('\0').split('\0').map(str::to_owned).collect();
        let mut addresses: Vec<_> = words.iter().filter_map(|word| listens_on(word)).collect();
        if name == "kube-apiserver" {
            addresses.push(plane.server.trim_start_matches("https://").to_owned());
        }
        ensure!(!addresses.is_empty(), "{name} listens nowhere: {words:?}");
        let identity = identity.clone();
        Ok(Self { env, name, words, addresses, identity, process: None })
    }

    /// Stops it by SIGSTOP for a time, and continues it.
    pub(crate) fn freeze(&self, time: Duration) -> Result<()> {
        self.signal(Signal::STOP)?;
        sleep(time);
        self.signal(Signal::CONT)
    }

    /// Kills the process and waits until its ports are free.
    pub(crate) fn kill(&mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        if let Some(process) = self.process.take() {
            process.kill()?;
        }
        // The ports are free once the last thread has ended.
        self.env.wait(&format!("{} to end", self.name), || {
            ensure!(!self.identity.is_alive(), "it still runs");
            for address in &self.addresses {
                TcpListener::bind(address).with_context(|| format!("{address} is still taken"))?;
            }
            Ok(())
        })
    }

    /// Starts the program with its first command line.
    pub(crate) fn start(&mut self) -> Result<()> {
        let (program, arguments) = self.words.split_first().context("it has no name")?;
        let home = &self.env.plane.folder;
        let mut command = Command::new(program);
        command.args(arguments).env_clear().env("HOME", home).current_dir(home);
        let process = schedulers::start(self.env, self.name, command)?;
        self.identity =
            process.identity().with_context(|| format!("{} ended at once", self.name))?;
        self.process = Some(process);
        Ok(())
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        ensure!(self.identity.is_alive(), "{} has already ended", self.name);
        let pid = Pid::from_raw(self.identity.pid).context("it has no number")?;
        kill_process(pid, signal).with_context(|| format!("cannot signal {}", self.name))
    }
}

/// Returns the address of an argument of etcd that names one to listen on.
fn listens_on(word: &str) -> Option<String> {
    let (name, value) = word.split_once("=https://")?;
    name.starts_with("--listen-").then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_to_listen_on_are_found() {
        assert_eq!(
            listens_on("--listen-peer-urls=https://127.0.0.1:1").as_deref(),
            Some("127.0.0.1:1")
        );
        assert_eq!(listens_on("--advertise-client-urls=https://127.0.0.1:1"), None);
        assert_eq!(listens_on("--secure-port=1"), None);
    }
}
