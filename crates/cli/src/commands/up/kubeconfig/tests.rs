//! Tests of merging a kubeconfig into files.

use std::os::unix::fs::symlink;

use super::*;

fn own(port: u16, token: &str) -> String {
    let name = format!("jindou-{port}");
    format!(
        "apiVersion: v1\nkind: Config\nclusters:\n- name: {name}\n  cluster:\n    server: https://127.0.0.1:{port}\n    certificate-authority-data: {token}\nusers:\n- name: {name}\n  user:\n    token: {token}\ncontexts:\n- name: {name}\n  context:\n    cluster: {name}\n    user: {name}\ncurrent-context: {name}\n"
    )
}

/// A file of other clusters, with values that YAML parsers easily misread.
const OTHERS: &str = r##"apiVersion: v1
kind: Config
preferences: {colors: true}
clusters:
- name: prod
  cluster: {server: "https://prod:6443", extensions: [{name: x, extension: {version: "1.0", on: "yes"}}]}
users:
- name: prod
  user:
    username: "no"
    password: "12:34:56"
    exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: ["--n", "0123", "1e3", "", "~", "#", "a: b"], interactiveMode: Never}
contexts:
- {name: prod, context: {cluster: prod, user: prod, namespace: "null"}}
current-context: prod
"##;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

fn value(path: &Path) -> Value {
    parse(&fs::read_to_string(path).unwrap()).unwrap()
}

fn names(config: &Value, section: &str) -> Vec<String> {
    let entries = config[section].as_array().into_iter().flatten();
    entries.map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn other_entries_survive_the_cluster() {
    let folder = folder();
    let path = folder.path().join("config");
    fs::write(&path, OTHERS).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let before = value(&path);
    let merged = Merged::new(&path, &own(1, "a")).unwrap();
    assert_eq!(mode(&path), 0o600);
    let during = value(&path);
    for (section, _) in SECTIONS {
        assert_eq!(names(&during, section), ["prod", "jindou-1"], "{section}");
        assert_eq!(during[section][0], before[section][0]);
    }
    assert_eq!(during["current-context"], "jindou-1");
    assert_eq!(during["preferences"], json!({"colors": true}));
    // The client library reads it, too.
    kube::config::Kubeconfig::read_from(&path).unwrap();
    merged.remove().unwrap();
    assert_eq!(value(&path), before);
    assert_eq!(mode(&path), 0o600);
    let left: Vec<_> =
        fs::read_dir(folder.path()).unwrap().map(|one| one.unwrap().file_name()).collect();
    assert_eq!(left, ["config"], "neither lock nor temporary file is left");
}

#[test]
fn a_new_file_is_private_and_removed_with_the_cluster() {
    let folder = folder();
    let path = folder.path().join("config");
    let merged = Merged::new(&path, &own(1, "a")).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(names(&value(&path), "contexts"), ["jindou-1"]);
    merged.remove().unwrap();
    assert!(!path.exists());
    // An empty file, as created by `mktemp`.
    fs::write(&path, "").unwrap();
    Merged::new(&path, &own(1, "a")).unwrap().remove().unwrap();
    assert!(is_empty(&value(&path)));
}

#[test]
fn two_clusters_share_a_file_and_end_in_any_order() {
    for first_ends_first in [true, false] {
        let folder = folder();
        let path = folder.path().join("config");
        fs::write(&path, OTHERS).unwrap();
        let first = Merged::new(&path, &own(1, "a")).unwrap();
        let second = Merged::new(&path, &own(2, "b")).unwrap();
        assert_eq!(names(&value(&path), "clusters"), ["prod", "jindou-1", "jindou-2"]);
        let (one, other) = if first_ends_first { (first, second) } else { (second, first) };
        one.remove().unwrap();
        let current = value(&path)["current-context"].clone();
        assert_eq!(current, if first_ends_first { "jindou-2" } else { "jindou-1" });
        other.remove().unwrap();
        let end = value(&path);
        assert_eq!(names(&end, "contexts"), ["prod"]);
        assert_eq!(end["current-context"], if first_ends_first { "" } else { "prod" });
    }
}

#[test]
fn entries_of_a_killed_cluster_are_replaced_and_those_of_a_later_one_stay() {
    let folder = folder();
    let path = folder.path().join("config");
    let killed = Merged::new(&path, &own(1, "old")).unwrap();
    let later = Merged::new(&path, &own(1, "new")).unwrap();
    assert_eq!(names(&value(&path), "users"), ["jindou-1"]);
    assert_eq!(value(&path)["users"][0]["user"]["token"], "new");
    killed.remove().unwrap();
    assert_eq!(names(&value(&path), "users"), ["jindou-1"]);
    assert_eq!(value(&path)["current-context"], "jindou-1");
    later.remove().unwrap();
}

#[test]
fn a_context_selected_meanwhile_stays_current() {
    let folder = folder();
    let path = folder.path().join("config");
    fs::write(&path, OTHERS).unwrap();
    let merged = Merged::new(&path, &own(1, "a")).unwrap();
    let mut config = value(&path);
    config["contexts"].as_array_mut().unwrap().push(json!({"name": "mine", "context": {}}));
    config["contexts"][1]["context"]["namespace"] = "team".into();
    config["current-context"] = "mine".into();
    write(&path, &config).unwrap();
    merged.remove().unwrap();
    assert_eq!(value(&path)["current-context"], "mine");
    assert_eq!(names(&value(&path), "contexts"), ["prod", "mine"]);
}

#[test]
fn symbolic_links_are_followed_and_kept() {
    let folder = folder();
    let (real, link) = (folder.path().join("real"), folder.path().join("link"));
    symlink("real", &link).unwrap();
    // To a file that does not exist yet, and then to one that does.
    for _ in 0..2 {
        let merged = Merged::new(&link, &own(1, "a")).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(names(&value(&real), "users").contains(&"jindou-1".to_owned()));
        merged.remove().unwrap();
        fs::write(&real, OTHERS).unwrap();
    }
    let around = folder.path().join("around");
    symlink("around", &around).unwrap();
    assert!(Merged::new(&around, &own(1, "a")).is_err());
}

#[test]
fn other_files_are_refused_and_not_changed() {
    let folder = folder();
    let path = folder.path().join("config");
    for (text, message) in [
        ("clusters: [", "not a kubeconfig"),
        ("hello", "a map with `clusters`"),
        ("{apiVersion: apps/v1, kind: Deployment}", "apiVersion: found \"apps/v1\""),
        ("{apiVersion: v1, kind: Pod}", "kind: found \"Pod\", expected \"Config\""),
        ("clusters: {a: b}", "clusters: expected a list"),
        ("users: [{name: 1}]", "users[0].name: expected a string"),
        ("a: 1\n---\nb: 2\n", "not a kubeconfig"),
    ] {
        fs::write(&path, text).unwrap();
        let error = Merged::new(&path, &own(1, "a")).err().map(|error| format!("{error:#}"));
        assert!(error.as_ref().is_some_and(|error| error.contains(message)), "{text}: {error:?}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    let error = Merged::new(folder.path(), &own(1, "a")).err().map(|error| format!("{error:#}"));
    assert!(error.is_some_and(|error| error.contains("not a regular file")));
}
