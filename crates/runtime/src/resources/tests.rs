//! Tests of the text, with an engine that answers from a state of its own.

use api::config::Gates;
use engine::change::Change;
use engine::engine::{Engine, Settings};
use plugins::registry::Registry;
use serde_json::{Value, json};

use super::*;

fn engine(pods: &[Value]) -> Engine {
    let profiles = Registry::default().profiles(&api::config::defaults(Gates::default())).unwrap();
    let mut engine = Engine::new(profiles, Settings::default());
    for pod in pods {
        let pod = api::lower::pod(pod).0.unwrap();
        engine.apply(Change::Pod(Box::new(pod)), 0, &mut Vec::new());
    }
    engine
}

fn pod(name: &str, node: Option<&str>, resources: &Value) -> Value {
    let spec = json!({"priority": 7, "containers": [{"name": "c", "resources": resources}], "nodeName": node});
    json!({"metadata": {"namespace": "ns", "name": name, "uid": name}, "spec": spec})
}

/// Returns the text and the number of pages that it took.
async fn text(engine: &Engine) -> (String, usize) {
    let (inputs, mut requests) = mpsc::channel(1);
    let mut pieces = std::pin::pin!(PodResources::new(inputs).text().unwrap());
    let (mut text, mut questions) = (String::new(), 0);
    loop {
        tokio::select! {
            piece = pieces.next() => match piece {
                Some(piece) => text += std::str::from_utf8(&piece.unwrap()).unwrap(),
                None => return (text, questions),
            },
            Some(Input::Pods { from, reply }) = requests.recv() => {
                questions += 1;
                reply.send(PodPage::new(engine.state(), from)).unwrap();
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_and_limits_have_upstreams_names_and_labels() {
    let resources = json!({
        "requests": {"cpu": "250m", "memory": "64Mi", "ephemeral-storage": "1Gi", "hugepages-2Mi": "4Mi", "example.com/gpu": "2"},
        "limits": {"cpu": "1500m", "memory": "0"},
    });
    let odd = json!({"metadata": {"namespace": "ns", "name": "odd", "uid": "odd"},
        "spec": {"schedulerName": "a\"b\\c\nd", "nodeName": "n", "containers": [{"resources": {"limits": {"cpu": "1"}}}]}});
    let engine =
        engine(&[pod("placed", Some("n1"), &resources), pod("waits", None, &json!({})), odd]);
    let (text, questions) = text(&engine).await;
    assert_eq!(questions, 2, "once for each family");
    insta::assert_snapshot!(text);
}

#[tokio::test(start_paused = true)]
async fn many_pods_are_read_in_pages_and_each_appears_once() {
    let resources = json!({"requests": {"cpu": "1"}, "limits": {"memory": "1Gi"}});
    let count = 3 * PAGE_SLOTS_MAX + 1;
    let pods: Vec<Value> =
        (0..count).map(|n| pod(&format!("p{n}"), Some("n"), &resources)).collect();
    let (text, questions) = text(&engine(&pods)).await;
    assert_eq!(questions, 2 * 4);
    for family in ["limit", "request"] {
        let name = format!("kube_pod_resource_{family}");
        let mut lines: Vec<_> = text.lines().filter(|line| line.starts_with(&name)).collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), count);
        assert_eq!(text.matches(&format!("# TYPE {name} gauge\n")).count(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_and_the_number_of_readers_are_enforced() {
    let (inputs, mut requests) = mpsc::channel(8);
    let resources = PodResources::new(inputs);
    let first = resources.text().unwrap();
    let _second = resources.text().unwrap();
    assert!(resources.text().is_none(), "enough read it");
    let begun = tokio::time::Instant::now();
    let silent = Box::pin(first).next().await.unwrap().unwrap_err();
    assert_eq!(silent.to_string(), "the scheduler did not answer");
    assert_eq!(begun.elapsed(), PAGE_TIMEOUT);
    let third = resources.text().expect("one has ended");
    assert!(requests.recv().await.is_some());
    drop(requests);
    let gone = Box::pin(third).next().await.unwrap().unwrap_err();
    assert_eq!(gone.to_string(), "the scheduler has ended");
}
