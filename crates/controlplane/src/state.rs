//! The record of a control plane, stored in its folder so that other runs can find and end it.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::files::{FileError, write_private};
use crate::process::{ProcessError, ProcessIdentity};

/// A control plane could not be recorded, used or ended.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is damaged; end its processes by hand and remove the folder", path.display())]
    Damaged { path: PathBuf, source: serde_json::Error },
    #[error("{} holds other files; name an empty or new folder", .0.display())]
    ForeignFolder(PathBuf),
    #[error("cannot end {program} of {plane}")]
    End { program: String, plane: String, source: ProcessError },
    #[error("cannot start kubectl")]
    StartKubectl(#[source] std::io::Error),
    #[error("kubectl {arguments} failed: {output}")]
    Kubectl { arguments: String, output: String },
}

type Result<T> = std::result::Result<T, StateError>;

/// The record. A folder without it was not made by this crate and is never removed.
const RECORD: &str = "controlplane.json";

/// The file that one run at a time locks. It is removed last.
const LOCK: &str = "controlplane.lock";

/// The scheduler that is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum SchedulerChoice {
    /// Upstream's.
    Kube,
    /// None: the caller starts Jindou, or binds pods itself.
    None,
}

/// A control plane that was started, whether or not it still runs.
#[derive(Clone, Serialize, Deserialize)]
pub struct ControlPlane {
    pub name: String,
    /// Folder of data, certificates and logs.
    pub folder: PathBuf,
    /// Address of the API server.
    pub server: String,
    /// Kubeconfig of an administrator, who may do everything.
    pub kubeconfig: PathBuf,
    /// Kubeconfig of `system:kube-scheduler`, with the permissions that upstream gives to a scheduler.
    pub scheduler_kubeconfig: PathBuf,
    /// Certificate of the authority that signed that of the API server.
    pub ca: PathBuf,
    /// Folder of the programs, `kubectl` among them.
    pub bin: PathBuf,
    pub scheduler: SchedulerChoice,
    pub kwok: bool,
    /// `true` once the start is complete.
    pub ready: bool,
    /// Process whose end ends the control plane; without one it runs until `down`.
    pub owner: Option<ProcessIdentity>,
    /// Its processes, in the order in which they were started.
    pub processes: Vec<(String, ProcessIdentity)>,
}

impl ControlPlane {
    /// Reads the record in a folder, or returns `None` if there is none.
    pub fn load(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(RECORD);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(FileError::at("read", &path)(error).into());
            }
        };
        let plane = serde_json::from_str(&text)
            .map_err(|source| StateError::Damaged { path: path.clone(), source })?;
        Ok(Some(plane))
    }

    /// Writes the record.
    pub fn save(&self) -> Result<()> {
        let partial = self.folder.join(format!("{RECORD}.partial"));
        let text = serde_json::to_string_pretty(self).expect("its fields are texts and numbers");
        write_private(&partial, &text)?;
        let path = self.folder.join(RECORD);
        fs::rename(partial, &path).map_err(FileError::at("write", &path))?;
        Ok(())
    }

    /// Returns the names of the processes that have ended.
    pub fn exited_processes(&self) -> Vec<&str> {
        let ended = self.processes.iter().filter(|(_, identity)| !identity.is_alive());
        ended.map(|(name, _)| name.as_str()).collect()
    }

    /// Returns `true` if the start is complete and all processes run.
    pub fn is_up(&self) -> bool {
        self.ready && self.exited_processes().is_empty()
    }

    /// Returns `true` if no process runs.
    pub fn is_down(&self) -> bool {
        self.exited_processes().len() == self.processes.len()
    }

    /// Returns what is missing for [`Self::is_up`]: the processes that have ended, or the rest of the start.
    pub fn describe_missing(&self) -> String {
        let ended = self.exited_processes();
        if ended.is_empty() { "the rest of its start".to_owned() } else { ended.join(", ") }
    }

    /// Ends its processes, those that depend on others first.
    pub fn end(&self) -> Result<()> {
        let mut outcome = Ok(());
        for (name, identity) in self.processes.iter().rev() {
            let ended = identity.end();
            // The other processes are ended even if this one cannot be.
            let ended = ended.map_err(|source| {
                let (program, plane) = (name.clone(), self.name.clone());
                StateError::End { program, plane, source }
            });
            outcome = outcome.and(ended);
        }
        outcome
    }

    /// Adds a process to the record: if this process is killed, the next run ends that one too.
    pub fn record_process(&self, name: &str, identity: ProcessIdentity) -> Result<()> {
        let Some(mut recorded) = Self::load(&self.folder)? else { return Ok(()) };
        recorded.processes.retain(|(_, identity)| identity.is_alive());
        recorded.processes.push((name.to_owned(), identity));
        recorded.save()
    }

    /// Runs `kubectl` as an administrator and returns what it prints.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new(self.bin.join("kubectl"))
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .arg("--cache-dir")
            .arg(self.folder.join("kubectl"))
            .args(arguments)
            .output()
            .map_err(StateError::StartKubectl)?;
        if !output.status.success() {
            let output = [output.stdout, output.stderr].concat();
            let output = String::from_utf8_lossy(&output).trim().to_owned();
            return Err(StateError::Kubectl { arguments: arguments.join(" "), output });
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Returns addresses, paths and pids, as printed by `cargo xtask controlplane up -o json`.
    pub fn summary(&self) -> Value {
        let pids =
            self.processes.iter().map(|(name, identity)| (name.clone(), identity.pid.into()));
        json!({
            "name": self.name,
            "folder": self.folder,
            "server": self.server,
            "kubeconfig": self.kubeconfig,
            "scheduler_kubeconfig": self.scheduler_kubeconfig,
            "ca": self.ca,
            "pids": pids.collect::<Map<_, _>>(),
            "bin": self.bin,
        })
    }
}

