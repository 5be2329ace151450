//! Command lines written for kube-scheduler.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Flags of the program itself; all others before a command are flags of the scheduler.
const OWN_FLAGS: [&str; 4] = ["-h", "--help", "-V", "--version"];

/// Inserts the command `scheduler` if it is implied: the program's name ends in `-scheduler`, or the first
/// argument is a flag.
///
/// Names of commands keep their meaning, since kube-scheduler has no positional arguments. `--help` and
/// `--version` are those of kube-scheduler only under exactly this name; a custom scheduler shows its own.
/// As in kube-scheduler, `_` in the name of a flag means `-`.
pub(super) fn arguments(given: Vec<OsString>, is_command: impl Fn(&str) -> bool) -> Vec<OsString> {
    let mut given = given.into_iter();
    let program = given.next().unwrap_or_default();
    let rest: Vec<_> = given.collect();
    let first = rest.first().and_then(|first| first.to_str());
    let named = Path::new(&program).file_name().and_then(OsStr::to_str);
    let is_named_scheduler = named.is_some_and(|name| name.ends_with("-scheduler"));
    let is_explicit = first == Some("scheduler");
    let is_implied = match first {
        Some(first) if is_command(first) => false,
        Some(first) if OWN_FLAGS.contains(&first) => named == Some("kube-scheduler"),
        Some(first) => is_named_scheduler || first.starts_with('-'),
        None => is_named_scheduler,
    };
    if is_explicit {
        return std::iter::once(program).chain(rest.into_iter().map(with_dashes)).collect();
    }
    if is_implied {
        let start = [program, "scheduler".into()];
        return start.into_iter().chain(rest.into_iter().map(with_dashes)).collect();
    }
    std::iter::once(program).chain(rest).collect()
}

/// Replaces underscores by dashes in the name of a flag; other arguments stay unchanged.
fn with_dashes(argument: OsString) -> OsString {
    let Some(text) = argument.to_str().filter(|text| text.starts_with("--")) else {
        return argument;
    };
    let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
    (name.replace('_', "-") + value).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interpreted(given: &str) -> String {
        let given = given.split(' ').map(OsString::from).collect();
        let is_command = |name: &str| matches!(name, "scheduler" | "up" | "help");
        let arguments = arguments(given, is_command);
        arguments.iter().map(|one| one.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn command_lines_of_kube_scheduler_imply_the_command() {
        for (given, want) in [
            ("/usr/bin/kube-scheduler", "/usr/bin/kube-scheduler scheduler"),
            ("kube-scheduler -v=5 --config a", "kube-scheduler scheduler -v=5 --config a"),
            ("/custom-scheduler --config=a", "/custom-scheduler scheduler --config=a"),
            ("kube-scheduler --version", "kube-scheduler scheduler --version"),
            ("kube-scheduler --help", "kube-scheduler scheduler --help"),
            ("jindou --leader_elect=a_b", "jindou scheduler --leader-elect=a_b"),
            ("jindou scheduler --leader_elect", "jindou scheduler --leader-elect"),
        ] {
            assert_eq!(interpreted(given), want);
        }
    }

    #[test]
    fn other_command_lines_stay_unchanged() {
        for given in [
            "jindou",
            "jindou --help",
            "jindou -V",
            "jindou up --node_groups a",
            "custom-scheduler up",
            "custom-scheduler help",
            "custom-scheduler --version",
            "scheduler",
        ] {
            assert_eq!(interpreted(given), given);
        }
    }
}
