//! Builds and runs the oracle, a Go program around upstream's scheduler that answers one line of JSON per case.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use controlplane::tools;
use serde_json::{Value, json};

use crate::generate::Case;
use crate::root;

/// Maximum number of cases that were sent and not yet answered.
const IN_FLIGHT_MAX: usize = 32;
/// Time limit of one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);
/// Maximum number of lines of standard error that wait to be read; later ones are dropped.
const STDERR_LINES_MAX: usize = 1000;

/// Returns the path of Go, or an error that says where it was looked for.
pub fn find_go() -> Result<PathBuf> {
    tools::go().context("the oracle needs Go, which is neither on PATH nor in /usr/local/go/bin")
}

/// Builds the oracle unless the cache has one of the same sources, and returns its path.
pub(crate) fn build() -> Result<PathBuf> {
    let source = root().join("conformance/oracle");
    let cache = tools::cache_folder()?;
    std::fs::create_dir_all(&cache).with_context(|| format!("create {}", cache.display()))?;
    let binary = cache.join(format!("oracle-{:016x}", hash_sources(&source)?));
    if binary.exists() {
        return Ok(binary);
    }
    let go = find_go()?;
    tools::say("building the oracle, which takes minutes the first time");
    // Built under another name and then renamed, so that an interrupted build leaves no broken oracle.
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

/// Returns a hash (FNV-1a) of the names and contents of all Go sources except tests.
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

/// A running oracle. A process that exits or exceeds the time limit is replaced by a new one.
pub(crate) struct Oracle {
    binary: PathBuf,
    process: OracleProcess,
}

/// One process of the oracle; a thread per pipe feeds and reads it.
struct OracleProcess {
    child: Child,
    cases: Option<SyncSender<String>>,
    answers: Receiver<String>,
    stderr_lines: Receiver<String>,
}

impl Oracle {
    /// Starts a process.
    pub(crate) fn start(binary: &Path) -> Result<Self> {
        Ok(Self { binary: binary.to_path_buf(), process: OracleProcess::start(binary)? })
    }

    /// Returns the answer to one case.
    pub(crate) fn ask(&mut self, case: &Value) -> Result<Value> {
        self.process.send(case)?;
        match self.process.receive() {
            Ok(answer) => Ok(answer),
            Err(failure) => self.restart(case, &failure),
        }
    }

    /// Sends up to [`IN_FLIGHT_MAX`] cases ahead, so that both processes work at once, and calls `judge` with each case
    /// and its answer in order.
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
                Err(failure) => {
                    let answer = self.restart(&case.value, &failure)?;
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

    /// Starts a new process and returns an answer with the failure and the last message of the old one.
    fn restart(&mut self, case: &Value, failure: &str) -> Result<Value> {
        let _ = self.process.child.kill();
        let _ = self.process.child.wait();
        let stderr_lines: Vec<String> = self.process.stderr_lines.try_iter().collect();
        self.process = OracleProcess::start(&self.binary)?;
        let text = stderr_lines
            .iter()
            .find(|line| line.starts_with("panic:"))
            .or_else(|| stderr_lines.last())
            .cloned()
            .unwrap_or_default();
        Ok(json!({"id": case["id"], "crash": format!("{failure}: {text}")}))
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
        let (sender, stderr_lines) = sync_channel(STDERR_LINES_MAX);
        thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                let _ = sender.try_send(line);
            }
        });
        Ok(Self { child, cases: Some(cases), answers, stderr_lines })
    }

    fn send(&mut self, case: &Value) -> Result<()> {
        let mut line = serde_json::to_string(case)?;
        line.push('\n');
        // A closed channel means that the process exited, which `receive` reports.
        if let Some(cases) = &self.cases {
            let _ = cases.send(line);
        }
        while self.stderr_lines.try_recv().is_ok() {}
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
