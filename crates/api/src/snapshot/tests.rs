//! Tests of reading snapshots.

use engine::object::ObjectKind;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const POD: &str = "apiVersion: v1
kind: Pod
metadata: {name: web, namespace: prod}
spec:
  containers:
  - name: web
    resources: {requests: {cpu: 500m, memory: 1Gi}}
";

fn pod_json(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": 1}}}]},
    })
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.objects.pods.iter().map(|pod| &*pod.name).collect()
}

fn problems(snapshot: &Snapshot) -> Vec<String> {
    snapshot.problems.iter().map(ToString::to_string).collect()
}

/// Checks that a text yields exactly these pods, and no problem.
#[track_caller]
fn check(text: &str, pods: &[&str]) {
    let snapshot = read(text);
    assert_eq!(problems(&snapshot), Vec::<String>::new(), "{text}");
    assert_eq!(names(&snapshot), pods, "{text}");
}

/// Checks that a text yields exactly these pods and problems.
#[track_caller]
fn check_problems(text: &str, pods: &[&str], want: &[&str]) {
    let snapshot = read(text);
    assert_eq!(problems(&snapshot), want, "{text}");
    assert_eq!(names(&snapshot), pods, "{text}");
}

#[test]
fn all_forms_of_text_are_read() {
    let (a, b) = (pod_json("a"), pod_json("b"));
    let bare = |name: &str| {
        let mut pod = pod_json(name);
        pod.as_object_mut().unwrap().retain(|key, _| key != "kind" && key != "apiVersion");
        pod
    };
    check("", &[]);
    check("# nothing\n---\n---\n", &[]);
    check(POD, &["web"]);
    check(&format!("---\n{POD}---\n# empty\n---\n{}", POD.replace("web", "db")), &["web", "db"]);
    check(&format!("%YAML 1.2\n---\n{POD}...\n---\n{}", POD.replace("web", "db")), &["web", "db"]);
    check(&POD.replace('\n', "\r\n"), &["web"]);
    check("--- {apiVersion: v1, kind: Pod, metadata: {name: x}, spec: {containers: [{}]}}", &["x"]);
    check(&format!("\u{feff}{a}"), &["a"]);
    check(&serde_json::to_string_pretty(&a).unwrap(), &["a"]);
    check(&format!("{a}\n{b}\n"), &["a", "b"]);
    check(&format!("{a}{b}"), &["a", "b"]);
    check(&format!("{a}\n---\n{b}\n---\n{POD}"), &["a", "b", "web"]);
    check(&json!([a, b]).to_string(), &["a", "b"]);
    check(&json!({"apiVersion": "v1", "items": [a, b], "kind": "List"}).to_string(), &["a", "b"]);
    check(
        &json!({"kind": "PodList", "apiVersion": "v1", "items": [bare("a")]}).to_string(),
        &["a"],
    );
    check(
        &format!(r#"{{"items": [{}, {b}], "kind": "PodList", "apiVersion": "v1"}}"#, bare("a")),
        &["b", "a"],
    );
    check(&json!({"apiVersion": "v1", "kind": "List", "items": null}).to_string(), &[]);
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [a]});
    check(
        &json!({"apiVersion": "v1", "kind": "List", "items": [list, b]}).to_string(),
        &["a", "b"],
    );
    let indented = POD.trim_end().replace('\n', "\n  ");
    check(&format!("apiVersion: v1\nitems:\n- {indented}\nkind: List\n"), &["web"]);
    check("", &[]);
}

#[test]
fn parsed_values_and_texts_yield_the_same_objects() {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [pod_json("a"), pod_json("b")]});
    let snapshot = from_values([list.clone(), pod_json("c")]);
    assert_eq!(names(&snapshot), ["a", "b", "c"]);
    assert_eq!(from_values([list.clone()]).objects, read(&list.to_string()).objects);
}

#[test]
fn yaml_and_json_yield_the_same_objects() {
    let json = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "prod"},
        "spec": {"containers": [
            {"name": "web", "resources": {"requests": {"cpu": "500m", "memory": "1Gi"}}},
        ]},
    });
    assert_eq!(read(POD).objects, read(&json.to_string()).objects);
}

