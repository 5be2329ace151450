//! The scheduler on the files of the README, with and without its plugin.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const CONFIG: &str = include_str!("../config.yaml");

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_custom-scheduler"))
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("the program starts")
}

fn explain(more: &[&str]) -> Value {
    let files = ["explain", "--snapshot", "cluster.yaml", "--pod", "pod.yaml", "-o", "json"];
    let output = run(&[&files, more].concat());
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("the answer is JSON")
}

/// Runs `config check` on a text, and returns whether it is valid and the errors.
fn check(name: &str, config: &str) -> (bool, String) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, config).expect("the file can be written");
    let output = run(&["config", "check", file.to_str().expect("the path is UTF-8")]);
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn without_its_plugin_it_decides_as_usual() {
    let answer = explain(&[]);
    assert_eq!(answer["selected"], "worker-1");
    assert_eq!(answer["nodes"]["worker-2"]["scores"].get("RackPressure"), None);
}

#[test]
fn its_plugin_filters_and_scores() {
    let answer = explain(&["--config", "config.yaml"]);
    assert_eq!(answer["selected"], "worker-3");
    let nodes = &answer["nodes"];
    assert_eq!(nodes["worker-1"]["plugin"], "RackPressure");
    assert_eq!(nodes["worker-1"]["code"], "UnschedulableAndUnresolvable");
    assert_eq!(nodes["worker-1"]["reasons"][0], "node(s) were in the denied rack r1");
    assert_eq!(nodes["worker-2"]["scores"]["RackPressure"], 0);
    assert_eq!(nodes["worker-3"]["scores"]["RackPressure"], 500);
}

#[test]
fn wrong_arguments_are_found_by_config_check() {
    assert_eq!(check("right.yaml", CONFIG), (true, String::new()));
    let (valid, text) = check("wrong.yaml", &CONFIG.replace("[r1]", "r1"));
    assert!(!valid);
    assert!(
        text.contains(
            "initializing plugin \"RackPressure\": args.deniedRacks: \
             invalid type: string \"r1\", expected a sequence"
        ),
        "{text}"
    );
}

#[test]
fn it_has_its_own_name() {
    let output = run(&["--version"]);
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("custom-scheduler "));
}

#[test]
fn the_readme_shows_the_files() {
    let readme = include_str!("../README.md");
    assert!(readme.contains(CONFIG));
    let main = include_str!("../src/main.rs");
    let (_, main) = main.split_once("fn main").expect("there is a main");
    assert!(readme.contains(main));
}
