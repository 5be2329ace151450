//! `jindou bench` starts `jindou-bench`.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

use crate::Folder;

/// Runs `jindou bench` from a folder of its own, with `jindou-bench` beside it as a link to a shell if `beside`, and with
/// no `jindou-bench` in `PATH`.
fn bench(beside: bool, arguments: &[&str]) -> Output {
    let folder = Folder::new(&[]);
    let program = folder.0.join("jindou");
    // A symbolic link would be resolved, and the program looked for beside the original.
    let original = env!("CARGO_BIN_EXE_jindou");
    if fs::hard_link(original, &program).is_err() {
        fs::copy(original, &program).expect("a copy");
    }
    if beside {
        symlink("/bin/sh", folder.0.join("jindou-bench")).expect("a link");
    }
    Command::new(program)
        .arg("bench")
        .args(arguments)
        .env("PATH", folder.0.join("empty"))
        .output()
        .expect("it runs")
}

#[test]
fn bench_runs_the_program_beside_jindou_with_its_arguments_and_exit_code() {
    let output = bench(true, &["-c", "echo got \"$@\"; exit 7", "name", "decide", "--nodes", "5"]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "got decide --nodes 5\n", "{output:?}");
    assert_eq!(output.status.code(), Some(7));
}

#[test]
fn bench_without_its_program_says_how_to_build_it() {
    let output = bench(false, &["decide"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("-p bench`"), "{errors}");
    let output = bench(false, &["--help"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let help = String::from_utf8_lossy(&output.stdout);
    assert!(help.contains("jindou-bench") && help.contains("-p bench`"), "{help}");
}
