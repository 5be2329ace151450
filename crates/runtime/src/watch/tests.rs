//! Following against a server with a history, in virtual time.

mod faults;
mod odd;
mod properties;
mod protobuf;
mod server;

use serde_json::{Value, json};

use super::*;
use crate::kinds::KINDS;
use crate::testing::{BodyPart, Reply, lock};
use server::ReflectorFixture;

const MINUTE: Duration = Duration::from_mins(1);

#[tokio::test(start_paused = true)]
async fn a_streaming_list_is_complete_at_its_bookmark() {
    let mut stage = ReflectorFixture::start("Namespace", |server| {
        server.put("a");
        server.put("b");
    });
    stage.settle().await;
    assert!(stage.observer.synced);
    stage.agree();
    let asked = stage.fake.requests();
    assert_eq!(asked.len(), 1, "one stream lists and watches");
    assert_eq!(asked[0].parameter("sendInitialEvents").as_deref(), Some("true"));
    assert_eq!(asked[0].parameter("resourceVersionMatch").as_deref(), Some("NotOlderThan"));
    assert_eq!(asked[0].parameter("resourceVersion").as_deref(), Some(""));
    assert_eq!(asked[0].parameter("allowWatchBookmarks").as_deref(), Some("true"));
}

#[tokio::test(start_paused = true)]
async fn who_is_called_at_once_lists_once() {
    let start = || ReflectorFixture::start_as("Node", |_| {}, |one| one.with_startup_delay(MINUTE));
    let mut stage = start();
    stage.settle().await;
    assert!(stage.fake.requests().is_empty(), "it waits for the call");
    stage.status.relist().await;
    stage.wait(2 * MINUTE).await;
    assert!(stage.observer.synced);
    assert_eq!(stage.fake.requests().len(), 1, "the list that was called for is the first");
    let mut stage = start();
    stage.wait(MINUTE * 3 / 2).await;
    assert!(stage.observer.synced, "without a call it begins all the same");
}

