//! `KubeSchedulerConfiguration`: parsing, conversion of old versions, defaults, validation and
//! expansion of profiles.
//!
//! ```text
//! text ─tree─▶ Tree ─read─▶ v1 (as written) ─convert─▶ v1 ─defaults─▶ Configuration ─validate─▶ Configuration
//!                                                                          │
//!                                     ExpandedProfile, ProfileView ◀─expand, show─┘
//! ```
//!
//! Every step adds to one list of problems instead of failing at the first, so that a user sees all
//! of them at once. Behaviour and messages follow Kubernetes v1.36.4, `pkg/scheduler/apis/config`
//! and `pkg/scheduler/framework/runtime`.

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
pub use expand::{ExpandedProfile, expand, expand_all};
pub use extender::{Base64, Extender, ExtenderTls, ManagedResource};
pub use gates::Gates;
pub use merge::merge_plugin_set;
pub use point::ExtensionPoint;
pub use problem::ConfigProblem;
pub use show::{ArgsView, PluginView, PointView, ProfileView, show};
pub use v1::{Plugin, PluginConfig, PluginSet, Plugins};
pub use version::Version;
pub use write::{write, write_v1};

use problem::ProblemSink;

/// The result of reading a configuration file.
#[derive(Clone, Debug, Default)]
pub struct ReadOutcome {
    /// The version of the file, if it is supported.
    pub version: Option<Version>,
    /// The file in v1 form, without defaults; an old file is converted. Absent if there are
    /// problems.
    pub v1: Option<v1::KubeSchedulerConfiguration>,
    /// The complete, validated configuration. Absent if there are problems.
    pub config: Option<Configuration>,
    /// All problems of the file.
    pub problems: Vec<ConfigProblem>,
    /// Notes on conversions and on settings without effect.
    pub notes: Vec<String>,
}

/// Reads a configuration file, YAML or JSON, with the default feature gates.
pub fn read(text: &str) -> ReadOutcome {
    read_with(text, Gates::default())
}

/// Reads a configuration file, YAML or JSON.
pub fn read_with(text: &str, gates: Gates) -> ReadOutcome {
    let sink = ProblemSink::default();
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
    ReadOutcome { version, v1: written, config, problems, notes }
}

/// Reads a configuration file and expands every profile, as the scheduler does at startup.
pub fn check(
    text: &str,
    gates: Gates,
    implements: &dyn Fn(&str, ExtensionPoint) -> bool,
    is_known: &dyn Fn(&str) -> bool,
) -> ReadOutcome {
    let mut read = read_with(text, gates);
    if let Some(config) = &read.config
        && let Err(problems) = expand_all(config, implements, is_known)
    {
        read.problems = problems;
        read.config = None;
        read.v1 = None;
    }
    read
}

/// Returns the configuration of a scheduler that was started without a file.
pub fn defaults(gates: Gates) -> Configuration {
    defaults::complete(v1::KubeSchedulerConfiguration::default(), gates)
}
