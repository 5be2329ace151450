//! The committed cases: Jindou must answer them as upstream did. No Go is needed for this.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::compare::compare;
use super::{exceptions, theme};
use crate::shell::root;

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("the file is committed");
    text.lines().map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
}

fn file(folder: &str, plugin: &str) -> PathBuf {
    root().join("conformance").join(folder).join(plugin).join("random.jsonl")
}

#[test]
fn committed_cases_are_answered_as_upstream_answers_them() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (plugin, _) in theme::PLUGINS {
        let (cases, answers) = (lines(&file("cases", plugin)), lines(&file("golden", plugin)));
        assert_eq!(cases.len(), answers.len(), "{plugin}");
        assert!(!cases.is_empty(), "{plugin} has no case");
        for (case, answer) in cases.iter().zip(&answers) {
            count += 1;
            let differences = compare(answer, &cli::explain::case(case));
            let unlisted = differences.iter().find(|d| exceptions::find(case, d).is_none());
            if let Some(difference) = unlisted {
                let (oracle, ours) = (&difference.oracle, &difference.ours);
                wrong.push(format!("{plugin} {}: upstream {oracle}, ours {ours}", case["id"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}
