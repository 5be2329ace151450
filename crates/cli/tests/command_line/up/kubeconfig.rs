//! The kubeconfig of a user, with other clusters in it.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use kube::config::Kubeconfig;

use super::{Folder, Up, client, get};

const OTHERS: &str = "apiVersion: v1\nkind: Config\nclusters:\n- name: prod\n  cluster: {server: \"https://prod:6443\"}\nusers:\n- name: prod\n  user: {token: t}\ncontexts:\n- name: prod\n  context: {cluster: prod, user: prod}\ncurrent-context: prod\n";

fn contexts(file: &Kubeconfig) -> Vec<String> {
    file.contexts.iter().map(|context| context.name.clone()).collect()
}

#[tokio::test]
async fn an_existing_kubeconfig_survives_two_clusters() {
    let folder = Folder::new(&[("config", OTHERS)]);
    let path = folder.0.join("config");
    fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    let mut ups: Vec<Up> = Vec::new();
    for count in ["1", "2"] {
        let mut up = Up::start(&["--nodes", count, "--kubeconfig", "config"], &folder.0);
        up.until_ready();
        ups.push(up);
    }
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let file = Kubeconfig::read_from(&path).unwrap();
    assert_eq!(contexts(&file).len(), 3, "{:?}", contexts(&file));
    assert_eq!(file.current_context.as_deref(), contexts(&file).last().map(String::as_str));
    let nodes = get(&client(&path).await, "/api/v1/nodes").await;
    assert_eq!(nodes["items"].as_array().unwrap().len(), 2);
    while let Some(mut up) = ups.pop() {
        assert_eq!(up.end().0, Some(0));
    }
    let file = Kubeconfig::read_from(&path).unwrap();
    assert_eq!(
        (contexts(&file), file.current_context.as_deref()),
        (vec!["prod".to_owned()], Some("prod"))
    );
    assert_eq!(file.clusters.len() + file.auth_infos.len(), 2);
}
