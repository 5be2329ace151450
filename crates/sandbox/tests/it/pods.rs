//! The lifecycle of pods, and node outages, as clients see them.

use http::{Method, Request};
use kube::client::Body;
use sandbox::Options;
use serde_json::{Value, json};

use crate::server::{TestServer, bind_pods, pod};

const PODS: &str = "/api/v1/namespaces/default/pods";

fn large(name: &str) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "20".into();
    pod
}

/// Returns the column `STATUS` of a pod, as kubectl prints it.
async fn shown(server: &TestServer, name: &str) -> String {
    let request = Request::builder()
        .method(Method::GET)
        .uri(format!("{PODS}/{name}"))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
        .body(Body::empty())
        .expect("a request");
    let response = server.client.send(request).await.expect("an answer");
    let bytes = response.into_body().collect_bytes().await.expect("a body");
    let table: Value = serde_json::from_slice(&bytes).expect("JSON");
    table["rows"][0]["cells"][2].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn pods_that_overcommit_a_node_fail() {
    let server = TestServer::new(1).await;
    // It binds every pod to the only node, which has 32 CPUs.
    let scheduler = bind_pods(&server).await;
    for name in ["a", "b", "c"] {
        server.create(PODS, &large(name)).await;
        server
            .wait_until(&format!("{PODS}/{name}"), |pod| pod["status"]["phase"] != "Pending")
            .await;
    }
    let list = server.get(PODS).await.1;
    let phases: Vec<&Value> =
        list["items"].as_array().unwrap().iter().map(|pod| &pod["status"]["phase"]).collect();
    assert_eq!(phases, ["Running", "Failed", "Failed"]);
    assert_eq!(shown(&server, "b").await, "OutOfcpu");
    // A replica set replaces failed pods until one fits.
    let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": large("web")["spec"]}}});
    server.create("/apis/apps/v1/namespaces/default/replicasets", &set).await;
    let of_set = format!("{PODS}?labelSelector=app%3Dweb");
    let count = |list: &Value, phase: &str| {
        let items = list["items"].as_array().map_or(&[][..], Vec::as_slice);
        items.iter().filter(|pod| pod["status"]["phase"] == phase).count()
    };
    server.wait_until(&of_set, |list| count(list, "Failed") > 1).await;
    server.delete(&format!("{PODS}/a")).await;
    server.wait_until(&of_set, |list| count(list, "Running") == 1).await;
    scheduler.abort();
    server.stop().await;
}

#[tokio::test]
async fn a_deleted_pod_is_terminating_until_it_has_stopped() {
    let server = TestServer::new(1).await;
    let scheduler = bind_pods(&server).await;
    let mut victim = large("victim");
    // Longer than the test: the second deletion stops it.
    victim["metadata"]["annotations"]["sandbox.novasphere.dev/stops-after"] = "10m".into();
    victim["spec"]["terminationGracePeriodSeconds"] = 600.into();
    server.create(PODS, &victim).await;
    let path = format!("{PODS}/victim");
    server.wait_until(&path, |pod| pod["status"]["phase"] == "Running").await;
    assert_eq!(server.delete(&path).await.0, 200);
    assert_eq!(shown(&server, "victim").await, "Terminating");
    server.create(PODS, &large("hasty")).await;
    let hasty = format!("{PODS}/hasty");
    let hasty = server.wait_until(&hasty, |pod| pod["status"]["phase"] != "Pending").await;
    assert_eq!(hasty["status"]["reason"], "OutOfcpu");
    let at_once = json!({"gracePeriodSeconds": 1}).to_string();
    server.send(Method::DELETE, &path, "application/json", at_once).await;
    server.wait_until(&path, |answer| answer["code"] == 404).await;
    server.create(PODS, &large("patient")).await;
    server.wait_until(&format!("{PODS}/patient"), |pod| pod["status"]["phase"] == "Running").await;
    scheduler.abort();
    server.stop().await;
}

#[tokio::test]
async fn a_node_fails_for_the_time_in_its_annotation() {
    let server = TestServer::with(&Options { nodes: 1, speed: 20.0, ..Options::default() }).await;
    let path = "/api/v1/nodes/node-0";
    let ready = |node: &Value, status: &str| {
        let conditions = node["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
        conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == status)
    };
    server.wait_until(path, |node| ready(node, "True")).await;
    let fails = json!({"metadata": {"annotations": {"sandbox.novasphere.dev/fails": "20s"}}});
    server.patch(path, "merge-patch+json", &fails).await;
    let failed = server.wait_until(path, |node| ready(node, "Unknown")).await;
    assert!(
        failed["metadata"]["annotations"]["sandbox.novasphere.dev/failed-at"].is_string(),
        "{failed:#}"
    );
    let back = server.wait_until(path, |node| ready(node, "True")).await;
    assert!(back["metadata"].get("annotations").is_none(), "{back:#}");
    assert!(back["spec"].get("taints").is_none(), "{back:#}");
    server.stop().await;
}

#[tokio::test]
async fn daemon_sets_replace_failed_pods_and_keep_pods_on_no_schedule_taints() {
    let server = TestServer::new(1).await;
    let scheduler = bind_pods(&server).await;
    server.create(PODS, &large("a")).await;
    server.wait_until(&format!("{PODS}/a"), |pod| pod["status"]["phase"] == "Running").await;
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    let set = json!({"metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": large("agent")["spec"]}}});
    server.create(sets, &set).await;
    let of_set = format!("{PODS}?labelSelector=app%3Dagent");
    let failed =
        server.wait_until(&of_set, |list| list["items"][0]["status"]["phase"] == "Failed").await;
    let first = &failed["items"][0]["metadata"]["uid"];
    server.delete(&format!("{PODS}/a")).await;
    let status = format!("{sets}/agent");
    server.wait_until(&status, |set| set["status"]["numberReady"] == 1).await;
    let running = server.get(&of_set).await.1;
    assert_ne!(&running["items"][0]["metadata"]["uid"], first);
    let taint = |effect: &str| json!({"spec": {"taints": [{"key": "own", "effect": effect}]}});
    let node = "/api/v1/nodes/node-0";
    server.patch(node, "merge-patch+json", &taint("NoSchedule")).await;
    server
        .wait_until(&status, |set| {
            set["status"]["desiredNumberScheduled"] == 0 && set["status"]["numberMisscheduled"] == 1
        })
        .await;
    let kept = server.get(&of_set).await.1;
    assert!(kept["items"][0]["metadata"].get("deletionTimestamp").is_none(), "{kept:#}");
    server.patch(node, "merge-patch+json", &taint("NoExecute")).await;
    server.wait_until(&of_set, |list| list["items"] == json!([])).await;
    scheduler.abort();
    server.stop().await;
}

