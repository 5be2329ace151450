//! `jindou bench api`: the sandbox beside kube-apiserver.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use cli::output::Format;

use crate::api::{self, ApiSettings};

/// Send the same requests to the sandbox and to kube-apiserver with etcd, in turn.
///
/// The figure is operations per second of the server's CPU time: that of kube-apiserver and etcd together on one
/// side, and that of a sandbox without scheduler, kubelets and controllers on the other. Both serve
/// the same client over one connection, with TLS and in JSON, and run on this machine.
#[derive(Args)]
pub(super) struct Options {
    /// Server to compare with.
    #[arg(long, value_enum, default_value_t = Against::KubeApiserver)]
    against: Against,
    /// Number of pods that are created, read, patched, watched, bound and deleted.
    #[arg(long, default_value_t = 3000)]
    pods: usize,
    /// Number of rounds; the first one warms up and is not counted if there are others.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Fail unless the sandbox does at least this many times as many operations per CPU second.
    #[arg(long, value_name = "FACTOR")]
    at_least: Option<f64>,
    /// Form of the output; JSON is one object per line: one for each run, then one for each operation.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Against {
    KubeApiserver,
}

pub(super) fn run(options: &Options) -> Result<ExitCode> {
    let Against::KubeApiserver = options.against;
    if options.rounds == 0 {
        bail!("--rounds takes a number above zero");
    }
    let settings = ApiSettings {
        pods: options.pods,
        rounds: options.rounds,
        at_least: options.at_least,
        json: super::json("api", options.output)?,
    };
    super::until_interrupted(api::run(&settings))
}
