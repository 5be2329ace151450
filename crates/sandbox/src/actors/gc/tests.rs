//! Foreground deletion.

use serde_json::json;

use super::*;

/// Creates a config map owned by `owner`, which it blocks from being deleted if `blocks` is set.
fn create(
    cluster: &Cluster,
    name: &str,
    owner: Option<&Object>,
    blocks: bool,
    finalizers: &[&str],
) -> Arc<Object> {
    let owners: Vec<Value> = owner
        .iter()
        .map(|owner| {
            json!({"apiVersion": "v1", "kind": "ConfigMap", "name": &*owner.name, "uid": &*owner.uid,
                "blockOwnerDeletion": blocks})
        })
        .collect();
    let object =
        json!({"metadata": {"name": name, "ownerReferences": owners, "finalizers": finalizers}});
    let maps = cluster.resource("", "configmaps");
    cluster.create(&maps, "default", object, &WriteOptions::default()).unwrap().object
}

fn delete_in_foreground(cluster: &Cluster, name: &str) {
    let options =
        DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    cluster.delete(&cluster.resource("", "configmaps"), "default", name, &options).unwrap();
}

async fn collect_until(cluster: &Arc<Cluster>, done: impl Fn(&Resource) -> bool) {
    let maps = cluster.resource("", "configmaps");
    let of = Arc::clone(cluster);
    let collector = tokio::spawn(async move { run(&of).await });
    for _ in 0..10_000 {
        if done(&maps) {
            break;
        }
        tokio::task::yield_now().await;
    }
    collector.abort();
    assert!(done(&maps), "{} config maps are left", maps.objects.len());
}

#[tokio::test]
async fn foreground_deletion_takes_time_linear_in_the_dependents() {
    const DEPENDENTS: usize = 500;
    const WAIT: &str = "example.com/wait";
    let cluster = Arc::new(crate::testing::cluster());
    let maps = cluster.resource("", "configmaps");
    let owner = create(&cluster, "owner", None, false, &[]);
    let names: Vec<String> = (0..DEPENDENTS).map(|n| format!("dependent-{n}")).collect();
    for name in &names {
        create(&cluster, name, Some(&owner), true, &[WAIT]);
    }
    delete_in_foreground(&cluster, "owner");
    take_visited();
    collect_until(&cluster, |maps| {
        maps.objects.list("").objects.iter().all(|object| object.deleting)
    })
    .await;
    // The dependents are deleted one after another, as pods are.
    let of = Arc::clone(&cluster);
    let collector = tokio::spawn(async move { run(&of).await });
    for name in &names {
        let dependent = maps.objects.get(&key_of("default", name)).unwrap();
        remove_finalizer(&cluster, &maps, &dependent, WAIT).unwrap();
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
    }
    while !maps.objects.is_empty() {
        tokio::task::yield_now().await;
    }
    collector.abort();
    let visited = take_visited();
    assert!(visited <= 8 * DEPENDENTS, "{visited} dependents were visited");
}

#[tokio::test]
async fn an_owner_waits_for_blocking_dependents_only() {
    let cluster = Arc::new(crate::testing::cluster());
    let owner = create(&cluster, "owner", None, false, &[]);
    create(&cluster, "blocking", Some(&owner), true, &["example.com/wait"]);
    create(&cluster, "other", Some(&owner), false, &["example.com/wait"]);
    delete_in_foreground(&cluster, "owner");
    let is_deleting = |maps: &Resource, name: &str| {
        maps.objects.get(&key_of("default", name)).is_some_and(|object| object.deleting)
    };
    collect_until(&cluster, |maps| is_deleting(maps, "blocking") && is_deleting(maps, "other"))
        .await;
    let maps = cluster.resource("", "configmaps");
    assert!(is_deleting(&maps, "owner"));
    let blocking = maps.objects.get("default/blocking").unwrap();
    remove_finalizer(&cluster, &maps, &blocking, "example.com/wait").unwrap();
    collect_until(&cluster, |maps| maps.objects.get("default/owner").is_none()).await;
    assert!(is_deleting(&maps, "other"));
}
