//! Preemption: the response to an eviction and the watch events of its victim arrive in any order.

use super::*;

/// A pod that requests all CPU of a node.
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

/// Two full nodes, and a preemptor whose victim on `n1` is being evicted.
async fn preempting() -> DriverFixture {
    let mut fixture = DriverFixture::leading(0).await;
    fixture.apply(node("n2")).await;
    fixture.apply(large("other", 0, Some("n2"), &json!({}))).await;
    fixture.apply(large("low", -1, Some("n1"), &json!({}))).await;
    sleep(Duration::from_millis(1)).await;
    fixture.apply(large("high", 10, None, &json!({}))).await;
    sleep(Duration::from_millis(1)).await;
    let evict = fixture.commands.try_recv().unwrap();
    let Command::DeleteVictim { victim, node, .. } = evict.command else { panic!("{evict:?}") };
    assert_eq!((&*victim.name, &*node), ("low", "n1"));
    let report = fixture.commands.try_recv().unwrap();
    let Command::ReportFailure { nominate, .. } = report.command else { panic!("{report:?}") };
    assert_eq!(nominate.as_deref(), Some("n1"));
    fixture
}

#[test]
fn a_preemptor_is_bound_when_its_victim_is_gone_in_whatever_order_events_arrive() {
    let patched =
        || large("low", -1, Some("n1"), &json!({"status": {"conditions": [condition()]}}));
    let terminating = || {
        let status = json!({"conditions": [condition()]});
        large("low", -1, Some("n1"), &json!({"terminating": true, "status": status}))
    };
    let echo = || large("high", 10, None, &json!({"status": {"nominatedNodeName": "n1"}}));
    for place in 0..4 {
        local(async {
            let mut fixture = preempting().await;
            let mut changes = vec![patched(), echo(), terminating()];
            changes.insert(place, handled(None));
            for change in changes {
                fixture.apply(change).await;
                sleep(Duration::from_mins(1)).await;
                assert_eq!(fixture.issued().await, Vec::<String>::new(), "{place}");
            }
            fixture.apply(Change::PodGone { uid: "low".into() }).await;
            sleep(Duration::from_secs(11)).await;
            assert_eq!(fixture.issued().await, ["Bind high"], "{place}");
        });
    }
}

#[test]
fn a_victim_that_is_gone_before_the_response_is_counted_once_it_arrives() {
    local(async {
        let mut fixture = preempting().await;
        fixture.apply(Change::PodGone { uid: "low".into() }).await;
        sleep(Duration::from_mins(1)).await;
        assert_eq!(fixture.issued().await, Vec::<String>::new());
        fixture.apply(handled(None)).await;
        assert_eq!(fixture.issued().await, ["Bind high"]);
    });
}

#[test]
fn a_victim_that_cannot_be_deleted_is_evicted_again_at_once() {
    local(async {
        let mut fixture = preempting().await;
        fixture.apply(handled(Some("403 Forbidden"))).await;
        assert_eq!(fixture.issued().await, ["DeleteVictim high", "ReportFailure high"]);
    });
}
