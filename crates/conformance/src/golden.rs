//! Committed cases with upstream's answers, so that tests compare Jindou with upstream without Go.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::exceptions::unlisted_differences;
use crate::{jindou, root, theme};

/// Returns the names of the plugins that have committed cases.
pub fn plugins() -> impl Iterator<Item = &'static str> {
    theme::PLUGINS.iter().map(|(name, _)| *name)
}

/// Answers the committed cases about a plugin and returns their number and all differences from upstream's answers.
///
/// Differences that `conformance/EXCEPTIONS.md` lists are left out.
pub fn check(plugin: &str) -> Result<(usize, Vec<String>)> {
    let cases = read(&cases_file(plugin))?;
    let answers = read(&answers_file(plugin))?;
    ensure!(!cases.is_empty(), "there is no committed case about {plugin}");
    ensure!(
        cases.len() == answers.len(),
        "there are {} cases and {} answers about {plugin}",
        cases.len(),
        answers.len()
    );
    let mut texts = Vec::new();
    for (case, answer) in cases.iter().zip(&answers) {
        let differences = unlisted_differences(case, answer, &jindou::answer(case));
        texts.extend(differences.iter().map(|difference| format!("{} {difference}", case["id"])));
    }
    Ok((cases.len(), texts))
}

/// File of the committed cases about a plugin, one JSON object per line.
pub(crate) fn cases_file(plugin: &str) -> PathBuf {
    file("cases", plugin)
}

/// File of upstream's answers to these cases, in the same order.
pub(crate) fn answers_file(plugin: &str) -> PathBuf {
    file("golden", plugin)
}

fn file(folder: &str, plugin: &str) -> PathBuf {
    root().join("conformance").join(folder).join(plugin).join("random.jsonl")
}

fn read(path: &PathBuf) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()))?;
    text.lines()
        .map(|line| serde_json::from_str(line).with_context(|| format!("parse {}", path.display())))
        .collect()
}
