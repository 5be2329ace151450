//! The expected differences, each with its reason, and their comparison with those found.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use regex_lite::Regex;
use serde::Deserialize;
use similar::{ChangeTag, TextDiff};

use super::script::{Script, StepKind};

/// Unchanged lines shown around a change.
const CONTEXT_LINES: usize = 2;

/// An expected difference, as written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedDifference {
    /// Commands with this difference, as written in the script.
    commands: Vec<String>,
    /// Lines that only upstream prints. One that begins with `~ ` matches a regular expression.
    #[serde(default)]
    upstream: String,
    /// Lines that only the sandbox prints.
    #[serde(default)]
    sandbox: String,
    /// The reason, in one sentence.
    reason: String,
}

/// A line that only one side prints.
#[derive(Clone)]
enum LinePattern {
    Exact(String),
    Pattern(Regex),
}

impl LinePattern {
    fn parse(text: &str) -> Result<Self> {
        let text = text.trim();
        match text.strip_prefix("~ ") {
            Some(pattern) => Ok(Self::Pattern(
                Regex::new(&format!("^(?:{pattern})$"))
                    .with_context(|| format!("{pattern} is not a regular expression"))?,
            )),
            None => Ok(Self::Exact(text.to_owned())),
        }
    }

    fn matches(&self, line: &str) -> bool {
        match self {
            Self::Exact(text) => text == line.trim(),
            Self::Pattern(pattern) => pattern.is_match(line.trim()),
        }
    }

    fn text(&self) -> &str {
        match self {
            Self::Exact(text) => text,
            Self::Pattern(pattern) => pattern.as_str(),
        }
    }
}

/// The expected differences of one command.
#[derive(Clone, Default)]
struct ExpectedLines {
    upstream: Vec<LinePattern>,
    sandbox: Vec<LinePattern>,
}

/// All expected differences by command.
pub(super) struct KnownDifferences {
    expected: BTreeMap<String, ExpectedLines>,
}

/// Result of a comparison.
pub(super) enum Comparison {
    Same,
    AsListed,
    /// A difference is not expected, or an expected one was not found.
    Unexpected {
        /// All differences, empty if there are none.
        diff: String,
        /// Expected differences that were not found.
        missing: Vec<String>,
        /// Differences found that are not expected, with `-` for upstream and `+` for the sandbox.
        unlisted: Vec<String>,
    },
}

impl Comparison {
    pub(super) fn is_unexpected(&self) -> bool {
        matches!(self, Self::Unexpected { .. })
    }
}

