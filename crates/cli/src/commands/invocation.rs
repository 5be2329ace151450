//! What a command line means when it is written for kube-scheduler.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Flags of the program itself; whatever else begins with a dash is meant for the scheduler.
const OWN_FLAGS: [&str; 4] = ["-h", "--help", "-V", "--version"];

/// The arguments with the command `scheduler` first if they mean it: the program's name is that of a
/// scheduler, or the first argument is a flag. Names of commands keep their meaning, since
/// kube-scheduler takes no names. Help and version are those of kube-scheduler only under its very name:
/// a scheduler built from this one shows its own. As with kube-scheduler, `_` in a flag's name is `-`.
pub(super) fn arguments(given: Vec<OsString>, is_command: impl Fn(&str) -> bool) -> Vec<OsString> {
    let mut given = given.into_iter();
    let program = given.next().unwrap_or_default();
    let rest: Vec<_> = given.collect();
    let first = rest.first().and_then(|first| first.to_str());
    let named = Path::new(&program).file_name().and_then(OsStr::to_str);
    let is_named_scheduler = named.is_some_and(|name| name.ends_with("-scheduler"));
    let is_written = first == Some("scheduler");
    let is_meant = match first {
        Some(first) if is_command(first) => false,
        Some(first) if OWN_FLAGS.contains(&first) => named == Some("kube-scheduler"),
        Some(first) => is_named_scheduler || first.starts_with('-'),
        None => is_named_scheduler,
    };
    if is_written {
        return std::iter::once(program).chain(rest.into_iter().map(with_dashes)).collect();
    }
    if is_meant {
        let start = [program, "scheduler".into()];
        return start.into_iter().chain(rest.into_iter().map(with_dashes)).collect();
    }
    std::iter::once(program).chain(rest).collect()
}

/// A flag with dashes instead of underscores in its name; anything else as it is.
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

    fn meant(given: &str) -> String {
        let given = given.split(' ').map(OsString::from).collect();
        let is_command = |name: &str| matches!(name, "scheduler" | "up" | "help");
        let meant = arguments(given, is_command);
        meant.iter().map(|one| one.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn command_lines_of_kube_scheduler_mean_the_command_scheduler() {
        for (given, want) in [
            ("/usr/bin/kube-scheduler", "/usr/bin/kube-scheduler scheduler"),
            ("kube-scheduler -v=5 --config a", "kube-scheduler scheduler -v=5 --config a"),
            ("/custom-scheduler --config=a", "/custom-scheduler scheduler --config=a"),
            ("kube-scheduler --version", "kube-scheduler scheduler --version"),
            ("kube-scheduler --help", "kube-scheduler scheduler --help"),
            ("jindou --leader_elect=a_b", "jindou scheduler --leader-elect=a_b"),
            ("jindou scheduler --leader_elect", "jindou scheduler --leader-elect"),
        ] {
            assert_eq!(meant(given), want);
        }
    }

    #[test]
    fn other_command_lines_stay_as_they_are() {
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
            assert_eq!(meant(given), given);
        }
    }
}
