//! Random cases, answered by upstream's scheduler and by ours, and compared.
//!
//! ```text
//! seed ─▶ generate ─▶ case ─┬─▶ oracle (Go, upstream's plugins) ─▶ answer ─┬─▶ compare ─▶ differences ─▶ shrink ─▶ report
//!                           └─▶ ours ───────────────────────────▶ answer ──┘
//! ```
//!
//! Generation: `rng`, `theme`, `draft`, then one file per topic, put together in `generate`.
//! Judgement: `oracle`, `compare`, `exceptions`, `coverage`, `shrink`, `report`, `bless`; `sensitivity` judges the cases themselves.

mod affinity;
mod bless;
mod cluster;
mod compare;
mod config;
mod coverage;
mod draft;
mod exceptions;
mod generate;
#[cfg(test)]
mod golden;
mod oracle;
mod pod;
mod preemption;
mod report;
mod resources;
mod rng;
mod sensitivity;
mod shrink;
mod spread;
mod theme;
mod volumes;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use compare::{Difference, compare};
use coverage::Coverage;
use oracle::Oracle;
use theme::ClusterSize;

/// Jindou's answer to a case, in the shape of the oracle's.
pub(crate) type AnswerFn = fn(&Value) -> Value;

/// Compare Jindou with upstream's scheduler on random cases.
#[derive(clap::Args)]
pub(crate) struct ConformanceOptions {
    /// How many random cases to run.
    #[arg(long, default_value_t = 1000)]
    cases: u64,
    /// Seed of the cases; a fresh one if not given.
    #[arg(long)]
    seed: Option<u64>,
    /// Only cases about this plugin.
    #[arg(long)]
    plugin: Option<String>,
    /// Write the committed cases of each plugin and upstream's answers to them.
    #[arg(long)]
    bless: bool,
    /// Folder for the shrunk cases of all differences.
    #[arg(long)]
    keep: Option<PathBuf>,
    /// Run the cases of this file, one per line, instead of random ones.
    #[arg(long)]
    replay: Option<PathBuf>,
    /// Compare the oracle with itself, which shows whether it is deterministic and what the cases cover.
    #[arg(long)]
    self_check: bool,
    /// Take single fields out of the cases and count how often upstream's answer changes, to see what the cases test.
    #[arg(long)]
    sensitivity: bool,
    /// An oracle that is already built.
    #[arg(long)]
    oracle: Option<PathBuf>,
    /// How many kinds of differences to shrink.
    #[arg(long, default_value_t = 6)]
    shrink: usize,
}

/// What was found wrong with one case.
struct Finding {
    case: Value,
    oracle: Value,
    ours: Value,
    differences: Vec<Difference>,
}

/// Runs the command. Fails when a difference is not a listed exception.
pub(crate) fn run(options: &ConformanceOptions, ours: Option<AnswerFn>) -> Result<ExitCode> {
    let root = oracle::root()?;
    let binary = match &options.oracle {
        Some(path) => path.clone(),
        None => oracle::build(&root)?,
    };
    let plugin = match &options.plugin {
        Some(name) => Some(theme::plugin(name).with_context(|| {
            format!("no cases about plugin {name:?}; known: {}", plugin_names())
        })?),
        None => None,
    };
    let mut oracle = Oracle::start(&binary)?;
    if options.bless {
        bless::bless(&root, &mut oracle, plugin)?;
        return Ok(ExitCode::SUCCESS);
    }
    let seed = options.seed.unwrap_or_else(seed_from_clock);
    let cases = cases(options, seed, plugin)?;
    if options.sensitivity {
        sensitivity::measure(&mut oracle, seed, cases)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut system = match ours {
        Some(answer) if !options.self_check => SystemUnderTest::Function(answer),
        _ => SystemUnderTest::Oracle(Oracle::start(&binary)?),
    };
    let mut run_state = ComparisonRun::new(seed, options);
    run_state.stream(&mut oracle, &mut system, cases)?;
    run_state.report(options, &mut oracle, &mut system)
}

fn plugin_names() -> String {
    theme::PLUGINS.map(|(name, _)| name).join(", ")
}

fn seed_from_clock() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |elapsed| elapsed.as_millis() as u64 % 1_000_000_000)
}

