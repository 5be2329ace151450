//! Tests of one fault at a time.

use server::{line, object_of};

use super::super::backoff::UNANSWERED_BACKOFF_MAX;
use super::*;

fn named(name: &str, version: u64) -> Value {
    object_of(name, &(format!("uid-{name}"), version))
}

fn end_of_list(version: u64) -> Vec<u8> {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    let meta = json!({"resourceVersion": version.to_string(), "annotations": annotations});
    line("BOOKMARK", &json!({"metadata": meta}))
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_be_cut_at_any_byte() {
    let mut length = usize::MAX;
    let mut cut = 0;
    while cut <= length {
        let mut fixture = ReflectorFixture::start("Namespace", |server| {
            server.put("a");
            server.put("b");
            server.cuts.push_back(cut);
            length = server.initial().len();
        });
        fixture.wait(Duration::from_secs(2)).await;
        assert!(fixture.observer.synced, "{cut}");
        assert_eq!(fixture.observer.log, ["+a", "+b"], "{cut}");
        let second = fixture.fake.requests()[1].clone();
        let complete = second.parameter("sendInitialEvents").is_none();
        assert_eq!(complete, cut == length, "cut at {cut}: {}", second.query);
        cut += 1;
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_without_its_final_bookmark_is_not_complete() {
    for last in [vec![], vec![BodyPart::Break]] {
        let mut fixture = ReflectorFixture::start("Namespace", |server| {
            server.put("a");
            let mut parts = vec![BodyPart::Data(server.event(0))];
            parts.extend(last);
            server.script.push_back(Some(Reply::stream(200, parts)));
            server.script.push_back(Some(Reply::never()));
        });
        fixture.settle_after_failure().await;
        assert_eq!(fixture.observer.log, ["+a"]);
        assert!(!fixture.observer.synced);
        fixture.wait(RESPONSE_HEAD_TIMEOUT + MINUTE).await;
        assert!(fixture.observer.synced);
    }
}

#[tokio::test(start_paused = true)]
async fn repeated_events_change_nothing() {
    let mut fixture = ReflectorFixture::start("Namespace", |server| {
        server.put("a");
        server.put("b");
        server.delete("b");
        server.put("a");
        server.repeats = 100;
    });
    fixture.settle().await;
    for _ in 0..3 {
        lock(&fixture.server).disconnect();
        fixture.settle_after_failure().await;
    }
    assert_eq!(fixture.observer.log, ["+a"], "neither old versions nor deleted objects come back");
    fixture.assert_in_sync();
}

#[tokio::test(start_paused = true)]
async fn a_list_older_than_the_last_version_is_refused() {
    let stale_page = json!({"metadata": {"resourceVersion": "2"}, "items": [named("b", 2)]});
    let stale_stream = [line("ADDED", &named("b", 2)), end_of_list(2)].concat();
    for (streaming, stale) in [
        (Ok(()), Reply::stream(200, vec![BodyPart::Data(stale_stream)])),
        (Err(400), Reply::json(200, &stale_page)),
    ] {
        let mut fixture = ReflectorFixture::start("Namespace", |server| {
            server.put("a");
            server.put("b");
            server.delete("b");
            server.streaming_lists = streaming;
        });
        fixture.settle().await;
        assert_eq!(fixture.observer.log, ["+a"]);
        {
            let mut server = lock(&fixture.server);
            server.put("c");
            server.delete("c");
            server.disconnect();
            server.compact();
            // The watch has expired, then a stale replica answers the list.
            server.script.extend([Some(Reply::failure(410, "old")), Some(stale)]);
        }
        fixture.wait(MINUTE).await;
        fixture.assert_in_sync();
        let added =
            |name: &str| fixture.observer.log.iter().any(|line| *line == format!("+{name}"));
        assert!(!added("b"), "{:?}", fixture.observer.log);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_replaced_after_295_s() {
    let mut fixture = ReflectorFixture::start("Namespace", |server| {
        server.put("a");
        let parts =
            vec![BodyPart::Data([server.event(0), end_of_list(1)].concat()), BodyPart::Hang];
        server.script.push_back(Some(Reply::stream(200, parts)));
    });
    fixture.settle().await;
    lock(&fixture.server).put("b");
    fixture.wait(SILENCE_MAX.saturating_sub(Duration::from_secs(1))).await;
    assert_eq!(fixture.observer.log, ["+a"]);
    fixture.wait(Duration::from_secs(2)).await;
    fixture.assert_in_sync();
    assert_eq!(fixture.fake.requests()[1].parameter("resourceVersion").as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn unreadable_events_are_skipped_and_the_watch_continues() {
    let bad = [
        b"no JSON at all\n".to_vec(),
        b"\n".to_vec(),
        b"{\"type\":\"ADDED\"}\n".to_vec(),
        b"{\"type\":\"ADDED\",\"object\":null}\n".to_vec(),
        line("ADDED", &json!({"metadata": {"name": "x", "resourceVersion": "seven"}})),
        line("DELETED", &json!({"metadata": {"name": "x"}})),
        line("SHRUNK", &named("x", 2)),
        line("ADDED", &json!({"metadata": {"name": "x", "labels": 5, "resourceVersion": "2"}})),
        [vec![b'x'; EVENT_BYTES_MAX + 1], b"\n".to_vec()].concat(),
    ];
    for bad in bad {
        let shown = String::from_utf8_lossy(&bad[..bad.len().min(60)]).into_owned();
        let mut fixture = ReflectorFixture::start("Namespace", |server| {
            server.put("a");
            server.put("x");
            server.put("b");
            server.delete("x");
            let parts =
                [server.event(0), bad.clone(), server.event(2), end_of_list(3), bad.clone()];
            let parts =
                vec![BodyPart::Data(parts.concat()), BodyPart::Wait(MINUTE), BodyPart::Data(bad)];
            server.script.push_back(Some(Reply::stream(200, parts)));
        });
        fixture.settle().await;
        assert!(fixture.observer.synced, "{shown}");
        assert_eq!(fixture.observer.log, ["+a", "+b"], "{shown}");
        assert_eq!(fixture.fake.requests().len(), 1, "{shown}: the watch continues");
        fixture.wait(2 * MINUTE).await;
        assert_eq!(fixture.fake.requests().len(), 2, "{shown}");
        fixture.assert_in_sync();
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_object_on_a_page_is_skipped() {
    let page = json!({
        "metadata": {"resourceVersion": "3"},
        "items": [named("a", 1), {"metadata": {"name": "odd"}}, null, named("b", 3)],
    });
    let mut fixture = ReflectorFixture::start("Namespace", |server| {
        server.put("a");
        server.put("odd");
        server.put("b");
        server.streaming_lists = Err(422);
        server.script.extend([None, Some(Reply::json(200, &page))]);
    });
    fixture.settle().await;
    assert!(fixture.observer.synced);
    assert_eq!(fixture.observer.log, ["+a", "+b"]);
    // The next list has a readable form of it.
    lock(&fixture.server).compact();
    lock(&fixture.server).put("c");
    lock(&fixture.server).disconnect();
    lock(&fixture.server).script.push_back(Some(Reply::failure(410, "old")));
    fixture.wait(MINUTE).await;
    fixture.assert_in_sync();
}

#[tokio::test(start_paused = true)]
async fn a_response_that_is_no_list_deletes_nothing() {
    let mut fixture = ReflectorFixture::start("Namespace", |server| {
        server.put("a");
        server.streaming_lists = Err(400);
    });
    fixture.settle().await;
    let odd = [json!({}), json!(7), json!({"metadata": {}, "items": []})];
    {
        let mut server = lock(&fixture.server);
        server.disconnect();
        server.script.push_back(Some(Reply::failure(410, "old")));
        server.script.extend(odd.iter().map(|odd| Some(Reply::json(200, odd))));
    }
    fixture.wait(MINUTE).await;
    assert_eq!(fixture.observer.log, ["+a"]);
    fixture.assert_in_sync();
}

#[tokio::test(start_paused = true)]
async fn backoff_grows_until_a_watch_lasts() {
    let mut fixture = ReflectorFixture::start("Namespace", |server| {
        server.script.extend((0..12).map(|_| Some(Reply::failure(500, "no"))));
    });
    fixture.wait(10 * MINUTE).await;
    let times: Vec<Instant> = fixture.fake.requests().iter().map(|request| request.at).collect();
    assert!(times.len() > 13, "{}", times.len());
    let mut whole = BACKOFF_INITIAL;
    for pair in times[..13].windows(2) {
        let wait = pair[1] - pair[0];
        assert!(wait >= whole / 2 && wait <= whole + Duration::from_millis(5), "{wait:?}");
        whole = (whole * 2).min(BACKOFF_MAX);
    }
    // The watch lasted for minutes, so the backoff is reset.
    lock(&fixture.server).disconnect();
    let broken = Instant::now();
    fixture.wait(MINUTE).await;
    let again = fixture.fake.requests().last().unwrap().at;
    assert!(again - broken <= BACKOFF_INITIAL + Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_the_watch_resumes_within_seconds() {
    let mut fixture = ReflectorFixture::start("Namespace", |server| server.put("a"));
    fixture.settle().await;
    let before = fixture.fake.requests().len();
    {
        let mut server = lock(&fixture.server);
        server.script.extend((0..60).map(|_| Some(Reply::broken())));
        // Afterwards its history has expired.
        server.script.push_back(Some(Reply::failure(410, "old")));
        server.disconnect();
        server.put("b");
    }
    fixture.wait(3 * MINUTE).await;
    fixture.assert_in_sync();
    let times: Vec<Instant> = fixture.fake.requests().iter().map(|request| request.at).collect();
    let waits: Vec<_> = times[before..].windows(2).map(|pair| pair[1] - pair[0]).collect();
    let slack = Duration::from_millis(5);
    assert!(waits[..60].iter().all(|wait| *wait <= UNANSWERED_BACKOFF_MAX + slack), "{waits:?}");
    assert!(waits[60] <= BACKOFF_INITIAL + slack, "{waits:?}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_expires_every_watch_is_listed_with_backoff() {
    let mut fixture = ReflectorFixture::start("Namespace", |server| {
        server.put("a");
        server.streaming_lists = Err(400);
        server.script.push_back(None);
        for _ in 0..100 {
            server.script.extend([None, Some(Reply::failure(410, "old"))]);
        }
    });
    fixture.wait(2 * MINUTE).await;
    let lists = fixture.fake.requests().len() / 2;
    assert!((8..16).contains(&lists), "{lists}");
}

#[tokio::test(start_paused = true)]
async fn missing_rights_do_not_end_the_reflector() {
    for status in [401, 403] {
        let mut fixture = ReflectorFixture::start("Namespace", |server| {
            server.put("a");
            server.script.extend((0..5).map(|_| Some(Reply::failure(status, "not you"))));
        });
        fixture.settle().await;
        assert!(!fixture.observer.synced);
        fixture.wait(MINUTE).await;
        assert!(fixture.observer.synced);
        fixture.assert_in_sync();
    }
}
