//! Snapshots of real clusters stay unchanged until one of their workloads or pods changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use sandbox::cluster::Cluster;
use sandbox::{Options, Sandbox, create_system_objects, import};
use serde_json::{Value, json};

use crate::server::{TestServer, deployment};

const PODS: &str = "/api/v1/namespaces/default/pods";
const REPLICA_SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";

fn owner(kind: &str, api_version: &str, uid: &str) -> Value {
    json!([{"apiVersion": api_version, "kind": kind, "name": uid, "uid": uid, "controller": true}])
}

fn pod(name: &str, owners: &Value, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("pod-{name}"), "ownerReferences": owners,
            "labels": {"app": "x", "controller-revision-hash": "old", "pod-template-generation": "1"}},
        "spec": {"nodeName": node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}})
}

fn workload(kind: &str, api_version: &str, spec: &Value) -> Value {
    let name = format!("present-{}", kind.to_lowercase());
    let mut spec = spec.clone();
    spec["selector"] = json!({"matchLabels": {"app": "x"}});
    spec["template"] = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    if kind == "ReplicationController" {
        spec["selector"] = json!({"app": "x"});
    }
    if kind == "Job" {
        spec["manualSelector"] = true.into();
        spec["template"]["spec"]["restartPolicy"] = "Never".into();
    }
    json!({"apiVersion": api_version, "kind": kind,
        "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1,
            "annotations": {"deprecated.daemonset.template.generation": "1"}},
        "spec": spec, "status": {"updateRevision": "old"}})
}

const KINDS: [(&str, &str); 7] = [
    ("ReplicaSet", "apps/v1"),
    ("ReplicationController", "v1"),
    ("StatefulSet", "apps/v1"),
    ("DaemonSet", "apps/v1"),
    ("Job", "batch/v1"),
    ("Deployment", "apps/v1"),
    ("Node", "v1"),
];

/// Pods of owners of every kind: owners in the file whose replicas differ from the number of their pods,
/// and owners that are not in the file.
fn snapshot() -> Value {
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name},
        "status": {"allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"}, "capacity": {"cpu": "8", "memory": "32Gi", "pods": "110"}}})
    };
    let mut items = vec![node("n1"), node("n2")];
    for (kind, api_version) in KINDS {
        let lower = kind.to_lowercase();
        items.push(pod(
            &format!("lost-{lower}-0"),
            &owner(kind, api_version, &format!("absent-{lower}")),
            "n1",
        ));
        items.push(pod(
            &format!("{lower}-0"),
            &owner(kind, api_version, &format!("present-{lower}")),
            "n1",
        ));
    }
    items.push(pod("statefulset-7", &owner("StatefulSet", "apps/v1", "present-statefulset"), "n2"));
    items.push(pod("replicaset-1", &owner("ReplicaSet", "apps/v1", "present-replicaset"), "n2"));
    items.push(pod("custom-0", &owner("Thing", "example.com/v1", "absent-thing"), "n2"));
    for (kind, api_version) in KINDS.iter().filter(|(kind, _)| *kind != "Node") {
        let spec = match *kind {
            "ReplicaSet" => json!({"replicas": 1}),
            "DaemonSet" => json!({}),
            "Job" => json!({"completions": 9, "parallelism": 9}),
            _ => json!({"replicas": 5}),
        };
        items.push(workload(kind, api_version, &spec));
    }
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

async fn serve() -> (TestServer, import::Imported) {
    let cluster = Arc::new(Cluster::new());
    create_system_objects(&cluster);
    let imported = import::snapshot(&cluster, &snapshot().to_string()).expect("it is taken");
    let sandbox = Sandbox::serve(cluster, &Options::default()).await.expect("it starts");
    (TestServer::of(sandbox).await, imported)
}

