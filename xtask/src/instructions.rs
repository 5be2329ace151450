//! Instructions of one decision, counted by callgrind: equal on every run, unlike time.
//!
//! Each family runs twice, with 50 and with 200 decisions. The difference of the instructions, divided by
//! the difference of the decisions, is the cost of one.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};

use crate::shell::{output, root, run as run_shown, say, target_folder};

/// Families of decisions that take different paths through the engine.
const FAMILIES: &[&str] = &[
    "SchedulingBasic",
    "SchedulingPodAntiAffinity",
    "SchedulingPodAffinity",
    "TopologySpreading",
    "PreferredTopologySpreading",
    "DefaultTopologySpreading",
    "BurstAllDifferent",
];

const NODES: usize = 500;

/// Decisions of the two runs. The first ones warm up and are not counted.
const DECISIONS_PER_RUN: [usize; 2] = [50, 200];

/// Tolerated difference from the committed count, in percent.
const TOLERANCE_PERCENT: u64 = 10;

/// File of the committed counts.
const COUNTS_FILE: &str = "bench/instructions.json";

/// Instructions per decision by family.
type InstructionCounts = BTreeMap<String, u64>;

/// Counts, and compares with the committed counts or, with `bless`, replaces them.
pub(crate) fn run(bless: bool) -> Result<ExitCode> {
    if !find_valgrind() {
        bail!("{VALGRIND_MISSING}");
    }
    let counted = count()?;
    if bless {
        write(&counted)?;
        say(&table(&counted, &InstructionCounts::new()));
        say(&format!("wrote {COUNTS_FILE}"));
        return Ok(ExitCode::SUCCESS);
    }
    compare(&counted, &read()?)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs the comparison as one of the tests. With `all`, a machine without valgrind is a failure.
pub(crate) fn check(all: bool) -> Result<()> {
    say("instructions of one decision");
    if !find_valgrind() {
        if all {
            bail!("{VALGRIND_MISSING}");
        }
        say(&format!(
            "SKIPPED: the instructions of one decision were not counted. {VALGRIND_MISSING}"
        ));
        return Ok(());
    }
    compare(&count()?, &read()?)
}

pub(crate) const VALGRIND_MISSING: &str = "Valgrind was not found: it counts instructions. Install it, such as by `apt-get install valgrind`";

/// Returns `true` if valgrind is there; tries to install it as root on Debian.
pub(crate) fn find_valgrind() -> bool {
    let present = || output("valgrind", &["--version"]).is_ok();
    if present() {
        return true;
    }
    let is_root = output("id", &["-u"]).is_ok_and(|id| id.trim() == "0");
    if !is_root || output("apt-get", &["--version"]).is_err() {
        return false;
    }
    say("installing valgrind, once");
    let install =
        || run_shown("apt-get", &["install", "--yes", "--no-install-recommends", "valgrind"]);
    // A new container has no package lists yet.
    let installed =
        install().or_else(|_| run_shown("apt-get", &["update"]).and_then(|()| install()));
    installed.is_ok() && present()
}

fn count() -> Result<InstructionCounts> {
    run_shown("cargo", &["build", "--profile", "counted", "--package", "bench"])?;
    let target = target_folder()?;
    let mut counts = InstructionCounts::new();
    for family in FAMILIES {
        let mut totals = [0; 2];
        for (total, decisions) in totals.iter_mut().zip(DECISIONS_PER_RUN) {
            *total = instructions(&target, family, decisions)
                .with_context(|| format!("cannot count {family}"))?;
        }
        let more = totals[1].saturating_sub(totals[0]);
        counts.insert(
            (*family).to_owned(),
            more / (DECISIONS_PER_RUN[1] - DECISIONS_PER_RUN[0]) as u64,
        );
    }
    Ok(counts)
}

/// Returns the instructions of a run of the program with a number of decisions.
fn instructions(target: &Path, family: &str, decisions: usize) -> Result<u64> {
    let mut profile = std::ffi::OsString::from("--callgrind-out-file=");
    profile.push(target.join("instructions.callgrind"));
    let (nodes, pods) = (NODES.to_string(), decisions.to_string());
    let output = Command::new("valgrind")
        .arg("--tool=callgrind")
        .arg(profile)
        .arg(target.join("counted/jindou-bench"))
        .args(["work", "--family", family, "--nodes", &nodes, "--pods", &pods])
        // The size of the environment shifts the stack, which changes the count by a few instructions.
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .output()
        .context("cannot start valgrind")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("valgrind failed: {said}");
    }
    collected(&said).with_context(|| format!("valgrind counted nothing: {said}"))
}

