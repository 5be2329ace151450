//! Tests of the reflector against a server that keeps a history, in virtual time.

mod faults;
mod odd;
mod properties;
mod protobuf;
mod server;

use serde_json::{Value, json};

use super::objects::identity_of;
use super::requests::percent_encode;
use super::*;
use crate::testing::{BodyPart, Reply, lock};
use api::kinds::KINDS;
use server::ReflectorFixture;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn a_streaming_list_is_complete_at_its_bookmark() {
    let mut fixture = ReflectorFixture::start("Namespace", |server| {
        server.put("a");
        server.put("b");
    });
    fixture.settle().await;
    assert!(fixture.observer.synced);
    fixture.assert_in_sync();
    let requests = fixture.fake.requests();
    assert_eq!(requests.len(), 1, "one stream lists and watches");
    assert_eq!(requests[0].parameter("sendInitialEvents").as_deref(), Some("true"));
    assert_eq!(requests[0].parameter("resourceVersionMatch").as_deref(), Some("NotOlderThan"));
    assert_eq!(requests[0].parameter("resourceVersion").as_deref(), Some(""));
    assert_eq!(requests[0].parameter("allowWatchBookmarks").as_deref(), Some("true"));
}

#[tokio::test(start_paused = true)]
async fn a_relist_that_is_requested_at_startup_is_the_first_list() {
    let start = || ReflectorFixture::start_as("Node", |_| {}, |one| one.with_startup_delay(MINUTE));
    let mut fixture = start();
    fixture.settle().await;
    assert!(fixture.fake.requests().is_empty(), "it waits for the request");
    fixture.status.relist().await;
    fixture.wait(2 * MINUTE).await;
    assert!(fixture.observer.synced);
    assert_eq!(fixture.fake.requests().len(), 1, "the requested list is the first");
    let mut fixture = start();
    fixture.wait(MINUTE * 3 / 2).await;
    assert!(fixture.observer.synced, "without a request it starts after the delay");
}

