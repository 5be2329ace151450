//! Starts a control plane and waits until it works.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use super::components::{self, Ports, STAGES};
use super::process::{self, POLL_INTERVAL, ProcessIdentity};
use super::state::{self, ControlPlane, SchedulerChoice};
use super::{build, certificates};
use crate::tools::{cache, say};

/// How long one program may take until it works, on a machine that is busy with builds.
const PATIENCE: Duration = Duration::from_mins(2);

/// How often to try other ports when somebody takes one between choice and use.
const ATTEMPTS_MAX: u32 = 3;

/// Lines of a log that are shown when its program fails.
const TAIL_LINES: usize = 15;

/// What to start, and where.
#[derive(Clone)]
pub struct StartOptions {
    pub name: String,
    /// Folder of its state.
    pub folder: PathBuf,
    pub scheduler: SchedulerChoice,
    /// Whether kwok plays the kubelets.
    pub kwok: bool,
    /// Whether controllers run. Without them nothing happens to objects by itself, and whoever creates
    /// pods first creates the service accounts.
    pub controllers: bool,
    /// Whether it ends with this process.
    pub owned: bool,
}

impl StartOptions {
    /// A control plane that belongs to this process, in a folder of its own: what a test wants.
    pub fn owned(scheduler: SchedulerChoice) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let count = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("owned-{}-{count}", std::process::id());
        Ok(Self {
            folder: state_folder(&name)?,
            name,
            scheduler,
            kwok: true,
            controllers: true,
            owned: true,
        })
    }
}

/// Where all control planes are that were not given a folder.
pub(crate) fn state_folders() -> Result<PathBuf> {
    Ok(cache()?.join("controlplane/run"))
}

/// Where a control plane is that was only given a name.
pub fn state_folder(name: &str) -> Result<PathBuf> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 40 || !name.chars().all(fine) {
        bail!("a name is up to 40 small letters, digits and `-`, not {name:?}");
    }
    Ok(state_folders()?.join(name))
}

/// A control plane whose processes are children of this one. They end when it is dropped.
pub struct RunningControlPlane {
    /// How to reach it.
    pub plane: ControlPlane,
    children: Vec<Child>,
    ports: Ports,
    kept: bool,
}

impl ControlPlane {
    /// Builds, starts, and waits until pods can be created.
    pub fn start(options: &StartOptions) -> Result<RunningControlPlane> {
        sweep()?;
        let bin = build::build_programs()?;
        let held = state::hold(&options.folder)?;
        if let Some(plane) = Self::load(&options.folder)?.filter(|plane| !plane.is_down()) {
            bail!("a control plane already runs in {}; end it first", plane.folder.display());
        }
        start_held(options, &bin, &held)
    }
}

/// Starts in a folder that is held and in which nothing runs.
pub(crate) fn start_held(
    options: &StartOptions,
    bin: &Path,
    _held: &File,
) -> Result<RunningControlPlane> {
    for attempt in 1.. {
        let error = match launch(options, bin) {
            Ok(running) => return Ok(running),
            Err(error) => error,
        };
        let taken = format!("{error:#}").contains("address already in use");
        if taken && attempt < ATTEMPTS_MAX {
            say("somebody took a port; trying others");
            continue;
        }
        if options.owned {
            state::remove(&options.folder)?;
        }
        return Err(error);
    }
    bail!("no attempt was made")
}

/// Ends control planes whose owners died without ending them.
pub(crate) fn sweep() -> Result<()> {
    let Ok(entries) = fs::read_dir(state_folders()?) else { return Ok(()) };
    for entry in entries {
        let folder = entry?.path();
        let Ok(Some(plane)) = ControlPlane::load(&folder) else { continue };
        if plane.owner.as_ref().is_none_or(ProcessIdentity::is_alive) {
            continue;
        }
        let _held = state::hold(&folder)?;
        plane.end()?;
        state::remove(&folder)?;
    }
    Ok(())
}

fn launch(options: &StartOptions, bin: &Path) -> Result<RunningControlPlane> {
    let folder = std::path::absolute(&options.folder)?;
    state::clear(&folder)?;
    let ports = Ports::free()?;
    let plane = ControlPlane {
        name: options.name.clone(),
        kubeconfig: folder.join("admin.kubeconfig"),
        scheduler_kubeconfig: folder.join("kube-scheduler.kubeconfig"),
        ca: folder.join("certificates/ca.crt"),
        folder,
        server: components::server(ports),
        bin: bin.to_owned(),
        scheduler: options.scheduler,
        kwok: options.kwok,
        ready: false,
        owner: if options.owned { Some(ProcessIdentity::own()?) } else { None },
        processes: Vec::new(),
    };
    plane.save()?;
    let folder = &plane.folder;
    for name in ["certificates", "logs"] {
        fs::create_dir(folder.join(name))?;
    }
    certificates::write(&folder.join("certificates"))?;
    components::write_kubeconfigs(folder, &plane.server)?;
    fs::write(folder.join("stages.yaml"), STAGES)?;
    let mut running = RunningControlPlane { plane, children: Vec::new(), ports, kept: false };
    running.bring_up(options.controllers)?;
    Ok(running)
}