#[tokio::test]
async fn recreating_deployments_wait_until_old_pods_have_stopped() {
    let server = TestServer::new(2).await;
    let scheduler = bind_pods(&server).await;
    let all = "/apis/apps/v1/namespaces/default/deployments";
    let mut web = crate::server::deployment("web", 2);
    web["spec"]["strategy"] = json!({"type": "Recreate"});
    // Longer than the test: second deletions stop them.
    web["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] = 600.into();
    web["spec"]["template"]["metadata"]["annotations"] =
        json!({"sandbox.novasphere.dev/stops-after": "10m"});
    server.create(all, &web).await;
    let path = format!("{all}/web");
    server.wait_until(&path, |web| web["status"]["availableReplicas"] == 2).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}});
    server.patch(&path, "strategic-merge-patch+json", &image).await;
    server.wait_until(&path, |web| web["status"]["terminatingReplicas"] == 2).await;
    let pods = server.get(PODS).await.1;
    let pods = pods["items"].as_array().unwrap();
    assert!(
        pods.len() == 2 && pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "app:1")
    );
    for pod in pods {
        let path = format!("{PODS}/{}", pod["metadata"]["name"].as_str().unwrap());
        let at_once = json!({"gracePeriodSeconds": 1}).to_string();
        server.send(Method::DELETE, &path, "application/json", at_once).await;
    }
    server
        .wait_until(&path, |web| {
            web["status"]["updatedReplicas"] == 2 && web["status"]["availableReplicas"] == 2
        })
        .await;
    scheduler.abort();
    server.stop().await;
}
