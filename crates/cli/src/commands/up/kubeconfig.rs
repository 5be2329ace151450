//! The kubeconfig of `jindou up`: merged into a file, and removed from it when the cluster ends.
//!
//! Entries of other clusters stay as they are. The file is replaced by a rename, so a reader sees the
//! old or the new text and a failure leaves the old one. `FILE.lock` excludes other writers; kubectl
//! and kind take the same lock.

use std::ffi::OsString;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use serde_json::{Map, Value, json};

/// Sections of a kubeconfig, with the key of the content in their entries.
const SECTIONS: [(&str, &str); 3] =
    [("clusters", "cluster"), ("users", "user"), ("contexts", "context")];

/// Maximum length of a chain of symbolic links, as in the kernel.
const LINKS_MAX: usize = 40;

/// Maximum size of a file. Kubeconfigs have some kilobytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Time-out for the lock file of another writer, who needs milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);
/// Delay between attempts to create the lock file.
const LOCK_RETRY_DELAY: Duration = Duration::from_millis(20);

/// Merged entries of a kubeconfig, until [`Merged::remove`].
pub(super) struct Merged {
    /// The file, with symbolic links resolved.
    file: PathBuf,
    /// The kubeconfig that was merged: one cluster, one user, one context.
    own: Value,
    /// The current context before the merge.
    context_before: String,
    /// `true` if the merge created the file.
    created: bool,
}

impl Merged {
    /// Merges a kubeconfig into a file: entries of the same names are replaced, all others stay, and
    /// the context becomes the current one.
    pub(super) fn new(path: &Path, kubeconfig: &str) -> Result<Self> {
        let own = parse(kubeconfig)?;
        let merge = || {
            let file = resolve_links(path)?;
            let _lock = Lock::take(&file)?;
            let before = read(&file)?;
            let created = before.is_none();
            let mut config = before.unwrap_or_else(|| json!({}));
            let context_before = config["current-context"].as_str().unwrap_or_default().to_owned();
            merge(&mut config, &own);
            write(&file, &config)?;
            anyhow::Ok((file, context_before, created))
        };
        let (file, context_before, created) =
            merge().with_context(|| format!("cannot write the kubeconfig {}", path.display()))?;
        Ok(Self { file, own, context_before, created })
    }

    /// Removes the entries from the file, and restores the former current context unless another one was
    /// selected meanwhile.
    pub(super) fn remove(&self) -> Result<()> {
        let remove = || {
            let _lock = Lock::take(&self.file)?;
            let Some(mut config) = read(&self.file)? else { return Ok(()) };
            if !self.remove_entries(&mut config) {
                return Ok(());
            }
            if self.created && is_empty(&config) {
                return fs::remove_file(&self.file).context("cannot remove it");
            }
            write(&self.file, &config)
        };
        let shown = self.file.display();
        remove().with_context(|| format!("cannot remove the cluster from the kubeconfig {shown}"))
    }

    /// Removes our entries. Returns `false` if there were none: a later cluster on the same port has the same
    /// names, but another certificate authority and token.
    fn remove_entries(&self, config: &mut Value) -> bool {
        let mut found = false;
        for (section, content) in &SECTIONS[..2] {
            let own = &self.own[section][0];
            let secret = if *content == "cluster" { "certificate-authority-data" } else { "token" };
            retain(config, section, |entry| {
                let ours =
                    entry["name"] == own["name"] && entry[content][secret] == own[content][secret];
                found |= ours;
                !ours
            });
        }
        if !found {
            return false;
        }
        let context = &self.own["contexts"][0];
        retain(config, "contexts", |entry| {
            entry["name"] != context["name"]
                || entry["context"]["cluster"] != context["context"]["cluster"]
        });
        if config["current-context"] == context["name"] {
            let exists = config["contexts"]
                .as_array()
                .is_some_and(|all| all.iter().any(|one| one["name"] == *self.context_before));
            let back = if exists { &*self.context_before } else { "" };
            config["current-context"] = back.into();
        }
        true
    }
}

fn retain(config: &mut Value, section: &str, keep: impl FnMut(&Value) -> bool) {
    if let Some(Value::Array(entries)) = config.get_mut(section) {
        entries.retain(keep);
    }
}

/// Returns `true` if a kubeconfig has no cluster, user or context.
fn is_empty(config: &Value) -> bool {
    SECTIONS.iter().all(|(section, _)| config[section].as_array().is_none_or(Vec::is_empty))
}