#[tokio::test(start_paused = true)]
async fn pods_that_have_ended_are_excluded_by_a_field_selector() {
    let mut fixture = ReflectorFixture::start("Pod", |_| {});
    fixture.settle().await;
    let selector = fixture.fake.requests()[0].parameter("fieldSelector");
    assert_eq!(selector.as_deref(), Some("status.phase!=Succeeded,status.phase!=Failed"));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed_by_pages() {
    for status in [400, 422] {
        let mut fixture = ReflectorFixture::start("Namespace", |server| {
            server.streaming_lists = Err(status);
            server.page = 2;
            (0..5).for_each(|number| server.put(&format!("name-{number}")));
        });
        fixture.settle().await;
        assert!(fixture.observer.synced);
        fixture.assert_in_sync();
        let requests = fixture.fake.requests();
        assert_eq!(requests.len(), 1 + 3 + 1, "tried, three pages, watched");
        assert_eq!(requests[2].parameter("continue").as_deref(), Some("2 of/5&"));
        assert_eq!(requests[4].parameter("resourceVersion").as_deref(), Some("5"));
        lock(&fixture.server).put("later");
        fixture.settle_after_failure().await;
        fixture.assert_in_sync();
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_restarts_the_list() {
    let mut fixture = ReflectorFixture::start("Namespace", |server| {
        server.streaming_lists = Err(400);
        server.page = 1;
        for name in ["a", "b", "c"] {
            server.put(name);
        }
        // The streaming list and the first page succeed; the second page has expired.
        server.script.extend([None, None, Some(Reply::failure(410, "expired"))]);
    });
    fixture.settle().await;
    fixture.assert_in_sync();
    assert!(fixture.observer.synced);
    assert!(fixture.metrics.text().contains("reason=\"expired\""), "{}", fixture.metrics.text());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_ends_a_streaming_list_is_listed_by_pages() {
    let mut fixture = ReflectorFixture::start("Namespace", |server| {
        server.put("a");
        let added = server.event(0);
        server
            .script
            .push_back(Some(Reply::stream(200, vec![BodyPart::Data(added), BodyPart::Hang])));
    });
    fixture.settle().await;
    assert!(!fixture.observer.synced, "a list without its final bookmark is not complete");
    fixture.wait(PAGE_TIMEOUT).await;
    assert!(fixture.observer.synced);
    assert_eq!(fixture.fake.requests()[1].parameter("limit").as_deref(), Some("1000"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_resumes_at_the_last_version() {
    let mut fixture = ReflectorFixture::start("Namespace", |server| server.put("a"));
    fixture.settle().await;
    lock(&fixture.server).put("b");
    fixture.settle_after_failure().await;
    lock(&fixture.server).disconnect();
    fixture.settle_after_failure().await;
    lock(&fixture.server).delete("a");
    fixture.settle_after_failure().await;
    fixture.assert_in_sync();
    assert_eq!(fixture.fake.requests()[1].parameter("resourceVersion").as_deref(), Some("2"));
    assert_eq!(fixture.observer.log, ["+a", "+b", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn objects_that_a_new_list_lacks_are_deleted() {
    for inside in [false, true] {
        let mut fixture = ReflectorFixture::start("Namespace", |server| {
            server.put("a");
            server.put("b");
        });
        fixture.settle().await;
        {
            let mut server = lock(&fixture.server);
            server.disconnect();
            server.delete("a");
            server.put("c");
            server.compact();
            server.expires_by_event = inside;
        }
        fixture.wait(MINUTE).await;
        fixture.assert_in_sync();
        assert_eq!(fixture.observer.log, ["+a", "+b", "+c", "-a"]);
        assert!(fixture.metrics.text().contains("reason=\"expired\""));
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_with_another_uid_replaces_the_one_of_its_name() {
    let mut fixture = ReflectorFixture::start("Namespace", |server| server.put("a"));
    fixture.settle().await;
    {
        let mut server = lock(&fixture.server);
        server.disconnect();
        server.delete("a");
        server.put("a");
        server.compact();
    }
    fixture.wait(MINUTE).await;
    fixture.assert_in_sync();
    assert_eq!(fixture.observer.log, ["+a", "-a", "+a"]);
}

#[tokio::test(start_paused = true)]
async fn an_optional_kind_that_a_cluster_lacks_counts_as_synced() {
    let mut fixture = ReflectorFixture::start("DeviceClass", |server| {
        let missing = || Some(Reply::failure(404, "the server could not find it"));
        server.script.extend((0..3).map(|_| missing()));
        server.put("a");
    });
    fixture.settle().await;
    assert!(fixture.observer.synced);
    assert_eq!(fixture.observer.log, Vec::<String>::new());
    fixture.wait(2 * MINUTE).await;
    assert_eq!(fixture.observer.log, ["+a"], "it is requested again every 30 s");
    let last = fixture.fake.requests().pop().unwrap();
    assert_eq!(last.parameter("sendInitialEvents").as_deref(), Some("true"));

    let mut needed = ReflectorFixture::start("Namespace", |server| {
        server.script.extend((0..3).map(|_| Some(Reply::failure(404, "not found"))));
    });
    needed.settle().await;
    assert!(!needed.observer.synced);
    needed.wait(MINUTE).await;
    assert!(needed.observer.synced);
}

#[tokio::test(start_paused = true)]
async fn a_relist_request_leads_to_a_list() {
    let mut fixture = ReflectorFixture::start("Namespace", |server| server.put("a"));
    fixture.settle().await;
    let status = Arc::clone(&fixture.status);
    lock(&fixture.server).put_silently("b");
    fixture.wait(MINUTE).await;
    assert_eq!(fixture.observer.log, ["+a"], "the watch is behind");
    let again = tokio::spawn(async move { status.relist().await });
    fixture.settle_after_failure().await;
    again.await.unwrap();
    assert_eq!(fixture.observer.log, ["+a", "+b"]);
    assert_eq!(fixture.observer.synced_times, 1);
}

#[tokio::test(start_paused = true)]
async fn a_reflector_ends_when_its_receiver_is_dropped() {
    let fixture = ReflectorFixture::start("Namespace", |server| server.put("a"));
    let ReflectorFixture { task, observer, .. } = fixture;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!task.is_finished());
    drop(observer);
    timeout(Duration::from_millis(1), task).await.unwrap().unwrap();

    let failing = ReflectorFixture::start("Namespace", |server| {
        server.script.extend((0..1000).map(|_| Some(Reply::broken())));
    });
    tokio::time::sleep(10 * MINUTE).await;
    drop(failing.observer);
    timeout(Duration::from_millis(1), failing.task).await.unwrap().unwrap();
}

#[test]
fn values_in_queries_are_encoded() {
    assert_eq!(percent_encode("a!=b,c"), "a%21%3Db%2Cc");
    assert_eq!(percent_encode("key+/="), "key%2B%2F%3D");
}

#[tokio::test(start_paused = true)]
async fn protobuf_is_requested_and_decoded() {
    for streaming in [true, false] {
        let mut fixture = ReflectorFixture::start("Namespace", |server| {
            server.protobuf = true;
            server.page = 1;
            server.streaming_lists = if streaming { Ok(()) } else { Err(400) };
            for name in ["a", "b", "c"] {
                server.put(name);
            }
        });
        fixture.settle().await;
        assert!(fixture.observer.synced);
        fixture.assert_in_sync();
        lock(&fixture.server).put("d");
        lock(&fixture.server).delete("a");
        fixture.settle_after_failure().await;
        fixture.assert_in_sync();
        let accepted = fixture.fake.requests()[0].accept.clone();
        assert_eq!(accepted, "application/vnd.kubernetes.protobuf,application/json");
    }
}
