//! `cargo xtask controlplane`: the command line of the crate of the same name.

mod check;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

pub(crate) use ::controlplane::{
    ControlPlane, POLL_INTERVAL, ProcessIdentity, SchedulerChoice, StartOptions, free_ports,
    write_private,
};

use crate::shell::say;

/// Run upstream's control plane on this machine, for tests.
#[derive(clap::Args)]
pub(crate) struct ControlPlaneArgs {
    #[command(subcommand)]
    command: ControlPlaneCommand,
}

#[derive(clap::Subcommand)]
enum ControlPlaneCommand {
    /// Start one, which runs until `down`. The first start builds all programs, in about 20 minutes.
    Up {
        #[command(flatten)]
        plane: PlaneSelector,
        /// Scheduler to start.
        #[arg(long, value_enum, default_value = "none")]
        scheduler: SchedulerChoice,
        /// Let kwok simulate the kubelets of all nodes, which is the default.
        #[arg(long, overrides_with = "no_kwok")]
        kwok: bool,
        /// Start no kwok: nodes and pods keep their status.
        #[arg(long)]
        no_kwok: bool,
        #[command(flatten)]
        form: OutputArgs,
    },
    /// End one, and remove its data.
    Down {
        #[command(flatten)]
        plane: PlaneSelector,
    },
    /// Show the state of the one that is named, or of all without a name.
    Status {
        #[command(flatten)]
        plane: PlaneSelector,
        #[command(flatten)]
        form: OutputArgs,
    },
    /// Start one, check that upstream's scheduler binds pods on it, and end it.
    Check,
}

/// The control plane that a command is for.
#[derive(clap::Args)]
struct PlaneSelector {
    /// Name of the control plane [default: default]
    #[arg(long, conflicts_with = "folder")]
    name: Option<String>,
    /// Folder for its state, instead of one in the cache.
    #[arg(long)]
    folder: Option<PathBuf>,
}

#[derive(clap::Args)]
struct OutputArgs {
    /// Format of the output.
    #[arg(short, long, value_enum, default_value = "table")]
    output: OutputFormat,
}

#[derive(Clone, Copy, PartialEq, clap::ValueEnum)]
enum OutputFormat {
    Table,
    Json,
}

/// Runs the command.
pub(crate) fn run(arguments: &ControlPlaneArgs) -> Result<ExitCode> {
    match &arguments.command {
        ControlPlaneCommand::Up { plane, scheduler, no_kwok, form, kwok: _ } => {
            up(plane, *scheduler, !no_kwok, form.output)?;
        }
        ControlPlaneCommand::Down { plane } => down(plane)?,
        ControlPlaneCommand::Status { plane, form } => return status(plane, form.output),
        ControlPlaneCommand::Check => check::run()?,
    }
    Ok(ExitCode::SUCCESS)
}

impl PlaneSelector {
    fn resolve(&self) -> Result<(String, PathBuf)> {
        if let Some(folder) = &self.folder {
            let folder = std::path::absolute(folder)?;
            let name = folder.file_name().context("the folder has no name")?;
            return Ok((name.to_string_lossy().into_owned(), folder));
        }
        let name = self.name.as_deref().unwrap_or("default");
        Ok((name.to_owned(), ::controlplane::state_folder(name)?))
    }
}

fn up(
    plane: &PlaneSelector,
    scheduler: SchedulerChoice,
    kwok: bool,
    output: OutputFormat,
) -> Result<()> {
    let (name, folder) = plane.resolve()?;
    let options = StartOptions { name, folder, scheduler, kwok, controllers: true, owned: false };
    let plane = ::controlplane::up(&options)?;
    match output {
        OutputFormat::Table => print(&table(&plane)),
        OutputFormat::Json => print(&format!("{}\n", plane.summary())),
    }
    Ok(())
}

fn down(plane: &PlaneSelector) -> Result<()> {
    let (name, folder) = plane.resolve()?;
    if ::controlplane::down(&folder)? {
        say(&format!("{name} has ended"));
    } else {
        say(&format!("{name} does not run: there is no {}", folder.display()));
    }
    Ok(())
}

/// Returns [`ExitCode::SUCCESS`] if there is a control plane and all processes run.
fn status(plane: &PlaneSelector, output: OutputFormat) -> Result<ExitCode> {
    let planes = if plane.name.is_some() || plane.folder.is_some() {
        ControlPlane::load(&plane.resolve()?.1)?.into_iter().collect()
    } else {
        ::controlplane::load_all()?
    };
    match output {
        OutputFormat::Json => {
            let rows: Vec<_> = planes.iter().map(status_row).collect();
            print(&format!("{}\n", json!(rows)));
        }
        OutputFormat::Table if planes.is_empty() => say("no control plane runs"),
        OutputFormat::Table => print(&planes.iter().map(table).collect::<Vec<_>>().join("\n")),
    }
    let fine = !planes.is_empty() && planes.iter().all(ControlPlane::is_up);
    Ok(if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn status_row(plane: &ControlPlane) -> Value {
    let mut row = plane.summary();
    row["up"] = plane.is_up().into();
    row["ended"] = plane.exited_processes().into();
    row
}

fn table(plane: &ControlPlane) -> String {
    let state = if plane.is_up() {
        "runs".to_owned()
    } else if plane.is_down() {
        "does not run".to_owned()
    } else {
        format!("runs in part, without {}", plane.describe_missing())
    };
    let mut rows = vec![
        ("name", plane.name.clone()),
        ("state", state),
        ("server", plane.server.clone()),
        ("kubeconfig", plane.kubeconfig.display().to_string()),
        ("scheduler kubeconfig", plane.scheduler_kubeconfig.display().to_string()),
        ("programs", plane.bin.display().to_string()),
        ("logs", plane.folder.join("logs").display().to_string()),
    ];
    for (program, identity) in &plane.processes {
        let ended = if identity.is_alive() { "" } else { ", has ended" };
        rows.push((program, format!("process {}{ended}", identity.pid)));
    }
    let mut text = String::new();
    for (name, value) in rows {
        let _ = writeln!(text, "{name:<24}{value}");
    }
    text
}

fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}
