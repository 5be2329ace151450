//! Pods of all kinds are placed as their constraints require.

use serde_json::json;

use crate::test_cluster::{PODS, TestCluster, condition, node, pod, pod_with};

#[tokio::test]
async fn a_deployment_fills_all_nodes_and_becomes_available() {
    let cluster =
        TestCluster::new((0..20).map(|number| node(&format!("n{number}"), 10)).collect()).await;
    let scheduler = cluster.scheduler(&[]);
    let template = pod("web");
    let deployment = json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {
            "replicas": 200,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": template["spec"]},
        },
    });
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    cluster.make(deployments, &deployment).await;
    let web = format!("{deployments}/web");
    cluster.until(&web, |web| web["status"]["availableReplicas"] == 200).await;
    let placements = cluster.placements(200).await;
    assert_eq!(placements.len(), 20);
    assert!(placements.iter().all(|(_, pods)| *pods == 10), "{placements:?}");
    let scheduled = cluster.until("/api/v1/namespaces/default/events", |events| {
        let events = events["items"].as_array().expect("a list");
        events.iter().filter(|event| event["reason"] == "Scheduled").count() == 200
    });
    scheduled.await;
    scheduler.stop().await;
    cluster.end().await;
}

#[tokio::test]
async fn taints_selectors_and_spread_constraints_are_respected() {
    let mut nodes: Vec<_> = (0..4).map(|number| node(&format!("n{number}"), 10)).collect();
    nodes[0]["spec"] = json!({"taints": [{"key": "own", "value": "a", "effect": "NoSchedule"}]});
    nodes[1]["spec"] = json!({"unschedulable": true});
    nodes[2]["metadata"]["labels"]["disk"] = json!("fast");
    let cluster = TestCluster::new(nodes).await;
    let scheduler = cluster.scheduler(&[]);
    cluster.make(PODS, &pod_with("fast", &json!({"nodeSelector": {"disk": "fast"}}))).await;
    assert_eq!(cluster.node_of("fast").await, "n2");
    let tolerant = json!({
        "nodeSelector": {"kubernetes.io/hostname": "n0"},
        "tolerations": [{"key": "own", "operator": "Exists"}],
    });
    cluster.make(PODS, &pod_with("tolerant", &tolerant)).await;
    assert_eq!(cluster.node_of("tolerant").await, "n0");
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"set": "spread"}},
    }]});
    for number in 0..4 {
        let mut pod = pod_with(&format!("spread-{number}"), &spread);
        pod["metadata"]["labels"]["set"] = json!("spread");
        cluster.make(PODS, &pod).await;
    }
    let mut on = Vec::new();
    for number in 0..2 {
        on.push(cluster.node_of(&format!("spread-{number}")).await);
    }
    on.sort();
    assert_eq!(on, ["n2", "n3"]);
    // Tainted nodes count as empty domains: the default nodeTaintsPolicy is Ignore.
    let message = cluster.refusal_of("spread-3").await;
    assert!(message.starts_with("0/4 nodes are available: "), "{message}");
    assert!(message.contains("didn't match pod topology spread constraints"), "{message}");
    scheduler.stop().await;
    cluster.end().await;
}

#[tokio::test]
async fn a_gated_pod_waits_until_its_gate_is_removed() {
    let cluster = TestCluster::new(vec![node("n", 4)]).await;
    let scheduler = cluster.scheduler(&[]);
    cluster.make(PODS, &pod_with("gated", &json!({"schedulingGates": [{"name": "a/b"}]}))).await;
    cluster.make(PODS, &pod("free")).await;
    assert_eq!(cluster.node_of("free").await, "n");
    let gated = cluster.get(&format!("{PODS}/gated")).await;
    assert!(gated["spec"]["nodeName"].is_null(), "{gated}");
    cluster.merge(&format!("{PODS}/gated"), &json!({"spec": {"schedulingGates": []}})).await;
    assert_eq!(cluster.node_of("gated").await, "n");
    scheduler.stop().await;
    cluster.end().await;
}

