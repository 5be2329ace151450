//! Tests of binding against an API server that fails in every possible way, in virtual time.

mod properties;
mod server;

use std::sync::Arc;

use http::Method;
use serde_json::json;

use super::*;
use crate::api_error::Chain;
use crate::gate::Throttle;
use crate::lease::Fence;
use crate::metrics::Metrics;
use crate::testing::{BodyPart, FakeApiServer, ReceivedRequest, Reply, lock, seconds_since};
use server::{BinderFixture, Interference, OURS, RequestFault, pod};

#[tokio::test(start_paused = true)]
async fn a_created_binding_is_believed_without_a_read() {
    let fixture = BinderFixture::of(&[]);
    assert_eq!(fixture.bind().await, Ok(()));
    assert_eq!((fixture.sends().len(), fixture.reads().len()), (1, 0));
    let body = fixture.sends()[0].body.clone();
    assert_eq!(body["target"]["name"], OURS);
    assert_eq!(body["metadata"]["resourceVersion"], "7");
    assert!(fixture.counted("result=\"bound\""), "{}", fixture.metrics.text());
    assert_eq!(fixture.window.size(), BindWindow::SIZE_INITIAL + 1);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_resolved_by_reading_the_pod() {
    let ours = BinderFixture::of(&[]);
    lock(&ours.world).touch(|pod| pod["spec"]["nodeName"] = json!(OURS));
    assert_eq!(ours.bind().await, Ok(()), "it is on our node already");

    for (interference, expected, reads) in [
        (Interference::Steal, "pod pod is already assigned to node \"node-2\"", 1),
        (Interference::Delete, "404 Not Found: not found", 0),
        (Interference::Replace, "pods \"pod\" not found", 1),
        (Interference::Terminate, "the pod is being deleted", 1),
        (Interference::Gate, "the pod has scheduling gates", 1),
    ] {
        let fixture = BinderFixture::of(&[]);
        lock(&fixture.world).interfere(&interference);
        let begun = Instant::now();
        assert_eq!(fixture.bind().await, Err(expected.to_owned()), "{interference:?}");
        assert_eq!((fixture.sends().len(), fixture.reads().len()), (1, reads), "{interference:?}");
        assert!(seconds_since(begun) < 0.1, "no request can still arrive");
        assert!(fixture.counted("result=\"rejected\""), "{}", fixture.metrics.text());
    }

    let changed = BinderFixture::of(&[]);
    lock(&changed.world).interfere(&Interference::Touch);
    assert_eq!(changed.bind().await, Ok(()));
    let versions: Vec<Value> = changed
        .sends()
        .iter()
        .map(|sent| sent.body["metadata"]["resourceVersion"].clone())
        .collect();
    assert_eq!(versions, ["7", "8"], "sent again with the version of the read");
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_changes_all_the_time_goes_back_into_the_queue() {
    let fixture = BinderFixture::of(&[]);
    lock(&fixture.world).interfere(&Interference::Touch);
    // Every version that is read is outdated when the bind arrives.
    lock(&fixture.world).reads.extend((0..20).map(|_| Reply::json(200, &pod("uid-1", 7))));
    assert!(fixture.bind().await.unwrap_err().contains("Precondition failed"));
    assert_eq!(fixture.sends().len(), ATTEMPTS_MAX as usize);
}

#[tokio::test(start_paused = true)]
async fn retry_after_is_respected() {
    for status in [429, 503, 500] {
        let fixture = BinderFixture::of(&[
            RequestFault::Status(status, false, Some(7)),
            RequestFault::Status(status, false, Some(0)),
            RequestFault::Status(status, false, None),
        ]);
        assert_eq!(fixture.bind().await, Ok(()), "{status}");
        let times: Vec<Instant> = fixture.sends().iter().map(|sent| sent.at).collect();
        assert!(times[1] - times[0] >= Duration::from_secs(7), "{status}");
        assert!(times[2] - times[1] >= RETRY_DELAY_MIN, "{status}");
        assert!(times[3] - times[2] >= RETRY_DELAY, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_always_throttles_ends_the_bind_within_its_time_limit() {
    for wait in [0, 1, 20, 3600, u64::MAX / 2] {
        let fixture = BinderFixture::of(&vec![RequestFault::Status(429, false, Some(wait)); 1000]);
        let begun = Instant::now();
        let error = fixture.bind().await.unwrap_err();
        assert_eq!(error, "the API server asked to come back later");
        assert!(begun.elapsed() <= ATTEMPTS_TIME_MAX + RETRY_DELAY, "{wait}");
        let times: Vec<Instant> = fixture.sends().iter().map(|sent| sent.at).collect();
        let wait = Duration::from_secs(wait);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= wait), "{wait:?}");
        assert_eq!(fixture.reads().len(), 0, "a throttled request was not handled");
    }
}

#[tokio::test(start_paused = true)]
async fn an_ambiguous_bind_is_resolved_by_reading_the_pod() {
    for step in [
        RequestFault::DropResponse,
        RequestFault::Slow(REQUEST_TIMEOUT * 2),
        RequestFault::Status(500, true, None),
        RequestFault::Status(502, true, None),
        RequestFault::Status(503, true, Some(1)),
        RequestFault::Status(504, true, None),
        RequestFault::Status(408, true, None),
    ] {
        let fixture = BinderFixture::of(std::slice::from_ref(&step));
        assert_eq!(fixture.bind().await, Ok(()), "{step:?}");
        assert_eq!((fixture.sends().len(), fixture.reads().len()), (1, 1), "{step:?}");
        assert!(fixture.counted("result=\"ambiguous\""), "{}", fixture.metrics.text());
    }
    for step in [
        RequestFault::DropRequest,
        RequestFault::Status(500, false, None),
        RequestFault::Headless(504),
    ] {
        let fixture = BinderFixture::of(std::slice::from_ref(&step));
        assert_eq!(fixture.bind().await, Ok(()), "{step:?}");
        assert_eq!((fixture.sends().len(), fixture.reads().len()), (2, 1), "{step:?}");
        let node = &fixture.sends()[1].body["target"]["name"];
        assert_eq!(node, OURS, "sent again to the same node");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_read_is_repeated_before_anything_is_sent() {
    let fixture = BinderFixture::of(&[RequestFault::DropResponse]);
    let odd = [
        Reply::broken(),
        Reply::never(),
        Reply::failure(500, "etcd is gone"),
        Reply::json(200, &json!({"kind": "Status"})),
        Reply::stream(200, vec![BodyPart::Data(b"{".to_vec()), BodyPart::Break]),
        Reply::stream(200, vec![BodyPart::Data(b"<html>".to_vec())]),
    ];
    lock(&fixture.world).reads.extend(odd);
    assert_eq!(fixture.bind().await, Ok(()));
    assert_eq!((fixture.sends().len(), fixture.reads().len()), (1, 7));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_reads_ends_the_bind() {
    let fixture = BinderFixture::of(&[RequestFault::DropResponse]);
    lock(&fixture.world).reads = vec![Reply::failure(403, "no"); 100].into();
    let begun = Instant::now();
    assert!(fixture.bind().await.is_err());
    assert_eq!(fixture.sends().len(), 1, "the outcome of the first is unknown");
    assert!(begun.elapsed() > 2 * REQUEST_TIMEOUT + SLACK, "a request may still arrive");
    assert!(begun.elapsed() < Duration::from_mins(1), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_throttle_does_not_count_towards_the_time_limit() {
    let fixture = BinderFixture::of(&[RequestFault::Status(503, false, None)]);
    let throttle = Throttle::new(0.01, 1);
    throttle.wait().await;
    let gate = Gate::new(Fence::always(), throttle);
    let (window, metrics) = (Arc::clone(&fixture.window), fixture.metrics.clone());
    let binder = Binder::new(fixture.fake.client(), gate, window, metrics);
    let pod = PodRef {
        namespace: "ns".into(),
        name: "pod".into(),
        uid: "uid-1".into(),
        resource_version: 7,
        ..PodRef::default()
    };
    let begun = Instant::now();
    // The time limit has passed before the second request may be sent.
    assert!(binder.bind(&pod, &OURS.into(), None).await.is_err());
    assert_eq!(fixture.sends().len(), 1);
    assert_eq!(fixture.sends()[0].at - begun, Duration::from_secs(100));
}

#[tokio::test(start_paused = true)]
async fn the_latency_annotation_is_written_only_on_request() {
    let fixture = BinderFixture::of(&[RequestFault::Status(503, false, Some(2))]);
    let since = Instant::now();
    tokio::time::advance(Duration::from_millis(1234)).await;
    assert_eq!(fixture.bind_since(Some(since)).await, Ok(()));
    let annotations = |request: &ReceivedRequest| request.body["metadata"]["annotations"].clone();
    let written: Vec<Value> = fixture.sends().iter().map(annotations).collect();
    let latency = |text: &str| json!({"scheduling.novasphere.dev/schedulerLatency": text});
    assert_eq!(
        written,
        [latency("1.234s"), latency("3.234s")],
        "the delay of the second attempt counts"
    );
    assert_eq!(fixture.fake.requests_by(&Method::PATCH).len(), 0, "it costs no request");

    let quick = BinderFixture::of(&[RequestFault::Healthy]);
    let since = Instant::now();
    tokio::time::advance(Duration::from_micros(412)).await;
    assert_eq!(quick.bind_since(Some(since)).await, Ok(()));
    assert_eq!(annotations(&quick.sends()[0]), latency("0.000412s"));

    let silent = BinderFixture::of(&[RequestFault::Healthy]);
    assert_eq!(silent.bind().await, Ok(()));
    assert_eq!(annotations(&silent.sends()[0]), Value::Null);
}

#[tokio::test(start_paused = true)]
async fn a_client_error_other_than_a_conflict_ends_the_bind_at_once() {
    for status in [400, 401, 403, 404, 422] {
        let fixture = BinderFixture::of(&vec![RequestFault::Status(status, false, None); 6]);
        let begun = Instant::now();
        assert!(fixture.bind().await.unwrap_err().contains(&status.to_string()));
        assert_eq!((fixture.sends().len(), fixture.reads().len()), (1, 0), "{status}");
        assert_eq!(seconds_since(begun), 0.0, "no request can still arrive");
    }
    // An earlier request may still be handled, so the bind waits for it.
    let fixture = BinderFixture::of(&[
        RequestFault::Late(2 * REQUEST_TIMEOUT),
        RequestFault::Status(403, false, None),
    ]);
    assert_eq!(fixture.bind().await, Ok(()));
    assert_eq!(fixture.sends().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_conflict_that_may_be_an_error_of_the_store_is_ambiguous() {
    // The pod was bound, and the first read fails as well.
    let done = BinderFixture::of(&[RequestFault::Status(409, true, None)]);
    lock(&done.world).reads.extend([Reply::failure(500, "etcdserver: no leader")]);
    assert_eq!(done.bind().await, Ok(()));
    assert_eq!((done.sends().len(), done.reads().len()), (1, 2));

    // Never bound: the bind ends only when no request can be handled any more.
    let lost = BinderFixture::of(&vec![RequestFault::Status(409, false, None); 100]);
    assert!(lost.bind().await.unwrap_err().contains("409"));
    assert_eq!(lost.sends().len(), ATTEMPTS_MAX as usize);
    let last = lost.sends().last().unwrap().at;
    assert!(last.elapsed() >= 2 * REQUEST_TIMEOUT + SLACK, "{:?}", last.elapsed());
    assert!(lost.sends().windows(2).all(|pair| pair[1].at - pair[0].at >= RETRY_DELAY));
}

#[tokio::test(start_paused = true)]
async fn a_name_that_cannot_be_part_of_a_path_fails_at_once() {
    let fixture = BinderFixture::of(&[]);
    let begun = Instant::now();
    assert!(fixture.bind_named("odd name", None).await.unwrap_err().contains("is no path"));
    assert_eq!(fixture.fake.requests().len(), 0);
    assert_eq!(seconds_since(begun), 0.0);
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_sent() {
    let fixture = BinderFixture::of(&[]);
    fixture.fence.close();
    let begun = Instant::now();
    assert_eq!(fixture.bind().await, Err("the lease is not held any more".to_owned()));
    assert_eq!(fixture.fake.requests().len(), 0);
    assert_eq!(seconds_since(begun), 0.0);

    let throttled = BinderFixture::of(&[RequestFault::Status(429, false, Some(5))]);
    let fence = throttled.fence.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(2)).await;
        fence.close();
    });
    assert!(throttled.bind().await.is_err());
    assert_eq!((throttled.sends().len(), throttled.reads().len()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_bind_fails_only_when_no_request_can_arrive_any_more() {
    // The request is handled after the first read.
    let late = 2 * REQUEST_TIMEOUT;
    let fixture = BinderFixture::of(&[RequestFault::Late(late)]);
    let fence = fixture.fence.clone();
    tokio::spawn(async move {
        sleep(Duration::from_secs(1)).await;
        fence.close();
    });
    let begun = Instant::now();
    assert_eq!(fixture.bind().await, Ok(()), "the last read shows it");
    assert_eq!(begun.elapsed(), 2 * REQUEST_TIMEOUT + SLACK);
    assert_eq!((fixture.sends().len(), fixture.reads().len()), (1, 2));

    let lost = BinderFixture::of(&vec![RequestFault::DropRequest; 100]);
    assert!(lost.bind().await.is_err());
    let last = lost.sends().last().unwrap().at;
    assert_eq!(lost.sends().len(), ATTEMPTS_MAX as usize);
    assert!(last.elapsed() >= 2 * REQUEST_TIMEOUT + SLACK);
}

#[tokio::test(start_paused = true)]
async fn throttling_and_server_errors_shrink_the_window() {
    let fixture = BinderFixture::of(&[
        RequestFault::Status(429, false, None),
        RequestFault::Status(500, true, None),
    ]);
    assert_eq!(fixture.bind().await, Ok(()));
    assert_eq!(fixture.window.size(), BindWindow::SIZE_INITIAL / 4);
}
