//! The command line of `jindou-bench`.

mod api;
mod live;
mod preempt;
mod soak;
mod trial;

use std::future::Future;
use std::path::PathBuf;
use std::process::ExitCode;

use ::api::config::{self, Gates};
use anyhow::{Context as _, Result, bail};
use clap::{Parser, Subcommand};
use cli::output::{Format, columns, complain, say};
use plugins::registry::Registry;

use crate::decide::{self, Sample};
use crate::families::{FAMILIES, Family};
use crate::memory::Footprint;
use crate::{programs, server};

/// Measure: decisions alone and beside kube-scheduler, the sandbox beside kube-apiserver and over a long time.
#[derive(Parser)]
#[command(name = "jindou-bench", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// The engine alone, in this process: decisions per second, time of one decision, memory, growth.
    ///
    /// Some families are measured twice, with and without a disturbance: X QUIET (times_quiet) is the ratio of
    /// the mean times of a decision. Nominated1, Nominated100 and Nominated1000 decide while 1, 100 and 1,000 pods
    /// are nominated for nodes on which their victims terminate. In FullCluster twice as many pods as nodes are
    /// unschedulable and tried again whenever a pod leaves. AuditWaiting measures the parts of the engine's audit
    /// instead of decisions, with up to 100,000 different pods waiting, and compares the longest part.
    Decide {
        /// Families to run, by name; all if absent.
        #[arg(long, value_delimiter = ',')]
        family: Vec<String>,
        /// Numbers of nodes.
        #[arg(long, value_delimiter = ',', default_values_t = [500, 5000, 50_000])]
        nodes: Vec<usize>,
        /// Form of the output; JSON is one object per line.
        #[arg(short, long, value_enum, default_value_t)]
        output: Format,
    },
    Live(live::Options),
    Preempt(preempt::Options),
    Api(api::Options),
    Soak(soak::Options),
    Trial(trial::Options),
    /// Serve a sandbox to be measured until standard input closes.
    #[command(hide = true)]
    Server {
        /// File to which the kubeconfig is written.
        #[arg(long)]
        kubeconfig: PathBuf,
        /// Run kubelets and controllers.
        #[arg(long)]
        actors: bool,
    },
    /// Measure the memory of one family in this process and print it as JSON.
    #[command(hide = true)]
    Footprint {
        /// Family.
        #[arg(long)]
        family: String,
        /// Number of nodes.
        #[arg(long)]
        nodes: usize,
    },
    /// Schedule some pods of one family and print nothing, for instruction counts.
    #[command(hide = true)]
    Work {
        /// Family.
        #[arg(long)]
        family: String,
        /// Number of nodes.
        #[arg(long)]
        nodes: usize,
        /// Number of measured pods to schedule.
        #[arg(long)]
        pods: usize,
    },
}