#[tokio::test]
async fn preemption_avoids_pods_with_a_disruption_budget() {
    let cluster = TestCluster::new(vec![node("guarded-node", 1), node("open-node", 1)]).await;
    let scheduler = cluster.scheduler(&[]);
    let class = json!({"metadata": {"name": "urgent"}, "value": 1000});
    cluster.make("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    let on = |node: &str| json!({"nodeSelector": {"kubernetes.io/hostname": node}});
    cluster.make(PODS, &pod_with("guarded", &on("guarded-node"))).await;
    cluster.make(PODS, &pod_with("open", &on("open-node"))).await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}});
    cluster.make(budgets, &budget).await;
    let guard = format!("{budgets}/guard");
    cluster.until(&guard, |guard| guard["status"]["currentHealthy"] == 1).await;
    cluster.make(PODS, &pod_with("urgent", &json!({"priorityClassName": "urgent"}))).await;
    assert_eq!(cluster.node_of("urgent").await, "open-node");
    assert_eq!(cluster.node_of("guarded").await, "guarded-node");
    let events = "/api/v1/namespaces/default/events";
    let message = cluster.until(events, |events| {
        let events = events["items"].as_array().expect("a list");
        events.iter().any(|event| event["reason"] == "Preempted")
    });
    let message = message.await;
    let preempted = message["items"].as_array().expect("a list").iter();
    let preempted: Vec<_> = preempted.filter(|event| event["reason"] == "Preempted").collect();
    assert_eq!(preempted[0]["involvedObject"]["name"], "open");
    scheduler.stop().await;
    cluster.end().await;
}

#[tokio::test]
async fn a_volume_is_provisioned_on_the_node_of_its_pod() {
    let cluster = TestCluster::new(vec![node("n0", 4), node("n1", 4)]).await;
    let scheduler = cluster.scheduler(&[]);
    let class = json!({"metadata": {"name": "late"}, "provisioner": "example.com/disks",
        "volumeBindingMode": "WaitForFirstConsumer"});
    cluster.make("/apis/storage.k8s.io/v1/storageclasses", &class).await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "storageClassName": "late", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    cluster.make(claims, &claim).await;
    let spec = json!({
        "nodeSelector": {"kubernetes.io/hostname": "n1"},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    });
    cluster.make(PODS, &pod_with("stateful", &spec)).await;
    assert_eq!(cluster.node_of("stateful").await, "n1");
    let claim = cluster.get(&format!("{claims}/data")).await;
    assert_eq!(claim["status"]["phase"], "Bound");
    assert_eq!(claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], "n1");
    scheduler.stop().await;
    cluster.end().await;
}

#[tokio::test]
async fn two_profiles_work_in_one_process() {
    let cluster = TestCluster::new(vec![node("full", 4), node("empty", 4)]).await;
    let config = cluster.write(
        "profiles.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: default-scheduler\n- schedulerName: packing\n  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy:\n        type: MostAllocated\n        resources: [{name: cpu, weight: 1}]\n",
    );
    let scheduler = cluster.scheduler(&["--config", config.to_str().expect("a path")]);
    cluster
        .make(
            PODS,
            &pod_with("first", &json!({"nodeSelector": {"kubernetes.io/hostname": "full"}})),
        )
        .await;
    assert_eq!(cluster.node_of("first").await, "full");
    cluster.make(PODS, &pod_with("packed", &json!({"schedulerName": "packing"}))).await;
    assert_eq!(cluster.node_of("packed").await, "full");
    cluster.make(PODS, &pod("spread")).await;
    assert_eq!(cluster.node_of("spread").await, "empty");
    cluster.make(PODS, &pod_with("foreign", &json!({"schedulerName": "not-running"}))).await;
    cluster.make(PODS, &pod_with("last", &json!({"nodeSelector": {"disk": "none"}}))).await;
    let message = cluster.refusal_of("last").await;
    assert_eq!(
        message,
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
    let foreign = cluster.get(&format!("{PODS}/foreign")).await;
    assert!(condition(&foreign, "PodScheduled").is_null(), "{foreign}");
    scheduler.stop().await;
    cluster.end().await;
}
