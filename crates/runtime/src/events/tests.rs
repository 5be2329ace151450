//! Events against a server that counts them, in virtual time.

use http::Method;

use super::*;
use crate::testing::{Asked, Fake, Reply};

const SECOND: Duration = Duration::from_secs(1);

fn event(pod: &str, reason: &'static str, note: &str) -> PodEvent {
    PodEvent {
        pod: PodName {
            namespace: "ns".into(),
            name: pod.into(),
            uid: format!("uid-{}", pod.len()).into(),
        },
        scheduler: "default-scheduler".into(),
        kind: "Warning",
        reason,
        action: "Scheduling",
        note: note.to_owned(),
    }
}

fn start(answer: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> (Fake, Events, Metrics) {
    let (fake, metrics) = (Fake::new(answer), Metrics::new("lease"));
    let events = Events::start(fake.client(), "host".to_owned(), metrics.clone());
    (fake, events, metrics)
}

fn healthy(_: &Asked) -> Reply {
    Reply::json(201, &json!({}))
}

fn dropped(metrics: &Metrics) -> u64 {
    let text = metrics.text();
    let line = text.lines().find(|line| line.contains("events_dropped") && !line.starts_with('#'));
    line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn repetitions_are_counted_on_the_first_event() {
    let (fake, events, _) = start(healthy);
    events.tell(event("a", "FailedScheduling", "no room"));
    tokio::time::sleep(SECOND).await;
    events.tell(event("a", "FailedScheduling", "no room at all"));
    events.tell(event("a", "Scheduled", "there"));
    tokio::time::sleep(SECOND).await;
    tokio::time::sleep(SERIES_TIME).await;
    events.tell(event("a", "FailedScheduling", "again"));
    tokio::time::sleep(SECOND).await;

    let asked = fake.asked();
    let methods: Vec<&Method> = asked.iter().map(|asked| &asked.method).collect();
    assert_eq!(methods, [&Method::POST, &Method::PATCH, &Method::POST, &Method::POST]);
    let first = &asked[0];
    assert_eq!(first.path, "/apis/events.k8s.io/v1/namespaces/ns/events");
    assert_eq!(first.body["regarding"]["name"], "a");
    assert_eq!(first.body["reportingController"], "default-scheduler");
    assert_eq!(first.body["reportingInstance"], "default-scheduler-host");
    assert_eq!(first.body["note"], "no room");
    let name = first.body["metadata"]["name"].as_str().unwrap();
    assert_eq!(asked[1].path, format!("{}/{name}", first.path));
    assert_eq!(asked[1].content_type, "application/merge-patch+json");
    assert_eq!(asked[1].body["series"]["count"], 2);
    assert_ne!(asked[3].body["metadata"]["name"], name, "too late for the series");
}

#[tokio::test(start_paused = true)]
async fn nothing_is_added_to_an_event_that_was_refused() {
    for refusal in
        [Reply::failure(500, "no"), Reply::failure(404, "no"), Reply::broken(), Reply::never()]
    {
        let (fake, events, metrics) = start(move |_| refusal.clone());
        for _ in 0..3 {
            events.tell(event("a", "FailedScheduling", "no room"));
            tokio::time::sleep(WRITE_MAX * 2).await;
        }
        assert_eq!(fake.asked_by(&Method::POST).len(), 3);
        assert_eq!(dropped(&metrics), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_do_not_fit_are_dropped_and_counted() {
    let (_fake, events, metrics) = start(|_| Reply::never());
    for _ in 0..WAITING_MAX + 10 {
        events.tell(event("a", "FailedScheduling", "no room"));
    }
    assert_eq!(dropped(&metrics), 10);
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_pod_with_a_long_name_has_a_name_that_is_allowed() {
    let (fake, events, _) = start(healthy);
    events.tell(event(&"x".repeat(253), "Scheduled", "there"));
    events.tell(event(&"x".repeat(236), "Scheduled", "there"));
    tokio::time::sleep(SECOND).await;
    for asked in fake.asked() {
        let name = asked.body["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.len() <= 253, "{name}");
    }
    assert_eq!(fake.asked().len(), 2);
}

#[test]
fn long_notes_are_clipped_at_a_character() {
    let note = "é".repeat(600);
    let clipped = clipped(&note);
    assert!(clipped.len() <= NOTE_MAX && clipped.ends_with("é ..."), "{}", clipped.len());
    assert_eq!(super::clipped("short"), "short");
}

#[test]
fn times_are_written_as_kubernetes_does() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_042);
    assert_eq!(micro_time(time), "2023-11-14T22:13:20.000042Z");
    assert_eq!(second_time(time), "2023-11-14T22:13:20Z");
}
