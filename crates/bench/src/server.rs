//! A sandbox in a process of its own, so that only its own memory and processor time are measured.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use cli::output::say;
use controlplane::{ProcessIdentity, write_private};
use sandbox::Sandbox;

use crate::programs;

/// Threads that answer requests, as many as `jindou up` has.
const THREADS: usize = 2;

/// A sandbox that runs. It ends when it is dropped.
pub(crate) struct Server {
    /// Access to it.
    pub(crate) kubeconfig: PathBuf,
    /// Who it is.
    pub(crate) identity: ProcessIdentity,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts one and waits until it answers; with or without kubelets and controllers.
    pub(crate) fn start(actors: bool) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("jindou-bench-").tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let mut command = Command::new(programs::own()?);
        command.args(["server", "--kubeconfig"]).arg(&kubeconfig);
        if actors {
            command.arg("--actors");
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a sandbox")?;
        let mut ready = String::new();
        if let Some(output) = child.stdout.take() {
            BufReader::new(output).read_line(&mut ready)?;
        }
        match ProcessIdentity::of(child.id().cast_signed()) {
            Some(identity) if !ready.is_empty() => {
                Ok(Self { kubeconfig, identity, child, _folder: folder })
            }
            _ => bail!("the sandbox ended at once: {}", child.wait()?),
        }
    }

    /// Resident bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        crate::memory::resident_bytes(&format!("/proc/{}/status", self.identity.pid))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends by itself when nobody can write to it any more; the number is its own until then.
        drop(self.child.stdin.take());
        if self.identity.end().is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Serves a sandbox until standard input ends.
pub(crate) fn serve(kubeconfig: &Path, actors: bool) -> Result<()> {
    let io = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(THREADS)
        .enable_all()
        .build()
        .context("cannot start the threads of the API server")?;
    let options = sandbox::Options { actors, ..sandbox::Options::default() };
    let sandbox = io.block_on(Sandbox::start(&options))?;
    write_private(kubeconfig, &sandbox.kubeconfig())?;
    say("ready\n")?;
    let mut nothing = [0; 64];
    while std::io::stdin().read(&mut nothing)? > 0 {}
    io.block_on(sandbox.stop());
    Ok(())
}
