//! Tests of the event recorder against a scripted server, in virtual time.

use http::Method;
use serde_json::json;

use super::*;
use crate::testing::{FakeApiServer, ReceivedRequest, Reply};

const SECOND: Duration = Duration::from_secs(1);

fn reference_to(pod: &str, resource_version: u64) -> PodRef {
    let uid = format!("uid-{}", pod.len()).into();
    let (namespace, name) = ("ns".into(), pod.into());
    PodRef { namespace, name, uid, resource_version, ..PodRef::default() }
}

fn event(pod: &str, reason: &'static str, note: &str) -> PodEvent {
    PodEvent {
        regarding: reference_to(pod, 7),
        related: None,
        scheduler: "default-scheduler".into(),
        kind: "Warning",
        reason: reason.into(),
        action: "Scheduling",
        note: note.to_owned(),
    }
}

fn start(
    answer: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
) -> (FakeApiServer, EventRecorder, Metrics) {
    let (fake, metrics) = (FakeApiServer::new(answer), Metrics::new("lease"));
    let events =
        EventRecorder::start(fake.client(), Throttle::none(), "host".to_owned(), metrics.clone());
    (fake, events, metrics)
}

fn healthy(_: &ReceivedRequest) -> Reply {
    Reply::json(201, &json!({}))
}

fn dropped(metrics: &Metrics) -> u64 {
    let text = metrics.text();
    let line = text.lines().find(|line| line.contains("events_dropped") && !line.starts_with('#'));
    line.unwrap().rsplit(' ').next().unwrap().parse().unwrap()
}

#[tokio::test(start_paused = true)]
async fn normal_events_form_no_series() {
    let (fake, events, _) = start(healthy);
    for _ in 0..3 {
        events.record(PodEvent { kind: "Normal", ..event("a", "Scheduled", "to a node") });
        sleep(SECOND).await;
    }
    sleep(3 * SERIES_IDLE_MAX).await;
    let methods: Vec<Method> = fake.requests().into_iter().map(|request| request.method).collect();
    assert_eq!(methods, [Method::POST, Method::POST, Method::POST]);
}

#[tokio::test(start_paused = true)]
async fn repetitions_of_a_warning_are_counted_in_a_series() {
    let (fake, events, _) = start(healthy);
    events.record(event("a", "FailedScheduling", "no room"));
    sleep(SECOND).await;
    for _ in 0..3 {
        events.record(event("a", "FailedScheduling", "no room"));
        sleep(SECOND).await;
    }
    let requests = fake.requests();
    let methods: Vec<&Method> = requests.iter().map(|request| &request.method).collect();
    assert_eq!(
        methods,
        [&Method::POST, &Method::PATCH],
        "the first repetition is written at once, later ones are not"
    );
    let first = &requests[0];
    assert_eq!(first.path, "/apis/events.k8s.io/v1/namespaces/ns/events");
    assert_eq!(first.body["regarding"]["name"], "a");
    assert_eq!(first.body["regarding"]["resourceVersion"], "7");
    assert_eq!(first.body.get("related"), None);
    assert_eq!(first.body["reportingController"], "default-scheduler");
    assert_eq!(first.body["reportingInstance"], "default-scheduler-host");
    assert_eq!(first.body["note"], "no room");
    let name = first.body["metadata"]["name"].as_str().unwrap();
    assert_eq!(requests[1].path, format!("{}/{name}", first.path));
    assert_eq!(requests[1].content_type, "application/merge-patch+json");
    assert_eq!(requests[1].body["series"]["count"], 2);

    sleep(SERIES_IDLE_MAX + SERIES_CHECK_INTERVAL).await;
    let last = fake.requests().pop().unwrap();
    assert_eq!((&last.method, &last.path), (&Method::PATCH, &requests[1].path));
    assert_eq!(last.body["series"]["count"], 4, "the end of the series writes the last count");
    events.record(event("a", "FailedScheduling", "again"));
    sleep(SECOND).await;
    assert_eq!(fake.requests()[3].method, Method::POST, "the series has ended");
    sleep(3 * SERIES_IDLE_MAX).await;
    assert_eq!(fake.requests().len(), 4, "one event is no series");
}

