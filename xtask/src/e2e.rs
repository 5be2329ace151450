//! Jindou as people meet it: the program itself on upstream's control plane, used with `kubectl`.
//!
//! ```text
//! one control plane ─▶ for each scenario: a namespace, its nodes, a scheduler ─▶ checks ─▶ all of it removed
//! ```
//!
//! Scenarios run one after the other, since nodes are for everybody. Nothing is timed; whatever is
//! waited for has a deadline, which is far away because machines are slow.

mod absent;
mod apiserver;
mod bare;
mod constraints;
mod custom;
mod deployment;
mod draw;
mod etcd;
mod events;
mod extenders;
mod failover;
mod faults;
mod flags;
mod forms;
mod gates;
mod handover;
mod history;
mod ledger;
mod load;
mod mistakes;
mod pages;
mod partition;
mod placements;
mod preemption;
mod profiles;
mod programs;
mod proxy;
mod replicas;
mod restart;
mod schedulers;
mod test_env;
mod vanishing;
mod verdict;
mod volumes;
mod watch;

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};

use crate::controlplane::{ControlPlane, SchedulerChoice, StartOptions};
use crate::shell::{run as run_shown, say, target_folder};
use test_env::{RunSize, TestEnv};

/// Run Jindou on upstream's control plane and use it as people do.
#[derive(Default, clap::Args)]
#[command(after_long_help = LONG_FORMS)]
pub(crate) struct E2eOptions {
    /// Run only this scenario; may be given several times.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Leave the control plane running, and what failed as it is.
    #[arg(long)]
    keep: bool,
    /// Run this program instead of a debug build of the checkout.
    #[arg(long, value_name = "PROGRAM")]
    jindou: Option<PathBuf>,
    /// Run the long forms of etcd, handover, partition and absent; see below.
    #[arg(long)]
    long: bool,
    /// Kills, hand-overs or partitions of those scenarios, instead of those of the form.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: Option<u32>,
    /// What those scenarios draw their times from.
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

/// One scenario: what it is called, and what it does.
struct Scenario {
    /// Also the name of its namespace and of the folder with its logs.
    name: &'static str,
    /// What is shown to work.
    shows: &'static str,
    run: fn(&TestEnv) -> Result<()>,
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "deployment",
        shows: "1,000 pods over 100 nodes run, each bound once, no node too full",
        run: deployment::run,
    },
    Scenario {
        name: "profiles",
        shows: "two profiles in one process; pods of other schedulers are left alone",
        run: profiles::run,
    },
    Scenario {
        name: "constraints",
        shows: "taints, node and pod affinity, anti-affinity, topology spread",
        run: constraints::run,
    },
    Scenario {
        name: "preemption",
        shows: "a pod of higher priority gets in; a disruption budget is respected",
        run: preemption::run,
    },
    Scenario {
        name: "gates",
        shows: "a gated pod waits until its gate is removed",
        run: gates::run,
    },
    Scenario {
        name: "volumes",
        shows: "volumes are bound when their pod is scheduled, made ahead or on demand",
        run: volumes::run,
    },
    Scenario {
        name: "custom",
        shows: "example configurations as users write them, in v1 and v1beta2",
        run: custom::run,
    },
    Scenario {
        name: "forms",
        shows: "objects of every kind are read alike from protobuf and from JSON",
        run: forms::run,
    },
    Scenario {
        name: "extenders",
        shows: "an HTTP extender turns nodes down and prefers others, for its own pods only",
        run: extenders::run,
    },
    Scenario {
        name: "events",
        shows: "events and conditions equal those of kube-scheduler beside it",
        run: events::run,
    },
    Scenario {
        name: "flags",
        shows: "the tables of flags and feature gates are those of kube-scheduler",
        run: flags::run,
    },
    Scenario {
        name: "mistakes",
        shows: "wrong files, servers and rights end with one clear sentence",
        run: mistakes::run,
    },
    Scenario {
        name: "pages",
        shows: "metrics, health and resources over HTTPS by client certificate; latency on pods",
        run: pages::run,
    },
    Scenario {
        name: "restart",
        shows: "killed in the middle of 500 pods, the next one binds the rest, none twice",
        run: restart::run,
    },
    Scenario {
        name: "failover",
        shows: "two replicas; the leader is killed in the middle of 500 pods, the other goes on",
        run: failover::run,
    },
    Scenario {
        name: "frozen",
        shows: "the leader is stopped and goes on when another leads: it ends and does no harm",
        run: failover::frozen,
    },
    Scenario {
        name: "lost",
        shows: "of the answers to binds 5 % are lost: no pod bound twice, no node too full",
        run: faults::lost,
    },
    Scenario {
        name: "answers",
        shows: "the API server answers 409, 410, 429, 500, 503 and 504 in between",
        run: faults::answers,
    },
    Scenario {
        name: "cut",
        shows: "a slow network whose connections break again and again",
        run: faults::cut,
    },
    Scenario {
        name: "stalled",
        shows: "a network that delivers nothing, for 4 and for 17 seconds",
        run: faults::stalled,
    },
    Scenario {
        name: "vanishing",
        shows: "nodes and pods are deleted while pods are bound",
        run: vanishing::run,
    },
    Scenario {
        name: "apiserver",
        shows: "the API server is killed and started again in the middle of 500 pods",
        run: apiserver::run,
    },
    Scenario {
        name: "etcd",
        shows: "etcd is killed again and again under load on nodes that are nearly full",
        run: etcd::run,
    },
    Scenario {
        name: "handover",
        shows: "replicas hand over by SIGTERM while binds are slow, refused and lost",
        run: handover::run,
    },
    Scenario {
        name: "partition",
        shows: "the leader is partitioned from the API server, and what it sent arrives late",
        run: partition::run,
    },
    Scenario {
        name: "absent",
        shows: "the API server is away at the start and in the middle, beside kube-scheduler",
        run: absent::run,
    },
];

