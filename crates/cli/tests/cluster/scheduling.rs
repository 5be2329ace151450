//! Pods of all kinds are placed as their constraints require.

use serde_json::json;

use crate::stage::{PODS, Stage, condition, node, pod, pod_with};

#[tokio::test]
async fn a_deployment_fills_all_nodes_and_becomes_available() {
    let stage = Stage::new((0..20).map(|number| node(&format!("n{number}"), 10)).collect()).await;
    let scheduler = stage.scheduler(&[]);
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
    stage.make(deployments, &deployment).await;
    let web = format!("{deployments}/web");
    stage.until(&web, |web| web["status"]["availableReplicas"] == 200).await;
    let placements = stage.placements(200).await;
    assert_eq!(placements.len(), 20);
    assert!(placements.iter().all(|(_, pods)| *pods == 10), "{placements:?}");
    let scheduled = stage.until("/api/v1/namespaces/default/events", |events| {
        let events = events["items"].as_array().expect("a list");
        events.iter().filter(|event| event["reason"] == "Scheduled").count() == 200
    });
    scheduled.await;
    scheduler.stop().await;
    stage.end().await;
}

#[tokio::test]
async fn taints_selectors_and_spread_constraints_are_respected() {
    let mut nodes: Vec<_> = (0..4).map(|number| node(&format!("n{number}"), 10)).collect();
    nodes[0]["spec"] = json!({"taints": [{"key": "own", "value": "a", "effect": "NoSchedule"}]});
    nodes[1]["spec"] = json!({"unschedulable": true});
    nodes[2]["metadata"]["labels"]["disk"] = json!("fast");
    let stage = Stage::new(nodes).await;
    let scheduler = stage.scheduler(&[]);
    stage.make(PODS, &pod_with("fast", &json!({"nodeSelector": {"disk": "fast"}}))).await;
    assert_eq!(stage.node_of("fast").await, "n2");
    let tolerant = json!({
        "nodeSelector": {"kubernetes.io/hostname": "n0"},
        "tolerations": [{"key": "own", "operator": "Exists"}],
    });
    stage.make(PODS, &pod_with("tolerant", &tolerant)).await;
    assert_eq!(stage.node_of("tolerant").await, "n0");
    let spread = json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"set": "spread"}},
    }]});
    for number in 0..4 {
        let mut pod = pod_with(&format!("spread-{number}"), &spread);
        pod["metadata"]["labels"]["set"] = json!("spread");
        stage.make(PODS, &pod).await;
    }
    let mut on = Vec::new();
    for number in 0..2 {
        on.push(stage.node_of(&format!("spread-{number}")).await);
    }
    on.sort();
    assert_eq!(on, ["n2", "n3"]);
    // Tainted nodes count as empty domains: the default nodeTaintsPolicy is Ignore.
    let message = stage.refusal_of("spread-3").await;
    assert!(message.starts_with("0/4 nodes are available: "), "{message}");
    assert!(message.contains("didn't match pod topology spread constraints"), "{message}");
    scheduler.stop().await;
    stage.end().await;
}

#[tokio::test]
async fn a_gated_pod_waits_until_its_gate_is_removed() {
    let stage = Stage::new(vec![node("n", 4)]).await;
    let scheduler = stage.scheduler(&[]);
    stage.make(PODS, &pod_with("gated", &json!({"schedulingGates": [{"name": "a/b"}]}))).await;
    stage.make(PODS, &pod("free")).await;
    assert_eq!(stage.node_of("free").await, "n");
    let gated = stage.get(&format!("{PODS}/gated")).await;
    assert!(gated["spec"]["nodeName"].is_null(), "{gated}");
    stage.merge(&format!("{PODS}/gated"), &json!({"spec": {"schedulingGates": []}})).await;
    assert_eq!(stage.node_of("gated").await, "n");
    scheduler.stop().await;
    stage.end().await;
}

