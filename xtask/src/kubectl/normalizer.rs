//! Normalises the output of kubectl: text that differs from run to run is replaced by its kind.

use anyhow::Result;
use regex_lite::Regex;

/// Letters and digits of generated names.
const SAFE: &str = "[bcdfghjklmnpqrstvwxz2456789]";

/// Patterns and their replacements, applied in this order.
const RULES: &[(&str, &str)] = &[
    // Lines of kubectl's log, such as that it waited for its own rate limit.
    (r"(?m)^[IW]\d{4} \d\d:\d\d:\d\d\.\d+ .*\n", ""),
    ("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID"),
    (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?( ?[+-]\d{4}|Z)", "TIME"),
    (r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d [+-]\d{4}", "TIME"),
    // A file of `kubectl diff` or `kubectl edit`.
    (r"/\S*/(LIVE|MERGED)-\d+/", "$1/"),
    (r"/\S*/kubectl-edit-\d+\.yaml", "EDITED"),
    // Names of pods of a ReplicaSet, of ReplicaSets, and of other pods.
    (r"\b([a-z][a-z0-9-]*)-SAFE{6,10}-SAFE{5}\b", "$1-HASH-RANDOM"),
    (r"(pod-template-hash[:=] ?)SAFE{6,10}\b", "${1}HASH"),
    (r"\b([a-z][a-z0-9-]*)-SAFE{8,10}\b", "$1-HASH"),
    (r"\b([a-z][a-z0-9]*)-SAFE{5}\b", "$1-RANDOM"),
    // Hashes of revisions of StatefulSets and DaemonSets, and the names of events.
    (r"\b([a-z][a-z0-9-]*)\.[0-9a-f]{16}\b", "$1.EVENT"),
    (r#"resourceVersion: "\d+""#, "resourceVersion: VERSION"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\b(10|127|172|192)(\.\d+){3}\b", "IP"),
    // A time below ten minutes, as kubectl rounds it; no run takes longer.
    (r"\b(\d+s|\d+m\d+s|[2-9]m)\b", "AGE"),
    (r"\bAGE ago\b", "AGE"),
    // The count of an event depends on the speed of the run.
    (r"AGE \(x\d+ over AGE\)", "AGE"),
    // Widths of columns follow the names in them.
    (r"(\S)[ \t]{2,}", "$1  "),
    (r"\t", "  "),
    (r"(?m)^ {12,}", "            "),
    (r"(?m)[ \t]+$", ""),
];

pub(super) struct Normalizer {
    rules: Vec<(Regex, &'static str)>,
}

impl Normalizer {
    pub(super) fn new() -> Result<Self> {
        let rule = |(pattern, kind): &(&str, &'static str)| {
            Ok((Regex::new(&pattern.replace("SAFE", SAFE))?, *kind))
        };
        Ok(Self { rules: RULES.iter().map(rule).collect::<Result<_>>()? })
    }

    pub(super) fn apply(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (pattern, kind) in &self.rules {
            text = pattern.replace_all(&text, *kind).into_owned();
        }
        sort_events(&text)
    }
}

/// Sorts the events at the end of a description: the order within a second is arbitrary.
fn sort_events(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut from = 0;
    while let Some(at) = lines[from..].iter().position(|line| *line == "Events:") {
        let start = from + at + 1;
        let rows = lines[start..].iter().take_while(|line| line.starts_with(' ')).count();
        // The two heading lines keep their place.
        lines[(start + 2).min(start + rows)..start + rows].sort_unstable();
        from = start + rows;
    }
    let mut sorted = lines.join("\n");
    if text.ends_with('\n') {
        sorted.push('\n');
    }
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(Normalizer::new().unwrap().apply(text), expected);
    }

    #[test]
    fn what_differs_from_run_to_run_is_replaced() {
        check(
            "web-6d4b75cb6d-hjk2z   1/1   Running   0   2m5s\n",
            "web-HASH-RANDOM  1/1  Running  0  AGE\n",
        );
        check("replicaset.apps/web-6d4b75cb6d\n", "replicaset.apps/web-HASH\n");
        check("pod/once-hjk2z created\n", "pod/once-RANDOM created\n");
        check("  uid: 123e4567-e89b-12d3-a456-426614174000\n", "  uid: UID\n");
        check("at 2026-01-02T03:04:05Z, 17s ago", "at TIME, AGE");
        check("Start Time:  Sun, 15 Nov 2026 16:21:07 +0000", "Start Time:  TIME");
        check("--- /tmp/x/LIVE-42/v1.Pod\t2026-01-02 03:04:05.6 +0000", "--- LIVE/v1.Pod  TIME");
        check("10.0.0.7 and 127.0.0.1:4711", "IP and ADDRESS");
    }

    #[test]
    fn what_means_something_stays() {
        for text in ["cpu: 500m", "nginx:1", "n0", "deployment.apps/web", "node-role", "  - a: b"] {
            check(text, text);
        }
    }

    #[test]
    fn events_of_a_description_are_sorted() {
        check(
            "Events:\n  Type  Reason\n  ----  ------\n  Normal  b\n  Normal  a\n\nName:  x\n",
            "Events:\n  Type  Reason\n  ----  ------\n  Normal  a\n  Normal  b\n\nName:  x\n",
        );
        check("Events:  <none>\n", "Events:  <none>\n");
        check("Events:\n  Type\n", "Events:\n  Type\n");
    }
}
