//! Workloads and their controllers.

use serde_json::{Value, json};

use crate::server::{TestServer, bind_pods, deployment};

#[tokio::test]
async fn deployments_roll_out_scale_and_delete_their_pods() {
    let server = TestServer::new(3).await;
    let scheduler = bind_pods(&server).await;
    let all = "/apis/apps/v1/namespaces/default/deployments";
    let path = format!("{all}/web");
    server.create(all, &deployment("web", 5)).await;
    let done = |value: &Value| {
        value["status"]["availableReplicas"] == 5
            && value["status"]["updatedReplicas"] == 5
            && value["status"]["replicas"] == 5
    };
    server.wait_until(&path, done).await;
    let image = json!({"spec": {"template": {"spec": {"containers": [{"name": "app", "image": "app:2"}]}}}});
    server.patch(&path, "strategic-merge-patch+json", &image).await;
    server
        .wait_until(&path, |value| {
            done(value)
                && value["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "2"
        })
        .await;
    let pods = server
        .wait_until("/api/v1/namespaces/default/pods", |list| {
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
    server
        .patch(&format!("{path}/scale"), "merge-patch+json", &json!({"spec": {"replicas": 2}}))
        .await;
    server.wait_until(&path, |value| value["status"]["replicas"] == 2).await;
    server.delete(&path).await;
    server
        .wait_until("/api/v1/namespaces/default/pods", |list| {
            list["items"].as_array().unwrap().is_empty()
        })
        .await;
    scheduler.abort();
    server.stop().await;
}

#[tokio::test]
async fn jobs_complete_or_fail_with_their_pods() {
    let server = TestServer::with(&sandbox::Options {
        nodes: 2,
        speed: 20.0,
        ..sandbox::Options::default()
    })
    .await;
    let scheduler = bind_pods(&server).await;
    let all = "/apis/batch/v1/namespaces/default/jobs";
    let job = |name: &str, code: &str| {
        json!({"metadata": {"name": name}, "spec": {"completions": 3, "parallelism": 2, "backoffLimit": 1, "template": {
        "metadata": {"annotations": {"sandbox.novasphere.dev/exit-code": code, "sandbox.novasphere.dev/runs-for": "1s"}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
    };
    server.create(all, &job("good", "0")).await;
    server.create(all, &job("bad", "3")).await;
    let condition = |value: &Value, kind: &str| {
        value["status"]["conditions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["type"] == kind && one["status"] == "True"))
    };
    let good =
        server.wait_until(&format!("{all}/good"), |value| condition(value, "Complete")).await;
    assert_eq!(good["status"]["succeeded"], 3);
    let bad = server.wait_until(&format!("{all}/bad"), |value| condition(value, "Failed")).await;
    assert_eq!(bad["status"]["conditions"][1]["reason"], "BackoffLimitExceeded");
    scheduler.abort();
    server.stop().await;
}

#[tokio::test]
async fn stateful_and_daemon_sets_create_their_pods() {
    let server = TestServer::new(3).await;
    let scheduler = bind_pods(&server).await;
    let template = json!({"metadata": {"labels": {"app": "s"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"app": "s"}});
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    server.create(sets, &json!({"metadata": {"name": "db"}, "spec": {"replicas": 3, "serviceName": "db", "selector": selector, "template": template}})).await;
    server.wait_until(&format!("{sets}/db"), |value| value["status"]["readyReplicas"] == 3).await;
    assert_eq!(server.get("/api/v1/namespaces/default/pods/db-2").await.0, 200);
    let sets = "/apis/apps/v1/namespaces/default/daemonsets";
    server.create(sets, &json!({"metadata": {"name": "agent"}, "spec": {"selector": selector, "template": template}})).await;
    server
        .wait_until(&format!("{sets}/agent"), |value| {
            value["status"]["desiredNumberScheduled"] == 3
                && value["status"]["currentNumberScheduled"] == 3
        })
        .await;
    scheduler.abort();
    server.stop().await;
}

#[tokio::test]
async fn disruption_budgets_forbid_evictions() {
    let server = TestServer::new(2).await;
    let scheduler = bind_pods(&server).await;
    server.create("/apis/apps/v1/namespaces/default/deployments", &deployment("web", 2)).await;
    server
        .wait_until("/apis/apps/v1/namespaces/default/deployments/web", |value| {
            value["status"]["availableReplicas"] == 2
        })
        .await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    server.create(budgets, &json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}})).await;
    server
        .wait_until(&format!("{budgets}/b"), |value| value["status"]["currentHealthy"] == 2)
        .await;
    let pods = server.get("/api/v1/namespaces/default/pods").await.1;
    let name = pods["items"][0]["metadata"]["name"].as_str().unwrap();
    let path = format!("/api/v1/namespaces/default/pods/{name}/eviction");
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    let (status, error) = server.post(&path, &eviction).await;
    assert_eq!(status, 429);
    assert_eq!(
        error["message"],
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    server
        .patch(&format!("{budgets}/b"), "merge-patch+json", &json!({"spec": {"minAvailable": 1}}))
        .await;
    server
        .wait_until(&format!("{budgets}/b"), |value| value["status"]["disruptionsAllowed"] == 1)
        .await;
    server.create(&path, &eviction).await;
    scheduler.abort();
    server.stop().await;
}

#[tokio::test]
async fn deleting_a_namespace_deletes_its_objects() {
    let server = TestServer::new(1).await;
    server.create("/api/v1/namespaces", &json!({"metadata": {"name": "team"}})).await;
    server.create("/api/v1/namespaces/team/configmaps", &json!({"metadata": {"name": "c"}})).await;
    server
        .wait_until("/api/v1/namespaces/team/serviceaccounts/default", |value| {
            value["kind"] == "ServiceAccount"
        })
        .await;
    server.delete("/api/v1/namespaces/team").await;
    server.wait_until("/api/v1/namespaces/team", |value| value["code"] == 404).await;
    assert_eq!(server.get("/api/v1/namespaces/team/configmaps").await.1["items"], json!([]));
    server.stop().await;
}

#[tokio::test]
async fn claims_of_waiting_classes_are_bound_once_a_node_is_selected() {
    let server = TestServer::new(1).await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let made = server.create(claims, &claim).await;
    assert_eq!(made["spec"]["storageClassName"], "standard");
    let selected =
        json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-0"}}});
    server.patch(&format!("{claims}/data"), "merge-patch+json", &selected).await;
    let bound = server
        .wait_until(&format!("{claims}/data"), |value| value["status"]["phase"] == "Bound")
        .await;
    let volume = bound["spec"]["volumeName"].as_str().unwrap();
    assert_eq!(
        server.get(&format!("/api/v1/persistentvolumes/{volume}")).await.1["status"]["phase"],
        "Bound"
    );
    server.stop().await;
}

#[tokio::test]
async fn workloads_report_their_status_although_a_quota_rejects_pods() {
    let server = TestServer::new(1).await;
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    server
        .create(quotas, &json!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}}))
        .await;
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"restartPolicy": "Always", "containers": [{"name": "c", "image": "i"}]}});
    let set = json!({"metadata": {"name": "s"}, "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "x"}}, "template": template}});
    server.create(sets, &set).await;
    let set = format!("{sets}/s");
    let failure = |object: &Value| {
        let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|one| one["type"] == "ReplicaFailure")
    };
    let full = server
        .wait_until(&set, |set| set["status"]["replicas"] == 3 && failure(set).is_some())
        .await;
    let error = failure(&full).unwrap();
    assert_eq!((&error["status"], &error["reason"]), (&json!("True"), &json!("FailedCreate")));
    assert!(error["message"].as_str().unwrap().contains("exceeded quota"), "{error}");
    // The condition is removed with its cause.
    server
        .patch(
            &format!("{quotas}/q"),
            "merge-patch+json",
            &json!({"spec": {"hard": {"pods": "5"}}}),
        )
        .await;
    server.wait_until(&set, |set| set["status"]["replicas"] == 5 && failure(set).is_none()).await;
    // A job reports a partial creation of its pods.
    server
        .patch(
            &format!("{quotas}/q"),
            "merge-patch+json",
            &json!({"spec": {"hard": {"pods": "7"}}}),
        )
        .await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let job = json!({"metadata": {"name": "j"}, "spec": {"parallelism": 4, "completions": 4, "completionMode": "Indexed",
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    server.create(jobs, &job).await;
    server.wait_until(&format!("{jobs}/j"), |job| job["status"]["active"] == 2).await;
    server.stop().await;
}

#[tokio::test]
async fn pods_with_ephemeral_volumes_get_claims_that_live_as_long() {
    let server = TestServer::new(0).await;
    let (pods, claims) =
        ("/api/v1/namespaces/default/pods", "/api/v1/namespaces/default/persistentvolumeclaims");
    let pod = json!({"metadata": {"name": "p"}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "plain"}, {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }}}],
    }});
    server.create(pods, &pod).await;
    let path = format!("{claims}/p-scratch");
    let claim = server.wait_until(&path, |claim| claim["metadata"]["uid"].is_string()).await;
    let pod = server.get(&format!("{pods}/p")).await.1;
    let owner = &claim["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"], &owner["controller"]),
        (&json!("Pod"), &pod["metadata"]["uid"], &json!(true))
    );
    assert_eq!(claim["metadata"]["labels"]["a"], "b");
    assert_eq!(claim["spec"]["resources"]["requests"]["storage"], "1Gi");
    assert_eq!(claim["spec"]["storageClassName"], "standard");
    assert_eq!(server.get(claims).await.1["items"].as_array().unwrap().len(), 1);
    // A claim that is deleted before its pod is made again.
    server.delete(&path).await;
    let old = claim["metadata"]["uid"].clone();
    server
        .wait_until(&path, |claim| {
            claim["metadata"]["uid"].is_string() && claim["metadata"]["uid"] != old
        })
        .await;
    server.delete(&format!("{pods}/p?gracePeriodSeconds=0")).await;
    server.wait_until(&path, |claim| claim["code"] == 404).await;
    server.stop().await;
}

