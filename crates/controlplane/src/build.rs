//! Builds the programs of a control plane from their Go modules, once, into the cache.
//!
//! `conformance/controlplane` pins every module by version and checksum. The pins are compiled in, so
//! that a binary can build them without the checkout. No prebuilt program is downloaded.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Instant;

use crate::files::FileError;
use crate::tools::{NoCacheFolder, cache_folder, go, say};

/// A program of the control plane could not be built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    #[error(transparent)]
    Cache(#[from] NoCacheFolder),
    #[error(transparent)]
    File(#[from] FileError),
    #[error(
        "the control plane is built with Go: install it (https://go.dev/dl) and put it on the path"
    )]
    GoNotFound,
    #[error("cannot start go")]
    StartGo(#[source] std::io::Error),
    #[error("go build of {package} in {} failed: {status}", folder.display())]
    GoBuild { package: &'static str, folder: PathBuf, status: ExitStatus },
    #[error("go.mod of {module} does not require {dependency}")]
    Pin { module: &'static str, dependency: &'static str },
}

type Result<T> = std::result::Result<T, BuildError>;

/// A Go module that pins programs by requiring them.
struct Module {
    name: &'static str,
    requires: &'static str,
    checksums: &'static str,
}

macro_rules! module {
    ($name:literal) => {
        Module {
            name: $name,
            requires: include_str!(concat!("../../../conformance/controlplane/", $name, "/go.mod")),
            checksums: include_str!(concat!(
                "../../../conformance/controlplane/",
                $name,
                "/go.sum"
            )),
        }
    };
}

const ETCD: Module = module!("etcd");
const KUBERNETES: Module = module!("kubernetes");
const KWOK: Module = module!("kwok");

/// Packages that hold the version which Kubernetes programs report, set when linking.
const VERSION_PACKAGES: [&str; 2] =
    ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];

