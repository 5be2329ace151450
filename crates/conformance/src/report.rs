//! Reports of differences, each on the smallest case that shows it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use crate::compare::Difference;
use crate::exceptions::unlisted_differences;
use crate::oracle::Oracle;
use crate::run::{Finding, SystemUnderTest};
use crate::shrink::shrink;

/// Maximum number of cases tried to shrink one difference.
const SHRINK_BUDGET: usize = 500;

/// Returns the indexes of the findings by the kind of their first difference: the most frequent kind first, and the
/// smallest case of a kind first.
pub(crate) fn kinds(findings: &[Finding]) -> Vec<(String, Vec<usize>)> {
    let mut kinds: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, finding) in findings.iter().enumerate() {
        kinds.entry(finding.differences[0].signature()).or_default().push(index);
    }
    let mut kinds: Vec<(String, Vec<usize>)> = kinds.into_iter().collect();
    for (_, members) in &mut kinds {
        members.sort_by_key(|index| findings[*index].case.to_string().len());
    }
    kinds.sort_by_key(|(_, members)| std::cmp::Reverse(members.len()));
    kinds
}

/// Returns the finding on the smallest case found that still shows its first difference.
pub(crate) fn shrink_finding(
    finding: &Finding,
    oracle: &mut Oracle,
    system: &mut SystemUnderTest,
) -> Result<Finding> {
    let signature = finding.differences[0].signature();
    let case = shrink(&finding.case, SHRINK_BUDGET, |case| {
        let judged = judge(case, oracle, system)?;
        Ok::<bool, anyhow::Error>(
            judged.differences.iter().any(|difference| difference.signature() == signature),
        )
    })?;
    let small = judge(&case, oracle, system)?;
    if small.differences.is_empty() {
        // The difference did not occur again, so one side is not deterministic.
        let (case, oracle, ours) =
            (finding.case.clone(), finding.oracle.clone(), finding.ours.clone());
        return Ok(Finding { case, oracle, ours, differences: finding.differences.clone() });
    }
    Ok(small)
}

fn judge(case: &Value, oracle: &mut Oracle, system: &mut SystemUnderTest) -> Result<Finding> {
    let (answer, ours) = (oracle.ask(case)?, system.answer(case)?);
    let differences = unlisted_differences(case, &answer, &ours);
    Ok(Finding { case: case.clone(), oracle: answer, ours, differences })
}

/// Writes a finding to `out`.
pub(crate) fn print(
    out: &mut impl Write,
    signature: &str,
    cases: usize,
    finding: &Finding,
) -> Result<()> {
    writeln!(out, "=== {signature} ({cases} cases), smallest one:")?;
    writeln!(out, "{}", serde_json::to_string_pretty(&finding.case)?)?;
    writeln!(out, "--- upstream: {}", finding.oracle)?;
    writeln!(out, "--- ours:     {}", finding.ours)?;
    for difference in &finding.differences {
        writeln!(out, "  {difference}")?;
    }
    writeln!(out)?;
    Ok(())
}

/// Writes a finding to a folder: the case for `--replay`, and the answers with their differences.
pub(crate) fn keep(folder: &Path, signature: &str, finding: &Finding) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("create {}", folder.display()))?;
    let name: String = signature
        .to_lowercase()
        .chars()
        .map(|letter| if letter.is_alphanumeric() { letter } else { '-' })
        .collect();
    let differences: Vec<String> = finding.differences.iter().map(Difference::to_string).collect();
    let answers =
        json!({"upstream": finding.oracle, "ours": finding.ours, "differences": differences});
    std::fs::write(
        folder.join(format!("{name}.case.json")),
        serde_json::to_string_pretty(&finding.case)? + "\n",
    )?;
    std::fs::write(
        folder.join(format!("{name}.answers.json")),
        serde_json::to_string_pretty(&answers)? + "\n",
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare;

    fn finding(id: &str, field: &str) -> Finding {
        let (oracle, ours) = (json!({}), json!({field: "other"}));
        let differences = compare(&oracle, &ours);
        Finding { case: json!({"id": id}), oracle, ours, differences }
    }

    #[test]
    fn the_most_frequent_kind_comes_first_and_its_smallest_case_leads() {
        let findings =
            [finding("1", "message"), finding("longer", "selected"), finding("2", "selected")];
        let kinds = kinds(&findings);
        assert_eq!(kinds, [("Selected".to_owned(), vec![2, 1]), ("Message".to_owned(), vec![0])]);
    }
}
