//! What is known about a control plane, stored in its folder so that other runs find and end it.

use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::certificates::write_private;
use super::process::ProcessIdentity;

/// The file that says what runs. A folder without it was not made by us and is never removed.
const RECORD: &str = "controlplane.json";

/// The file that one run at a time holds. It is removed last.
const LOCK: &str = "controlplane.lock";

/// Which scheduler is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum SchedulerChoice {
    /// Upstream's.
    Kube,
    /// None: Jindou or a test does it.
    None,
}

/// A control plane that was started, whether or not it still runs.
#[derive(Clone, Serialize, Deserialize)]
pub struct ControlPlane {
    pub name: String,
    /// Where its data, certificates and logs are.
    pub folder: PathBuf,
    /// Address of the API server.
    pub server: String,
    /// Access as an administrator, who may do everything.
    pub kubeconfig: PathBuf,
    /// Access as `system:kube-scheduler`, with the rights that upstream gives to a scheduler.
    pub scheduler_kubeconfig: PathBuf,
    /// Certificate of the authority that the API server is known by.
    pub ca: PathBuf,
    /// Folder of the programs, `kubectl` among them.
    pub bin: PathBuf,
    pub scheduler: SchedulerChoice,
    pub kwok: bool,
    /// Whether starting came to its end.
    pub ready: bool,
    /// The process that ends it; without one it runs until somebody says `down`.
    pub owner: Option<ProcessIdentity>,
    /// What was started, in this order.
    pub processes: Vec<(String, ProcessIdentity)>,
}

impl ControlPlane {
    /// What is recorded in a folder.
    pub fn load(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(RECORD);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        };
        let plane = serde_json::from_str(&text).with_context(|| {
            format!(
                "{} is damaged; end its processes by hand and remove the folder",
                path.display()
            )
        })?;
        Ok(Some(plane))
    }

    /// Writes the record.
    pub fn save(&self) -> Result<()> {
        let partial = self.folder.join(format!("{RECORD}.partial"));
        write_private(&partial, &serde_json::to_string_pretty(self)?)?;
        fs::rename(partial, self.folder.join(RECORD))?;
        Ok(())
    }

    /// Names of the processes that have ended.
    pub fn exited_processes(&self) -> Vec<&str> {
        let ended = self.processes.iter().filter(|(_, identity)| !identity.is_alive());
        ended.map(|(name, _)| name.as_str()).collect()
    }

    /// Whether all of it runs.
    pub fn is_up(&self) -> bool {
        self.ready && self.exited_processes().is_empty()
    }

    /// Whether nothing of it runs.
    pub fn is_down(&self) -> bool {
        self.exited_processes().len() == self.processes.len()
    }

    /// What keeps it from running whole.
    pub fn describe_missing(&self) -> String {
        let ended = self.exited_processes();
        if ended.is_empty() {
            "having come to the end of its start".to_owned()
        } else {
            ended.join(", ")
        }
    }

    /// Ends its processes, those that depend on others first.
    pub fn end(&self) -> Result<()> {
        let mut outcome = Ok(());
        for (name, identity) in self.processes.iter().rev() {
            let ended = identity.end();
            // One that resists does not save the others.
            outcome =
                outcome.and(ended.with_context(|| format!("cannot end {name} of {}", self.name)));
        }
        outcome
    }

    /// Adds a process to the record: if this one is killed, the next run ends it with the rest.
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
            .context("cannot start kubectl")?;
        if !output.status.success() {
            let complaint = [output.stdout, output.stderr].concat();
            let complaint = String::from_utf8_lossy(&complaint);
            bail!("kubectl {} failed: {}", arguments.join(" "), complaint.trim());
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// What people and scripts want to know.
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

/// Holds a folder, so that two runs do not start or end the same control plane at once. Makes the folder if need be.
pub(crate) fn hold(folder: &Path) -> Result<File> {
    loop {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.with_context(|| format!("cannot make {}", folder.display()))?;
        refuse_foreign(folder)?;
        let path = folder.join(LOCK);
        let file =
            File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
        // Who held it before may have removed the folder; then the lock is on a file that is gone.
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
    for entry in fs::read_dir(folder)? {
        if entry?.file_name() != LOCK {
            bail!("{} holds other files; name an empty or new folder", folder.display());
        }
    }
    Ok(())
}

/// Removes what is in a folder that is held, all but the lock; the record goes last, since it says that the rest is ours.
pub(crate) fn clear(folder: &Path) -> Result<()> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.retain(|path| !path.ends_with(LOCK));
    paths.sort_by_key(|path| path.ends_with(RECORD));
    for path in paths {
        let is_folder = path.symlink_metadata()?.is_dir();
        let removed = if is_folder { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
        removed.with_context(|| format!("cannot remove {}", path.display()))?;
    }
    Ok(())
}

/// Removes a folder that is held.
pub(crate) fn remove(folder: &Path) -> Result<()> {
    clear(folder)?;
    fs::remove_file(folder.join(LOCK))?;
    fs::remove_dir(folder).with_context(|| format!("cannot remove {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_with_files_of_others_is_refused_and_left_alone() {
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
    fn a_held_folder_is_removed_with_its_lock() {
        let folder = std::env::temp_dir().join(format!("jindou-held-{}", std::process::id()));
        let held = hold(&folder).unwrap();
        fs::create_dir(folder.join("logs")).unwrap();
        remove(&folder).unwrap();
        drop(held);
        assert!(!folder.exists());
    }
}