/// Locks a folder, which is made if it is absent, so that two runs do not start or end the same control
/// plane at once.
pub(crate) fn hold(folder: &Path) -> Result<File> {
    loop {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(FileError::at("make", folder))?;
        refuse_foreign(folder)?;
        let path = folder.join(LOCK);
        let file = File::create(&path).map_err(FileError::at("write", &path))?;
        file.lock().map_err(FileError::at("lock", &path))?;
        // The previous holder may have removed the folder; then the locked file is not at the path.
        let current = path.metadata().is_ok_and(|there| {
            file.metadata().is_ok_and(|held| (held.dev(), held.ino()) == (there.dev(), there.ino()))
        });
        if current {
            return Ok(file);
        }
    }
}

fn refuse_foreign(folder: &Path) -> Result<()> {
    if folder.join(RECORD).exists() {
        return Ok(());
    }
    let entries = list(folder)?;
    if entries.iter().any(|path| !path.ends_with(LOCK)) {
        return Err(StateError::ForeignFolder(folder.to_owned()));
    }
    Ok(())
}

/// Removes the contents of a locked folder except the lock. The record goes last, since it proves that
/// the rest may be removed.
pub(crate) fn clear(folder: &Path) -> Result<()> {
    let mut paths = list(folder)?;
    paths.retain(|path| !path.ends_with(LOCK));
    paths.sort_by_key(|path| path.ends_with(RECORD));
    for path in paths {
        let is_folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        let removed = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.map_err(FileError::at("remove", &path))?;
    }
    Ok(())
}

/// Returns the paths of all entries of a folder.
fn list(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).and_then(|entries| {
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<_>>()
    });
    Ok(entries.map_err(FileError::at("read", folder))?)
}

/// Removes a locked folder.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    clear(folder)?;
    let removed = fs::remove_file(folder.join(LOCK)).and_then(|()| fs::remove_dir(folder));
    Ok(removed.map_err(FileError::at("remove", folder))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_other_files_is_an_error_and_stays_unchanged() {
        let folder = std::env::temp_dir().join(format!("jindou-foreign-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("thesis.txt"), "years of work").unwrap();
        fs::write(folder.join(LOCK), "").unwrap();
        let error = hold(&folder).unwrap_err().to_string();
        assert!(error.contains("holds other files"), "{error}");
        assert!(folder.join("thesis.txt").exists());
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_locked_folder_is_removed_with_its_lock() {
        let folder = std::env::temp_dir().join(format!("jindou-held-{}", std::process::id()));
        let held = hold(&folder).unwrap();
        fs::create_dir(folder.join("logs")).unwrap();
        remove(&folder).unwrap();
        drop(held);
        assert!(!folder.exists());
    }
}
