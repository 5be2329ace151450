//! `jindou config`: check, convert and show configuration files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use api::config::{self, Configuration, Gates, v1};
use clap::{Args, Subcommand};
use plugins::registry::Registry;

use crate::output::{
    Format, STRONG, columns, complain, painted, print, printable, say, with_strong_head,
};

/// Check, convert and show KubeSchedulerConfiguration files.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0 if the file is valid, 1 otherwise. All problems are reported at once."
)]
pub(super) struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Report all problems of a file, with field paths.
    Check {
        /// KubeSchedulerConfiguration, YAML or JSON; `-` for standard input.
        file: PathBuf,
    },
    /// Print the configuration of a scheduler without a file.
    Defaults,
    /// Print a file of any known version as v1; notes on standard error say what changed.
    Convert {
        /// KubeSchedulerConfiguration, YAML or JSON; `-` for standard input.
        file: PathBuf,
    },
    /// Show the plugins of each extension point, in order, with weights and arguments.
    Show {
        /// KubeSchedulerConfiguration, YAML or JSON; `-` for standard input [default: the built-in configuration].
        file: Option<PathBuf>,
        /// Output format.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
}

pub(super) fn run(options: &Options, registry: &Registry) -> Result<ExitCode> {
    match &options.action {
        Action::Defaults => {
            say(&config::write(&config::defaults(Gates::default())))?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Check { file } => {
            let Some(_) = read(file, Gates::default(), registry)? else {
                return Ok(ExitCode::FAILURE);
            };
            say(&format!("{}: valid\n", file.display()))?;
            Ok(ExitCode::SUCCESS)
        }
        Action::Convert { file } => {
            let Some(read) = read(file, Gates::default(), registry)? else {
                return Ok(ExitCode::FAILURE);
            };
            if let Some(v1) = &read.v1 {
                say(&config::write_v1(v1))?;
            }
            Ok(ExitCode::SUCCESS)
        }
        Action::Show { file, output } => show(file.as_deref(), *output, registry),
    }
}

fn show(file: Option<&Path>, output: Format, registry: &Registry) -> Result<ExitCode> {
    let configuration = load(file, Gates::default(), registry)?;
    let implements = |name: &str, point| registry.implements(name, point);
    match config::show(&configuration, &implements, &|name| registry.contains(name)) {
        Ok(views) => {
            print(output, &views, || table(&views))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(problems) => {
            report(file.unwrap_or(Path::new("the defaults")), &problems);
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Reads a file and prints its notes and problems. Returns `None` if there are problems.
fn read(file: &Path, gates: Gates, registry: &Registry) -> Result<Option<config::ReadOutcome>> {
    let text = super::explain::read_text(file)?;
    let mut read =
        config::check(&text, gates, &|name, point| registry.implements(name, point), &|name| {
            registry.contains(name)
        });
    // Custom plugins validate their own arguments.
    if let (true, Some(config)) = (read.problems.is_empty(), &read.config)
        && let Err(problems) = registry.profiles(config)
    {
        read.problems = problems;
    }
    for note in &read.notes {
        complain(&format!("note: {note}"));
    }
    report(file, &read.problems);
    Ok(read.problems.is_empty().then_some(read))
}

fn report(file: &Path, problems: &[config::ConfigProblem]) {
    for problem in problems {
        complain(&format!("{}: {problem}", file.display()));
    }
}

/// Reads a configuration for another command; problems are printed and returned as one error.
pub(super) fn load(
    file: Option<&Path>,
    gates: Gates,
    registry: &Registry,
) -> Result<Configuration> {
    load_as_written(file, gates, registry).map(|(configuration, _)| configuration)
}

/// Does the same as [`load`] and also returns the file as written.
pub(super) fn load_as_written(
    file: Option<&Path>,
    gates: Gates,
    registry: &Registry,
) -> Result<(Configuration, v1::KubeSchedulerConfiguration)> {
    let Some(file) = file else {
        return Ok((config::defaults(gates), v1::KubeSchedulerConfiguration::default()));
    };
    let read = read(file, gates, registry)?;
    read.and_then(|read| read.config.zip(read.v1))
        .with_context(|| format!("{} is not a valid configuration", file.display()))
}

/// Longest line of plugin names in the table, in bytes.
const LINE_LENGTH_MAX: usize = 80;

fn table(views: &[config::ProfileView]) -> String {
    let mut text = String::new();
    for view in views {
        if !text.is_empty() {
            text.push('\n');
        }
        let title = format!("Profile {}", printable(&view.scheduler_name));
        let _ = writeln!(text, "{}", painted(STRONG, &title));
        if let Some(percentage) = view.percentage_of_nodes_to_score {
            let _ = writeln!(text, "percentageOfNodesToScore {percentage}");
        }
        text += &with_strong_head(&columns(&points(view)));
        let mut rows = vec![vec!["PLUGIN".to_owned(), "ARGUMENTS".to_owned()]];
        for plugin in &view.args {
            let mut args = serde_json::to_value(&plugin.args).unwrap_or_default();
            if let Some(fields) = args.as_object_mut() {
                fields.retain(|name, _| !matches!(&**name, "apiVersion" | "kind"));
                if fields.is_empty() {
                    continue;
                }
            }
            rows.push(vec![plugin.name.clone(), args.to_string()]);
        }
        if rows.len() > 1 {
            let _ = write!(text, "\n{}", with_strong_head(&columns(&rows)));
        }
    }
    text
}

fn points(view: &config::ProfileView) -> Vec<Vec<String>> {
    let mut rows = vec![vec!["POINT".to_owned(), "PLUGINS, IN ORDER (WEIGHT)".to_owned()]];
    for point in &view.points {
        let plugins = point.plugins.iter().map(|plugin| match plugin.weight {
            Some(weight) => format!("{} ({weight})", plugin.name),
            None => plugin.name.clone(),
        });
        let lines = in_lines(plugins);
        rows.push(vec![point.point.key().to_owned(), lines[0].clone()]);
        rows.extend(lines.into_iter().skip(1).map(|line| vec![String::new(), line]));
    }
    rows
}

/// Joins names by commas, in lines that fit a terminal; there is at least one line.
fn in_lines(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for name in names {
        match lines.last_mut() {
            Some(line) if line.len() + name.len() + 2 <= LINE_LENGTH_MAX => {
                line.push_str(", ");
                line.push_str(&name);
            }
            Some(line) => {
                line.push(',');
                lines.push(name);
            }
            None => lines.push(name),
        }
    }
    if lines.is_empty() { vec!["-".to_owned()] } else { lines }
}
