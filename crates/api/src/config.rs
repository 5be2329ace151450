//! `KubeSchedulerConfiguration`: reading, conversion of old versions, defaults, validation and expansion.
//!
//! ```text
//! text ─tree─▶ Tree ─read─▶ v1 (as written) ─convert─▶ v1 ─defaults─▶ Configuration ─validate─▶ Configuration
//!                                                                          │
//!                                     Expanded, ProfileView ◀─expand, show─┘
//! ```
//!
//! Every step adds to one list of problems and none stops at the first, so that a user sees all of them at once.
//! The behaviour is that of Kubernetes v1.36.4, `pkg/scheduler/apis/config` and `pkg/scheduler/framework/runtime`.

pub mod args;
mod configuration;
mod convert;
mod defaults;
mod duration;
mod expand;
mod extender;
mod fields;
pub mod gates;
mod merge;
mod names;
mod point;
mod problem;
mod read;
mod show;
mod tree;
pub mod v1;
mod validate;
mod version;
mod write;

#[cfg(test)]
mod tests;

pub use args::PluginArgs;
pub use configuration::{ClientConnection, Configuration, LeaderElection, Profile};
pub use defaults::default_plugins;
pub use duration::Duration;
pub use expand::{Expanded, expand, expand_all};
pub use extender::{Base64, Extender, ExtenderTls, ManagedResource};
pub use gates::Gates;
pub use merge::merge_plugin_set;
pub use point::ExtensionPoint;
pub use problem::Problem;
pub use show::{ArgsView, PluginView, PointView, ProfileView, show};
pub use v1::{Plugin, PluginConfig, PluginSet, Plugins};
pub use version::Version;
pub use write::{write, write_v1};

use problem::Sink;

/// What came of reading a configuration file.
#[derive(Clone, Debug, Default)]
pub struct Read {
    /// The version the file was written in, if it is one that is read.
    pub version: Option<Version>,
    /// The file as v1, without defaults; for an old file this is its conversion. Absent if there are problems.
    pub v1: Option<v1::KubeSchedulerConfiguration>,
    /// The complete and valid configuration. Absent if there are problems.
    pub config: Option<Configuration>,
    /// Everything that is wrong with the file.
    pub problems: Vec<Problem>,
    /// What was converted, and what has no effect.
    pub notes: Vec<String>,
}

/// Reads a configuration file, YAML or JSON, with the default feature gates.
pub fn read(text: &str) -> Read {
    read_with(text, Gates::default())
}

/// Reads a configuration file, YAML or JSON.
pub fn read_with(text: &str, gates: Gates) -> Read {
    let sink = Sink::default();
    let mut version = None;
    let mut written = None;
    let mut config = None;
    if let Some((found, mut raw)) = read::document(text, gates, &sink) {
        convert::to_v1(found, &mut raw, &sink);
        let complete = defaults::complete(raw.clone(), gates);
        validate::notes(&raw, &complete, gates, &sink);
        config = Some(validate::validate(complete, &sink));
        version = Some(found);
        written = Some(raw);
    }
    let (problems, notes) = sink.into_parts();
    if !problems.is_empty() {
        written = None;
        config = None;
    }
    Read { version, v1: written, config, problems, notes }
}

/// Reads a configuration file and also expands every profile, as starting the scheduler would.
pub fn check(
    text: &str,
    gates: Gates,
    implements: &dyn Fn(&str, ExtensionPoint) -> bool,
    known: &dyn Fn(&str) -> bool,
) -> Read {
    let mut read = read_with(text, gates);
    if let Some(config) = &read.config
        && let Err(problems) = expand_all(config, implements, known)
    {
        read.problems = problems;
        read.config = None;
        read.v1 = None;
    }
    read
}

/// The configuration of a scheduler that was given no file.
pub fn defaults(gates: Gates) -> Configuration {
    defaults::complete(v1::KubeSchedulerConfiguration::default(), gates)
}
