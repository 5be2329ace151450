//! Selects and writes the committed cases of each plugin with upstream's answers, so that plain tests need no Go.

use std::collections::BTreeSet;
use std::io::Write;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::compare::{compare, error_of};
use crate::generate::{self, Case};
use crate::golden::{answers_file, cases_file};
use crate::oracle::Oracle;
use crate::shrink::drop_objects;
use crate::theme::{ClusterSize, PLUGINS};

/// Seed of all committed cases.
const SEED: u64 = 20_260_101;
/// Number of random cases per plugin from which the committed ones are selected.
const CASES_TRIED: u64 = 1200;
/// Maximum number of committed cases per plugin.
const CASES_KEPT_MAX: usize = 36;
/// Maximum number of smaller cases tried to drop the objects of a case that do not matter.
const SHRINK_TRIES_MAX: usize = 60;
/// Maximum size of a file of cases or of answers, in bytes.
const FILE_BYTES_MAX: usize = 250_000;

/// Writes the files of one plugin or of all, and a line per plugin to `out`.
pub(crate) fn bless(
    oracle: &mut Oracle,
    only: Option<&'static str>,
    out: &mut impl Write,
) -> Result<()> {
    for (plugin, _) in PLUGINS.iter().filter(|(name, _)| only.is_none_or(|only| only == *name)) {
        let kept = select_cases(oracle, plugin)?;
        let mut texts = [String::new(), String::new()];
        for (case, answer) in &kept {
            for (text, value) in texts.iter_mut().zip([case, answer]) {
                text.push_str(&value.to_string());
                text.push('\n');
            }
        }
        for (path, text) in [cases_file(plugin), answers_file(plugin)].iter().zip(&texts) {
            if let Some(folder) = path.parent() {
                std::fs::create_dir_all(folder)
                    .with_context(|| format!("create {}", folder.display()))?;
            }
            std::fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
        }
        writeln!(
            out,
            "{plugin}: {} cases, {} + {} bytes",
            kept.len(),
            texts[0].len(),
            texts[1].len()
        )?;
    }
    Ok(())
}

/// Returns small cases with their answers: those that each show a new fact about the plugin, then others in which it
/// has an effect.
fn select_cases(oracle: &mut Oracle, plugin: &'static str) -> Result<Vec<(Value, Value)>> {
    let mut tried: Vec<(Value, Value)> = Vec::new();
    let cases =
        (0..CASES_TRIED).map(|index| generate::case(SEED, index, Some(plugin), ClusterSize::Small));
    oracle.stream(cases, |Case { value, .. }, answer| {
        tried.push((value, answer));
        Ok(())
    })?;
    tried.sort_by_key(|(case, _)| case.to_string().len());
    let (mut seen, mut kept, mut rest) = (BTreeSet::new(), Vec::new(), Vec::new());
    for pair in tried {
        let facts = facts(plugin, &pair.0, &pair.1);
        if facts.iter().any(|fact| !seen.contains(fact)) {
            seen.extend(facts);
            kept.push(pair);
        } else if !facts.is_empty() {
            rest.push(pair);
        }
    }
    // Of the others, an even sample over all sizes.
    let step = (rest.len() / CASES_KEPT_MAX.max(1)).max(1);
    kept.extend(rest.into_iter().step_by(step));
    let mut stable: Vec<(Value, Value)> = Vec::new();
    let (mut case_bytes, mut answer_bytes) = (0, 0);
    for (case, answer) in kept {
        // Some of upstream's decisions are random, and a golden answer must not be.
        if stable.len() == CASES_KEPT_MAX || !compare(&answer, &oracle.ask(&case)?).is_empty() {
            continue;
        }
        let same = |case: &Value| {
            Ok::<bool, anyhow::Error>(compare(&answer, &oracle.ask(case)?).is_empty())
        };
        let case = drop_objects(&case, SHRINK_TRIES_MAX, same)?;
        let sizes = (case.to_string().len(), answer.to_string().len());
        if case_bytes + sizes.0 < FILE_BYTES_MAX && answer_bytes + sizes.1 < FILE_BYTES_MAX {
            case_bytes += sizes.0;
            answer_bytes += sizes.1;
            stable.push((case, answer));
        }
    }
    stable.sort_by_key(|(case, _)| {
        case["id"]
            .as_str()
            .and_then(|id| id.split('-').nth(1))
            .and_then(|index| index.parse::<u64>().ok())
    });
    Ok(stable)
}

/// Returns the outcomes of a plugin in an answer, by which cases are distinguished; empty if it had no effect.
fn facts(plugin: &str, case: &Value, answer: &Value) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    if answer["crash"].is_string() {
        return facts;
    }
    if let Some(error) = error_of(answer) {
        if plugin == "Profiles" {
            facts.insert(error.chars().take(40).collect());
        }
        return facts;
    }
    let mut scores = BTreeSet::new();
    for node in answer["nodes"].as_object().into_iter().flat_map(|map| map.values()) {
        if node["plugin"] == plugin {
            facts.insert(format!("{} {}", node["code"], node["reasons"]));
        }
        scores.extend(node["scores"][plugin].as_i64());
    }
    if scores.len() > 1 {
        facts.insert(format!("scores {}", scores.len()));
        facts.insert(format!("best {}", scores.last().unwrap_or(&0) / 25));
    }
    let count = answer["nodes"].as_object().map_or(0, serde_json::Map::len);
    let feasible = answer["feasible"].as_array().map_or(0, Vec::len);
    match plugin {
        "DefaultPreemption" => {
            let victims = answer["preemption"]["victims"].as_array().map(Vec::len);
            let ties = answer["preemptionTies"].as_array().map_or(0, Vec::len);
            let text = answer["message"]
                .as_str()
                .and_then(|message| message.split_once("preemption: "))
                .map_or("", |(_, text)| text);
            if victims.is_some() || !text.is_empty() {
                facts.insert(format!("{victims:?} {} {}", ties.min(2), words(text)));
            }
        }
        "Profiles" => {
            for profile in case["config"]["profiles"].as_array().into_iter().flatten() {
                for (point, set) in profile["plugins"].as_object().into_iter().flatten() {
                    facts.insert(format!(
                        "{point} {}",
                        set.as_object()
                            .map(|map| map.keys().cloned().collect::<Vec<_>>().join(" "))
                            .unwrap_or_default()
                    ));
                }
            }
        }
        // These reject pods in PreFilter, before any node is filtered.
        "VolumeBinding" | "VolumeZone" | "VolumeRestrictions" | "NodeVolumeLimits"
        | "NodeAffinity"
            if count == 0 || facts.is_empty() && feasible == 0 =>
        {
            let message = answer["message"].as_str().unwrap_or_default();
            if message.contains("persistentvolume")
                || message.contains("PersistentVolume")
                || message.contains("NodeAffinity")
                || message.contains("conflict")
            {
                facts.insert(words(message));
            }
        }
        _ => {}
    }
    facts
}

/// Returns the letters and spaces of a text.
fn words(text: &str) -> String {
    text.chars().filter(|letter| letter.is_alphabetic() || *letter == ' ').collect()
}