fn merge(config: &mut Value, own: &Value) {
    for (name, value) in [("apiVersion", "v1"), ("kind", "Config")] {
        if config[name].is_null() {
            config[name] = value.into();
        }
    }
    for (section, _) in SECTIONS {
        let entries = &mut config[section];
        if !entries.is_array() {
            *entries = json!([]);
        }
        let new = &own[section][0];
        if let Value::Array(entries) = entries {
            match entries.iter_mut().find(|entry| entry["name"] == new["name"]) {
                Some(entry) => entry.clone_from(new),
                None => entries.push(new.clone()),
            }
        }
    }
    config["current-context"] = own["current-context"].clone();
}

/// Resolves symbolic links, also to a file that does not exist yet.
fn resolve_links(path: &Path) -> Result<PathBuf> {
    let mut file = std::path::absolute(path)?;
    for _ in 0..LINKS_MAX {
        let Ok(next) = fs::read_link(&file) else { return Ok(file) };
        // An absolute target replaces the whole path.
        file = file.parent().unwrap_or(Path::new("/")).join(next);
    }
    bail!("more than {LINKS_MAX} symbolic links in a row")
}

/// Reads the kubeconfig in a file; `None` if the file does not exist.
fn read(file: &Path) -> Result<Option<Value>> {
    let about = match fs::metadata(file) {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("cannot read its metadata"),
    };
    if !about.is_file() {
        bail!("not a regular file");
    }
    if about.len() > FILE_BYTES_MAX {
        bail!("it has {} bytes; the maximum is {FILE_BYTES_MAX}", about.len());
    }
    let text = fs::read_to_string(file).context("cannot read it")?;
    parse(&text).map(Some).context("not a kubeconfig; the file was not changed")
}

/// Parses a kubeconfig and validates the fields that are used here.
fn parse(text: &str) -> Result<Value> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let config: Value = serde_saphyr::from_str_with_options(text, options)?;
    let config = match config {
        Value::Null => Value::Object(Map::new()),
        Value::Object(_) => config,
        _ => bail!("expected a map with `clusters`, `users` and `contexts`"),
    };
    for (name, wanted) in [("apiVersion", "v1"), ("kind", "Config")] {
        let found = &config[name];
        if !found.is_null() && *found != wanted {
            bail!("{name}: found {found}, expected {wanted:?}");
        }
    }
    for (section, _) in SECTIONS {
        let entries = match &config[section] {
            Value::Null => continue,
            Value::Array(entries) => entries,
            _ => bail!("{section}: expected a list"),
        };
        if let Some(position) = entries.iter().position(|entry| !entry["name"].is_string()) {
            bail!("{section}[{position}].name: expected a string");
        }
    }
    Ok(config)
}

/// Replaces a file atomically by one that only its owner may read.
fn write(file: &Path, config: &Value) -> Result<()> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(config, options)?;
    if parse(&text).ok().as_ref() != Some(config) {
        bail!("a value cannot be written back as YAML; the file was not changed");
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    // Temporary files are created with mode 0600.
    let mut new = tempfile::NamedTempFile::new_in(folder)
        .context("cannot create a temporary file in its directory")?;
    new.write_all(text.as_bytes())?;
    new.as_file().set_permissions(Permissions::from_mode(0o600))?;
    if let (Ok(old), Ok(own)) = (fs::metadata(file), new.as_file().metadata())
        && (old.uid(), old.gid()) != (own.uid(), own.gid())
    {
        fchown(new.as_file(), Some(old.uid()), Some(old.gid()))
            .context("cannot keep its owner, who is another user")?;
    }
    new.as_file().sync_all()?;
    new.persist(file).map(drop).map_err(|error| error.error.into())
}

/// Lock file that excludes other writers of a kubeconfig.
struct Lock(PathBuf);

impl Lock {
    fn take(file: &Path) -> Result<Self> {
        let mut name = file.file_name().map_or_else(OsString::new, ToOwned::to_owned);
        name.push(".lock");
        let lock = file.with_file_name(name);
        let give_up = Instant::now() + LOCK_TIMEOUT;
        loop {
            match OpenOptions::new().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if Instant::now() >= give_up {
                        bail!(
                            "{} has existed for {} s; remove it if no other program is writing the kubeconfig",
                            lock.display(),
                            LOCK_TIMEOUT.as_secs()
                        );
                    }
                    sleep(LOCK_RETRY_DELAY);
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot create {}", lock.display()));
                }
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The error of the next writer names a lock file that could not be removed.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests;
