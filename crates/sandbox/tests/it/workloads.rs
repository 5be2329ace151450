//! Workloads and their controllers.

use serde_json::{Value, json};

use crate::stage::{Stage, deployment, schedule};

#[tokio::test]
async fn deployments_roll_out_scale_and_delete_their_pods() {
    let stage = Stage::new(3).await;
    let scheduler = schedule(&stage).await;
    let all = "/apis/apps/v1/namespaces/default/deployments";
    let path = format!("{all}/web");
    stage.make(all, &deployment("web", 5)).await;
    let done = |value: &Value| {
        value["status"]["availableReplicas"] == 5
            && value["status"]["updatedReplicas"] == 5
            && value["status"]["replicas"] == 5
    };
    stage.until(&path, done).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}});
    stage.patch(&path, "strategic-merge-patch+json", &image).await;
    stage
        .until(&path, |value| {
            done(value)
                && value["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
        })
        .await;
    let pods = stage
        .until("/api/v1/namespaces/default/pods", |list| {
            list["items"].as_array().unwrap().len() == 5
        })
        .await;
    assert!(
        pods["items"]
            .as_array()
            .unwrap()
            .iter()
            .all(|pod| pod["spec"]["containers"][0]["image"] == "app:2")
    );
    stage
        .patch(&format!("{path}/scale"), "merge-patch+json", &json!({"spec": {"replicas": 2}}))
        .await;
    stage.until(&path, |value| value["status"]["replicas"] == 2).await;
    stage.delete(&path).await;
    stage
        .until("/api/v1/namespaces/default/pods", |list| {
            list["items"].as_array().unwrap().is_empty()
        })
        .await;
    scheduler.abort();
    stage.end().await;
}

