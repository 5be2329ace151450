//! Tests of parsing `--feature-gates`.

use super::*;

fn parse(text: &str) -> Result<ParsedGates, String> {
    Gates::parse(text.split(','))
}

#[test]
fn gates_of_other_components_are_accepted_and_listed() {
    let parsed =
        parse("KubeletPSI=true,RotateKubeletServerCertificate=true, kube:NodeSwap=true,").unwrap();
    assert_eq!(parsed.gates, Gates::default());
    assert_eq!(parsed.ignored, ["KubeletPSI", "NodeSwap", "RotateKubeletServerCertificate"]);
    assert_eq!(parse(""), Ok(ParsedGates::default()));
}

#[test]
fn the_last_setting_of_a_gate_wins() {
    let parsed = parse("StorageCapacityScoring=false,StorageCapacityScoring=T").unwrap();
    assert!(parsed.gates.storage_capacity_scoring);
}

#[test]
fn unknown_gates_and_malformed_settings_are_refused() {
    for (text, want) in [
        ("Nonsense=true", "\"Nonsense\" is not a feature gate"),
        ("NodeDeclaredFeatures", "not of the form"),
        ("NodeDeclaredFeatures=yes", "not of the form"),
        ("NodeDeclaredFeatures=", "not of the form"),
        ("wardle:NodeDeclaredFeatures=true", "component \"wardle\""),
        ("DynamicResourceAllocation=false", "locked to true"),
        ("SidecarContainers=false", "locked to true"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.contains(want), "{text}: {error}");
    }
    assert!(parse("DynamicResourceAllocation=true").is_ok());
}

#[test]
fn a_gate_that_changes_decisions_is_accepted_only_at_its_default() {
    for gate in Gates::ALL.iter().filter(|gate| gate.effect == GateEffect::DefaultOnly) {
        let (same, other) = (gate.default, !gate.default);
        assert!(parse(&format!("{}={same}", gate.name)).is_ok(), "{}", gate.name);
        let error = parse(&format!("{}={other}", gate.name)).unwrap_err();
        assert!(error.contains(gate.name), "{error}");
    }
}

#[test]
fn all_alpha_is_refused_because_some_alpha_gates_change_decisions() {
    let error = parse("AllAlpha=true").unwrap_err();
    assert!(error.contains("TaintTolerationComparisonOperators=true"), "{error}");
    let error = parse("AllBeta=false").unwrap_err();
    assert!(error.contains("PodLevelResources=false"), "{error}");
    assert_eq!(parse("AllAlpha=false"), Ok(ParsedGates::default()));
    // Each gate that changes decisions is set to its default by name, which wins.
    let defaults = Gates::ALL.iter().filter(|gate| gate.effect == GateEffect::DefaultOnly);
    let mut settings = vec!["AllAlpha=true".to_owned(), "GangScheduling=false".to_owned()];
    settings.extend(defaults.map(|gate| format!("{}={}", gate.name, gate.default)));
    let gates = parse(&settings.join(",")).unwrap().gates;
    assert!(gates.storage_capacity_scoring && !gates.gang_scheduling);
}

#[test]
fn every_supported_gate_has_a_field_with_the_default_of_the_table() {
    for gate in Gates::ALL {
        let own = Gates::default().by_name(gate.name).copied();
        assert_eq!(
            own,
            (gate.effect == GateEffect::Supported).then_some(gate.default),
            "{}",
            gate.name
        );
    }
    assert!(Gates::ALL.is_sorted_by_key(|gate| gate.name));
}
