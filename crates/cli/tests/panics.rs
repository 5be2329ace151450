//! Panics abort the process, except for those inside a request handler.
//!
//! Each test runs itself again in a child process, which installs the hook and panics.

use std::env;
use std::io::Write as _;
use std::process::{Command, Output};
use std::thread;

/// Set in the child process.
const IS_CHILD: &str = "JINDOU_TEST_PANICS_HERE";

const SURVIVED: &str = "the process goes on";

/// Runs a test of this file again in a child process.
fn in_child(test: &str) -> Output {
    let program = env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--nocapture"]).env(IS_CHILD, "1");
    command.output().expect("the child starts")
}

fn is_child() -> bool {
    env::var_os(IS_CHILD).is_some()
}

/// Panics on a thread and in a task, as the parts of a scheduler would.
fn panic_on_other_threads(is_contained: fn() -> bool) {
    cli::panics::abort_on_panic(is_contained);
    assert!(thread::spawn(|| panic!("a thread broke")).join().is_err());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build();
    let runtime = runtime.expect("threads");
    let task = runtime.spawn(async { panic!("a task broke") });
    assert!(runtime.block_on(task).is_err());
    let _ = writeln!(std::io::stdout(), "{SURVIVED}");
}

#[test]
fn a_panic_on_any_thread_aborts_the_process() {
    use std::os::unix::process::ExitStatusExt as _;
    if is_child() {
        return panic_on_other_threads(|| false);
    }
    let output = in_child("a_panic_on_any_thread_aborts_the_process");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{}: {stderr}", output.status);
    assert!(stderr.contains("a thread broke"), "{stderr}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains(SURVIVED));
}

#[test]
fn a_panic_in_a_request_handler_is_printed_and_survived() {
    if is_child() {
        return panic_on_other_threads(|| true);
    }
    let output = in_child("a_panic_in_a_request_handler_is_printed_and_survived");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    for message in ["a thread broke", "a task broke"] {
        assert!(stderr.contains(message), "{stderr}");
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains(SURVIVED));
}