#[tokio::test(start_paused = true)]
async fn events_that_differ_are_created_separately() {
    let (fake, events, _) = start(healthy);
    let first = event("a", "FailedScheduling", "no room");
    let mut changed = vec![first.clone(); 5];
    changed[0].regarding = reference_to("a", 8);
    changed[1].related = Some(reference_to("b", 1));
    changed[2].reason = "Scheduled".into();
    changed[3].scheduler = "other".into();
    changed[4].kind = "Normal";
    events.record(first);
    for event in changed {
        events.record(event);
    }
    sleep(SECOND).await;
    assert_eq!(fake.requests_by(&Method::POST).len(), 6);
    let mut names: Vec<_> = fake
        .requests()
        .iter()
        .map(|request| request.body["metadata"]["name"].to_string())
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_waits_until_the_event_was_created() {
    let (fake, events, _) = start(|_| Reply::json(201, &json!({})).after(SECOND));
    for _ in 0..5 {
        events.record(event("a", "FailedScheduling", "no room"));
    }
    sleep(SECOND / 2).await;
    assert_eq!(fake.requests().len(), 1);
    sleep(SECOND).await;
    assert_eq!(fake.requests()[1].body["series"]["count"], 5);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_writes_in_flight_is_limited() {
    let (fake, events, metrics) = start(|_| Reply::json(201, &json!({})).after(SECOND));
    for number in 0..3 * WRITES_IN_FLIGHT_MAX {
        events.record(event(&"x".repeat(number + 1), "Scheduled", "there"));
    }
    sleep(SECOND / 2).await;
    assert_eq!(fake.requests().len(), WRITES_IN_FLIGHT_MAX);
    sleep(3 * SECOND).await;
    assert_eq!((fake.requests().len(), dropped(&metrics)), (3 * WRITES_IN_FLIGHT_MAX, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refused_event_forms_no_series() {
    let tries = ATTEMPTS_MAX as usize;
    for (refusal, tries) in [
        (Reply::failure(404, "no"), 1),
        (Reply::failure(403, "no"), 1),
        (Reply::failure(500, "no"), tries),
        (Reply::broken(), tries),
        (Reply::never(), tries),
    ] {
        let (fake, events, metrics) = start(move |_| refusal.clone());
        for _ in 0..3 {
            events.record(event("a", "FailedScheduling", "no room"));
            sleep(Duration::from_mins(1)).await;
        }
        assert_eq!(fake.requests_by(&Method::POST).len(), 3 * tries);
        assert_eq!(dropped(&metrics), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_response_was_lost_is_created_once() {
    let tries = std::sync::Mutex::new(0);
    let (fake, events, metrics) = start(move |_| {
        let mut tries = tries.lock().unwrap();
        *tries += 1;
        if *tries == 1 { Reply::never() } else { Reply::failure(409, "exists") }
    });
    events.record(event("a", "Scheduled", "there"));
    sleep(Duration::from_mins(1)).await;
    let requests = fake.requests();
    assert_eq!((requests.len(), dropped(&metrics)), (2, 0));
    assert_eq!(requests[0].body["metadata"]["name"], requests[1].body["metadata"]["name"]);
}

#[tokio::test(start_paused = true)]
async fn events_above_the_capacity_are_dropped_and_counted() {
    let (_fake, events, metrics) = start(|_| Reply::never());
    for _ in 0..EVENTS_QUEUED_MAX + 10 {
        events.record(event("a", "FailedScheduling", "no room"));
    }
    assert_eq!(dropped(&metrics), 10);
}

#[tokio::test(start_paused = true)]
async fn an_event_about_a_pod_with_a_long_name_has_a_valid_name() {
    let (fake, events, _) = start(healthy);
    events.record(event(&"x".repeat(253), "Scheduled", "there"));
    events.record(event(&"x".repeat(236), "Scheduled", "there"));
    sleep(SECOND).await;
    for request in fake.requests() {
        let name = request.body["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.len() <= 253, "{name}");
    }
    assert_eq!(fake.requests().len(), 2);
}

/// Bodies with characters that JSON escapes are read back unchanged.
#[tokio::test(start_paused = true)]
async fn special_characters_survive_the_serialization() {
    let (fake, events, _) = start(healthy);
    let note = "quote \" backslash \\ tab \t é \u{1}";
    let mut event = event("a", "Scheduled", note);
    (event.regarding.resource_version, event.related) = (0, Some(reference_to("b", 1)));
    events.record(event);
    sleep(SECOND).await;
    let body = &fake.requests()[0].body;
    assert_eq!(body["note"], note);
    assert_eq!(body["type"], "Warning");
    assert_eq!(body["regarding"].get("resourceVersion"), None, "zero means unknown");
    assert_eq!(body["related"]["resourceVersion"], "1");
    assert_eq!(body["related"]["uid"], "uid-1");
}
