//! A sandbox as a process of its own, so that its memory and CPU time are measured apart from the client's.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, Result, bail};
use cli::output::say;
use controlplane::{ProcessIdentity, write_private};
use sandbox::Sandbox;

use crate::programs;

/// Threads that serve requests, as many as in `jindou up`.
const THREADS: usize = 2;

/// A running sandbox, which ends when this is dropped.
pub(crate) struct Server {
    /// Kubeconfig of an administrator.
    pub(crate) kubeconfig: PathBuf,
    /// Identity of its process.
    pub(crate) identity: ProcessIdentity,
    child: Child,
    _folder: tempfile::TempDir,
}

impl Server {
    /// Starts a sandbox, with kubelets and controllers if `actors`, and waits until it serves.
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

    /// Returns the resident memory, in bytes.
    pub(crate) fn resident_bytes(&self) -> Result<u64> {
        crate::memory::resident_bytes(&format!("/proc/{}/status", self.identity.pid))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It ends when its standard input closes. Its process id stays valid until it is waited for.
        drop(self.child.stdin.take());
        if self.identity.end().is_err() {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Serves a sandbox until standard input closes.
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
    let mut ignored = [0; 64];
    while std::io::stdin().read(&mut ignored)? > 0 {}
    io.block_on(sandbox.stop());
    Ok(())
}
