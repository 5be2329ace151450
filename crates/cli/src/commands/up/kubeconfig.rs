//! The kubeconfig of `jindou up`: merged into the file, and taken out of it when the cluster ends.
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

/// Sections of a kubeconfig with named entries, with the name of the content in an entry.
const SECTIONS: [(&str, &str); 3] =
    [("clusters", "cluster"), ("users", "user"), ("contexts", "context")];

/// Symbolic links from the given path to the file, as the kernel limits them.
const LINKS_MAX: usize = 40;

/// The largest file that is read. Kubeconfigs have some kilobytes.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// How long another writer may hold the lock; it takes milliseconds.
const LOCK_TIME: Duration = Duration::from_secs(5);
const LOCK_RETRY_TIME: Duration = Duration::from_millis(20);

/// Entries in a kubeconfig that [`Merged::remove`] takes out again.
pub(super) struct Merged {
    /// The file, behind symbolic links.
    file: PathBuf,
    /// The kubeconfig that was merged: one cluster, one user, one context.
    own: Value,
    /// The current context before the merge.
    context_before: String,
    /// Whether the file was made by the merge.
    made: bool,
}

impl Merged {
    /// Merges a kubeconfig into a file: entries of the same names are replaced, all others stay, and
    /// the context becomes the current one.
    pub(super) fn new(path: &Path, kubeconfig: &str) -> Result<Self> {
        let own = parse(kubeconfig)?;
        let merge = || {
            let file = behind_links(path)?;
            let _lock = Lock::take(&file)?;
            let before = read(&file)?;
            let made = before.is_none();
            let mut config = before.unwrap_or_else(|| json!({}));
            let context_before = config["current-context"].as_str().unwrap_or_default().to_owned();
            merge(&mut config, &own);
            write(&file, &config)?;
            anyhow::Ok((file, context_before, made))
        };
        let (file, context_before, made) =
            merge().with_context(|| format!("cannot write the kubeconfig {}", path.display()))?;
        Ok(Self { file, own, context_before, made })
    }

    /// Takes the entries out of the file again, and makes the former context the current one unless
    /// another was chosen meanwhile.
    pub(super) fn remove(&self) -> Result<()> {
        let remove = || {
            let _lock = Lock::take(&self.file)?;
            let Some(mut config) = read(&self.file)? else { return Ok(()) };
            if !self.take_out(&mut config) {
                return Ok(());
            }
            if self.made && is_empty(&config) {
                return fs::remove_file(&self.file).context("cannot remove it");
            }
            write(&self.file, &config)
        };
        let shown = self.file.display();
        remove().with_context(|| format!("cannot take the cluster out of the kubeconfig {shown}"))
    }

    /// Whether anything of ours was in it. A later cluster on the same port has the same names, but
    /// another certificate authority and another token.
    fn take_out(&self, config: &mut Value) -> bool {
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

/// Whether a kubeconfig names no cluster, user or context.
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

/// The file that a path leads to. A link to a file that does not exist counts, too.
fn behind_links(path: &Path) -> Result<PathBuf> {
    let mut file = std::path::absolute(path)?;
    for _ in 0..LINKS_MAX {
        let Ok(next) = fs::read_link(&file) else { return Ok(file) };
        // An absolute target replaces the whole path.
        file = file.parent().unwrap_or(Path::new("/")).join(next);
    }
    bail!("more than {LINKS_MAX} symbolic links follow one another")
}

/// The kubeconfig in a file, if there is a file.
fn read(file: &Path) -> Result<Option<Value>> {
    let about = match fs::metadata(file) {
        Ok(about) => about,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("cannot look at it"),
    };
    if !about.is_file() {
        bail!("it is no regular file");
    }
    if about.len() > FILE_BYTES_MAX {
        bail!("it has {} bytes; at most {FILE_BYTES_MAX} are read", about.len());
    }
    let text = fs::read_to_string(file).context("cannot read what it holds")?;
    parse(&text).map(Some).context("what it holds is no kubeconfig, so nothing was changed")
}

/// Reads a kubeconfig, and checks it as far as its entries are looked at.
fn parse(text: &str) -> Result<Value> {
    if text.trim().is_empty() {
        return Ok(json!({}));
    }
    let options = serde_saphyr::options! { with_snippet: false };
    let config: Value = serde_saphyr::from_str_with_options(text, options)?;
    let config = match config {
        Value::Null => Value::Object(Map::new()),
        Value::Object(_) => config,
        _ => bail!("a map with `clusters`, `users` and `contexts` is needed"),
    };
    for (name, wanted) in [("apiVersion", "v1"), ("kind", "Config")] {
        let found = &config[name];
        if !found.is_null() && *found != wanted {
            bail!("{name}: found {found}, {wanted:?} is needed");
        }
    }
    for (section, _) in SECTIONS {
        let entries = match &config[section] {
            Value::Null => continue,
            Value::Array(entries) => entries,
            _ => bail!("{section}: a list is needed"),
        };
        if let Some(place) = entries.iter().position(|entry| !entry["name"].is_string()) {
            bail!("{section}[{place}].name: a text is needed");
        }
    }
    Ok(config)
}

/// Replaces a file by a new one that only its owner may read.
fn write(file: &Path, config: &Value) -> Result<()> {
    let options = serde_saphyr::ser_options! { prefer_block_scalars: false };
    let text = serde_saphyr::to_string_with_options(config, options)?;
    if parse(&text).ok().as_ref() != Some(config) {
        bail!("it holds a value that cannot be written back, so nothing was changed");
    }
    let folder = file.parent().unwrap_or(Path::new("/"));
    // Such files have mode 0600 from the start.
    let mut new =
        tempfile::NamedTempFile::new_in(folder).context("cannot make a file beside it")?;
    new.write_all(text.as_bytes())?;
    new.as_file().set_permissions(Permissions::from_mode(0o600))?;
    if let (Ok(old), Ok(own)) = (fs::metadata(file), new.as_file().metadata())
        && (old.uid(), old.gid()) != (own.uid(), own.gid())
    {
        fchown(new.as_file(), Some(old.uid()), Some(old.gid()))
            .context("it belongs to another user, to whom the new file cannot be given")?;
    }
    new.as_file().sync_all()?;
    new.persist(file).map(drop).map_err(|error| error.error.into())
}

/// Excludes other programs that write a kubeconfig.
struct Lock(PathBuf);

impl Lock {
    fn take(file: &Path) -> Result<Self> {
        let mut name = file.file_name().map_or_else(OsString::new, ToOwned::to_owned);
        name.push(".lock");
        let lock = file.with_file_name(name);
        let give_up = Instant::now() + LOCK_TIME;
        loop {
            match OpenOptions::new().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    if Instant::now() >= give_up {
                        bail!(
                            "another program has held {} for {} s; remove it if none is running",
                            lock.display(),
                            LOCK_TIME.as_secs()
                        );
                    }
                    sleep(LOCK_RETRY_TIME);
                }
                Err(error) => {
                    return Err(error).with_context(|| format!("cannot make {}", lock.display()));
                }
            }
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // A lock file that cannot be removed is named in the error of the next writer.
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests;