/// Returns the number in callgrind's line `==1234== Collected : 26758697`.
fn collected(said: &str) -> Option<u64> {
    let number = said.lines().find_map(|line| line.split_once("Collected :"))?.1;
    number.trim().parse().ok()
}

/// Returns the committed counts, none if there is no file.
fn read() -> Result<InstructionCounts> {
    match std::fs::read_to_string(root().join(COUNTS_FILE)) {
        Ok(text) => serde_json::from_str(&text)
            .with_context(|| format!("{COUNTS_FILE} is not a map from families to numbers")),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(InstructionCounts::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {COUNTS_FILE}")),
    }
}

fn write(counts: &InstructionCounts) -> Result<()> {
    let path = root().join(COUNTS_FILE);
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).context("cannot make the folder of the counts")?;
    }
    let text = serde_json::to_string_pretty(counts)? + "\n";
    std::fs::write(path, text).with_context(|| format!("cannot write {COUNTS_FILE}"))
}

/// Prints the counts; fails if a family exceeds its committed count by more than the tolerance.
fn compare(counted: &InstructionCounts, committed: &InstructionCounts) -> Result<()> {
    say(&table(counted, committed));
    let (better, wrong) = judge(counted, committed);
    if !better.is_empty() {
        say(&format!(
            "Better than committed: {}. Commit to it: `cargo xtask instructions --bless`",
            better.join(", ")
        ));
    }
    if !wrong.is_empty() {
        bail!(
            "{}\nIf this is intended, run `cargo xtask instructions --bless` and give the reason in the commit",
            wrong.join("\n")
        );
    }
    Ok(())
}

/// Returns the families that improved, and problems of others.
fn judge<'a>(
    counted: &'a InstructionCounts,
    committed: &'a InstructionCounts,
) -> (Vec<&'a str>, Vec<String>) {
    let (mut better, mut wrong) = (Vec::new(), Vec::new());
    for (family, now) in counted {
        match committed.get(family) {
            None => wrong.push(format!("{family}: not in {COUNTS_FILE}")),
            Some(before) if now * 100 > before * (100 + TOLERANCE_PERCENT) => wrong.push(format!(
                "{family}: a decision takes {now} instructions, {} more than the committed {before}",
                percent(*now, *before)
            )),
            Some(before) if now * 100 < before * (100 - TOLERANCE_PERCENT) => better.push(&**family),
            Some(_) => {}
        }
    }
    for family in committed.keys().filter(|family| !counted.contains_key(*family)) {
        wrong.push(format!("{family}: in {COUNTS_FILE}, but no longer counted"));
    }
    (better, wrong)
}

fn percent(now: u64, before: u64) -> String {
    format!("{:.1} %", (now as f64 / before as f64 - 1.0) * 100.0)
}

fn table(counted: &InstructionCounts, committed: &InstructionCounts) -> String {
    let mut text =
        format!("{:<28}{:>14}{:>12}{:>10}\n", "FAMILY", "INSTRUCTIONS", "COMMITTED", "CHANGE");
    for (family, now) in counted {
        let before = committed.get(family);
        let shown = before.map_or_else(String::new, ToString::to_string);
        let change = before.map_or_else(String::new, |before| percent(*now, *before));
        let _ = writeln!(text, "{family:<28}{now:>14}{shown:>12}{change:>10}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(pairs: &[(&str, u64)]) -> InstructionCounts {
        pairs.iter().map(|(family, count)| ((*family).to_owned(), *count)).collect()
    }

    #[test]
    fn ten_percent_are_tolerated() {
        for (now, better, wrong) in [
            (889, true, false),
            (900, false, false),
            (1000, false, false),
            (1100, false, false),
            (1101, false, true),
        ] {
            let (counted, committed) = (counts(&[("A", now)]), counts(&[("A", 1000)]));
            let found = judge(&counted, &committed);
            assert_eq!((!found.0.is_empty(), !found.1.is_empty()), (better, wrong), "{now}");
        }
    }

    #[test]
    fn problems_name_the_family_and_both_counts() {
        let (counted, committed) =
            (counts(&[("A", 1500), ("B", 1)]), counts(&[("A", 1000), ("C", 1)]));
        assert_eq!(
            judge(&counted, &committed).1,
            [
                "A: a decision takes 1500 instructions, 50.0 % more than the committed 1000",
                "B: not in bench/instructions.json",
                "C: in bench/instructions.json, but no longer counted",
            ]
        );
    }

    #[test]
    fn the_total_is_read_from_the_output_of_callgrind() {
        let said = "==7== Events    : Ir\n==7== Collected : 26758697\n==7== \n";
        assert_eq!(collected(said), Some(26_758_697));
        assert_eq!(collected("==7== Events    : Ir\n"), None);
    }
}