#[tokio::test]
async fn preemption_avoids_pods_with_a_disruption_budget() {
    let stage = Stage::new(vec![node("guarded-node", 1), node("open-node", 1)]).await;
    let scheduler = stage.scheduler(&[]);
    let class = json!({"metadata": {"name": "urgent"}, "value": 1000});
    stage.make("/apis/scheduling.k8s.io/v1/priorityclasses", &class).await;
    let on = |node: &str| json!({"nodeSelector": {"kubernetes.io/hostname": node}});
    stage.make(PODS, &pod_with("guarded", &on("guarded-node"))).await;
    stage.make(PODS, &pod_with("open", &on("open-node"))).await;
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({"metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}}});
    stage.make(budgets, &budget).await;
    let guard = format!("{budgets}/guard");
    stage.until(&guard, |guard| guard["status"]["currentHealthy"] == 1).await;
    stage.make(PODS, &pod_with("urgent", &json!({"priorityClassName": "urgent"}))).await;
    assert_eq!(stage.node_of("urgent").await, "open-node");
    assert_eq!(stage.node_of("guarded").await, "guarded-node");
    let events = "/api/v1/namespaces/default/events";
    let message = stage.until(events, |events| {
        let events = events["items"].as_array().expect("a list");
        events.iter().any(|event| event["reason"] == "Preempted")
    });
    let message = message.await;
    let preempted = message["items"].as_array().expect("a list").iter();
    let preempted: Vec<_> = preempted.filter(|event| event["reason"] == "Preempted").collect();
    assert_eq!(preempted[0]["involvedObject"]["name"], "open");
    scheduler.stop().await;
    stage.end().await;
}

#[tokio::test]
async fn a_volume_is_provisioned_on_the_node_of_its_pod() {
    let stage = Stage::new(vec![node("n0", 4), node("n1", 4)]).await;
    let scheduler = stage.scheduler(&[]);
    let class = json!({"metadata": {"name": "late"}, "provisioner": "example.com/disks",
        "volumeBindingMode": "WaitForFirstConsumer"});
    stage.make("/apis/storage.k8s.io/v1/storageclasses", &class).await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"metadata": {"name": "data"}, "spec": {
        "storageClassName": "late", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
    }});
    stage.make(claims, &claim).await;
    let spec = json!({
        "nodeSelector": {"kubernetes.io/hostname": "n1"},
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    });
    stage.make(PODS, &pod_with("stateful", &spec)).await;
    assert_eq!(stage.node_of("stateful").await, "n1");
    let claim = stage.get(&format!("{claims}/data")).await;
    assert_eq!(claim["status"]["phase"], "Bound");
    assert_eq!(claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"], "n1");
    scheduler.stop().await;
    stage.end().await;
}

#[tokio::test]
async fn two_profiles_work_in_one_process() {
    let stage = Stage::new(vec![node("full", 4), node("empty", 4)]).await;
    let config = stage.write(
        "profiles.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: default-scheduler\n- schedulerName: packing\n  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy:\n        type: MostAllocated\n        resources: [{name: cpu, weight: 1}]\n",
    );
    let scheduler = stage.scheduler(&["--config", config.to_str().expect("a path")]);
    stage
        .make(
            PODS,
            &pod_with("first", &json!({"nodeSelector": {"kubernetes.io/hostname": "full"}})),
        )
        .await;
    assert_eq!(stage.node_of("first").await, "full");
    stage.make(PODS, &pod_with("packed", &json!({"schedulerName": "packing"}))).await;
    assert_eq!(stage.node_of("packed").await, "full");
    stage.make(PODS, &pod("spread")).await;
    assert_eq!(stage.node_of("spread").await, "empty");
    stage.make(PODS, &pod_with("foreign", &json!({"schedulerName": "not-running"}))).await;
    stage.make(PODS, &pod_with("last", &json!({"nodeSelector": {"disk": "none"}}))).await;
    let message = stage.refusal_of("last").await;
    assert_eq!(
        message,
        "0/2 nodes are available: 2 node(s) didn't match Pod's node affinity/selector. no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
    let foreign = stage.get(&format!("{PODS}/foreign")).await;
    assert!(condition(&foreign, "PodScheduled").is_null(), "{foreign}");
    scheduler.stop().await;
    stage.end().await;
}