impl KnownDifferences {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let entries: Vec<ListedDifference> =
            serde_saphyr::from_str(text).context("cannot read differences.yaml")?;
        let mut expected: BTreeMap<String, ExpectedLines> = BTreeMap::new();
        for ListedDifference { commands, upstream, sandbox, reason } in entries {
            let named = || format!("differences.yaml, {}", commands.join(", "));
            let lines = |block: &str| -> Result<Vec<LinePattern>> {
                block.lines().map(LinePattern::parse).collect::<Result<_>>().with_context(named)
            };
            let (upstream, sandbox) = (lines(&upstream)?, lines(&sandbox)?);
            if reason.trim().is_empty() || commands.is_empty() {
                bail!("{}: commands and a reason are needed", named());
            }
            if upstream.is_empty() && sandbox.is_empty() {
                bail!("{}: no lines are listed", named());
            }
            for command in &commands {
                let expected = expected.entry(command.clone()).or_default();
                expected.upstream.extend(upstream.iter().cloned());
                expected.sandbox.extend(sandbox.iter().cloned());
            }
        }
        Ok(Self { expected })
    }

    /// Checks that the script compares every command with an expected difference.
    pub(super) fn check_commands(&self, script: &Script) -> Result<()> {
        let compared = |text: &str| {
            script.steps.iter().any(|step| {
                matches!(step.kind, StepKind::Compare { .. }) && step.command.text == text
            })
        };
        match self.expected.keys().find(|command| !compared(command)) {
            Some(command) => bail!("differences.yaml lists `{command}`, which the script lacks"),
            None => Ok(()),
        }
    }

    /// Compares the outputs of both sides with the expected differences.
    pub(super) fn compare(&self, command: &str, upstream: &str, sandbox: &str) -> Comparison {
        let diff = TextDiff::from_lines(upstream, sandbox);
        let mut left = self.expected.get(command).cloned().unwrap_or_default();
        let mut unlisted = Vec::new();
        for change in diff.iter_all_changes() {
            let (mark, lines) = match change.tag() {
                ChangeTag::Equal => continue,
                ChangeTag::Delete => ('-', &mut left.upstream),
                ChangeTag::Insert => ('+', &mut left.sandbox),
            };
            match lines.iter().position(|line| line.matches(change.value())) {
                Some(at) => drop(lines.remove(at)),
                None => unlisted.push(format!("{mark}{}", change.value().trim_end())),
            }
        }
        let sides = [("upstream", &left.upstream), ("the sandbox", &left.sandbox)];
        let missing = sides.iter().flat_map(|(side, lines)| {
            lines.iter().map(move |line| format!("only {side} should say: {}", line.text()))
        });
        let missing: Vec<_> = missing.collect();
        if !unlisted.is_empty() || !missing.is_empty() {
            let mut unified = diff.unified_diff();
            let unified = unified.context_radius(CONTEXT_LINES).header("upstream", "sandbox");
            return Comparison::Unexpected { diff: unified.to_string(), missing, unlisted };
        }
        if upstream == sandbox { Comparison::Same } else { Comparison::AsListed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: &str = "
- commands: [kubectl a, kubectl b]
  upstream: |
    one
    two
  sandbox: |
    ~ eins \\d+
  reason: They speak different languages.
- commands: [kubectl a]
  sandbox: exit 1
  reason: It fails.
";

    #[track_caller]
    fn check(command: &str, upstream: &str, sandbox: &str, expected: &str) {
        let found =
            match KnownDifferences::parse(KNOWN).unwrap().compare(command, upstream, sandbox) {
                Comparison::Same => "alike".to_owned(),
                Comparison::AsListed => "as listed".to_owned(),
                Comparison::Unexpected { missing, unlisted, .. } => {
                    [unlisted, missing].concat().join("; ")
                }
            };
        assert_eq!(found, expected);
    }

    #[test]
    fn only_what_is_listed_may_differ() {
        check("kubectl b", "one\ntwo\n", "eins 12\n", "as listed");
        check("kubectl a", "one\ntwo\n", "eins 12\nexit 1\n", "as listed");
        check(
            "kubectl b",
            "one\ntwo\n",
            "eins\n",
            "+eins; only the sandbox should say: ^(?:eins \\d+)$",
        );
        check("kubectl b", "one\ntwo\n", "eins 12\nexit 1\n", "+exit 1");
        check("kubectl c", "one\n", "one\n", "alike");
        check("kubectl c", "one\n", "two\n", "-one; +two");
    }

    #[test]
    fn what_is_listed_must_differ() {
        check("kubectl b", "one\ntwo\n", "one\neins 1\n", "only upstream should say: one");
    }

    #[test]
    fn lists_without_reason_or_lines_are_refused() {
        for (text, told) in [
            ("- {commands: [kubectl a], sandbox: x, reason: ''}", "a reason"),
            ("- {commands: [kubectl a], reason: so}", "no lines"),
            ("- {commands: [kubectl a], sandbox: '~ (', reason: so}", "not a regular expression"),
            ("- {commands: [kubectl a], sandbx: x, reason: so}", "sandbx"),
        ] {
            let error = format!("{:#}", KnownDifferences::parse(text).err().unwrap());
            assert!(error.contains(told), "{error}");
        }
        let script = Script::parse("kubectl a\nuntil kubectl b\n").unwrap();
        let error = KnownDifferences::parse(KNOWN).unwrap().check_commands(&script).unwrap_err();
        assert!(error.to_string().contains("kubectl b"), "{error}");
    }
}
