//! `jindou up -- COMMAND`: a cluster for as long as a command runs.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::{Folder, jindou};

#[test]
fn a_command_gets_the_kubeconfig_and_sets_the_exit_code() {
    let folder = Folder::new(&[]);
    let script = "test -s \"$KUBECONFIG\" && grep -q 'server: .*https://127.0.0.1:' \"$KUBECONFIG\" && echo out && echo err >&2 && exit 7";
    let run = jindou(
        &folder.0,
        &["up", "--nodes", "1", "--kubeconfig", "config", "--", "sh", "-c", script],
    );
    assert_eq!((run.code, &*run.stdout, &*run.stderr), (7, "out\n", "err\n"));
    assert!(!folder.0.join("config").exists());
}

#[test]
fn commands_that_fail_to_start_or_are_killed_have_their_exit_codes() {
    let folder = Folder::new(&[("plain", "no program")]);
    for (command, code) in
        [(&["./none"][..], 127), (&["./plain"], 126), (&["sh", "-c", "kill -9 $$"], 128 + 9)]
    {
        let mut arguments = vec!["up", "--nodes", "1", "--kubeconfig", "config", "--"];
        arguments.extend(command);
        let run = jindou(&folder.0, &arguments);
        assert_eq!(run.code, code, "{}", run.text());
        assert!(!folder.0.join("config").exists());
    }
}

#[test]
fn signals_reach_the_command() {
    let folder = Folder::new(&[]);
    let script = "trap 'echo got it; exit 3' TERM; echo started; while true; do sleep 0.01; done";
    let mut child = Command::new(env!("CARGO_BIN_EXE_jindou"))
        .args(["up", "--nodes", "1", "--kubeconfig", "config", "--", "sh", "-c", script])
        .current_dir(&folder.0)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "started");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("kill runs").success());
    assert_eq!(lines.next().unwrap().unwrap(), "got it");
    assert_eq!(child.wait().expect("it ends").code(), Some(3));
    assert!(fs::metadata(folder.0.join("config")).is_err());
}
