//! The tables of flags and feature gates equal those in the help of kube-scheduler.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use api::config::gates::{GateStage, Gates};
use cli::commands::upstream::{FLAGS, KUBERNETES_VERSION};
use regex_lite::Regex;

use crate::test_env::TestEnv;

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    let program = env.plane.bin.join("kube-scheduler");
    let help = said(&program, "--help")?;
    let ours = FLAGS.iter().map(|flag| flag.name.to_owned()).collect();
    same("flags", &ours, &flags(&help)?)?;
    let is_shown = |stage| matches!(stage, GateStage::Alpha | GateStage::Beta);
    let ours = Gates::ALL.iter().filter(|gate| is_shown(gate.stage));
    let ours = ours.map(|gate| {
        let stage = format!("{:?}", gate.stage).to_uppercase();
        format!("{} ({stage} - default={})", gate.name, gate.default)
    });
    same("feature gates", &ours.collect(), &gates(&help)?)?;
    let version = said(&program, "--version")?;
    ensure!(version.trim() == format!("Kubernetes {KUBERNETES_VERSION}"), "it is {version}");
    let ours = said(env.jindou, "--v=0 --version")?;
    ensure!(ours.starts_with(version.trim()), "{ours:?} does not start with {version:?}");
    Ok(())
}

fn said(program: &std::path::Path, arguments: &str) -> Result<String> {
    let output = Command::new(program).args(arguments.split(' ')).output();
    let output = output.with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(output.status.success(), "{} {arguments}: {}", program.display(), output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns the names of flags in a help text.
fn flags(help: &str) -> Result<BTreeSet<String>> {
    let flag = Regex::new(r"(?m)^ +(?:-\w, )?--([a-z0-9-]+)")?;
    Ok(flag.captures_iter(help).map(|found| found[1].to_owned()).collect())
}

/// Returns the feature gates in a help text, with stages and defaults.
fn gates(help: &str) -> Result<BTreeSet<String>> {
    let gate = Regex::new(r"kube:(\w+)=true\|false (\((?:ALPHA|BETA) - default=\w+\))")?;
    let all = gate.captures_iter(help).map(|found| format!("{} {}", &found[1], &found[2]));
    Ok(all.filter(|gate| !gate.starts_with("AllAlpha ") && !gate.starts_with("AllBeta ")).collect())
}

fn same(what: &str, ours: &BTreeSet<String>, theirs: &BTreeSet<String>) -> Result<()> {
    ensure!(!theirs.is_empty(), "the help of kube-scheduler shows no {what}");
    let missing: Vec<_> = theirs.difference(ours).collect();
    let extra: Vec<_> = ours.difference(theirs).collect();
    ensure!(
        missing.is_empty() && extra.is_empty(),
        "{what}: kube-scheduler also has {missing:?}, and has no {extra:?}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_gates_are_found_in_a_help_text() {
        let help = "Misc flags:\n\n      --config string   A file. See --other.\n  -v, --v Level   x\n\
                    kube:A=true|false (BETA - default=true)\n  kube:AllBeta=true|false (BETA - default=false)\n";
        assert_eq!(flags(help).unwrap(), ["config", "v"].map(str::to_owned).into());
        assert_eq!(gates(help).unwrap(), ["A (BETA - default=true)".to_owned()].into());
    }
}
