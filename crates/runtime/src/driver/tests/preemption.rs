//! Pods that are deleted to make room: the answer and the watch come on different connections.

use super::*;

/// A pod that fills the node.
fn large(name: &str, priority: i32, on: Option<&str>, more: &Value) -> Change {
    let mut meta = json!({"namespace": "ns", "name": name, "uid": name, "resourceVersion": "7"});
    if more["terminating"] == true {
        meta["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
    }
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "64"}}});
    let mut spec = json!({
        "schedulerName": "default-scheduler", "priority": priority, "containers": [container],
    });
    if let Some(node) = on {
        spec["nodeName"] = node.into();
    }
    let value = json!({"metadata": meta, "spec": spec, "status": more["status"]});
    Change::Pod(Box::new(api::lower::pod(&value).0.unwrap()))
}

fn condition() -> Value {
    json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"})
}

fn handled(failure: Option<&str>) -> Change {
    let (preemptor, victim) = ("high".into(), "low".into());
    Change::VictimHandled { preemptor, victim, failure: failure.map(Text::from) }
}

/// Two full nodes, and a pod for which one is being made free.
async fn stage() -> DriverFixture {
    let mut stage = DriverFixture::leading(0).await;
    stage.tell(node("n2")).await;
    stage.tell(large("other", 0, Some("n2"), &json!({}))).await;
    stage.tell(large("low", -1, Some("n1"), &json!({}))).await;
    sleep(Duration::from_millis(1)).await;
    stage.tell(large("high", 10, None, &json!({}))).await;
    sleep(Duration::from_millis(1)).await;
    let evict = stage.commands.try_recv().unwrap();
    let Command::Evict { victim, node, .. } = evict.command else { panic!("{evict:?}") };
    assert_eq!((&*victim.name, &*node), ("low", "n1"));
    let report = stage.commands.try_recv().unwrap();
    let Command::ReportFailure { nominate, .. } = report.command else { panic!("{report:?}") };
    assert_eq!(nominate.as_deref(), Some("n1"));
    stage
}

#[test]
fn the_order_of_answers_does_not_matter_to_a_pod_that_waits_for_a_victim() {
    let patched =
        || large("low", -1, Some("n1"), &json!({"status": {"conditions": [condition()]}}));
    let terminating = || {
        let status = json!({"conditions": [condition()]});
        large("low", -1, Some("n1"), &json!({"terminating": true, "status": status}))
    };
    let echo = || large("high", 10, None, &json!({"status": {"nominatedNodeName": "n1"}}));
    for place in 0..4 {
        local(async {
            let mut stage = stage().await;
            let mut changes = vec![patched(), echo(), terminating()];
            changes.insert(place, handled(None));
            for change in changes {
                stage.tell(change).await;
                sleep(Duration::from_mins(1)).await;
                assert_eq!(stage.issued().await, Vec::<String>::new(), "{place}");
            }
            stage.tell(Change::PodGone { uid: "low".into() }).await;
            sleep(Duration::from_secs(11)).await;
            assert_eq!(stage.issued().await, ["Bind high"], "{place}");
        });
    }
}

#[test]
fn a_victim_that_is_gone_before_the_answer_lets_the_pod_in_with_it() {
    local(async {
        let mut stage = stage().await;
        stage.tell(Change::PodGone { uid: "low".into() }).await;
        sleep(Duration::from_mins(1)).await;
        assert_eq!(stage.issued().await, Vec::<String>::new());
        stage.tell(handled(None)).await;
        assert_eq!(stage.issued().await, ["Bind high"]);
    });
}

#[test]
fn a_victim_that_cannot_be_deleted_is_tried_again_at_once() {
    local(async {
        let mut stage = stage().await;
        stage.tell(handled(Some("403 Forbidden"))).await;
        assert_eq!(stage.issued().await, ["Evict high", "ReportFailure high"]);
    });
}
