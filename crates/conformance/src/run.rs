//! The command `cargo xtask conformance`: answers cases on both sides, compares the answers and reports.

use std::io::{IsTerminal as _, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

use crate::compare::{Difference, compare};
use crate::coverage::Coverage;
use crate::generate::{self, Case};
use crate::oracle::{self, Oracle};
use crate::theme::{self, ClusterSize};
use crate::{bless, exceptions, jindou, report, sensitivity};

/// Compare Jindou with upstream's scheduler on random cases.
#[derive(clap::Args)]
pub struct ConformanceOptions {
    /// Number of random cases.
    #[arg(long, default_value_t = 1000)]
    cases: u64,
    /// Seed of the cases; taken from the clock if absent.
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
    /// Remove single fields from the cases and count how often upstream's answer changes, to see what the cases test.
    #[arg(long)]
    sensitivity: bool,
    /// An oracle that is already built.
    #[arg(long)]
    oracle: Option<PathBuf>,
    /// Number of kinds of differences to shrink.
    #[arg(long, default_value_t = SHRUNK_KINDS)]
    shrink: usize,
}

/// Kinds of differences that are shrunk by default.
const SHRUNK_KINDS: usize = 6;

impl ConformanceOptions {
    /// Compares this many random cases of a seed from the clock.
    pub fn random(cases: u64) -> Self {
        Self {
            cases,
            seed: None,
            plugin: None,
            bless: false,
            keep: None,
            replay: None,
            self_check: false,
            sensitivity: false,
            oracle: None,
            shrink: SHRUNK_KINDS,
        }
    }
}

/// A case whose answers differ.
pub(crate) struct Finding {
    pub(crate) case: Value,
    pub(crate) oracle: Value,
    pub(crate) ours: Value,
    pub(crate) differences: Vec<Difference>,
}

/// Runs the command and writes its report to `out`.
///
/// Returns failure if there is a difference that is not a listed exception.
pub fn run(options: &ConformanceOptions, out: &mut impl Write) -> Result<ExitCode> {
    let binary = match &options.oracle {
        Some(path) => path.clone(),
        None => oracle::build()?,
    };
    let plugin = match &options.plugin {
        Some(name) => Some(theme::plugin(name).with_context(|| {
            format!("no cases about plugin {name:?}; known: {}", plugin_names())
        })?),
        None => None,
    };
    let mut oracle = Oracle::start(&binary)?;
    if options.bless {
        bless::bless(&mut oracle, plugin, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let seed = options.seed.unwrap_or_else(seed_from_clock);
    let cases = cases(options, seed, plugin)?;
    if options.sensitivity {
        sensitivity::measure(&mut oracle, seed, cases, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut system = if options.self_check {
        SystemUnderTest::Oracle(Oracle::start(&binary)?)
    } else {
        SystemUnderTest::Jindou
    };
    let mut comparison = Comparison::new(seed, options);
    oracle.stream(cases, |case, answer| {
        let ours = system.answer(&case.value)?;
        comparison.add(case, answer, ours);
        Ok(())
    })?;
    comparison.report(options, &mut oracle, &mut system, out)
}

fn plugin_names() -> String {
    theme::PLUGINS.map(|(name, _)| name).join(", ")
}

fn seed_from_clock() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |elapsed| elapsed.as_millis() as u64 % 1_000_000_000)
}

/// Returns the cases of the run: those of the file to replay, or random ones.
fn cases(
    options: &ConformanceOptions,
    seed: u64,
    plugin: Option<&'static str>,
) -> Result<Box<dyn Iterator<Item = Case>>> {
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
    Ok(Box::new(values.into_iter().map(|value| Case { value, topics: Vec::new() })))
}

/// The side that is compared with the oracle.
pub(crate) enum SystemUnderTest {
    Jindou,
    /// A second oracle, for `--self-check`.
    Oracle(Oracle),
}

impl SystemUnderTest {
    pub(crate) fn answer(&mut self, case: &Value) -> Result<Value> {
        match self {
            SystemUnderTest::Jindou => Ok(jindou::answer(case)),
            SystemUnderTest::Oracle(oracle) => oracle.ask(case),
        }
    }
}

/// The results of a run so far.
struct Comparison {
    seed: u64,
    coverage: Coverage,
    findings: Vec<Finding>,
    /// Number of cases compared.
    cases: u64,
    /// Number of cases to compare.
    expected: u64,
    /// Number of cases with a difference that is a listed exception.
    excepted: u64,
}

impl Comparison {
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

    fn add(&mut self, case: Case, oracle: Value, ours: Value) {
        self.cases += 1;
        self.coverage.add(&case.value, &case.topics, &oracle);
        let (excepted, differences): (Vec<_>, Vec<_>) = compare(&oracle, &ours)
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

    /// Writes coverage and differences, with the smallest case of each kind shrunk.
    fn report(
        self,
        options: &ConformanceOptions,
        oracle: &mut Oracle,
        system: &mut SystemUnderTest,
        out: &mut impl Write,
    ) -> Result<ExitCode> {
        if std::io::stderr().is_terminal() {
            writeln!(std::io::stderr())?;
        }
        writeln!(out, "{}", self.coverage)?;
        let kinds = report::kinds(&self.findings);
        for (signature, members) in kinds.iter().take(options.shrink) {
            let finding = &self.findings[members[0]];
            let small = report::shrink_finding(finding, oracle, system)?;
            report::print(out, signature, members.len(), &small)?;
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
        Ok(if self.findings.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}