/// What came of a scenario.
struct ScenarioOutcome {
    scenario: &'static Scenario,
    took: Duration,
    failure: Option<String>,
}

/// Runs the scenarios; succeeds if all of them do.
pub(crate) fn run(options: &E2eOptions) -> Result<ExitCode> {
    let chosen = choose(&options.only)?;
    let built = if let Some(program) = &options.jindou {
        program.clone()
    } else {
        run_shown("cargo", &["build", "--package", "cli", "--bin", "jindou"])?;
        target_folder()?.join("debug/jindou")
    };
    let size = RunSize {
        long: options.long,
        rounds: options.rounds.map(|rounds| rounds as usize),
        seed: options.seed,
    };
    let began = Instant::now();
    let running = ControlPlane::start(&StartOptions::owned(SchedulerChoice::None)?)?;
    say(&format!("{} answers after {:.1?}", running.plane.server, began.elapsed()));
    // A copy, so that nobody who builds meanwhile changes what is tested.
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
            // What comes next would find the nodes of this one.
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
    let wanted = |name: &str| only.is_empty() || only.iter().any(|one| one == name);
    Ok(SCENARIOS.iter().filter(|scenario| wanted(scenario.name)).collect())
}

fn attempt(
    scenario: &Scenario,
    plane: &ControlPlane,
    jindou: &std::path::Path,
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
    fn an_unknown_scenario_is_told_with_those_there_are() {
        let error = choose(&["deploiment".to_owned()]).err().unwrap().to_string();
        assert!(error.contains("deploiment") && error.contains("deployment, profiles"), "{error}");
        assert_eq!(choose(&["events".to_owned()]).unwrap().len(), 1);
        assert_eq!(choose(&[]).unwrap().len(), SCENARIOS.len());
    }

    #[test]
    fn names_are_namespaces_and_differ() {
        for (index, scenario) in SCENARIOS.iter().enumerate() {
            assert!(scenario.name.chars().all(|c| c.is_ascii_lowercase()), "{}", scenario.name);
            assert!(SCENARIOS[..index].iter().all(|other| other.name != scenario.name));
        }
    }
}