#[tokio::test(start_paused = true)]
async fn pods_that_ended_are_not_asked_for() {
    let mut stage = ReflectorFixture::start("Pod", |_| {});
    stage.settle().await;
    let selector = stage.fake.requests()[0].parameter("fieldSelector");
    assert_eq!(selector.as_deref(), Some("status.phase!=Succeeded,status.phase!=Failed"));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_streaming_lists_is_listed_by_pages() {
    for status in [400, 422] {
        let mut stage = ReflectorFixture::start("Namespace", |server| {
            server.streaming_lists = Err(status);
            server.page = 2;
            (0..5).for_each(|number| server.put(&format!("name-{number}")));
        });
        stage.settle().await;
        assert!(stage.observer.synced);
        stage.agree();
        let asked = stage.fake.requests();
        assert_eq!(asked.len(), 1 + 3 + 1, "tried, three pages, watched");
        assert_eq!(asked[2].parameter("continue").as_deref(), Some("2 of/5&"));
        assert_eq!(asked[4].parameter("resourceVersion").as_deref(), Some("5"));
        lock(&stage.server).put("later");
        stage.change().await;
        stage.agree();
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_page_begins_the_list_anew() {
    let mut stage = ReflectorFixture::start("Namespace", |server| {
        server.streaming_lists = Err(400);
        server.page = 1;
        for name in ["a", "b", "c"] {
            server.put(name);
        }
        // The list begins, its second page is refused.
        server.script.extend([None, None, Some(Reply::failure(410, "expired"))]);
    });
    stage.settle().await;
    stage.agree();
    assert!(stage.observer.synced);
    assert!(stage.metrics.text().contains("reason=\"expired\""), "{}", stage.metrics.text());
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_ends_a_streaming_list_is_listed_by_pages() {
    let mut stage = ReflectorFixture::start("Namespace", |server| {
        server.put("a");
        let added = server.event(0);
        server
            .script
            .push_back(Some(Reply::stream(200, vec![BodyPart::Data(added), BodyPart::Hang])));
    });
    stage.settle().await;
    assert!(!stage.observer.synced, "a list without its end is not complete");
    stage.wait(PAGE_TIMEOUT).await;
    assert!(stage.observer.synced);
    assert_eq!(stage.fake.requests()[1].parameter("limit").as_deref(), Some("1000"));
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_from_the_last_version() {
    let mut stage = ReflectorFixture::start("Namespace", |server| server.put("a"));
    stage.settle().await;
    lock(&stage.server).put("b");
    stage.change().await;
    lock(&stage.server).disconnect();
    stage.change().await;
    lock(&stage.server).delete("a");
    stage.change().await;
    stage.agree();
    assert_eq!(stage.fake.requests()[1].parameter("resourceVersion").as_deref(), Some("2"));
    assert_eq!(stage.observer.log, ["+a", "+b", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn what_a_new_list_lacks_is_gone() {
    for inside in [false, true] {
        let mut stage = ReflectorFixture::start("Namespace", |server| {
            server.put("a");
            server.put("b");
        });
        stage.settle().await;
        {
            let mut server = lock(&stage.server);
            server.disconnect();
            server.delete("a");
            server.put("c");
            server.forget();
            server.expired_inside = inside;
        }
        stage.wait(MINUTE).await;
        stage.agree();
        assert_eq!(stage.observer.log, ["+a", "+b", "+c", "-a"]);
        assert!(stage.metrics.text().contains("reason=\"expired\""));
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_object_of_an_old_name_is_another_one() {
    let mut stage = ReflectorFixture::start("Namespace", |server| server.put("a"));
    stage.settle().await;
    {
        let mut server = lock(&stage.server);
        server.disconnect();
        server.delete("a");
        server.put("a");
        server.forget();
    }
    stage.wait(MINUTE).await;
    stage.agree();
    assert_eq!(stage.observer.log, ["+a", "-a", "+a"]);
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_a_cluster_lacks_counts_as_seen() {
    let mut stage = ReflectorFixture::start("DeviceClass", |server| {
        let missing = || Some(Reply::failure(404, "the server could not find it"));
        server.script.extend((0..3).map(|_| missing()));
        server.put("a");
    });
    stage.settle().await;
    assert!(stage.observer.synced);
    assert_eq!(stage.observer.log, Vec::<String>::new());
    stage.wait(2 * MINUTE).await;
    assert_eq!(stage.observer.log, ["+a"], "it is asked for now and then");
    let last = stage.fake.requests().pop().unwrap();
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
async fn a_list_is_made_when_somebody_wants_one() {
    let mut stage = ReflectorFixture::start("Namespace", |server| server.put("a"));
    stage.settle().await;
    let status = Arc::clone(&stage.status);
    lock(&stage.server).put_silently("b");
    stage.wait(MINUTE).await;
    assert_eq!(stage.observer.log, ["+a"], "the watch is behind");
    let again = tokio::spawn(async move { status.relist().await });
    stage.change().await;
    again.await.unwrap();
    assert_eq!(stage.observer.log, ["+a", "+b"]);
    assert_eq!(stage.observer.synced_times, 1);
}

#[tokio::test(start_paused = true)]
async fn following_ends_when_nobody_listens() {
    let stage = ReflectorFixture::start("Namespace", |server| server.put("a"));
    let ReflectorFixture { task, observer, .. } = stage;
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
fn queries_are_encoded() {
    assert_eq!(percent_encode("a!=b,c"), "a%21%3Db%2Cc");
    assert_eq!(percent_encode("key+/="), "key%2B%2F%3D");
}

#[tokio::test(start_paused = true)]
async fn protobuf_is_asked_for_and_read() {
    for streaming in [true, false] {
        let mut stage = ReflectorFixture::start("Namespace", |server| {
            server.protobuf = true;
            server.page = 1;
            server.streaming_lists = if streaming { Ok(()) } else { Err(400) };
            for name in ["a", "b", "c"] {
                server.put(name);
            }
        });
        stage.settle().await;
        assert!(stage.observer.synced);
        stage.agree();
        lock(&stage.server).put("d");
        lock(&stage.server).delete("a");
        stage.change().await;
        stage.agree();
        let accepted = stage.fake.requests()[0].accept.clone();
        assert_eq!(accepted, "application/vnd.kubernetes.protobuf,application/json");
    }
}
