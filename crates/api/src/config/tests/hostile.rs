//! Tests that malicious input yields problems and never panics.

use proptest::prelude::*;

use super::*;

/// Reads and checks a text, and returns the number of problems.
fn survive(text: &str) -> usize {
    let read = check(text, Gates::default(), &implements, &known);
    if let Some(config) = &read.config {
        let again = write(config);
        assert_eq!(super::read(&again).config.as_ref(), Some(config), "{again}");
    }
    for problem in &read.problems {
        assert!(
            problem.message.len() < 20_000 && problem.path.len() < 20_000,
            "a problem is readable"
        );
    }
    read.problems.len()
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn hostile_files_yield_problems() {
    let million = "x".repeat(1_000_000);
    let bomb: String = (1..40).fold("a0: &a0 [x,x,x,x,x,x,x,x,x]\n".to_owned(), |text, level| {
        let alias = format!("*a{},", level - 1).repeat(9);
        format!("{text}a{level}: &a{level} [{alias}]\n")
    });
    let rows = [
        ("deep flow", "[".repeat(100_000)),
        ("deep maps", "{a: ".repeat(100_000)),
        ("deep JSON", format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000))),
        ("deep blocks", lines(3_000, |depth| format!("{}a:", " ".repeat(depth)))),
        (
            "deep args",
            v1_file(&format!(
                "profiles: [{{pluginConfig: [{{name: C, args: {}{}}}]}}]",
                "[".repeat(5_000),
                "]".repeat(5_000)
            )),
        ),
        ("bomb", v1_file(&bomb)),
        ("self", "a: &a [*a]".to_owned()),
        ("merge of itself", "a: &a {<<: *a}".to_owned()),
        ("missing anchor", "a: *b".to_owned()),
        ("truncated", v1_file("profiles: [{schedulerName: \"a")),
        (
            "truncated JSON",
            "{\"apiVersion\": \"kubescheduler.config.k8s.io/v1\", \"kind\"".to_owned(),
        ),
        ("huge integer", v1_file(&format!("parallelism: {}", "9".repeat(5_000)))),
        ("huge exponent", v1_file("clientConnection: {qps: 1e999999}")),
        ("large float", v1_file("clientConnection: {qps: 1e300}")),
        ("not a number", v1_file("clientConnection: {qps: .nan}")),
        ("lowest integer", v1_file("podInitialBackoffSeconds: -9223372036854775808")),
        ("long key", v1_file(&format!("{million}: 1"))),
        ("long version", format!("apiVersion: {million}\nkind: KubeSchedulerConfiguration")),
        ("long value", v1_file(&format!("leaderElection: {{resourceLock: {million}}}"))),
        (
            "long topology key",
            v1_file(&format!(
                "profiles: [{{pluginConfig: [{{name: PodTopologySpread, args: {{defaultingType: List, defaultConstraints: [{{maxSkew: 1, topologyKey: {million}, whenUnsatisfiable: DoNotSchedule}}]}}}}]}}]"
            )),
        ),
        ("several documents", format!("{}---\n{}", v1_file(""), v1_file(""))),
        ("tabs", "\ta: 1".to_owned()),
        ("control characters", "\u{0}\u{1}\u{7f}".to_owned()),
        ("tags", v1_file("parallelism: !!python/object 5")),
        ("complex keys", v1_file("? [a, b]\n: c")),
        ("null key", v1_file("~: 1")),
        ("many unknown fields", v1_file(&lines(5_000, |n| format!("k{n}: 1")))),
    ];
    for (name, text) in rows {
        assert!(survive(&text) > 0, "{name}");
    }
}

#[test]
fn long_names_are_kept_where_any_name_is_allowed() {
    let name = "x".repeat(1_000_000);
    assert_eq!(
        valid(&v1_file(&format!("profiles: [{{schedulerName: {name}}}]"))).profiles[0]
            .scheduler_name,
        name
    );
}

const SEED: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 8\nleaderElection: {leaseDuration: 15s, retryPeriod: 2s}\nclientConnection: {qps: 1.5, burst: 10}\nprofiles:\n- schedulerName: a\n  percentageOfNodesToScore: 5\n  plugins:\n    score:\n      enabled: [{name: NodeAffinity, weight: 5}]\n      disabled: [{name: '*'}]\n    multiPoint: {disabled: [{name: NodeName}]}\n  pluginConfig:\n  - name: NodeResourcesFit\n    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}]}}\n  - name: VolumeBinding\n    args: {bindTimeoutSeconds: 60}\nextenders: [{urlPrefix: http://a, httpTimeout: 1s, weight: 1}]\n";

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn arbitrary_text_never_panics(text in any::<String>()) {
        survive(&text);
    }

    #[test]
    fn arbitrary_bodies_never_panic(body in "[-a-z0-9:{}\\[\\], \\n'\"&*!|>#%~.]{0,80}") {
        survive(&v1_file(&body));
    }

    #[test]
    fn files_with_replaced_parts_never_panic(
        version in prop::sample::select(vec!["v1", "v1beta3", "v1beta2"]),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, "[-a-zA-Z0-9:{}\\[\\], \\n'\"&*~.é]{0,6}"), 0..4),
    ) {
        let mut text: Vec<char> = SEED.replacen("k8s.io/v1", &format!("k8s.io/{version}"), 1).chars().collect();
        for (at, length, insert) in edits {
            let start = at.index(text.len());
            let end = (start + length).min(text.len());
            text.splice(start..end, insert.chars());
        }
        survive(&text.into_iter().collect::<String>());
    }

    #[test]
    fn arbitrary_values_of_fields_never_panic(
        key in prop::sample::select(vec!["parallelism", "profiles", "extenders", "leaderElection", "clientConnection", "percentageOfNodesToScore", "enableProfiling", "podMaxBackoffSeconds"]),
        value in prop::sample::select(vec!["-1", "0", "1.5", "1e400", "'x'", "[]", "[[]]", "{}", "[{}]", "{a: 1}", "true", "~", "99999999999999999999", "[{plugins: {score: {enabled: [{}]}}}]", "[{pluginConfig: [{}]}]"]),
    ) {
        survive(&v1_file(&format!("{key}: {value}")));
    }
}
