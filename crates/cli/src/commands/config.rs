//! `jindou config`: check, convert and show configuration files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use api::config::{self, Configuration, Gates};
use clap::{Args, Subcommand};
use plugins::registry::Registry;

use crate::output::{Format, columns, complain, print, say};

/// Check, convert and show KubeSchedulerConfiguration files.
#[derive(Args)]
pub(super) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Report everything that is wrong with a file; exit code 1 if anything is.
    Check {
        /// KubeSchedulerConfiguration, YAML or JSON; `-` for standard input.
        file: PathBuf,
    },
    /// Print the configuration of a scheduler that is given no file.
    Defaults,
    /// Print a file of any known version as v1; what was converted is told on standard error.
    Convert {
        /// KubeSchedulerConfiguration, YAML or JSON; `-` for standard input.
        file: PathBuf,
    },
    /// Show what each profile expands to: the plugins of every extension point, in order.
    Show {
        /// KubeSchedulerConfiguration, YAML or JSON; `-` for standard input.
        file: PathBuf,
        /// Form of the output.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
}

pub(super) fn run(options: &Options) -> Result<ExitCode> {
    match &options.action {
        Action::Defaults => {
            say(&config::write(&config::defaults(Gates::default())))?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Check { file } => {
            let Some(_) = read(file)? else { return Ok(ExitCode::FAILURE) };
            say(&format!("{}: valid\n", file.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Convert { file } => {
            let Some(read) = read(file)? else { return Ok(ExitCode::FAILURE) };
            if let Some(v1) = &read.v1 {
                say(&config::write_v1(v1))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Show { file, output } => {
            let Some(read) = read(file)? else { return Ok(ExitCode::FAILURE) };
            let registry = Registry::default();
            let views = config::show(
                read.config.as_ref().context("a valid file has a configuration")?,
                &|name, point| registry.implements(name, point),
                &|name| registry.knows(name),
            );
            match views {
                Ok(views) => print(*output, &views, || table(&views))?,
                Err(problems) => {
                    report(file, &problems);
                    return Ok(ExitCode::FAILURE);
                }
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Reads a file, tells its notes, and all its problems if it has any.
fn read(file: &Path) -> Result<Option<config::Read>> {
    let text = super::explain::read_text(file)?;
    let registry = Registry::default();
    let read = config::check(
        &text,
        Gates::default(),
        &|name, point| registry.implements(name, point),
        &|name| registry.knows(name),
    );
    for note in &read.notes {
        complain(&format!("note: {note}"));
    }
    report(file, &read.problems);
    Ok(read.problems.is_empty().then_some(read))
}

fn report(file: &Path, problems: &[config::Problem]) {
    for problem in problems {
        complain(&format!("{}: {problem}", file.display()));
    }
}

/// Reads a configuration for another command; problems are one error.
pub(super) fn load(file: Option<&Path>) -> Result<Configuration> {
    let Some(file) = file else { return Ok(config::defaults(Gates::default())) };
    let read = read(file)?;
    read.and_then(|read| read.config)
        .with_context(|| format!("{} is not a valid configuration", file.display()))
}

fn table(views: &[config::ProfileView]) -> String {
    let mut text = String::new();
    for view in views {
        text += &format!("Profile {}\n", view.scheduler_name);
        let mut rows = vec![vec!["POINT".to_owned(), "PLUGINS, IN ORDER".to_owned()]];
        for point in &view.points {
            let plugins = point.plugins.iter().map(|plugin| match plugin.weight {
                Some(weight) => format!("{} ({weight})", plugin.name),
                None => plugin.name.clone(),
            });
            let plugins: Vec<_> = plugins.collect();
            let listed = if plugins.is_empty() { "-".to_owned() } else { plugins.join(", ") };
            rows.push(vec![point.point.key().to_owned(), listed]);
        }
        text += &columns(&rows);
    }
    text
}
