//! Starts a control plane and waits until it works.

use std::fs::{self, File};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::build::{self, BuildError};
use crate::certificates::{self, CertificateError};
use crate::components::{self, Ports, STAGES};
use crate::files::FileError;
use crate::ports::NoFreePort;
use crate::process::{self, POLL_INTERVAL, ProcessError, ProcessIdentity};
use crate::state::{self, ControlPlane, SchedulerChoice, StateError};
use crate::tools::{NoCacheFolder, cache_folder, say, with_causes};

/// A control plane could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Cache(#[from] NoCacheFolder),
    #[error(transparent)]
    Build(#[from] BuildError),
    #[error(transparent)]
    Certificate(#[from] CertificateError),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Port(#[from] NoFreePort),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error("a name is up to 40 small letters, digits and `-`, not {0:?}")]
    Name(String),
    #[error("a control plane already runs in {}; end it first", .0.display())]
    Runs(PathBuf),
    #[error("{name} runs only in part, without {missing}; end it with `down` first")]
    RunsInPart { name: String, missing: String },
    #[error("{0} already runs with another scheduler or kwok; end it with `down` first")]
    RunsOtherwise(String),
    #[error("{program} ended: {status}\n{log}")]
    Exited { program: String, status: ExitStatus, log: String },
    #[error("cannot wait for {program}")]
    Wait { program: String, source: std::io::Error },
    #[error("{program} {state} after {seconds} s\n{log}")]
    Timeout {
        program: String,
        state: String,
        seconds: u64,
        log: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

type Result<T> = std::result::Result<T, StartError>;

/// Time that one program gets to start, on a machine that is busy with builds.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// Attempts with other ports, when another process binds one between its choice and its use.
const ATTEMPTS_MAX: u32 = 3;

/// Last lines of the log of a program, shown when it fails.
const TAIL_LINES: usize = 15;

/// Parts of a control plane to start, and its folder.
#[derive(Clone)]
pub struct StartOptions {
    pub name: String,
    /// Folder of its state.
    pub folder: PathBuf,
    pub scheduler: SchedulerChoice,
    /// Whether kwok simulates the kubelets.
    pub kwok: bool,
    /// Whether the controller manager runs. Without it the caller creates the service account that pods
    /// need.
    pub controllers: bool,
    /// Whether the control plane ends with this process.
    pub owned: bool,
}

impl StartOptions {
    /// Returns the options of a test: a control plane that ends with this process, in a new folder.
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

/// Returns the folder of all control planes that were started by name.
pub(crate) fn state_folders() -> Result<PathBuf> {
    Ok(cache_folder()?.join("controlplane/run"))
}

/// Returns the folder of a control plane that is started by name.
pub fn state_folder(name: &str) -> Result<PathBuf> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.is_empty() || name.len() > 40 || !name.chars().all(fine) {
        return Err(StartError::Name(name.to_owned()));
    }
    Ok(state_folders()?.join(name))
}

/// Result of one attempt of a condition that is waited for.
type PollResult<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// A control plane whose processes are children of this one. They end when it is dropped.
pub struct RunningControlPlane {
    /// Its record: addresses, kubeconfigs, processes.
    pub plane: ControlPlane,
    children: Vec<Child>,
    ports: Ports,
    kept: bool,
}

impl ControlPlane {
    /// Builds and starts the programs and waits until pods can be created.
    pub fn start(options: &StartOptions) -> Result<RunningControlPlane> {
        sweep()?;
        let bin = build::build_programs()?;
        let held = state::hold(&options.folder)?;
        if let Some(plane) = Self::load(&options.folder)?.filter(|plane| !plane.is_down()) {
            return Err(StartError::Runs(plane.folder));
        }
        start_held(options, &bin, &held)
    }
}

/// Starts a control plane in a locked folder in which none runs.
pub(crate) fn start_held(
    options: &StartOptions,
    bin: &Path,
    _held: &File,
) -> Result<RunningControlPlane> {
    let mut attempt = 1;
    loop {
        let error = match launch(options, bin) {
            Ok(running) => return Ok(running),
            Err(error) => error,
        };
        // The logs of the programs, which are part of the error, have this text of the system.
        let taken = with_causes(&error).contains("address already in use");
        if taken && attempt < ATTEMPTS_MAX {
            say("a chosen port is in use; trying others");
            attempt += 1;
            continue;
        }
        if options.owned {
            state::remove(&options.folder)?;
        }
        return Err(error);
    }
}

/// Ends control planes whose owners ended without ending them.
pub(crate) fn sweep() -> Result<()> {
    let folder = state_folders()?;
    let Ok(entries) = fs::read_dir(&folder) else { return Ok(()) };
    for entry in entries {
        let folder = entry.map_err(FileError::at("read", &folder))?.path();
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
    let folder =
        std::path::absolute(&options.folder).map_err(FileError::at("find", &options.folder))?;
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
        let path = folder.join(name);
        fs::create_dir(&path).map_err(FileError::at("make", &path))?;
    }
    certificates::write(&folder.join("certificates"))?;
    components::write_kubeconfigs(folder, &plane.server)?;
    let stages = folder.join("stages.yaml");
    fs::write(&stages, STAGES).map_err(FileError::at("write", &stages))?;
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
            Ok(plane.kubectl(&["get", "--raw=/readyz", "--request-timeout=5s"])?)
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
            // Pods are not admitted without it.
            self.wait("kube-controller-manager", "makes no service account", |plane| {
                let get = ["get", "serviceaccount", "default", "--request-timeout=5s"];
                Ok(plane.kubectl(&get)?)
            })?;
        }
        self.plane.ready = true;
        Ok(self.plane.save()?)
    }

    fn spawn(&mut self, program: &str) -> Result<()> {
        let folder = &self.plane.folder;
        let arguments = components::arguments(program, folder, self.ports);
        let binary = self.plane.bin.join(program);
        let mut child = process::spawn(&binary, &arguments, folder, &self.log(program))?;
        let Some(identity) = ProcessIdentity::of(child.id().cast_signed()) else {
            let status = child
                .wait()
                .map_err(|source| StartError::Wait { program: program.to_owned(), source })?;
            return Err(self.exited(program, status));
        };
        self.children.push(child);
        // Recorded at once: if this process dies now, `down` still finds the child.
        self.plane.processes.push((program.to_owned(), identity));
        Ok(self.plane.save()?)
    }

    fn wait_for_port(&mut self, program: &str) -> Result<()> {
        let address = ("127.0.0.1", self.ports.of(program));
        let state = format!("does not listen on port {}", address.1);
        self.wait(program, &state, |_| Ok(TcpStream::connect(address)?))
    }

    /// Repeats an attempt until it succeeds. Fails if a program ends, or after the timeout; `state` then
    /// says in which state the program is.
    fn wait<T>(
        &mut self,
        program: &str,
        state: &str,
        attempt: impl Fn(&ControlPlane) -> PollResult<T>,
    ) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            self.check_children()?;
            let Err(source) = attempt(&self.plane) else { return Ok(()) };
            if Instant::now() > deadline {
                return Err(StartError::Timeout {
                    program: program.to_owned(),
                    state: state.to_owned(),
                    seconds: START_TIMEOUT.as_secs(),
                    log: self.tail(program),
                    source,
                });
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn check_children(&mut self) -> Result<()> {
        for index in 0..self.children.len() {
            let program = self.plane.processes[index].0.clone();
            match self.children[index].try_wait() {
                Ok(None) => {}
                Ok(Some(status)) => return Err(self.exited(&program, status)),
                Err(source) => return Err(StartError::Wait { program, source }),
            }
        }
        Ok(())
    }

    fn exited(&self, program: &str, status: ExitStatus) -> StartError {
        StartError::Exited { program: program.to_owned(), status, log: self.tail(program) }
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

    /// Leaves the processes running and returns their record.
    pub fn keep(mut self) -> ControlPlane {
        self.kept = true;
        self.plane.clone()
    }

    /// Ends the processes and removes the folder.
    pub fn stop(mut self) -> Result<()> {
        self.kept = true;
        self.end()?;
        let _held = state::hold(&self.plane.folder)?;
        Ok(state::remove(&self.plane.folder)?)
    }

    fn end(&mut self) -> Result<()> {
        self.plane.end()?;
        for (child, (program, _)) in self.children.iter_mut().zip(&self.plane.processes) {
            child.wait().map_err(|source| StartError::Wait { program: program.clone(), source })?;
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
        // The folder of a start that failed is locked by the caller, who still reads its logs.
        let removed = if self.plane.ready {
            state::hold(&self.plane.folder).and_then(|_held| state::remove(&self.plane.folder))
        } else {
            Ok(())
        };
        if let Err(error) = ended.and(removed.map_err(StartError::from)) {
            say(&with_causes(&error));
        }
    }
}
