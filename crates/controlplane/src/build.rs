//! Builds the programs of a control plane from their Go modules, once, into the cache.
//!
//! `conformance/controlplane` pins every module by version and checksum. The pins are compiled in, so
//! that a program that was built somewhere else can do this too. Nothing is taken ready-made.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context as _, Result, bail};

use crate::tools::{cache, go, say};

/// One Go module that requires a program.
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

/// Every program: its name, its Go module and its package.
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

/// The folder that holds all programs, if they are built.
pub fn installed_programs() -> Result<Option<PathBuf>> {
    let bin = folder(&versions()?)?;
    Ok(is_complete(&bin).then_some(bin))
}

/// Builds what is not built yet and returns the folder that holds all programs.
pub fn build_programs() -> Result<PathBuf> {
    let versions = versions()?;
    let bin = folder(&versions)?;
    let kubernetes = &versions.kubernetes;
    fs::create_dir_all(&bin).with_context(|| format!("cannot make {}", bin.display()))?;
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
    Ok(cache()?.join("controlplane").join(name).join("bin"))
}

fn is_complete(bin: &Path) -> bool {
    PROGRAMS.iter().all(|(name, _, _)| bin.join(name).exists())
}

/// One run builds, others wait for it. The system lets go of the lock when the run ends in any way.
fn lock(bin: &Path) -> Result<File> {
    let path = bin.with_file_name("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    if file.try_lock().is_err() {
        say("waiting for another run that builds the control plane");
        file.lock().with_context(|| format!("cannot lock {}", path.display()))?;
    }
    Ok(file)
}

fn build_one(
    bin: &Path,
    name: &str,
    module: &Module,
    package: &str,
    kubernetes: &str,
) -> Result<()> {
    let go = go().context(
        "the control plane is built with Go: install it (https://go.dev/dl) and put it on the path",
    )?;
    let folder = bin.with_file_name("modules").join(module.name);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(folder.join("go.mod"), module.requires)?;
    fs::write(folder.join("go.sum"), module.checksums)?;
    say(&format!("building {name}, once (some minutes)"));
    let began = Instant::now();
    // Built under another name first, so that an interrupted build leaves nothing that looks whole.
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
        .context("cannot start go")?;
    if !status.success() {
        let _ = fs::remove_file(&partial);
        bail!("go build of {package} in {} failed: {status}", folder.display());
    }
    fs::rename(&partial, bin.join(name))?;
    let bytes = bin.join(name).metadata()?.len();
    let seconds = began.elapsed().as_secs();
    say(&format!("built {name} in {seconds} s, {} MiB", bytes >> 20));
    Ok(())
}

/// Leaves out debugging data and sets the version; programs without these packages ignore the setting.
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
    let read = |module: &Module, dependency: &str| -> Result<String> {
        required(module.requires, dependency)
            .with_context(|| format!("go.mod of {} does not require {dependency}", module.name))
    };
    Ok(Versions {
        kubernetes: read(&KUBERNETES, "k8s.io/kubernetes")?,
        etcd: read(&ETCD, "go.etcd.io/etcd/server/v3")?,
        kwok: read(&KWOK, "sigs.k8s.io/kwok")?,
    })
}

/// The version of a dependency that a `go.mod` requires.
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
