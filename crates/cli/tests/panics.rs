//! Panics abort the process, except for those inside a request handler.
//!
//! Each test runs itself again in a child process, which installs the hook and panics.

use std::env;
use std::io::Write as _;
use std::process::{Command, Output};
use std::thread;

use cli::api_client::ApiClient;
use http::{Method, StatusCode};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use sandbox::faults::{Fault, FaultRule};
use sandbox::{Options, Sandbox};

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

#[test]
fn a_panic_on_another_thread_aborts_the_process() {
    use std::os::unix::process::ExitStatusExt as _;
    if is_child() {
        cli::panics::abort_on_panic();
        assert!(thread::spawn(|| panic!("a thread broke")).join().is_err());
        let _ = writeln!(std::io::stdout(), "{SURVIVED}");
        return;
    }
    let output = in_child("a_panic_on_another_thread_aborts_the_process");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(6), "{}: {stderr}", output.status);
    assert!(stderr.contains("a thread broke"), "{stderr}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains(SURVIVED));
}

/// Serves an embedded cluster whose next request panics, and sends two requests.
async fn panic_in_a_handler() {
    let sandbox = Sandbox::start(&Options::default()).await.expect("it starts");
    let file = Kubeconfig::from_yaml(&sandbox.kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    let client = ApiClient::with(&config.expect("a config")).expect("a client");
    sandbox.faults.add(FaultRule {
        method: Some(Method::GET),
        path: "/nodes".to_owned(),
        every: 1,
        times: 1,
        fault: Fault::Panic,
    });
    let failure = StatusCode::INTERNAL_SERVER_ERROR;
    let response = client.send(Method::GET, "/api/v1/nodes", None, &[failure]).await;
    let response = String::from_utf8(response.expect("a response")).expect("JSON");
    assert!(response.contains("InternalError"), "{response}");
    assert!(client.get("/api/v1/nodes").await.is_ok());
    sandbox.stop().await;
}

#[test]
fn a_panic_in_a_request_handler_fails_one_request() {
    if is_child() {
        cli::panics::abort_on_panic();
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        runtime.block_on(panic_in_a_handler());
        let _ = writeln!(std::io::stdout(), "{SURVIVED}");
        return;
    }
    let output = in_child("a_panic_in_a_request_handler_fails_one_request");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    assert!(stderr.contains("panicked"), "{stderr}");
    assert!(String::from_utf8_lossy(&output.stdout).contains(SURVIVED));
}