#[test]
fn kinds_are_matched_together_with_their_api_group() {
    let objects = [
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}}),
        json!({"apiVersion": "serving.knative.dev/v1", "kind": "Service", "metadata": {"name": "b"}}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}}),
        json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "d"}}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "e"}}),
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "f"}}),
        json!({"apiVersion": "x/v1", "kind": "AllowList", "metadata": {"name": "g"}}),
    ];
    let snapshot = from_values(objects);
    assert_eq!(problems(&snapshot), Vec::<String>::new());
    assert_eq!(snapshot.objects.others.len(), 2);
    let ignored: Vec<_> = snapshot.ignored.iter().map(|(k, n)| (k.as_str(), *n)).collect();
    let want = [
        ("AllowList.x", 1),
        ("ConfigMap", 1),
        ("CronJob.batch", 2),
        ("Service.serving.knative.dev", 1),
    ];
    assert_eq!(ignored, want);
}

#[test]
fn every_kind_is_read() {
    let of = |api_version: &str, kind: &str| {
        let metadata = json!({"name": "x"});
        json!({"apiVersion": api_version, "kind": kind, "metadata": metadata,
            "spec": {"containers": [{}]}, "status": {"allocatable": {"pods": 1}}})
    };
    let values = KINDS.iter().map(|kind| match kind.group() {
        "" => of("v1", kind.name),
        group => of(&format!("{group}/v1"), kind.name),
    });
    let snapshot = from_values(values);
    assert_eq!(problems(&snapshot), Vec::<String>::new());
    assert_eq!(snapshot.ignored, BTreeMap::new());
    let Objects { nodes, pods, others } = &snapshot.objects;
    assert_eq!((nodes.len(), pods.len()), (1, 1));
    let kinds: Vec<_> = others.iter().map(ClusterObject::kind).collect();
    assert_eq!(kinds.len(), ObjectKind::ALL.len());
    assert!(ObjectKind::ALL.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

#[test]
fn declared_annotations_are_read() {
    let mut pod = pod_json("a");
    pod["metadata"]["annotations"] = json!({"team": "red", "other": "1"});
    let text = pod.to_string();
    let keys = AnnotationKeys { pods: ["team".into()].into(), ..AnnotationKeys::default() };
    let annotations = |snapshot: &Snapshot| -> Vec<(String, String)> {
        let annotations = snapshot.objects.pods[0].spec.annotations.iter();
        annotations.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    let want = [("team".to_owned(), "red".to_owned())];
    assert_eq!(annotations(&read_with(&text, keys.clone().into())), want);
    assert_eq!(annotations(&from_values_with([pod], keys.into())), want);
    assert_eq!(annotations(&read(&text)), []);
}

#[test]
fn finished_pods_are_only_counted() {
    let mut pod = pod_json("a");
    pod["status"] = json!({"phase": "Succeeded"});
    let snapshot = from_values([pod, pod_json("b")]);
    assert_eq!(names(&snapshot), ["b"]);
    assert_eq!(snapshot.ignored.get("Pod (finished)"), Some(&1));
}

#[test]
fn the_last_object_of_a_name_counts() {
    let mut again = pod_json("a");
    again["spec"]["priority"] = json!(7);
    let snapshot = from_values([pod_json("a"), pod_json("b"), again]);
    assert_eq!(names(&snapshot), ["a", "b"]);
    assert_eq!(snapshot.objects.pods[0].priority, 7);
    assert_eq!(
        problems(&snapshot),
        ["Pod default/a: found more than once; the last occurrence counts"]
    );
    assert_eq!(snapshot.problems[0].severity, Severity::Warning);
}

#[test]
fn duplicate_uids_are_replaced() {
    let with_uid = |name| {
        let mut pod = pod_json(name);
        pod["metadata"]["uid"] = json!("1234");
        pod
    };
    let snapshot = from_values([with_uid("a"), with_uid("b")]);
    let uids: Vec<_> = snapshot.objects.pods.iter().map(|pod| pod.uid.to_string()).collect();
    assert_eq!(uids, ["1234", "uid-default-b"]);
    assert_eq!(
        problems(&snapshot),
        [
            r#"Pod default/b: metadata.uid: found "1234", which another pod has: "uid-default-b" is used"#
        ],
    );
}

#[test]
fn broken_documents_do_not_hide_the_others() {
    check_problems(
        &format!("{POD}---\nkind: [\n---\n{}", POD.replace("web", "db")),
        &["web", "db"],
        &["document 2: line 9 column 7: unclosed bracket '[': is the file cut off?"],
    );
    let [a, b, c, d] = ["a", "b", "c", "d"].map(pod_json);
    check_problems(
        &format!("{a}\n{{\"kind\": }}\n{b}\n"),
        &["a", "b"],
        &["document 2: line 2 column 10: expected value"],
    );
    check_problems(
        &format!("{a}\n{{\"kind\": \n{b}\n{c:#}\n{{\n{d}\n"),
        &["a", "b", "c", "d"],
        &[
            "document 2: line 4 column 1: expected `,` or `}`",
            "document 5: line 24 column 1: key must be a string",
        ],
    );
    check_problems(
        &format!("{a}\n---\n\n{{\"kind\": \n---\n{b}\n"),
        &["a", "b"],
        &[
            "document 2: line 4 column 8: found the end of the text within a value: the file seems to be cut off",
        ],
    );
}

#[test]
fn documents_that_are_not_objects_are_reported() {
    let expected = "expected a Kubernetes object or a list of them";
    check_problems(
        "just words",
        &[],
        &[&format!("document 1: invalid type: string \"just words\", {expected}")],
    );
    check_problems("42", &[], &[&format!("document 1: invalid type: integer `42`, {expected}")]);
    check_problems("[1]", &[], &["document 1, item 1: found a number, expected an object"]);
    check_problems("[[]]", &[], &["document 1, item 1: found a list, expected an object"]);
    check_problems(
        "{}",
        &[],
        &["document 1: kind: found none, expected one such as Pod: is the file cut off?"],
    );
    check_problems(
        "kind: Pod\nkind: Pod\n",
        &[],
        &["document 1: line 2 column 1: duplicate mapping key: kind"],
    );
    check_problems(
        "\n\nitems: {}\n",
        &[],
        &["document 1: line 3 column 8: invalid type: map, expected a list of Kubernetes objects"],
    );
    assert_eq!(read("a: &a [*a, *a]\nkind: Pod").problems.len(), 1);
}

#[test]
fn a_truncated_text_is_reported() {
    let items: Vec<Value> = (0..20).map(|i| pod_json(&format!("p{i}"))).collect();
    let json = json!({"apiVersion": "v1", "items": items, "kind": "List"});
    let pretty = serde_json::to_string_pretty(&json).unwrap();
    let yaml = serde_saphyr::to_string(&json).unwrap();
    for text in [json.to_string(), pretty, yaml] {
        let snapshot = read(&text[..text.len() / 2]);
        let pods = snapshot.objects.pods.len();
        assert!((8..=11).contains(&pods), "{pods} pods");
        assert!(
            problems(&snapshot).iter().any(|p| p.contains("cut off")),
            "{:?}",
            snapshot.problems
        );
    }
}

#[test]
fn deep_nesting_is_refused() {
    let deep_list = (0..20).fold(
        pod_json("a"),
        |inner, _| json!({"apiVersion": "v1", "kind": "List", "items": [inner]}),
    );
    let snapshot = from_values([deep_list]);
    assert_eq!(problems(&snapshot), ["document 1, item 1: items: found lists more than 8 deep"]);
    for text in ["[".repeat(100_000), format!("a: {}", "[".repeat(100_000)), "- ".repeat(10_000)] {
        assert_eq!(read(&text).problems.len(), 1);
    }
    let mut bomb = vec!["a: &a [x,x,x,x,x,x,x,x,x,x]".to_owned()];
    for (inner, outer) in ('a'..='j').zip('b'..='k') {
        let aliases = vec![format!("*{inner}"); 10].join(",");
        bomb.push(format!("{outer}: &{outer} [{aliases}]"));
    }
    let bomb = bomb.join("\n");
    assert_eq!(read(&bomb).problems.len(), 1);
}

proptest! {
    #[test]
    fn arbitrary_text_never_panics(text in "[-\\[\\]{}:,\"a-z0-9 \n&*#|>%.]{0,200}") {
        let _ = read(&text);
    }

    #[test]
    fn truncated_text_never_panics(start in 0_usize..400, end in 0_usize..400) {
        let text = format!("{POD}---\n{}\n{}", pod_json("a"), pod_json("b"));
        let (start, end) = (start.min(end), start.max(end));
        let _ = read(&text[start.min(text.len())..end.min(text.len())]);
    }
}
