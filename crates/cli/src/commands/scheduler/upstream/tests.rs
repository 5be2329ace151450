//! The table agrees with the parser, and command lines are parsed as by kube-scheduler.

use clap::Parser as _;

use super::super::flags::{Alone, Options};
use super::*;

fn parse(arguments: &[&str]) -> Result<Options, String> {
    let all = [&["scheduler"], arguments].concat();
    Alone::try_parse_from(all).map(|alone| alone.options).map_err(|error| error.to_string())
}

fn warnings(arguments: &[&str]) -> Vec<String> {
    let options = parse(arguments).unwrap();
    options.warnings(&options.gates().unwrap())
}

#[test]
fn every_flag_of_the_table_is_parsed_with_the_listed_type() {
    let command = command();
    for flag in FLAGS.iter().filter(|flag| flag.name != "help") {
        let argument = command.get_arguments().find(|one| one.get_long() == Some(flag.name));
        let argument = argument.unwrap_or_else(|| panic!("--{} is not parsed", flag.name));
        let alone = argument.get_num_args().unwrap_or_default().min_values() == 0;
        let takes_none = flag.value == Value::Bool || flag.name == "version";
        assert_eq!(alone, takes_none, "--{}", flag.name);
        let is_list = matches!(argument.get_action(), ArgAction::Append);
        assert_eq!(is_list, flag.value == Value::List, "--{}", flag.name);
    }
}

#[test]
fn values_are_validated_also_for_flags_without_effect() {
    for flag in FLAGS {
        let given = |value: &str| parse(&[&format!("--{}={value}", flag.name)]).map(|_| ());
        match flag.value {
            _ if flag.name == "help" => {}
            Value::Bool => {
                for good in ["true", "False", "1", "T"] {
                    assert_eq!(given(good), Ok(()), "--{}", flag.name);
                }
                assert!(given("yes").is_err(), "--{}", flag.name);
                assert!(parse(&[&format!("--{}", flag.name)]).is_ok());
            }
            Value::Integer | Value::Number => {
                assert_eq!(given("7"), Ok(()), "--{}", flag.name);
                assert!(given("seven").is_err(), "--{}", flag.name);
            }
            Value::Duration => {
                assert_eq!(given("1m30s"), Ok(()), "--{}", flag.name);
                assert!(given("90").is_err(), "--{}", flag.name);
            }
            Value::Text | Value::List => {}
        }
    }
}

#[test]
fn a_flag_without_effect_causes_one_warning_unless_its_value_applies_anyway() {
    for flag in FLAGS {
        let Effect::Nothing(quiet) = flag.effect else { continue };
        for value in quiet {
            assert!(warnings(&[&format!("--{}={value}", flag.name)]).is_empty(), "{}", flag.name);
        }
        assert!(!flag.note.is_empty(), "{}", flag.name);
    }
    let warnings_found = warnings(&["--vmodule=a=1", "--vmodule", "b=2", "--profiling=T"]);
    assert_eq!(warnings_found.len(), 2, "{warnings_found:?}");
    assert!(
        warnings_found[0].starts_with("--profiling=true has no effect here: "),
        "{warnings_found:?}"
    );
    assert!(
        warnings_found[1].starts_with("--vmodule=a=1,b=2 has no effect here: "),
        "{warnings_found:?}"
    );
    assert_eq!(warnings(&["--feature-gates=NodeSwap=true"]).len(), 1);
}

#[test]
fn another_version_of_kubernetes_is_not_emulated() {
    for good in ["1.36", "kube=1.36"] {
        assert!(parse(&["--emulated-version", good]).is_ok());
    }
    let error = parse(&["--emulated-version=kube=1.35"]).err().unwrap();
    assert!(error.contains("no other version is emulated"), "{error}");
}

#[test]
fn flags_are_parsed_as_by_pflag() {
    for (level, arguments) in
        [(5, ["-v=5"].as_slice()), (5, &["-v", "5"]), (5, &["-v5"]), (7, &["-v=5", "--v=7"])]
    {
        assert_eq!(parse(arguments).unwrap().v, level, "{arguments:?}");
    }
    let options = parse(&["--secure-port=1", "--secure-port", "2", "--config=a", "--config=b"]);
    let options = options.unwrap();
    assert_eq!((options.secure_port, options.config), (2, Some("b".into())));
    let paths =
        ["--authorization-always-allow-paths=/a,/b", "--authorization-always-allow-paths=/c"];
    assert_eq!(parse(&paths).unwrap().authorization_always_allow_paths, ["/a", "/b", "/c"]);
    assert!(parse(&["--no-such-flag"]).is_err());
    assert!(parse(&["an-argument"]).is_err());
}

#[test]
fn gates_of_repeated_flags_are_combined() {
    let both = [
        "--feature-gates=StorageCapacityScoring=true",
        "--feature-gates=RotateKubeletServerCertificate=false",
    ];
    let gates = parse(&both).unwrap().gates().unwrap();
    assert!(gates.gates.storage_capacity_scoring);
    assert_eq!(gates.ignored, ["RotateKubeletServerCertificate"]);
}

#[test]
fn rate_limits_of_flags_apply_only_without_a_file() {
    let mut connection = api::config::defaults(api::config::Gates::default()).client_connection;
    let options = parse(&["--kube-api-qps=7.5"]).unwrap();
    assert!(options.override_limits(&mut connection));
    assert_eq!((connection.qps, connection.burst), (7.5, 100));
    assert!(!parse(&[]).unwrap().override_limits(&mut connection));
    let with_file = ["--kube-api-burst=7", "--config=a"];
    assert!(!parse(&with_file).unwrap().override_limits(&mut connection));
    assert_eq!(warnings(&with_file).len(), 1);
}

#[test]
fn the_version_is_that_of_the_control_plane_in_tests() {
    let modules = include_str!("../../../../../../conformance/controlplane/kubernetes/go.mod");
    assert!(
        modules.contains(&format!("k8s.io/kubernetes {KUBERNETES_VERSION} ")),
        "{KUBERNETES_VERSION}"
    );
    let line = version(&parse(&["--version"]).unwrap().version).unwrap();
    assert!(line.starts_with(&format!("Kubernetes {KUBERNETES_VERSION} ")), "{line}");
    assert!(version(&parse(&["--version=raw"]).unwrap().version).unwrap().contains("GitVersion"));
    assert_eq!(version(&parse(&["--version=false"]).unwrap().version), None);
    assert_eq!(version(&parse(&["--version=v1.36.4-x"]).unwrap().version), None);
}

#[test]
fn the_reference_page_is_current() {
    let committed = include_str!("../../../../../../docs/reference/flags.md");
    assert!(committed == reference_page(), "run `cargo xtask codegen`");
}
