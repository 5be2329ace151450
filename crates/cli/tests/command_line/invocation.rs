//! Command lines of kube-scheduler, as in manifests.

use std::os::unix::fs::symlink;
use std::process::Command;

use crate::{Folder, jindou};

/// Runs the program under another name, and returns exit code, stdout and stderr.
fn run_as(name: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let folder = Folder::new(&[]);
    let program = folder.0.join(name);
    symlink(env!("CARGO_BIN_EXE_jindou"), &program).expect("a link");
    let output = Command::new(program).args(arguments).output().expect("it runs");
    let text = |bytes| String::from_utf8(bytes).expect("output is UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn a_program_named_like_a_scheduler_is_one() {
    for name in ["kube-scheduler", "custom-scheduler"] {
        let arguments = ["--leader-elect=false", "--config=absent.yaml", "-v=5"];
        let (code, _, errors) = run_as(name, &arguments);
        assert_eq!(code, Some(1), "{errors}");
        assert!(errors.contains("absent.yaml"), "{errors}");
    }
    let (code, version, _) = run_as("kube-scheduler", &["--version"]);
    assert_eq!(code, Some(0));
    assert!(version.starts_with("Kubernetes v1.36."), "{version}");
    let (code, help, _) = run_as("kube-scheduler", &["--help"]);
    assert_eq!(code, Some(0));
    assert!(help.contains("--write-config-to"), "{help}");
}

#[test]
fn flags_without_a_command_are_for_the_scheduler() {
    let folder = Folder::new(&[]);
    let run = jindou(&folder.0, &["--config", "absent.yaml", "--leader_elect=false"]);
    assert_eq!(run.code, 1, "{}", run.text());
    assert!(run.stderr.contains("absent.yaml"), "{}", run.text());
    let own = jindou(&folder.0, &["--version"]);
    assert!(own.stdout.starts_with("jindou "), "{}", own.text());
}

#[test]
fn all_flags_of_a_manifest_are_accepted_with_one_warning_if_without_effect() {
    let folder = Folder::new(&[]);
    let arguments = [
        "--authentication-kubeconfig=a",
        "--authorization-kubeconfig=b",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        "--permit-port-sharing=true",
        "--profiling=false",
        "--contention-profiling",
        "--tls-cipher-suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "--requestheader-allowed-names=front-proxy-client",
        "--feature-gates=NodeSwap=true,RotateKubeletServerCertificate=true",
        "--kube-api-qps=50",
        "--kube-api-burst=100",
        "--kubeconfig=absent.kubeconfig",
        "-v=2",
    ];
    let run = run_all(&folder, &arguments);
    assert!(run.contains("cannot read the kubeconfig absent.kubeconfig"), "{run}");
    for message in [
        "--contention-profiling=true has no effect here",
        "--requestheader-allowed-names=",
        "NodeSwap",
    ] {
        assert_eq!(run.matches(message).count(), 1, "{message}: {run}");
    }
    assert!(!run.contains("--profiling="), "{run}");
}

/// Returns the errors of a scheduler that cannot start.
fn run_all(folder: &Folder, arguments: &[&str]) -> String {
    let run = jindou(&folder.0, arguments);
    assert_eq!(run.code, 1, "{}", run.text());
    run.stderr
}

#[test]
fn flags_that_would_change_decisions_are_refused() {
    let folder = Folder::new(&[]);
    for (argument, want) in [
        ("--feature-gates=TaintTolerationComparisonOperators=true", "would change decisions"),
        ("--feature-gates=Nonsense=true", "\"Nonsense\" is not a feature gate"),
        ("--emulated-version=1.35", "no other version is emulated"),
        ("--no-such-flag", "unexpected argument"),
    ] {
        let said = run_all(&folder, &[argument]);
        assert!(said.contains(want), "{argument}: {said}");
    }
}
