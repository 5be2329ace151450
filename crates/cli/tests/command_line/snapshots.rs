//! Forms of snapshots.

use crate::{Folder, explain, jindou, pod};

const NODE: &str = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"},"status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"10"}}}"#;
const POD: &str = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"q"},"spec":{"nodeName":"a","containers":[{"name":"c"}]}}"#;

#[test]
fn every_form_of_a_snapshot_is_read() {
    for snapshot in [
        NODE.to_owned(),
        format!("{NODE}\n---\n{POD}\n"),
        format!("{NODE}\n{POD}"),
        format!("[{NODE},{POD}]"),
        format!(r#"{{"apiVersion":"v1","kind":"List","items":[{NODE},{POD}]}}"#),
        format!("apiVersion: v1\nkind: List\nitems:\n- {NODE}\n- {POD}\n"),
        format!(r#"{{"apiVersion":"v1","kind":"NodeList","items":[{NODE}]}}"#),
        format!("\u{feff}# a comment\n---\n---\n{NODE}\n...\n"),
        format!("{NODE}\n---\n{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: d}}}}\n"),
        format!("{NODE}\r\n---\r\n{POD}\r\n"),
    ] {
        let run = explain(&snapshot, &pod(""), &["-o", "json"]);
        assert_eq!(run.code, 0, "{snapshot}\n{}", run.text());
        assert_eq!(run.json()["selected"], "a");
    }
}

#[test]
fn a_pod_may_come_as_json_or_in_a_list() {
    let json = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}"#;
    let list = format!(r#"{{"kind":"List","items":[{json}]}}"#);
    for text in [json, &list] {
        assert_eq!(explain(NODE, text, &[]).code, 0);
    }
}

#[test]
fn a_pod_file_holds_one_pod() {
    let folder = Folder::new(&[
        ("node.json", NODE),
        ("none.yaml", "{apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}"),
        ("two.yaml", &format!("{POD}\n---\n{}", POD.replace("\"q\"", "\"r\""))),
        ("empty.yaml", ""),
    ]);
    for (file, expected) in [
        ("none.yaml", "none.yaml contains no pod, only Deployment"),
        ("two.yaml", "two.yaml contains 2 pods; expected one"),
        ("empty.yaml", "empty.yaml contains no pod"),
    ] {
        let run = jindou(&folder.0, &["explain", "--snapshot", "node.json", "--pod", file]);
        assert_eq!((run.code, &*run.stderr), (1, &*format!("error: {expected}\n")));
    }
}
