//! `jindou bench trial`: trials on a filled cluster, and a planner on a copy of the state.

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use cli::output::{Format, columns, complain, say};

use crate::trial::{self, Outcome, Times};

/// Move pods in a trial: cost of each step and of rolling back, copy of the state, decisions beside a planner.
#[derive(Args)]
pub(super) struct Options {
    /// Number of nodes.
    #[arg(long, default_value_t = 5000)]
    nodes: usize,
    /// Number of pods on the nodes.
    #[arg(long, default_value_t = 150_000)]
    pods: usize,
    /// Number of pods that the trial moves.
    #[arg(long, default_value_t = 1000)]
    steps: usize,
    /// Form of the output.
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

pub(super) fn run(options: &Options) -> Result<ExitCode> {
    let Options { nodes, pods, steps, output } = options;
    if *nodes == 0 || *steps == 0 || *pods < *steps {
        bail!("--nodes and --steps take numbers above zero, and --pods at least --steps");
    }
    let json = super::json("trial", *output)?;
    if cfg!(debug_assertions) {
        complain("warning: this is a debug build; its figures say nothing");
    }
    let outcome = trial::run(super::profiles()?, *nodes, *pods, *steps)?;
    let text = if json { serde_json::to_string(&outcome)? + "\n" } else { table(&outcome) };
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn table(outcome: &Outcome) -> String {
    let mut rows = vec![["", "COUNT", "MEAN US", "P50 US", "P99 US"].map(str::to_owned).to_vec()];
    let operations = [
        ("remove", outcome.remove),
        ("decide", outcome.decide),
        ("first decide", outcome.first_decide),
        ("place", outcome.place),
    ];
    for (name, Times { count, mean, p50, p99 }) in operations {
        let figures = [mean, p50, p99].map(|time| format!("{time:.2}"));
        let mut row = vec![name.to_owned(), count.to_string()];
        row.extend(figures);
        rows.push(row);
    }
    let share = outcome.decisions_per_second_beside_planner / outcome.decisions_per_second_alone;
    format!(
        "{}\nrolling back: {:.2} us per step\nfork: {:.1} ms, {:.1} MiB\n\
         decisions per second: {:.0} alone, {:.0} beside a planner ({:.0} %), which tries {:.0} moves per second\n",
        columns(&rows),
        outcome.roll_back_per_step,
        outcome.fork_ms,
        outcome.fork_bytes as f64 / f64::from(1 << 20),
        outcome.decisions_per_second_alone,
        outcome.decisions_per_second_beside_planner,
        share * 100.0,
        outcome.planner_moves_per_second,
    )
}