/// The cases of the run, each with the topics it is about.
fn cases(
    options: &ConformanceOptions,
    seed: u64,
    plugin: Option<&'static str>,
) -> Result<Box<dyn Iterator<Item = generate::Case>>> {
    let Some(path) = &options.replay else {
        return Ok(Box::new(
            (0..options.cases)
                .map(move |index| generate::case(seed, index, plugin, ClusterSize::Usual)),
        ));
    };
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    let stream = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
    let values = stream
        .collect::<Result<Vec<Value>, _>>()
        .with_context(|| format!("parse {}", path.display()))?;
    Ok(Box::new(values.into_iter().map(|value| generate::Case { value, topics: Vec::new() })))
}

/// Who is compared with the oracle.
enum SystemUnderTest {
    Function(AnswerFn),
    Oracle(Oracle),
}

impl SystemUnderTest {
    /// The answer to one case; a panic is an answer too.
    fn answer(&mut self, case: &Value) -> Result<Value> {
        match self {
            SystemUnderTest::Oracle(oracle) => oracle.ask(case),
            SystemUnderTest::Function(function) => Ok(std::panic::catch_unwind(|| function(case))
                .unwrap_or_else(|panic| {
                    let text = panic
                        .downcast_ref::<String>()
                        .map(String::as_str)
                        .or_else(|| panic.downcast_ref::<&str>().copied());
                    json!({"id": case["id"], "panic": text.unwrap_or("panicked")})
                })),
        }
    }
}

/// The state of one run.
struct ComparisonRun {
    seed: u64,
    coverage: Coverage,
    findings: Vec<Finding>,
    cases: u64,
    expected: u64,
    excepted: u64,
}

impl ComparisonRun {
    fn new(seed: u64, options: &ConformanceOptions) -> Self {
        Self {
            seed,
            coverage: Coverage::default(),
            findings: Vec::new(),
            cases: 0,
            expected: options.cases,
            excepted: 0,
        }
    }

    /// Sends all cases to the oracle, a bounded number ahead, and judges the answers as they come.
    fn stream(
        &mut self,
        oracle: &mut Oracle,
        system: &mut SystemUnderTest,
        cases: impl Iterator<Item = generate::Case>,
    ) -> Result<()> {
        oracle.stream(cases, |case, answer| {
            let ours = system.answer(&case.value)?;
            self.judge(case, answer, ours);
            Ok(())
        })
    }

    fn judge(&mut self, case: generate::Case, oracle: Value, ours: Value) {
        self.cases += 1;
        self.coverage.add(&case.value, &case.topics, &oracle);
        let all = compare(&oracle, &ours);
        let (excepted, differences): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|difference| exceptions::find(&case.value, difference).is_some());
        self.excepted += u64::from(!excepted.is_empty());
        if !differences.is_empty() {
            self.findings.push(Finding { case: case.value, oracle, ours, differences });
        }
        if self.cases.is_multiple_of(20) && std::io::stderr().is_terminal() {
            let _ = write!(
                std::io::stderr(),
                "\r{}/{} cases, {} differences ",
                self.cases,
                self.expected,
                self.findings.len()
            );
        }
    }

    /// Prints coverage and differences, the smallest case of each kind shrunk.
    fn report(
        mut self,
        options: &ConformanceOptions,
        oracle: &mut Oracle,
        system: &mut SystemUnderTest,
    ) -> Result<ExitCode> {
        let mut out = std::io::stdout().lock();
        if std::io::stderr().is_terminal() {
            writeln!(std::io::stderr())?;
        }
        writeln!(out, "{}", self.coverage)?;
        let kinds = report::kinds(&self.findings);
        for (signature, members) in kinds.iter().take(options.shrink) {
            let finding = &self.findings[members[0]];
            let small = report::shrink_finding(finding, oracle, system)?;
            report::print(&mut out, signature, members.len(), &small)?;
            if let Some(folder) = &options.keep {
                report::keep(folder, signature, &small)?;
            }
        }
        if !kinds.is_empty() {
            writeln!(out, "differences by kind (cases):")?;
            for (signature, members) in &kinds {
                writeln!(out, "  {:>6}  {signature}", members.len())?;
            }
        }
        let ties = self
            .findings
            .iter()
            .filter(|finding| finding.differences.iter().all(Difference::is_tie))
            .count();
        writeln!(
            out,
            "{} cases, {} differences (seed {})",
            self.cases,
            self.findings.len(),
            self.seed
        )?;
        if ties + self.excepted as usize > 0 {
            writeln!(
                out,
                "of the differences {ties} are in the order of ties only; {} cases fall under a listed exception",
                self.excepted
            )?;
        }
        if self.cases == 0 {
            bail!("no cases were run");
        }
        Ok(if self.findings.drain(..).next().is_none() {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        })
    }
}