#[tokio::test]
async fn claims_in_use_and_bound_volumes_outlive_their_deletion() {
    let server = TestServer::new(1).await;
    let (pods, volumes, claims) = (
        "/api/v1/namespaces/default/pods",
        "/api/v1/persistentvolumes",
        "/api/v1/namespaces/default/persistentvolumeclaims",
    );
    let (volume, claim) = (format!("{volumes}/v"), format!("{claims}/c"));
    let size = json!({"storage": "1Gi"});
    server
        .create(volumes, &json!({"metadata": {"name": "v"}, "spec": {"capacity": size, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}}))
        .await;
    server
        .create(claims, &json!({"metadata": {"name": "c"}, "spec": {"storageClassName": "", "accessModes": ["ReadWriteOnce"], "resources": {"requests": size}}}))
        .await;
    server
        .create(pods, &json!({"metadata": {"name": "p"}, "spec": {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "c"}}]}}))
        .await;
    for (path, finalizer) in
        [(&volume, "kubernetes.io/pv-protection"), (&claim, "kubernetes.io/pvc-protection")]
    {
        server
            .wait_until(path, |one| {
                one["metadata"]["finalizers"][0] == finalizer && one["status"]["phase"] == "Bound"
            })
            .await;
        server.delete(path).await;
        let left = server.get(path).await.1;
        assert!(left["metadata"]["deletionTimestamp"].is_string(), "{left}");
    }
    server.delete(&format!("{pods}/p?gracePeriodSeconds=0")).await;
    for path in [&claim, &volume] {
        server.wait_until(path, |one| one["code"] == 404).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn claims_take_the_smallest_volume_that_fits() {
    let server = TestServer::new(0).await;
    let (volumes, claims) =
        ("/api/v1/persistentvolumes", "/api/v1/namespaces/default/persistentvolumeclaims");
    let claim = |name: &str, size: &str| json!({"metadata": {"name": name}, "spec": {"storageClassName": "", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}});
    // Claims created before and after their volumes.
    server.create(claims, &claim("early", "5Gi")).await;
    for (name, size) in [("large", "20Gi"), ("small", "1Gi"), ("medium", "10Gi")] {
        let volume = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}});
        server.create(volumes, &volume).await;
        if name == "large" {
            server
                .wait_until(&format!("{claims}/early"), |one| one["spec"]["volumeName"] == "large")
                .await;
        }
    }
    server.create(claims, &claim("late", "5Gi")).await;
    server.wait_until(&format!("{claims}/late"), |one| one["spec"]["volumeName"] == "medium").await;
    // A volume with a claim reference is reserved.
    let reserved = json!({"metadata": {"name": "mine"}, "spec": {"capacity": {"storage": "50Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"},
        "claimRef": {"namespace": "default", "name": "chosen"}}});
    server.create(volumes, &reserved).await;
    server.create(claims, &claim("chosen", "1Gi")).await;
    server.wait_until(&format!("{claims}/chosen"), |one| one["spec"]["volumeName"] == "mine").await;
    let free = server.get(&format!("{volumes}/small")).await.1;
    assert_eq!(free["spec"]["claimRef"], Value::Null);
    server.stop().await;
}