/// Runs the measurement that the arguments name. Every error exits with code 1.
pub fn run() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Standard error may be closed.
            let _ = error.print();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    perform(&arguments.action).unwrap_or_else(|error| {
        complain(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

fn perform(action: &Action) -> Result<ExitCode> {
    match action {
        Action::Decide { family, nodes, output } => decide(family, nodes, *output)?,
        Action::Live(options) => return live::run(options),
        Action::Preempt(options) => return preempt::run(options),
        Action::Api(options) => return api::run(options),
        Action::Soak(options) => return soak::run(options),
        Action::Trial(options) => return trial::run(options),
        Action::Server { kubeconfig, actors } => server::serve(kubeconfig, *actors)?,
        Action::Footprint { family, nodes } => {
            let footprint = decide::footprint(profiles()?, find(family)?, *nodes)?;
            say(&(serde_json::to_string(&footprint)? + "\n"))?;
        }
        Action::Work { family, nodes, pods } => {
            decide::work(profiles()?, find(family)?, *nodes, *pods)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns `true` for JSON output; measurements of whole programs print no YAML.
fn json(command: &str, output: Format) -> Result<bool> {
    match output {
        Format::Table => Ok(false),
        Format::Json => Ok(true),
        Format::Yaml => bail!("`bench {command}` prints no YAML; use --output table or json"),
    }
}

/// Runs a measurement until it ends or SIGINT or SIGTERM arrives; dropping it ends the processes that it started.
fn until_interrupted(work: impl Future<Output = Result<()>>) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        tokio::select! {
            done = work => done,
            interrupted = interrupted() => interrupted.and_then(|()| bail!("interrupted")),
        }
    })?;
    Ok(ExitCode::SUCCESS)
}

async fn interrupted() -> Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

fn profiles() -> Result<Vec<engine::framework::Profile>> {
    let built = Registry::default().profiles(&config::defaults(Gates::default()));
    built.map_err(|problems| anyhow::anyhow!("{problems:?}"))
}

fn find(name: &str) -> Result<&'static Family> {
    let found = FAMILIES.iter().find(|family| family.name == name);
    found.with_context(|| {
        let names: Vec<_> = FAMILIES.iter().map(|family| family.name).collect();
        format!("no family is called {name:?}; there are {}", names.join(", "))
    })
}

fn decide(names: &[String], sizes: &[usize], output: Format) -> Result<()> {
    let families: Vec<&Family> = if names.is_empty() {
        FAMILIES.iter().collect()
    } else {
        names.iter().map(|name| find(name)).collect::<Result<_>>()?
    };
    if sizes.contains(&0) {
        bail!("--nodes takes numbers above zero");
    }
    let mut samples: Vec<Sample> = Vec::new();
    for family in families {
        for nodes in sizes {
            complain(&format!("{} with {nodes} nodes …", family.name));
            let footprint = match family.quiet {
                None => Some(footprint_in_child(family, *nodes)?),
                Some(_) => None,
            };
            let sample = decide::run(profiles, family, *nodes, footprint)
                .with_context(|| format!("{} with {nodes} nodes", family.name))?;
            match output {
                Format::Json => say(&(serde_json::to_string(&sample)? + "\n"))?,
                Format::Yaml => say(&format!("---\n{}", serde_saphyr::to_string(&sample)?))?,
                Format::Table => {}
            }
            samples.push(sample);
        }
    }
    if output == Format::Table {
        say(&table(&samples))?;
    }
    Ok(())
}

/// Measures memory in a child process, so that no memory freed earlier is reused.
fn footprint_in_child(family: &Family, nodes: usize) -> Result<Footprint> {
    let nodes = nodes.to_string();
    let child = std::process::Command::new(programs::own()?)
        .args(["footprint", "--family", family.name, "--nodes", &nodes])
        .output()
        .context("cannot start a process to measure memory in")?;
    if !child.status.success() {
        bail!("measuring memory failed: {}", String::from_utf8_lossy(&child.stderr).trim());
    }
    Ok(serde_json::from_slice(&child.stdout)?)
}

fn table(samples: &[Sample]) -> String {
    let head = [
        "FAMILY",
        "NODES",
        "PODS",
        "DECISIONS/S",
        "P50 US",
        "P99 US",
        "MAX US",
        "X QUIET",
        "BYTES/POD",
        "CLASSES",
        "BYTES/CLASS",
        "BYTES/NODE",
        "GROWTH",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for sample in samples {
        let of_memory = |number: fn(&Footprint) -> String| {
            sample.footprint.as_ref().map_or_else(String::new, number)
        };
        rows.push(vec![
            sample.family.to_owned(),
            sample.nodes.to_string(),
            sample.pods.to_string(),
            format!("{:.0}", sample.decisions_per_second),
            format!("{:.2}", sample.us_p50),
            format!("{:.2}", sample.us_p99),
            format!("{:.2}", sample.us_max),
            sample.times_quiet.map_or_else(String::new, |times| format!("{times:.1}")),
            of_memory(|footprint| format!("{:.0}", footprint.bytes_per_pod)),
            of_memory(|footprint| footprint.classes.to_string()),
            of_memory(|footprint| format!("{:.0}", footprint.bytes_per_class)),
            of_memory(|footprint| format!("{:.0}", footprint.bytes_per_node)),
            growth(samples, sample.family).map_or_else(String::new, |g| format!("{g:.2}")),
        ]);
    }
    columns(&rows)
}

/// Returns the exponent of the time per decision as a power of the number of nodes, by least squares on logarithms.
///
/// Returns `None` for fewer than two sizes.
fn growth(samples: &[Sample], family: &str) -> Option<f64> {
    let of_family = samples.iter().filter(|sample| sample.family == family);
    let points: Vec<(f64, f64)> = of_family
        .map(|sample| ((sample.nodes as f64).ln(), -sample.decisions_per_second.ln()))
        .collect();
    if points.len() < 2 {
        return None;
    }
    let count = points.len() as f64;
    let (mean_x, mean_y) = (
        points.iter().map(|(x, _)| x).sum::<f64>() / count,
        points.iter().map(|(_, y)| y).sum::<f64>() / count,
    );
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    (variance > 0.0).then(|| covariance / variance)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(family: &'static str, nodes: usize, decisions_per_second: f64) -> Sample {
        Sample {
            family,
            nodes,
            pods: 10,
            decisions_per_second,
            us_p50: 1.0,
            us_p99: 2.0,
            us_max: 3.0,
            times_quiet: None,
            footprint: None,
        }
    }

    #[test]
    fn growth_is_the_exponent_of_the_time_per_decision() {
        let samples = [
            sample("linear", 500, 1000.0),
            sample("linear", 5000, 100.0),
            sample("linear", 50_000, 10.0),
            sample("constant", 500, 7.0),
            sample("constant", 5000, 7.0),
            sample("single", 500, 7.0),
        ];
        assert!((growth(&samples, "linear").unwrap() - 1.0).abs() < 1e-9);
        assert!(growth(&samples, "constant").unwrap().abs() < 1e-9);
        assert_eq!(growth(&samples, "single"), None);
    }

    #[test]
    fn the_table_leaves_absent_figures_empty() {
        let mut measured = sample("SchedulingBasic", 500, 1000.4);
        measured.footprint = Some(Footprint::new(1, 2, 4, 8, 20, 16));
        let table = table(&[measured, sample("AuditWaiting", 500, 3.0)]);
        let lines: Vec<Vec<&str>> =
            table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(
            lines[1],
            ["SchedulingBasic", "500", "10", "1000", "1.00", "2.00", "3.00", "4", "2", "2", "8"]
        );
        assert_eq!(lines[2], ["AuditWaiting", "500", "10", "3", "1.00", "2.00", "3.00"]);
    }

    #[test]
    fn an_unknown_family_is_an_error_that_lists_all() {
        let Err(error) = find("Basic") else { panic!("found") };
        let text = error.to_string();
        assert!(text.contains("\"Basic\"") && text.contains("SchedulingBasic"), "{text}");
    }
}