async fn names(server: &TestServer) -> BTreeSet<String> {
    let list = server.get(PODS).await.1;
    let names = list["items"].as_array().expect("a list").iter();
    names.map(|pod| pod["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

/// Creates an object for each controller and waits for its status. Controllers handle the imported objects
/// before or together with later ones, in the order of names.
async fn all_controllers_have_looked(server: &TestServer) {
    server.create("/apis/apps/v1/namespaces/default/deployments", &deployment("zz", 1)).await;
    let spec = |more: Value| {
        let mut spec = json!({"selector": {"matchLabels": {"app": "zz"}}, "template": {"metadata": {"labels": {"app": "zz"}},
            "spec": {"nodeSelector": {"none": "such"}, "containers": [{"name": "c", "image": "i"}]}}});
        for (key, value) in more.as_object().expect("an object") {
            spec[key] = value.clone();
        }
        spec
    };
    for (path, spec, field) in [
        (
            "/apis/apps/v1/namespaces/default/statefulsets",
            spec(json!({"replicas": 1, "serviceName": "zz"})),
            "replicas",
        ),
        ("/apis/apps/v1/namespaces/default/daemonsets", spec(json!({})), "observedGeneration"),
    ] {
        server.create(path, &json!({"metadata": {"name": "zz"}, "spec": spec})).await;
        server.wait_until(&format!("{path}/zz"), |one| one["status"][field] == 1).await;
    }
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = json!({"metadata": {"name": "zz"}, "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    server.create(jobs, &job).await;
    server.wait_until(&format!("{jobs}/zz"), |one| one["status"]["active"] == 1).await;
    let controllers = "/api/v1/namespaces/default/replicationcontrollers";
    let one = json!({"metadata": {"name": "zz"}, "spec": {"replicas": 1, "selector": {"app": "zz"}, "template": {"metadata": {"labels": {"app": "zz"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    server.create(controllers, &one).await;
    server.wait_until(&format!("{controllers}/zz"), |one| one["status"]["replicas"] == 1).await;
    server
        .wait_until("/apis/apps/v1/namespaces/default/deployments/zz", |one| {
            one["status"]["replicas"] == 1
        })
        .await;
    // Garbage collection still deletes later objects.
    let orphan = json!({"metadata": {"name": "zz", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "no", "uid": "no"}]}});
    let maps = "/api/v1/namespaces/default/configmaps";
    server.post(maps, &orphan).await;
    server.wait_until(&format!("{maps}/zz"), |one| one["code"] == 404).await;
}

#[tokio::test]
async fn pods_of_a_snapshot_stay_whatever_their_owners() {
    let (server, imported) = serve().await;
    // Two pods of each kind, and three more.
    let given = 2 * KINDS.len() + 3;
    assert_eq!(imported.held, KINDS.len() - 1);
    // The owner of the pod `node-0` is a node that does not exist.
    assert_eq!(imported.without_owner, KINDS.len() + 1);
    all_controllers_have_looked(&server).await;
    let mut left = names(&server).await;
    left.retain(|name| !name.starts_with("zz"));
    assert_eq!(left.len(), given, "{left:?}");
    let pod = server.get(&format!("{PODS}/lost-replicaset-0")).await.1;
    assert_eq!(pod["metadata"]["ownerReferences"][0]["uid"], "absent-replicaset");
    server.stop().await;
}

#[tokio::test]
async fn controllers_resume_a_workload_of_a_snapshot_once_it_or_its_pods_change() {
    let (server, _) = serve().await;
    let owned = |list: &Value, kind: &str| {
        let pods = list["items"].as_array().unwrap().iter();
        pods.filter(|pod| pod["metadata"]["ownerReferences"][0]["kind"] == kind)
            .filter(|pod| {
                pod["metadata"]["ownerReferences"][0]["uid"]
                    == format!("present-{}", kind.to_lowercase())
            })
            .count()
    };
    // A deleted pod is replaced, up to the number in the spec.
    server.delete(&format!("{PODS}/statefulset-7?gracePeriodSeconds=0")).await;
    server.wait_until(PODS, |list| owned(list, "StatefulSet") >= 2).await;
    // The existing pod does not count as outdated.
    let pod = server.get(&format!("{PODS}/statefulset-0")).await.1;
    assert_eq!(pod["metadata"]["uid"], "pod-statefulset-0");
    assert_eq!(pod["metadata"]["deletionTimestamp"], Value::Null);
    let pod = server.get(&format!("{PODS}/present-statefulset-1")).await.1;
    assert_eq!(pod["metadata"]["labels"]["controller-revision-hash"], "old");
    // Changing the replicas releases the workload.
    let three = json!({"spec": {"replicas": 3}});
    let set = format!("{REPLICA_SETS}/present-replicaset");
    server.patch(&set, "merge-patch+json", &three).await;
    server.wait_until(PODS, |list| owned(list, "ReplicaSet") == 3).await;
    // A new node gets a daemon pod.
    server.create("/api/v1/nodes", &json!({"metadata": {"name": "n3"}})).await;
    server.wait_until(PODS, |list| owned(list, "DaemonSet") == 3).await;
    // The deletion of an owner deletes its pods, also those of a snapshot.
    server.delete(&set).await;
    server.wait_until(PODS, |list| owned(list, "ReplicaSet") == 0).await;
    server.stop().await;
}
