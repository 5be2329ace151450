//! Runs the same `kubectl` commands on upstream's control plane and on the sandbox and compares the output.
//!
//! ```text
//!                 ┌─▶ upstream's control plane ─▶ output, error output, exit code ─┐
//! script, a line ─┤                                                                ├─▶ normalise ─▶ diff ─▶ known?
//!                 └─▶ `jindou up` ──────────────▶ output, error output, exit code ─┘
//! ```
//!
//! Jindou schedules on both, so that the scheduler makes no difference. Known differences are listed line
//! by line with their reasons in `conformance/kubectl/differences.yaml`; a listed difference that does
//! not occur is a failure too. Controllers of the two sides differ in speed, so a command that only
//! reads is repeated for up to 15 s before its outputs count as different.

mod differences;
mod normalizer;
mod script;
mod sides;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::controlplane::POLL_INTERVAL;
use crate::shell::{root, say};
use differences::{Comparison, KnownDifferences};
use normalizer::Normalizer;
use script::{KubectlCommand, Script, ScriptStep, StepKind};
use sides::{CommandOutput, Sides};

/// Folder of the script, its files and the known differences.
const FOLDER: &str = "conformance/kubectl";

/// Time for the controllers of both sides to reach the same state.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(15);

/// Run one script of kubectl commands on upstream's control plane and on the sandbox, and compare the output.
#[derive(Default, clap::Args)]
pub(crate) struct KubectlOptions {
    /// Show what both sides output, for every command.
    #[arg(long)]
    show: bool,
}

/// Counts of the results of all commands.
#[derive(Default)]
struct ScriptOutcome {
    same: usize,
    as_listed: usize,
    /// Commands that were repeated until both sides were in the same state.
    settled: usize,
    /// Unlisted differences, as they are shown.
    unexpected: Vec<String>,
}

/// Runs the script. Returns [`ExitCode::SUCCESS`] if all outputs are equal or differ as listed.
pub(crate) fn run(options: &KubectlOptions) -> Result<ExitCode> {
    let folder = root().join(FOLDER);
    let script = Script::parse(&read(&folder.join("script.txt"))?)?;
    let known = KnownDifferences::parse(&read(&folder.join("differences.yaml"))?)?;
    known.check_commands(&script)?;
    let jindou = e2e::build_jindou()?;
    let began = Instant::now();
    let sides = Sides::start(&jindou, &folder.join("files"))?;
    say(&format!("both sides answer after {:.1?}", began.elapsed()));
    let outcome = run_script(&script, &sides, &known, options)?;
    sides.stop()?;
    // Shown again at the end, after hundreds of other lines.
    for shown in &outcome.unexpected {
        say(shown);
    }
    let ScriptOutcome { same, as_listed, settled, unexpected } = outcome;
    let unexpected = unexpected.len();
    say(&format!(
        "{} commands: {same} alike, {as_listed} differ as listed, {unexpected} differ unexpectedly, {settled} retried; {:.0} s",
        same + as_listed + unexpected,
        began.elapsed().as_secs_f64()
    ));
    Ok(if unexpected == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn run_script(
    script: &Script,
    sides: &Sides,
    known: &KnownDifferences,
    options: &KubectlOptions,
) -> Result<ScriptOutcome> {
    let normalizer = Normalizer::new()?;
    let mut outcome = ScriptOutcome::default();
    for ScriptStep { line, kind, command } in &script.steps {
        let at = || format!("line {line} of {FOLDER}/script.txt, `{}`", command.text);
        match kind {
            StepKind::Until { upstream_alone, lines } => {
                sides.until(command, *upstream_alone, *lines).with_context(at)?;
            }
            StepKind::Compare { sorted } => {
                let ask = || {
                    let output = sides.run(command).with_context(at)?;
                    let [upstream, sandbox] =
                        output.map(|output| normalized_output(&normalizer, &output, *sorted));
                    if options.show {
                        say(&format!("── upstream ──\n{upstream}── sandbox ──\n{sandbox}"));
                    }
                    anyhow::Ok(known.compare(&command.text, &upstream, &sandbox))
                };
                let deadline = Instant::now() + SETTLE_TIMEOUT;
                let mut comparison = ask()?;
                let mut again = false;
                while comparison.is_unexpected()
                    && command.is_read_only()
                    && Instant::now() < deadline
                {
                    again = true;
                    std::thread::sleep(POLL_INTERVAL);
                    comparison = ask()?;
                }
                outcome.settled += usize::from(again && !comparison.is_unexpected());
                outcome.record(command, &comparison, again);
            }
        }
    }
    Ok(outcome)
}

/// Returns all output of a command as one text, without the parts that differ from run to run.
fn normalized_output(normalizer: &Normalizer, output: &CommandOutput, sorted: bool) -> String {
    let mut text = String::new();
    for (mark, stream) in [("", &output.output), ("stderr: ", &output.errors)] {
        let stream = normalizer.apply(stream);
        let mut lines: Vec<&str> = stream.lines().collect();
        if sorted && lines.len() > 1 {
            lines[1..].sort_unstable();
        }
        for line in lines {
            let _ = writeln!(text, "{mark}{line}");
        }
    }
    let _ = writeln!(text, "exit: {}", output.code);
    text
}

impl ScriptOutcome {
    fn record(&mut self, command: &KubectlCommand, comparison: &Comparison, again: bool) {
        let text = &command.text;
        let again = if again { "  (retried)" } else { "" };
        match comparison {
            Comparison::Same => {
                self.same += 1;
                say(&format!("ok       {text}{again}"));
            }
            Comparison::AsListed => {
                self.as_listed += 1;
                say(&format!("listed   {text}{again}"));
            }
            Comparison::Unexpected { diff, missing, unlisted } => {
                let mut shown = format!("DIFFERS  {text}{again}\n{diff}");
                for line in unlisted {
                    let _ = write!(shown, "\n  not listed: {line}");
                }
                for line in missing {
                    let _ = write!(shown, "\n  listed but not found: {line}");
                }
                say(&shown);
                self.unexpected.push(shown);
            }
        }
    }
}
