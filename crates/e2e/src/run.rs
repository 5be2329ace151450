//! Runs scenarios on one control plane and reports their results.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use controlplane::tools::say;
use controlplane::{ControlPlane, SchedulerChoice, StartOptions};

use crate::checkout::build_jindou;
use crate::scenarios::{SCENARIOS, Scenario};
use crate::test_env::{RunSize, TestEnv};

/// Run end-to-end scenarios: Jindou on upstream's control plane.
#[derive(Default, clap::Args)]
#[command(after_long_help = LONG_FORMS)]
pub struct E2eOptions {
    /// Run only this scenario; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Leave the control plane running, with the objects of the scenario that failed.
    #[arg(long)]
    keep: bool,
    /// Run this program instead of a debug build of the checkout.
    #[arg(long, value_name = "PROGRAM")]
    jindou: Option<PathBuf>,
    /// Run the long forms of etcd, handover, partition and absent; see below.
    #[arg(long)]
    long: bool,
    /// Number of kills, hand-overs or partitions in those scenarios, instead of that of the form.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
    /// Seed of the random times in those scenarios.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const LONG_FORMS: &str = "\
The long forms (`--long`) of scenarios that count overcommits, double binds and late binds:
  etcd       20 kills of etcd under load, 3 in the short form; about 3 minutes
  handover   50 hand-overs by SIGTERM with slow, refused and lost binds, 6 in the short form; about 6 minutes
  partition  20 partitions of the leader, 5 to 40 s each, with the default lease of 15 s; 2 of 6 to
             14 s with a lease of 8 s in the short form; about 15 minutes
  absent     the API server is away for 60 s at the start and in the middle, 10 s in the short form;
             the long form fails if kube-scheduler binds earlier; about 5 minutes";

/// Result of one scenario.
struct ScenarioOutcome {
    scenario: &'static Scenario,
    took: Duration,
    failure: Option<String>,
}

/// Runs the chosen scenarios. Returns [`ExitCode::SUCCESS`] if all of them pass.
pub fn run(options: &E2eOptions) -> Result<ExitCode> {
    let chosen = choose(&options.only)?;
    let built = match &options.jindou {
        Some(program) => program.clone(),
        None => build_jindou()?,
    };
    let size = RunSize {
        long: options.long,
        rounds: options.rounds.map(|rounds| rounds as usize),
        seed: options.seed,
    };
    let began = Instant::now();
    let running = ControlPlane::start(&StartOptions::owned(SchedulerChoice::None)?)?;
    say(&format!("{} answers after {:.1?}", running.plane.server, began.elapsed()));
    // A copy, so that a build during the run does not replace the program under test.
    let jindou = running.plane.folder.join("jindou");
    fs::copy(&built, &jindou).with_context(|| format!("cannot copy {}", built.display()))?;
    let mut outcomes = Vec::new();
    for scenario in chosen {
        let began = Instant::now();
        let failure = attempt(scenario, &running.plane, &jindou, size, options.keep).err();
        let failure = failure.map(|error| format!("{error:#}"));
        let outcome = ScenarioOutcome { scenario, took: began.elapsed(), failure };
        say(&line(&outcome));
        let failed = outcome.failure.is_some();
        outcomes.push(outcome);
        if failed && options.keep {
            // The next scenario would schedule onto the nodes that this one leaves behind.
            break;
        }
    }
    say(&table(&outcomes));
    if options.keep {
        let plane = running.keep();
        say(&format!(
            "the control plane is kept: export KUBECONFIG={}; end it with `cargo xtask controlplane down --folder {}`",
            plane.kubeconfig.display(),
            plane.folder.display()
        ));
    } else {
        running.stop()?;
    }
    let failed = outcomes.iter().any(|outcome| outcome.failure.is_some());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn choose(only: &[String]) -> Result<Vec<&'static Scenario>> {
    if let Some(unknown) = only.iter().find(|name| SCENARIOS.iter().all(|s| s.name != **name)) {
        let names: Vec<_> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
        bail!("there is no scenario {unknown:?}, but {}", names.join(", "));
    }
    let chosen = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    Ok(SCENARIOS.iter().filter(|scenario| chosen(scenario.name)).collect())
}

fn attempt(
    scenario: &Scenario,
    plane: &ControlPlane,
    jindou: &Path,
    size: RunSize,
    keep: bool,
) -> Result<()> {
    let env =
        TestEnv::open(plane, jindou, scenario.name, size).context("cannot set up the namespace")?;
    let done = (scenario.run)(&env);
    if done.is_err() {
        say(&env.describe());
        if keep {
            return done;
        }
    }
    done.and(env.close().context("cannot clean up"))
}

fn line(outcome: &ScenarioOutcome) -> String {
    let ScenarioOutcome { scenario, took, failure } = outcome;
    let state = if failure.is_some() { "FAILED" } else { "ok" };
    let mut text = format!("{:<12}{:>6.1} s  {state}", scenario.name, took.as_secs_f64());
    if let Some(failure) = failure {
        let _ = write!(text, ": {failure}");
    }
    text
}

fn table(outcomes: &[ScenarioOutcome]) -> String {
    let mut text = format!("\n{:<12}{:>8}  {:<8}{}\n", "SCENARIO", "TIME", "RESULT", "SHOWS");
    for ScenarioOutcome { scenario, took, failure } in outcomes {
        let state = if failure.is_some() { "FAILED" } else { "ok" };
        let seconds = took.as_secs_f64();
        let Scenario { name, shows, .. } = scenario;
        let _ = writeln!(text, "{name:<12}{seconds:>6.1} s  {state:<8}{shows}");
    }
    let total: Duration = outcomes.iter().map(|outcome| outcome.took).sum();
    let passed = outcomes.iter().filter(|outcome| outcome.failure.is_none()).count();
    let _ = write!(text, "{passed} of {} passed in {:.0} s", outcomes.len(), total.as_secs_f64());
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_name_is_an_error_that_lists_all_scenarios() {
        let error = choose(&["deploiment".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("deploiment") && error.contains("deployment, profiles"), "{error}");
        assert_eq!(choose(&["events".to_owned()]).unwrap().len(), 1);
        assert_eq!(choose(&[]).unwrap().len(), SCENARIOS.len());
    }
}