#[tokio::test]
async fn jobs_complete_or_fail_with_their_pods() {
    let stage =
        Stage::with(&sandbox::Options { nodes: 2, speed: 20.0, ..sandbox::Options::default() })
            .await;
    let scheduler = schedule(&stage).await;
    let all = "/apis/batch/v1/namespaces/default/jobs";
    let job = |name: &str, code: &str| {
        json!({"metadata": {"name": name}, "spec": {"completions": 3, "parallelism": 2, "backoffLimit": 1, "template": {
        "metadata": {"annotations": {"sandbox.novasphere.dev/exit-code": code, "sandbox.novasphere.dev/runs-for": "1s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
    };
    stage.make(all, &job("good", "0")).await;
    stage.make(all, &job("bad", "3")).await;
    let condition = |value: &Value, kind: &str| {
        value["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["type"] == kind && one["status"] == "True"))
    };
    let good = stage.until(&format!("{all}/good"), |value| condition(value, "Complete")).await;
    assert_eq!(good["status"]["succeeded"], 3);
    let bad = stage.until(&format!("{all}/bad"), |value| condition(value, "Failed")).await;
    assert_eq!(bad["status"]["conditions"][1]["reason"], "BackoffLimitExceeded");
    scheduler.abort();
    stage.end().await;
}

#[tokio::test]
async fn stateful_and_daemon_sets_create_their_pods() {
    let stage = Stage::new(3).await;
    let scheduler = schedule(&stage).await;
    let template = json!({"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"app": "s"}});
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    stage.make(sets, &json!({"metadata": {"name": "db"}, "spec": {"replicas": 3, "serviceName": "db", "selector": selector, "template": template}})).await;
    stage.until(&format!("{sets}/db"), |value| value["status"]["readyReplicas"] == 3).await;
    assert_eq!(stage.get("/api/v1/namespaces/default/pods/db-2").await.0, 200);
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    stage.make(sets, &json!({"metadata": {"name": "agent"}, "spec": {"selector": selector, "template": template}})).await;
    stage
        .until(&format!("{sets}/agent"), |value| {
            value["status"]["desiredNumberScheduled"] == 3
                && value["status"]["currentNumberScheduled"] == 3
        })
        .await;
    scheduler.abort();
    stage.end().await;
}

#[tokio::test]
async fn disruption_budgets_forbid_evictions() {
    let stage = Stage::new(2).await;
    let scheduler = schedule(&stage).await;
    stage.make("/apis/apps/v1/namespaces/default/deployments", &deployment("web", 2)).await;
    stage
        .until("/apis/apps/v1/namespaces/default/deployments/web", |value| {
            value["status"]["availableReplicas"] == 2
        })
        .await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    stage.make(budgets, &json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}})).await;
    stage.until(&format!("{budgets}/b"), |value| value["status"]["currentHealthy"] == 2).await;
    let pods = stage.get("/api/v1/namespaces/default/pods").await.1;
    let name = pods["items"][0]["metadata"]["name"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/default/pods/{name}/eviction");
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let (status, refused) = stage.post(&path, &eviction).await;
    assert_eq!(status, 429);
    assert_eq!(
        refused["message"],
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    stage
        .patch(&format!("{budgets}/b"), "merge-patch+json", &json!({"spec": {"minAvailable": 1}}))
        .await;
    stage.until(&format!("{budgets}/b"), |value| value["status"]["disruptionsAllowed"] == 1).await;
    stage.make(&path, &eviction).await;
    scheduler.abort();
    stage.end().await;
}

#[tokio::test]
async fn deleting_a_namespace_deletes_its_objects() {
    let stage = Stage::new(1).await;
    stage.make("/api/v1/namespaces", &json!({"metadata": {"name": "team"}})).await;
    stage.make("/api/v1/namespaces/team/configmaps", &json!({"metadata": {"name": "c"}})).await;
    stage
        .until("/api/v1/namespaces/team/serviceaccounts/default", |value| {
            value["kind"] == "ServiceAccount"
        })
        .await;
    stage.delete("/api/v1/namespaces/team").await;
    stage.until("/api/v1/namespaces/team", |value| value["code"] == 404).await;
    assert_eq!(stage.get("/api/v1/namespaces/team/configmaps").await.1["items"], json!([]));
    stage.end().await;
}

#[tokio::test]
async fn claims_of_waiting_classes_are_bound_once_a_node_is_selected() {
    let stage = Stage::new(1).await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let made = stage.make(claims, &claim).await;
    assert_eq!(made["spec"]["storageClassName"], "standard");
    let selected =
        json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-0"}}});
    stage.patch(&format!("{claims}/data"), "merge-patch+json", &selected).await;
    let bound =
        stage.until(&format!("{claims}/data"), |value| value["status"]["phase"] == "Bound").await;
    let volume = bound["spec"]["volumeName"].as_str().unwrap();
    assert_eq!(
        stage.get(&format!("/api/v1/persistentvolumes/{volume}")).await.1["status"]["phase"],
        "Bound"
    );
    stage.end().await;
}

#[tokio::test]
async fn workloads_report_their_status_although_a_quota_rejects_pods() {
    let stage = Stage::new(1).await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    stage.make(quotas, &json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}})).await;
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]}});
    let set = json!({"metadata": {"name": "s"}, "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "x"}}, "template": template}});
    stage.make(sets, &set).await;
    let set = format!("{sets}/s");
    let failure = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|one| one["type"] == "ReplicaFailure")
    };
    let full =
        stage.until(&set, |set| set["status"]["replicas"] == 3 && failure(set).is_some()).await;
    let told = failure(&full).unwrap();
    assert_eq!((&told["status"], &told["reason"]), (&json!("True"), &json!("FailedCreate")));
    assert!(told["message"].as_str().unwrap().contains("exceeded quota"), "{told}");
    // The condition is removed with its cause.
    stage
        .patch(
            &format!("{quotas}/q"),
            "merge-patch+json",
            &json!({"spec": {"hard": {"pods": "5"}}}),
        )
        .await;
    stage.until(&set, |set| set["status"]["replicas"] == 5 && failure(set).is_none()).await;
    // A job reports a partial creation of its pods.
    stage
        .patch(
            &format!("{quotas}/q"),
            "merge-patch+json",
            &json!({"spec": {"hard": {"pods": "7"}}}),
        )
        .await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = json!({"metadata": {"name": "j"}, "spec": {"parallelism": 4, "completions": 4, "completionMode": "Indexed",
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    stage.make(jobs, &job).await;
    stage.until(&format!("{jobs}/j"), |job| job["status"]["active"] == 2).await;
    stage.end().await;
}

#[tokio::test]
async fn claims_take_the_smallest_volume_that_fits() {
    let stage = Stage::new(0).await;
    let (volumes, claims) =
        ("/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims");
    let claim = |name: &str, size: &str| json!({"metadata": {"name": name}, "spec": {"storageClassName": "", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}});
    // Claims created before and after their volumes.
    stage.make(claims, &claim("early", "5Gi")).await;
    for (name, size) in [("large", "20Gi"), ("small", "1Gi"), ("medium", "10Gi")] {
        let volume = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
        stage.make(volumes, &volume).await;
        if name == "large" {
            stage
                .until(&format!("{claims}/early"), |one| one["spec"]["volumeName"] == "large")
                .await;
        }
    }
    stage.make(claims, &claim("late", "5Gi")).await;
    stage.until(&format!("{claims}/late"), |one| one["spec"]["volumeName"] == "medium").await;
    // A volume with a claim reference is reserved.
    let reserved = json!({"metadata": {"name": "mine"}, "spec": {"capacity": {"storage": "50Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"},
        "claimRef": {"namespace": "default", "name": "chosen"}}});
    stage.make(volumes, &reserved).await;
    stage.make(claims, &claim("chosen", "1Gi")).await;
    stage.until(&format!("{claims}/chosen"), |one| one["spec"]["volumeName"] == "mine").await;
    let free = stage.get(&format!("{volumes}/small")).await.1;
    assert_eq!(free["spec"]["claimRef"], Value::Null);
    stage.end().await;
}