impl RunningControlPlane {
    fn bring_up(&mut self, controllers: bool) -> Result<()> {
        self.spawn("etcd")?;
        self.wait_for_port("etcd")?;
        self.spawn("kube-apiserver")?;
        self.wait("kube-apiserver", "is not ready", |plane| {
            plane.kubectl(&["get", "--raw=/readyz", "--request-timeout=5s"])
        })?;
        let mut rest = Vec::new();
        rest.extend(controllers.then_some("kube-controller-manager"));
        rest.extend(self.plane.kwok.then_some("kwok"));
        rest.extend((self.plane.scheduler == SchedulerChoice::Kube).then_some("kube-scheduler"));
        for program in &rest {
            self.spawn(program)?;
        }
        for program in &rest {
            self.wait_for_port(program)?;
        }
        if controllers {
            // Without it no pod is admitted.
            self.wait("kube-controller-manager", "makes no service account", |plane| {
                let get = ["get", "serviceaccount", "default", "--request-timeout=5s"];
                plane.kubectl(&get)
            })?;
        }
        self.plane.ready = true;
        self.plane.save()
    }

    fn spawn(&mut self, program: &str) -> Result<()> {
        let folder = &self.plane.folder;
        let arguments = components::arguments(program, folder, self.ports);
        let binary = self.plane.bin.join(program);
        let mut child = process::spawn(&binary, &arguments, folder, &self.log(program))?;
        let Some(identity) = ProcessIdentity::of(child.id().cast_signed()) else {
            let status = child.wait()?;
            bail!("{program} ended at once: {status}\n{}", self.tail(program));
        };
        self.children.push(child);
        // Recorded at once: if this process dies now, `down` still finds the child.
        self.plane.processes.push((program.to_owned(), identity));
        self.plane.save()
    }

    fn wait_for_port(&mut self, program: &str) -> Result<()> {
        let address = ("127.0.0.1", self.ports.of(program));
        let complaint = format!("does not listen on port {}", address.1);
        self.wait(program, &complaint, |_| Ok(TcpStream::connect(address)?))
    }

    /// Waits until an attempt succeeds. Fails when a program ends, or when it takes too long.
    fn wait<T>(
        &mut self,
        program: &str,
        complaint: &str,
        attempt: impl Fn(&ControlPlane) -> Result<T>,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.check_children()?;
            let Err(error) = attempt(&self.plane) else { return Ok(()) };
            if Instant::now() > deadline {
                let tail = self.tail(program);
                let seconds = PATIENCE.as_secs();
                return Err(
                    error.context(format!("{program} {complaint} after {seconds} s\n{tail}"))
                );
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn check_children(&mut self) -> Result<()> {
        for index in 0..self.children.len() {
            if let Some(status) = self.children[index].try_wait()? {
                let program = &self.plane.processes[index].0;
                bail!("{program} ended: {status}\n{}", self.tail(program));
            }
        }
        Ok(())
    }

    fn log(&self, program: &str) -> PathBuf {
        self.plane.folder.join("logs").join(format!("{program}.log"))
    }

    fn tail(&self, program: &str) -> String {
        let path = self.log(program);
        let text = fs::read(&path).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<_> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        format!("the end of {}:\n{}", path.display(), tail.join("\n"))
    }

    /// Lets the processes run on when this one ends.
    pub fn keep(mut self) -> ControlPlane {
        self.kept = true;
        self.plane.clone()
    }

    /// Ends the processes and removes the folder.
    pub fn stop(mut self) -> Result<()> {
        self.kept = true;
        self.end()?;
        let _held = state::hold(&self.plane.folder)?;
        state::remove(&self.plane.folder)
    }

    fn end(&mut self) -> Result<()> {
        self.plane.end()?;
        for child in &mut self.children {
            child.wait().context("cannot wait for a child")?;
        }
        Ok(())
    }
}

impl Drop for RunningControlPlane {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let ended = self.end();
        // A start that failed is not removed here: its caller holds the folder, and its logs tell why.
        let removed = if self.plane.ready {
            state::hold(&self.plane.folder).and_then(|_held| state::remove(&self.plane.folder))
        } else {
            Ok(())
        };
        if let Err(error) = ended.and(removed) {
            say(&format!("{error:#}"));
        }
    }
}
