//! `jindou up --apply`: initial objects.

use super::{Folder, Up, client, get, jindou};

const THINGS: &str = "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: things, singular: thing, kind: Thing}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: integer, default: 2}}}}}}
";

#[tokio::test]
async fn a_folder_is_applied_in_an_order_that_works() {
    // Sorted by name, each object precedes what it depends on.
    let folder = Folder::new(&[
        (
            "a.yaml",
            "{apiVersion: example.com/v1, kind: Thing, metadata: {name: t, namespace: team}, spec: {}}",
        ),
        (
            "b.json",
            r#"{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team"}}]}"#,
        ),
        (
            "c.yml",
            "{apiVersion: v1, kind: Namespace, metadata: {name: team}}\n---\n{apiVersion: v1, kind: Namespace, metadata: {name: default, labels: {x: one}}}\n",
        ),
        ("d.yaml", THINGS),
        ("notes.txt", "no manifest"),
    ]);
    let mut up = Up::start(&["--nodes", "1", "--apply", ".", "--kubeconfig", "config"], &folder.0);
    up.until_ready();
    let client = client(&folder.0.join("config")).await;
    let thing = get(&client, "/apis/example.com/v1/namespaces/team/things/t").await;
    assert_eq!(thing["spec"]["size"], 2);
    assert_eq!(get(&client, "/api/v1/namespaces/default").await["metadata"]["labels"]["x"], "one");
    get(&client, "/api/v1/namespaces/team/configmaps/c").await;
    assert_eq!(up.end().0, Some(0));
}

#[test]
fn the_first_failure_ends_the_start_with_file_object_and_reason() {
    let folder = Folder::new(&[
        ("kind.yaml", "{apiVersion: example.com/v1, kind: Thing, metadata: {name: t}}"),
        ("field.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}, dataa: {}}"),
        ("rule.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {}}"),
        ("space.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: c, namespace: none}}"),
        ("name.yaml", "{apiVersion: v1, kind: ConfigMap}"),
        ("syntax.yaml", "{apiVersion: v1"),
    ]);
    for (file, message) in [
        (
            "kind.yaml",
            "error: --apply: kind.yaml: Thing \"t\": no kind Thing in version example.com/v1 is registered",
        ),
        ("field.yaml", "unknown field \"dataa\""),
        (
            "rule.yaml",
            "rule.yaml: Pod \"p\": Pod \"p\" is invalid: spec.containers: Required value",
        ),
        ("space.yaml", "space.yaml: ConfigMap \"c\": namespaces \"none\" not found"),
        ("name.yaml", "--apply name.yaml: object 1 of the file: metadata.name is missing"),
        ("syntax.yaml", "--apply syntax.yaml: it is neither YAML nor JSON"),
        ("none.yaml", "cannot read none.yaml"),
    ] {
        let run =
            jindou(&folder.0, &["up", "--nodes", "1", "--apply", file, "--kubeconfig", "config"]);
        assert_eq!(run.code, 1, "{}", run.text());
        assert!(run.stderr.contains(message), "{}", run.text());
        assert!(!folder.0.join("config").exists());
    }
}
