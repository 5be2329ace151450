//! The script: one command per line, as typed into a shell.
//!
//! ```text
//! # a remark
//! kubectl get nodes                                      compared
//! kubectl get events | sort                              compared, lines after the first sorted
//! kubectl apply -f - < web.yaml                          compared, with a file as input
//! KUBE_EDITOR="sed -i s/a/b/" kubectl edit pod one       compared, with a variable set
//! until kubectl wait --for=condition=Ready pod/one       tried until it succeeds; not compared
//! until 3 lines kubectl get pods -o name                 tried until it prints three lines; not compared
//! until upstream kubectl get endpoints web               tried on upstream's side only, for objects that the sandbox lacks
//! ```

use anyhow::{Context as _, Result, bail};

pub(super) struct Script {
    pub(super) steps: Vec<ScriptStep>,
}

pub(super) struct ScriptStep {
    /// Its line number, from 1.
    pub(super) line: usize,
    pub(super) kind: StepKind,
    pub(super) command: KubectlCommand,
}

#[derive(Debug, PartialEq)]
pub(super) enum StepKind {
    /// Both sides run it, and their outputs are compared.
    Compare { sorted: bool },
    /// Repeated on both sides, or upstream alone, until it succeeds and, if a number is given, prints that
    /// many lines.
    Until { upstream_alone: bool, lines: Option<usize> },
}

/// A kubectl command.
#[derive(Debug, PartialEq)]
pub(super) struct KubectlCommand {
    /// The line as written, by which listed differences name it.
    pub(super) text: String,
    pub(super) variables: Vec<(String, String)>,
    /// The arguments after `kubectl`.
    pub(super) arguments: Vec<String>,
    /// The file on its standard input.
    pub(super) input: Option<String>,
}

/// Verbs that only read, so that a command with one can be repeated.
const READ_ONLY_VERBS: &[&str] = &[
    "api-resources",
    "auth",
    "describe",
    "diff",
    "events",
    "exec",
    "explain",
    "get",
    "logs",
    "rollout history",
    "rollout status",
    "top",
    "version",
    "wait",
];

impl KubectlCommand {
    /// Returns whether it only reads, so that it can be repeated.
    pub(super) fn is_read_only(&self) -> bool {
        let said = self.arguments.join(" ");
        READ_ONLY_VERBS.iter().any(|verb| {
            said.strip_prefix(verb).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        })
    }
}

impl Script {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let mut steps = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line_text = line.trim();
            if line_text.is_empty() || line_text.starts_with('#') {
                continue;
            }
            let line = index + 1;
            let (kind, command) =
                parse_line(line_text).with_context(|| format!("line {line} of the script"))?;
            steps.push(ScriptStep { line, kind, command });
        }
        Ok(Self { steps })
    }
}

fn parse_line(text: &str) -> Result<(StepKind, KubectlCommand)> {
    if let Some(rest) = text.strip_prefix("until ") {
        let alone = rest.strip_prefix("upstream ");
        let (upstream_alone, rest) = (alone.is_some(), alone.unwrap_or(rest));
        let counted = rest.split_once(" lines ");
        let counted = counted.and_then(|(count, rest)| Some((count.parse::<usize>().ok()?, rest)));
        let (lines, rest) = match counted {
            Some((count, rest)) => (Some(count), rest),
            None => (None, rest),
        };
        return Ok((StepKind::Until { upstream_alone, lines }, parse_command(rest)?));
    }
    match text.strip_suffix(" | sort") {
        Some(rest) => Ok((StepKind::Compare { sorted: true }, parse_command(rest)?)),
        None => Ok((StepKind::Compare { sorted: false }, parse_command(text)?)),
    }
}

fn parse_command(text: &str) -> Result<KubectlCommand> {
    let words = shlex::split(text).with_context(|| format!("a quote is open in {text}"))?;
    let program = words.iter().position(|word| word == "kubectl");
    let program = program.with_context(|| format!("{text}: commands are kubectl's"))?;
    let variables = words[..program].iter().map(|word| {
        let pair = word.split_once('=');
        let (name, value) = pair.with_context(|| format!("{word}: before kubectl, NAME=VALUE"))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    let variables = variables.collect::<Result<_>>()?;
    let mut arguments = words[program + 1..].to_vec();
    let input = match arguments.iter().position(|word| word == "<") {
        None => None,
        Some(at) if at + 2 == arguments.len() => {
            let input = arguments.pop();
            arguments.pop();
            input
        }
        Some(_) => bail!("{text}: one file follows <, and nothing more"),
    };
    Ok(KubectlCommand { text: text.to_owned(), variables, arguments, input })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_a_shell_would() {
        let text = "# nodes\n\nkubectl get nodes\nkubectl get events | sort\n\
            E=\"a b\" kubectl patch pod one -p '{\"a\": 1}'\nkubectl apply -f - < web.yaml\n";
        let script = Script::parse(text).unwrap();
        assert_eq!(script.steps.len(), 4);
        assert_eq!(script.steps[0].line, 3);
        assert_eq!(script.steps[0].command.arguments, ["get", "nodes"]);
        assert_eq!(script.steps[1].kind, StepKind::Compare { sorted: true });
        let patch = &script.steps[2].command;
        assert_eq!(patch.variables, [("E".to_owned(), "a b".to_owned())]);
        assert_eq!(patch.arguments[4], "{\"a\": 1}");
        let apply = &script.steps[3].command;
        assert_eq!((apply.arguments.len(), apply.input.as_deref()), (3, Some("web.yaml")));
    }

    #[test]
    fn waiting_is_for_success_or_for_a_number_of_lines() {
        let text = "until kubectl wait x\nuntil 0 lines kubectl get pods\n\
            until upstream 1 lines kubectl get pods\n";
        let script = Script::parse(text).unwrap();
        let until = |upstream_alone, lines| StepKind::Until { upstream_alone, lines };
        assert_eq!(script.steps[0].kind, until(false, None));
        assert_eq!(script.steps[1].kind, until(false, Some(0)));
        assert_eq!(script.steps[2].kind, until(true, Some(1)));
        assert_eq!(script.steps[1].command.text, "kubectl get pods");
    }

    #[test]
    fn only_what_changes_nothing_can_be_asked_again() {
        let is_read_only = |text: &str| parse_command(text).unwrap().is_read_only();
        for text in ["kubectl get pods", "kubectl version", "kubectl rollout status deployment/web"]
        {
            assert!(is_read_only(text), "{text}");
        }
        for text in
            ["kubectl delete pod one", "kubectl rollout undo deployment/web", "kubectl gets"]
        {
            assert!(!is_read_only(text), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_line() {
        for (text, told) in [
            ("\nls", "line 2 of the script: ls: commands are kubectl's"),
            ("kubectl get 'x", "a quote is open"),
            ("a kubectl get", "NAME=VALUE"),
            ("kubectl apply < a b", "one file follows <"),
        ] {
            let error = format!("{:#}", Script::parse(text).err().unwrap());
            assert!(error.contains(told), "{error}");
        }
    }
}
