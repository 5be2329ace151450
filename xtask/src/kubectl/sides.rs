//! The two clusters, and commands that run on both at the same time.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Process, Stdio};
use std::time::{Duration, Instant};

use ::controlplane::RunningControlPlane;
use anyhow::{Context as _, Result, bail};

use super::script::KubectlCommand;
use crate::controlplane::{
    ControlPlane, POLL_INTERVAL, ProcessIdentity, SchedulerChoice, StartOptions, free_ports,
};
use crate::shell::root;

/// Timeout of one command or condition, generous because the machine may be busy.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Interval between two checks whether a command has exited.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Configuration of the scheduler of upstream's side.
const SCHEDULER: &str = "conformance/e2e/scheduler.yaml";

/// Output of a command.
#[derive(Debug)]
pub(super) struct CommandOutput {
    pub(super) output: String,
    pub(super) errors: String,
    pub(super) code: i32,
}

/// Upstream's control plane and the sandbox, with Jindou as the scheduler of both.
pub(super) struct Sides {
    // Dropped first: they use the control plane's folder.
    processes: Vec<ChildProcess>,
    upstream: Side,
    sandbox: Side,
    running: RunningControlPlane,
}

impl Sides {
    /// Starts both, with a copy of the script's files for each.
    pub(super) fn start(jindou: &Path, files: &Path) -> Result<Self> {
        let running = ControlPlane::start(&StartOptions::owned(SchedulerChoice::None)?)?;
        let plane = &running.plane;
        let folder = plane.folder.join("compare");
        let side = |name: &str, kubeconfig: PathBuf| -> Result<Side> {
            let side = Side {
                kubectl: plane.bin.join("kubectl"),
                files: folder.join(name).join("files"),
                folder: folder.join(name),
                kubeconfig,
            };
            copy(files, &side.files)?;
            Ok(side)
        };
        let upstream = side("upstream", plane.kubeconfig.clone())?;
        let sandbox = side("sandbox", folder.join("sandbox/kubeconfig"))?;
        // A copy, so that a build during the run does not replace the program under test.
        let program = folder.join("jindou");
        fs::copy(jindou, &program).with_context(|| format!("cannot copy {}", jindou.display()))?;
        let [port] = free_ports()?;
        let mut scheduler = Process::new(&program);
        scheduler.args(["scheduler", "--config"]).arg(root().join(SCHEDULER));
        scheduler.arg("--kubeconfig").arg(&plane.scheduler_kubeconfig);
        scheduler.args(["--bind-address=127.0.0.1", &format!("--secure-port={port}")]);
        let scheduler = ChildProcess::start(plane, "scheduler", scheduler, Stdio::null())?;
        let mut up = Process::new(&program);
        up.args(["up", "--nodes=0", "--kubeconfig"]).arg(&sandbox.kubeconfig);
        let mut up = ChildProcess::start(plane, "up", up, Stdio::piped())?;
        let stdout = up.0.stdout.take().context("`jindou up` has no output")?;
        // The address and the kubeconfig come before.
        let mut lines = BufReader::new(stdout).lines().map_while(Result::ok);
        if !lines.any(|line| line == "ready") {
            let log = fs::read_to_string(plane.folder.join("compare/up.log")).unwrap_or_default();
            bail!("`jindou up` does not become ready: {}", log.trim());
        }
        Ok(Self { processes: vec![scheduler, up], upstream, sandbox, running })
    }

    /// Returns the outputs of upstream and of the sandbox.
    pub(super) fn run(&self, command: &KubectlCommand) -> Result<[CommandOutput; 2]> {
        self.both(|side| side.run(command))
    }

    /// Repeats a command until it succeeds, and prints `lines` lines if a number is given.
    pub(super) fn until(
        &self,
        command: &KubectlCommand,
        upstream_alone: bool,
        lines: Option<usize>,
    ) -> Result<()> {
        if upstream_alone {
            return self.upstream.until(command, lines).context("on upstream's side");
        }
        self.both(|side| side.until(command, lines)).map(|_| ())
    }

