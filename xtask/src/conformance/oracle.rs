//! Builds and talks to the oracle, a Go program around upstream's scheduler that answers one JSON line per case.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use super::generate::Case;

/// How many cases may be on their way to the oracle.
const IN_FLIGHT_MAX: usize = 32;
/// How long the oracle may think about one case.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// The folder of the checkout, which holds `conformance/oracle`.
pub(crate) fn root() -> Result<PathBuf> {
    let start = match std::env::var_os("CARGO_MANIFEST_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::current_dir()?,
    };
    let found = start.ancestors().find(|folder| folder.join("conformance/oracle/go.mod").exists());
    found
        .map(Path::to_path_buf)
        .with_context(|| format!("no conformance/oracle above {}", start.display()))
}

/// Builds the oracle unless the cache has one made of the same sources, and returns its path.
pub(crate) fn build(root: &Path) -> Result<PathBuf> {
    let source = root.join("conformance/oracle");
    let binary = cache_folder()?.join(format!("oracle-{:016x}", hash_sources(&source)?));
    if binary.exists() {
        return Ok(binary);
    }
    let go = find_go()?;
    let _ = writeln!(std::io::stderr(), "building the oracle, which takes minutes the first time");
    // Built under another name first, so that an interrupted build leaves nothing half done.
    let partial = binary.with_extension(format!("partial-{}", std::process::id()));
    let status = Command::new(&go)
        .args(["build", "-o"])
        .arg(&partial)
        .arg(".")
        .current_dir(&source)
        .status()
        .with_context(|| format!("run {}", go.display()))?;
    if !status.success() {
        bail!("go build of conformance/oracle failed");
    }
    std::fs::rename(&partial, &binary)?;
    Ok(binary)
}

fn cache_folder() -> Result<PathBuf> {
    let base = match (std::env::var_os("XDG_CACHE_HOME"), std::env::var_os("HOME")) {
        (Some(cache), _) if !cache.is_empty() => PathBuf::from(cache),
        (_, Some(home)) => PathBuf::from(home).join(".cache"),
        _ => bail!("neither XDG_CACHE_HOME nor HOME is set"),
    };
    let folder = base.join("jindou");
    std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    Ok(folder)
}

/// Go on the path, or where its installer puts it.
fn find_go() -> Result<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain([PathBuf::from("/usr/local/go/bin")])
        .map(|folder| folder.join("go"))
        .find(|go| go.is_file())
        .context("the oracle needs Go, which is neither on PATH nor in /usr/local/go/bin")
}

/// A hash of the names and contents of all Go sources.
fn hash_sources(folder: &Path) -> Result<u64> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let source = path.extension().is_some_and(|extension| extension == "go")
                && !name.ends_with("_test.go");
            if path.is_dir() {
                folders.push(path);
            } else if source || matches!(name.as_str(), "go.mod" | "go.sum") {
                files.push(path);
            }
        }
    }
    files.sort();
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for file in files {
        let name = file.strip_prefix(folder).unwrap_or(&file).to_string_lossy().into_owned();
        for byte in name.into_bytes().into_iter().chain(std::fs::read(&file)?) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(hash)
}

/// The oracle at work. It is started again when it dies.
pub(crate) struct Oracle {
    binary: PathBuf,
    process: OracleProcess,
}

/// One run of the program with the threads that feed it and listen to it.
struct OracleProcess {
    child: Child,
    cases: Option<SyncSender<String>>,
    answers: Receiver<String>,
    complaints: Receiver<String>,
}

impl Oracle {
    /// Starts the program.
    pub(crate) fn start(binary: &Path) -> Result<Self> {
        Ok(Self { binary: binary.to_path_buf(), process: OracleProcess::start(binary)? })
    }

    /// The answer to one case.
    pub(crate) fn ask(&mut self, case: &Value) -> Result<Value> {
        self.process.send(case)?;
        match self.process.receive() {
            Ok(answer) => Ok(answer),
            Err(death) => self.restart(case, &death),
        }
    }

    /// Sends cases ahead of the answers, so that both sides work at the same time, and hands over each pair in order.
    pub(crate) fn stream(
        &mut self,
        cases: impl Iterator<Item = Case>,
        mut judge: impl FnMut(Case, Value) -> Result<()>,
    ) -> Result<()> {
        let mut waiting: VecDeque<Case> = VecDeque::new();
        let mut cases = cases.fuse();
        loop {
            while waiting.len() < IN_FLIGHT_MAX
                && let Some(case) = cases.next()
            {
                self.process.send(&case.value)?;
                waiting.push_back(case);
            }
            let Some(case) = waiting.pop_front() else { return Ok(()) };
            let answer = match self.process.receive() {
                Ok(answer) => answer,
                Err(death) => {
                    let answer = self.restart(&case.value, &death)?;
                    for case in &waiting {
                        self.process.send(&case.value)?;
                    }
                    answer
                }
            };
            if answer["id"] != case.value["id"] {
                bail!("the oracle answered {} when asked {}", answer["id"], case.value["id"]);
            }
            judge(case, answer)?;
        }
    }

    /// Starts the program again and makes an answer of what it said before it died.
    fn restart(&mut self, case: &Value, death: &str) -> Result<Value> {
        let _ = self.process.child.kill();
        let _ = self.process.child.wait();
        let complaints: Vec<String> = self.process.complaints.try_iter().collect();
        self.process = OracleProcess::start(&self.binary)?;
        let text = complaints
            .iter()
            .find(|line| line.starts_with("panic:"))
            .or_else(|| complaints.last())
            .cloned()
            .unwrap_or_default();
        Ok(json!({"id": case["id"], "crash": format!("{death}: {text}")}))
    }
}

impl OracleProcess {
    fn start(binary: &Path) -> Result<Self> {
        let mut child = Command::new(binary)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("start {}", binary.display()))?;
        let (Some(mut stdin), Some(stdout), Some(stderr)) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take())
        else {
            bail!("the oracle has no pipes");
        };
        // The channel holds all cases in flight, so sending never blocks while an answer waits to be read.
        let (cases, inbox) = sync_channel::<String>(IN_FLIGHT_MAX);
        thread::spawn(move || {
            for line in inbox {
                if stdin.write_all(line.as_bytes()).and_then(|()| stdin.flush()).is_err() {
                    break;
                }
            }
        });
        let (sender, answers) = sync_channel(IN_FLIGHT_MAX);
        thread::spawn(move || {
            BufReader::new(stdout)
                .lines()
                .map_while(Result::ok)
                .try_for_each(|line| sender.send(line))
        });
        let (sender, complaints) = sync_channel(1000);
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = sender.try_send(line);
            }
        });
        Ok(Self { child, cases: Some(cases), answers, complaints })
    }

    fn send(&mut self, case: &Value) -> Result<()> {
        let mut line = serde_json::to_string(case)?;
        line.push('\n');
        // A closed channel means that the program died, which `receive` reports.
        if let Some(cases) = &self.cases {
            let _ = cases.send(line);
        }
        while self.complaints.try_recv().is_ok() {}
        Ok(())
    }

    fn receive(&mut self) -> Result<Value, String> {
        match self.answers.recv_timeout(ANSWER_TIMEOUT) {
            Ok(line) => serde_json::from_str(&line).map_err(|error| format!("bad answer: {error}")),
            Err(RecvTimeoutError::Timeout) => Err("the oracle took too long".to_owned()),
            Err(RecvTimeoutError::Disconnected) => Err("the oracle died".to_owned()),
        }
    }
}

impl Drop for OracleProcess {
    fn drop(&mut self) {
        self.cases = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