/// All programs: name, Go module, package.
const PROGRAMS: &[(&str, &Module, &str)] = &[
    ("etcd", &ETCD, "go.etcd.io/etcd/server/v3"),
    ("kube-apiserver", &KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver"),
    ("kube-controller-manager", &KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager"),
    ("kube-scheduler", &KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler"),
    ("kubectl", &KUBERNETES, "k8s.io/kubernetes/cmd/kubectl"),
    ("kwok", &KWOK, "sigs.k8s.io/kwok/cmd/kwok"),
];

/// The pinned versions.
struct Versions {
    kubernetes: String,
    etcd: String,
    kwok: String,
}

/// Returns the folder of all programs, or `None` if one is not built yet.
pub fn installed_programs() -> Result<Option<PathBuf>> {
    let bin = folder(&versions()?)?;
    Ok(is_complete(&bin).then_some(bin))
}

/// Builds the programs that are missing and returns the folder of all.
pub fn build_programs() -> Result<PathBuf> {
    let versions = versions()?;
    let bin = folder(&versions)?;
    let kubernetes = &versions.kubernetes;
    fs::create_dir_all(&bin).map_err(FileError::at("make", &bin))?;
    if is_complete(&bin) {
        return Ok(bin);
    }
    let _lock = lock(&bin)?;
    for (name, module, package) in PROGRAMS {
        if !bin.join(name).exists() {
            build_one(&bin, name, module, package, kubernetes)?;
        }
    }
    Ok(bin)
}

fn folder(versions: &Versions) -> Result<PathBuf> {
    let Versions { kubernetes, etcd, kwok } = versions;
    let name = format!("kubernetes-{kubernetes}-etcd-{etcd}-kwok-{kwok}");
    Ok(cache_folder()?.join("controlplane").join(name).join("bin"))
}

fn is_complete(bin: &Path) -> bool {
    PROGRAMS.iter().all(|(name, _, _)| bin.join(name).exists())
}

/// Locks the folder for one build at a time. The system releases the lock when the process ends.
fn lock(bin: &Path) -> Result<File> {
    let path = bin.with_file_name("lock");
    let file = File::create(&path).map_err(FileError::at("write", &path))?;
    if file.try_lock().is_err() {
        say("waiting for another run that builds the control plane");
        file.lock().map_err(FileError::at("lock", &path))?;
    }
    Ok(file)
}

fn build_one(
    bin: &Path,
    name: &str,
    module: &Module,
    package: &'static str,
    kubernetes: &str,
) -> Result<()> {
    let go = go().ok_or(BuildError::GoNotFound)?;
    let folder = bin.with_file_name("modules").join(module.name);
    fs::create_dir_all(&folder).map_err(FileError::at("make", &folder))?;
    for (name, text) in [("go.mod", module.requires), ("go.sum", module.checksums)] {
        let path = folder.join(name);
        fs::write(&path, text).map_err(FileError::at("write", &path))?;
    }
    say(&format!("building {name}, once (some minutes)"));
    let began = Instant::now();
    // Renamed when it is complete, so that an interrupted build is not taken for a program.
    let partial = bin.join(format!("{name}.partial"));
    let status = Command::new(go)
        .args(["build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags"])
        .arg(linker_flags(kubernetes))
        .arg("-o")
        .arg(&partial)
        .arg(package)
        .current_dir(&folder)
        .env("CGO_ENABLED", "0")
        .env("GOWORK", "off")
        .status()
        .map_err(BuildError::StartGo)?;
    if !status.success() {
        let _ = fs::remove_file(&partial);
        return Err(BuildError::GoBuild { package, folder, status });
    }
    let built = bin.join(name);
    fs::rename(&partial, &built).map_err(FileError::at("write", &built))?;
    let bytes = built.metadata().map_err(FileError::at("read", &built))?.len();
    let seconds = began.elapsed().as_secs();
    say(&format!("built {name} in {seconds} s, {} MiB", bytes >> 20));
    Ok(())
}

/// Returns flags that omit debugging data and set the version. A program without the packages of the
/// version ignores them.
fn linker_flags(kubernetes: &str) -> String {
    let mut parts = kubernetes.trim_start_matches('v').split('.');
    let (major, minor) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let mut flags = String::from("-s -w");
    for package in VERSION_PACKAGES {
        for (variable, value) in [
            ("gitVersion", kubernetes),
            ("gitMajor", major),
            ("gitMinor", minor),
            ("gitTreeState", "clean"),
        ] {
            let _ = write!(flags, " -X {package}.{variable}={value}");
        }
    }
    flags
}

fn versions() -> Result<Versions> {
    let read = |module: &Module, dependency| {
        required(module.requires, dependency)
            .ok_or(BuildError::Pin { module: module.name, dependency })
    };
    Ok(Versions {
        kubernetes: read(&KUBERNETES, "k8s.io/kubernetes")?,
        etcd: read(&ETCD, "go.etcd.io/etcd/server/v3")?,
        kwok: read(&KWOK, "sigs.k8s.io/kwok")?,
    })
}

/// Returns the version of a dependency that a `go.mod` requires.
fn required(text: &str, dependency: &str) -> Option<String> {
    let mut words = text.lines().map(|line| {
        let line = line.trim_start_matches("require ");
        line.split_whitespace().collect::<Vec<_>>()
    });
    words.find_map(|words| match words.as_slice() {
        [name, version, ..] if *name == dependency && version.starts_with('v') => {
            Some((*version).to_owned())
        }
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_either_form_of_require() {
        let text =
            "require a/b v1.2.3\n\nrequire (\n\tc/d v0.4.0 // indirect\n)\nreplace e => e v9\n";
        assert_eq!(required(text, "a/b").as_deref(), Some("v1.2.3"));
        assert_eq!(required(text, "c/d").as_deref(), Some("v0.4.0"));
        assert_eq!(required(text, "e"), None);
    }

    #[test]
    fn kubernetes_is_the_version_of_the_oracle() {
        let oracle = include_str!("../../../conformance/oracle/go.mod");
        let oracle = required(oracle, "k8s.io/kubernetes");
        assert_eq!(Some(versions().unwrap().kubernetes), oracle);
    }
}
