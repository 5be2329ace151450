//! The same `kubectl` commands on upstream's control plane and on the sandbox: both must say the same.
//!
//! ```text
//!                 ┌─▶ upstream's control plane ─▶ output, error output, exit code ─┐
//! script, a line ─┤                                                                ├─▶ normal form ─▶ diff ─▶ listed?
//!                 └─▶ `jindou up` ──────────────▶ output, error output, exit code ─┘
//! ```
//!
//! Jindou schedules on both, so that the scheduler is no difference. What may differ is listed line by
//! line with its reason in `conformance/kubectl/differences.yaml`; what is listed and does not differ
//! any more is a failure too. Controllers of both sides work at their own pace: a command that only
//! reads is asked again for a while before its answers differ.

mod differences;
mod normal;
mod script;
mod sides;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::controlplane::POLL_INTERVAL;
use crate::shell::{root, run as run_shown, say, target_folder};
use differences::{Judgement, Listed};
use normal::Normal;
use script::{Command, Kind, Script, Step};
use sides::{Said, Sides};

/// Where script, files and listed differences are.
const FOLDER: &str = "conformance/kubectl";

/// How long controllers may take until both sides are in the same state.
const SETTLING: Duration = Duration::from_secs(15);

/// Run one script of kubectl commands on upstream's control plane and on the sandbox, and compare what they say.
#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// Show what both sides said, for every command.
    #[arg(long)]
    show: bool,
}

/// What the commands came to.
#[derive(Default)]
struct Outcome {
    alike: usize,
    as_listed: usize,
    /// How many had to be asked again until both sides were in the same state.
    settled: usize,
    /// What differs otherwise, as it is shown.
    otherwise: Vec<String>,
}

/// Runs the script; succeeds if all commands answer alike, or differ as listed.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let folder = root().join(FOLDER);
    let script = Script::parse(&read(&folder.join("script.txt"))?)?;
    let listed = Listed::parse(&read(&folder.join("differences.yaml"))?)?;
    listed.check_commands(&script)?;
    run_shown("cargo", &["build", "--package", "cli", "--bin", "jindou"])?;
    let jindou = target_folder()?.join("debug/jindou");
    let began = Instant::now();
    let sides = Sides::start(&jindou, &folder.join("files"))?;
    say(&format!("both sides answer after {:.1?}", began.elapsed()));
    let outcome = play(&script, &sides, &listed, options)?;
    sides.stop()?;
    // Once more, since nobody finds them among so many lines.
    for shown in &outcome.otherwise {
        say(shown);
    }
    let Outcome { alike, as_listed, settled, otherwise } = outcome;
    let otherwise = otherwise.len();
    say(&format!(
        "{} commands: {alike} alike, {as_listed} differ as listed, {otherwise} differ otherwise, {settled} asked again; {:.0} s",
        alike + as_listed + otherwise,
        began.elapsed().as_secs_f64()
    ));
    Ok(if otherwise == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn play(script: &Script, sides: &Sides, listed: &Listed, options: &Options) -> Result<Outcome> {
    let normal = Normal::new()?;
    let mut outcome = Outcome::default();
    for Step { line, kind, command } in &script.steps {
        let at = || format!("line {line} of {FOLDER}/script.txt, `{}`", command.text);
        match kind {
            Kind::Until { upstream_alone, lines } => {
                sides.until(command, *upstream_alone, *lines).with_context(at)?;
            }
            Kind::Compare { sorted } => {
                let ask = || {
                    let said = sides.run(command).with_context(at)?;
                    let [upstream, sandbox] = said.map(|said| form(&normal, &said, *sorted));
                    if options.show {
                        say(&format!("── upstream ──\n{upstream}── sandbox ──\n{sandbox}"));
                    }
                    anyhow::Ok(listed.judge(&command.text, &upstream, &sandbox))
                };
                let deadline = Instant::now() + SETTLING;
                let mut judgement = ask()?;
                let mut again = false;
                while judgement.is_otherwise() && command.reads() && Instant::now() < deadline {
                    again = true;
                    std::thread::sleep(POLL_INTERVAL);
                    judgement = ask()?;
                }
                outcome.settled += usize::from(again && !judgement.is_otherwise());
                outcome.take(command, &judgement, again);
            }
        }
    }
    Ok(outcome)
}

/// All that a command said in one text, without what differs from run to run.
fn form(normal: &Normal, said: &Said, sorted: bool) -> String {
    let mut text = String::new();
    for (mark, stream) in [("", &said.output), ("stderr: ", &said.errors)] {
        let stream = normal.apply(stream);
        let mut lines: Vec<&str> = stream.lines().collect();
        if sorted && lines.len() > 1 {
            lines[1..].sort_unstable();
        }
        for line in lines {
            let _ = writeln!(text, "{mark}{line}");
        }
    }
    let _ = writeln!(text, "exit: {}", said.code);
    text
}

impl Outcome {
    fn take(&mut self, command: &Command, judgement: &Judgement, again: bool) {
        let text = &command.text;
        let again = if again { "  (asked again)" } else { "" };
        match judgement {
            Judgement::Alike => {
                self.alike += 1;
                say(&format!("ok       {text}{again}"));
            }
            Judgement::AsListed => {
                self.as_listed += 1;
                say(&format!("listed   {text}{again}"));
            }
            Judgement::Otherwise { diff, missing, unlisted } => {
                let mut shown = format!("DIFFERS  {text}{again}\n{diff}");
                for line in unlisted {
                    let _ = write!(shown, "\n  not listed: {line}");
                }
                for line in missing {
                    let _ = write!(shown, "\n  listed, but not so: {line}");
                }
                say(&shown);
                self.otherwise.push(shown);
            }
        }
    }
}