    pub(super) fn stop(self) -> Result<()> {
        drop(self.processes);
        Ok(self.running.stop()?)
    }

    fn both<T: Send>(&self, act: impl Fn(&Side) -> Result<T> + Sync) -> Result<[T; 2]> {
        let (upstream, sandbox) = std::thread::scope(|scope| {
            let upstream = scope.spawn(|| act(&self.upstream));
            (upstream.join(), act(&self.sandbox))
        });
        let Ok(upstream) = upstream else { bail!("the thread of upstream's side ended") };
        Ok([upstream.context("on upstream's side")?, sandbox.context("on the sandbox")?])
    }
}

/// A cluster, with what kubectl needs for it.
struct Side {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    /// Folder for kubectl's cache and output.
    folder: PathBuf,
    /// Working directory of commands.
    files: PathBuf,
}

impl Side {
    fn run(&self, command: &KubectlCommand) -> Result<CommandOutput> {
        let path = |name: &str| self.folder.join(name);
        let mut process = Process::new(&self.kubectl);
        process
            .args(&command.arguments)
            // The script must not depend on settings of the user who runs it.
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("KUBECONFIG", &self.kubeconfig)
            .env("HOME", &self.folder)
            .env("TMPDIR", &self.folder)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .envs(command.variables.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.files)
            .stdout(File::create(path("stdout"))?)
            .stderr(File::create(path("stderr"))?);
        match &command.input {
            Some(name) => {
                let file = self.files.join(name);
                let file =
                    File::open(&file).with_context(|| format!("cannot read {}", file.display()))?;
                process.stdin(file)
            }
            None => process.stdin(Stdio::null()),
        };
        let mut child = ChildProcess(process.spawn().context("cannot start kubectl")?);
        let code = child.end()?;
        let read = |name: &str| -> Result<String> {
            Ok(String::from_utf8_lossy(&fs::read(path(name))?).into_owned())
        };
        Ok(CommandOutput { output: read("stdout")?, errors: read("stderr")?, code })
    }

    fn until(&self, command: &KubectlCommand, lines: Option<usize>) -> Result<()> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let output = self.run(command)?;
            let enough = lines.is_none_or(|lines| output.output.lines().count() == lines);
            if output.code == 0 && enough {
                return Ok(());
            }
            if Instant::now() > deadline {
                let seconds = TIMEOUT.as_secs();
                bail!("waited {seconds} s; the last answer: {}{}", output.output, output.errors);
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// A child process, which is killed when this value is dropped.
struct ChildProcess(Child);

impl ChildProcess {
    /// Starts a program with its standard error in a file. If this run is killed, the next one ends it.
    fn start(plane: &ControlPlane, name: &str, mut command: Process, out: Stdio) -> Result<Self> {
        let path = plane.folder.join("compare").join(format!("{name}.log"));
        let log =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        command.stdin(Stdio::null()).stdout(out).stderr(log);
        let ours = Self(command.spawn().with_context(|| format!("cannot start {name}"))?);
        if let Some(identity) = ProcessIdentity::of(ours.0.id().cast_signed()) {
            plane.record_process(name, identity)?;
        }
        Ok(ours)
    }

    /// Waits until it exits. Returns its exit code.
    fn end(&mut self) -> Result<i32> {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            if let Some(status) = self.0.try_wait()? {
                return status.code().with_context(|| format!("kubectl was ended: {status}"));
            }
            if Instant::now() > deadline {
                bail!("kubectl still runs after {} s", TIMEOUT.as_secs());
            }
            std::thread::sleep(EXIT_POLL_INTERVAL);
        }
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // The process is not reaped before this, so that the id is still its own.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    let entries = fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry?;
        fs::copy(entry.path(), to.join(entry.file_name()))?;
    }
    Ok(())
}
