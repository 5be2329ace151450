//! EventRecorder against a server that counts them, in virtual time.

use http::Method;

use super::*;
use crate::testing::{FakeApiServer, ReceivedRequest, Reply};

const SECOND: Duration = Duration::from_secs(1);

fn reference_to(pod: &str, version: u64) -> PodReference {
    let uid = format!("uid-{}", pod.len()).into();
    let pod = PodName { namespace: "ns".into(), name: pod.into(), uid };
    PodReference { pod, version }
}

fn event(pod: &str, reason: &'static str, note: &str) -> PodEvent {
    PodEvent {
        regarding: reference_to(pod, 7),
        related: None,
        scheduler: "default-scheduler".into(),
        kind: "Warning",
        reason,
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

/// Lets virtual time pass, after all that can be done by then was done.
async fn pass(time: Duration) {
    sleep(time).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_normal_is_written_each_time_and_not_remembered() {
    let (fake, events, _) = start(healthy);
    for _ in 0..3 {
        events.record(PodEvent { kind: "Normal", ..event("a", "Scheduled", "to a node") });
        pass(SECOND).await;
    }
    pass(3 * SERIES_IDLE_MAX).await;
    let methods: Vec<Method> = fake.requests().into_iter().map(|asked| asked.method).collect();
    assert_eq!(methods, [Method::POST, Method::POST, Method::POST]);
}

#[tokio::test(start_paused = true)]
async fn repetitions_are_counted_on_the_first_event() {
    let (fake, events, _) = start(healthy);
    events.record(event("a", "FailedScheduling", "no room"));
    pass(SECOND).await;
    for _ in 0..3 {
        events.record(event("a", "FailedScheduling", "no room"));
        pass(SECOND).await;
    }
    let asked = fake.requests();
    let methods: Vec<&Method> = asked.iter().map(|asked| &asked.method).collect();
    assert_eq!(methods, [&Method::POST, &Method::PATCH], "only the second is written at once");
    let first = &asked[0];
    assert_eq!(first.path, "/apis/events.k8s.io/v1/namespaces/ns/events");
    assert_eq!(first.body["regarding"]["name"], "a");
    assert_eq!(first.body["regarding"]["resourceVersion"], "7");
    assert_eq!(first.body.get("related"), None);
    assert_eq!(first.body["reportingController"], "default-scheduler");
    assert_eq!(first.body["reportingInstance"], "default-scheduler-host");
    assert_eq!(first.body["note"], "no room");
    let name = first.body["metadata"]["name"].as_str().unwrap();
    assert_eq!(asked[1].path, format!("{}/{name}", first.path));
    assert_eq!(asked[1].content_type, "application/merge-patch+json");
    assert_eq!(asked[1].body["series"]["count"], 2);

    pass(SERIES_IDLE_MAX + SERIES_CHECK_INTERVAL).await;
    let last = fake.requests().pop().unwrap();
    assert_eq!((&last.method, &last.path), (&Method::PATCH, &asked[1].path));
    assert_eq!(last.body["series"]["count"], 4, "in the end all are");
    events.record(event("a", "FailedScheduling", "again"));
    pass(SECOND).await;
    assert_eq!(fake.requests()[3].method, Method::POST, "too late for the series");
    pass(3 * SERIES_IDLE_MAX).await;
    assert_eq!(fake.requests().len(), 4, "one event is no series");
}

#[tokio::test(start_paused = true)]
async fn whatever_differs_is_an_event_of_its_own() {
    let (fake, events, _) = start(healthy);
    let first = event("a", "FailedScheduling", "no room");
    let mut changed = vec![first.clone(); 5];
    changed[0].regarding = reference_to("a", 8);
    changed[1].related = Some(reference_to("b", 1));
    changed[2].reason = "Scheduled";
    changed[3].scheduler = "other".into();
    changed[4].kind = "Normal";
    events.record(first);
    for event in changed {
        events.record(event);
    }
    pass(SECOND).await;
    assert_eq!(fake.requests_by(&Method::POST).len(), 6);
    let mut names: Vec<_> =
        fake.requests().iter().map(|asked| asked.body["metadata"]["name"].to_string()).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 6);
}

#[tokio::test(start_paused = true)]
async fn a_repetition_waits_until_the_event_is_there() {
    let (fake, events, _) = start(|_| Reply::json(201, &json!({})).after(SECOND));
    for _ in 0..5 {
        events.record(event("a", "FailedScheduling", "no room"));
    }
    pass(SECOND / 2).await;
    assert_eq!(fake.requests().len(), 1);
    pass(SECOND).await;
    assert_eq!(fake.requests()[1].body["series"]["count"], 5);
}

#[tokio::test(start_paused = true)]
async fn several_are_written_at_once_but_not_all() {
    let (fake, events, metrics) = start(|_| Reply::json(201, &json!({})).after(SECOND));
    for number in 0..3 * WRITES_IN_FLIGHT_MAX {
        events.record(event(&"x".repeat(number + 1), "Scheduled", "there"));
    }
    pass(SECOND / 2).await;
    assert_eq!(fake.requests().len(), WRITES_IN_FLIGHT_MAX);
    pass(3 * SECOND).await;
    assert_eq!((fake.requests().len(), dropped(&metrics)), (3 * WRITES_IN_FLIGHT_MAX, 0));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_added_to_an_event_that_was_refused() {
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
            pass(Duration::from_mins(1)).await;
        }
        assert_eq!(fake.requests_by(&Method::POST).len(), 3 * tries);
        assert_eq!(dropped(&metrics), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_whose_answer_was_lost_is_not_written_twice() {
    let tries = std::sync::Mutex::new(0);
    let (fake, events, metrics) = start(move |_| {
        let mut tries = tries.lock().unwrap();
        *tries += 1;
        if *tries == 1 { Reply::never() } else { Reply::failure(409, "exists") }
    });
    events.record(event("a", "Scheduled", "there"));
    pass(Duration::from_mins(1)).await;
    let asked = fake.requests();
    assert_eq!((asked.len(), dropped(&metrics)), (2, 0));
    assert_eq!(asked[0].body["metadata"]["name"], asked[1].body["metadata"]["name"]);
}

#[tokio::test(start_paused = true)]
async fn events_that_do_not_fit_are_dropped_and_counted() {
    let (_fake, events, metrics) = start(|_| Reply::never());
    for _ in 0..EVENTS_QUEUED_MAX + 10 {
        events.record(event("a", "FailedScheduling", "no room"));
    }
    assert_eq!(dropped(&metrics), 10);
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_pod_with_a_long_name_has_a_name_that_is_allowed() {
    let (fake, events, _) = start(healthy);
    events.record(event(&"x".repeat(253), "Scheduled", "there"));
    events.record(event(&"x".repeat(236), "Scheduled", "there"));
    pass(SECOND).await;
    for asked in fake.requests() {
        let name = asked.body["metadata"]["name"].as_str().unwrap().to_owned();
        assert!(name.len() <= 253, "{name}");
    }
    assert_eq!(fake.requests().len(), 2);
}

#[test]
fn long_notes_are_clipped_at_a_character() {
    let note = "é".repeat(600);
    let clipped = truncated(&note);
    assert!(clipped.len() <= NOTE_BYTES_MAX && clipped.ends_with("é ..."), "{}", clipped.len());
    assert_eq!(super::truncated("short"), "short");
}

#[test]
fn times_are_written_as_kubernetes_does() {
    let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_042);
    assert_eq!(rfc3339_micros(time), "2023-11-14T22:13:20.000042Z");
    assert_eq!(rfc3339_seconds(time), "2023-11-14T22:13:20Z");
}

#[test]
fn a_clock_that_goes_on_or_back_writes_what_a_new_one_does() {
    let mut clock = TimeFormatter::default();
    for micros in [42, 43, 999_999, 1_000_000, 61_000_001, 1_000_000, 86_400_000_000] {
        let time = SystemTime::UNIX_EPOCH + Duration::from_micros(1_700_000_000_000_000 + micros);
        assert_eq!(clock.rfc3339_micros(time, &mut [0; 6]).concat(), rfc3339_micros(time));
    }
}

#[test]
fn numbers_are_written_as_ever() {
    for number in [1, 15, 16, 0xabc_def0, 1_700_000_000_000_042_001, u64::MAX] {
        assert_eq!(hexadecimal(number, &mut [0; 16]), format!("{number:x}"));
    }
}
