//! Tests of volume binding against a server whose controllers act after a number of reads, in virtual time.

use std::sync::{Arc, Mutex};

use http::Method;
use tokio::time::Instant;

use super::*;
use crate::lease::Fence;
use crate::testing::{FakeApiServer, ReceivedRequest, Reply, lock, seconds_since};

const LIMIT: Duration = Duration::from_mins(10);

/// An act of a controller.
type Effect = fn(&mut VolumeWorld);

/// One volume and one claim.
struct VolumeWorld {
    volume: Value,
    claim: Value,
    /// Number of reads of the claim.
    reads: u32,
    /// An effect that happens after this number of reads.
    then: Option<(u32, Effect)>,
    /// Number of reads that are to fail.
    read_failures: u32,
    /// Reply to the next write, and whether the write takes effect.
    fault: Option<(Reply, bool)>,
}

impl VolumeWorld {
    fn new() -> Self {
        let volume = json!({"metadata": {"name": "pv", "resourceVersion": "5"}, "spec": {}});
        let meta =
            json!({"name": "pvc", "namespace": "ns", "uid": "uid-c", "resourceVersion": "6"});
        let claim = json!({"metadata": meta, "spec": {}});
        Self { volume, claim, reads: 0, then: None, read_failures: 0, fault: None }
    }

    fn bind(&mut self) {
        self.claim["spec"]["volumeName"] = json!("pv");
        self.claim["metadata"]["annotations"][BIND_COMPLETED] = json!("yes");
    }

    fn answer(&mut self, request: &ReceivedRequest) -> Reply {
        if request.method == Method::GET && self.read_failures > 0 && self.reads > 0 {
            self.read_failures -= 1;
            return Reply::failure(500, "etcd is busy");
        }
        let is_claim = request.path == "/api/v1/namespaces/ns/persistentvolumeclaims/pvc";
        if request.method == Method::GET && is_claim {
            self.reads += 1;
            if let Some((_, act)) = self.then.take_if(|(after, _)| *after < self.reads) {
                act(self);
            }
        }
        let object = match &*request.path {
            _ if is_claim => &mut self.claim,
            "/api/v1/persistentvolumes/pv" => &mut self.volume,
            _ => return Reply::failure(404, "not found"),
        };
        if object.is_null() {
            return Reply::failure(404, "not found");
        }
        let fault = self.fault.take_if(|_| request.method == Method::PATCH);
        if request.method == Method::PATCH && fault.as_ref().is_none_or(|(_, done)| *done) {
            if request.body["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"]
            {
                return Reply::failure(409, "the object has been modified");
            }
            for (field, value) in request.body["spec"].as_object().into_iter().flatten() {
                object["spec"][field] = value.clone();
            }
            let annotations = request.body["metadata"]["annotations"].as_object();
            for (name, value) in annotations.into_iter().flatten() {
                object["metadata"]["annotations"][name] = value.clone();
            }
        }
        fault.map_or_else(|| Reply::json(200, object), |(reply, _)| reply)
    }
}

struct VolumeFixture {
    world: Arc<Mutex<VolumeWorld>>,
    fake: FakeApiServer,
}

impl VolumeFixture {
    fn new(prepare: impl FnOnce(&mut VolumeWorld)) -> Self {
        let mut world = VolumeWorld::new();
        prepare(&mut world);
        let world = Arc::new(Mutex::new(world));
        let server = Arc::clone(&world);
        Self { world, fake: FakeApiServer::new(move |request| lock(&server).answer(request)) }
    }

    async fn prepare(&self, request: VolumeRequest) -> Result<()> {
        prepare(&self.fake.client(), &Fence::always().into(), &[request], LIMIT).await
    }

    fn patches(&self) -> Vec<ReceivedRequest> {
        self.fake.requests_by(&Method::PATCH)
    }
}

fn static_bind() -> VolumeRequest {
    VolumeRequest::BindVolume { volume: "pv".into(), namespace: "ns".into(), claim: "pvc".into() }
}

fn provision() -> VolumeRequest {
    VolumeRequest::Provision { namespace: "ns".into(), claim: "pvc".into(), node: "n1".into() }
}

async fn error_of(fixture: &VolumeFixture, request: VolumeRequest) -> String {
    Chain(&fixture.prepare(request).await.unwrap_err()).to_string()
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_bound_to_its_claim() {
    let fixture = VolumeFixture::new(|world| world.then = Some((3, VolumeWorld::bind)));
    fixture.prepare(static_bind()).await.unwrap();
    let patch = fixture.patches().remove(0);
    assert_eq!(patch.path, "/api/v1/persistentvolumes/pv");
    assert_eq!(patch.content_type, "application/merge-patch+json");
    assert_eq!(patch.body["metadata"]["resourceVersion"], "5");
    assert_eq!(patch.body["metadata"]["annotations"][BOUND_BY_CONTROLLER], "yes");
    let reference = &patch.body["spec"]["claimRef"];
    assert_eq!((&reference["name"], &reference["uid"]), (&json!("pvc"), &json!("uid-c")));
    assert_eq!(
        (&reference["namespace"], &reference["resourceVersion"]),
        (&json!("ns"), &json!("6"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_failed_write_ends_the_attempt_and_the_next_one_succeeds() {
    for (fault, expected) in [
        (Reply::failure(409, "the object has been modified"), "409"),
        (Reply::failure(500, "etcd is gone"), "500"),
        (Reply::failure(503, "later"), "503"),
        (Reply::never(), "did not answer"),
        (Reply::broken(), "connection reset"),
    ] {
        for (request, done) in [
            (static_bind(), false),
            (static_bind(), true),
            (provision(), false),
            (provision(), true),
        ] {
            let fixture = VolumeFixture::new(|world| world.fault = Some((fault.clone(), done)));
            let begun = Instant::now();
            let error = error_of(&fixture, request.clone()).await;
            assert!(error.contains(expected), "{expected}, {request:?}: {error}");
            assert_eq!(fixture.patches().len(), 1, "{expected}: it is not written again at once");
            assert!(begun.elapsed() <= REQUEST_TIMEOUT, "{expected}");
            let reads = lock(&fixture.world).reads;
            lock(&fixture.world).then = Some((reads + 2, VolumeWorld::bind));
            fixture.prepare(request.clone()).await.unwrap();
            let writes = if done { 1 } else { 2 };
            assert_eq!(
                fixture.patches().len(),
                writes,
                "{expected}, {request:?}: a write that took effect is not repeated"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_between_two_writes_stops_the_second() {
    let fixture = VolumeFixture::new(|_| {});
    let fence = Fence::always();
    let (world, closing) = (Arc::clone(&fixture.world), fence.clone());
    let fake = FakeApiServer::new(move |request| {
        let reply = lock(&world).answer(request);
        if request.method == Method::PATCH {
            closing.close();
        }
        reply
    });
    let requests = [static_bind(), provision()];
    let error = prepare(&fake.client(), &fence.into(), &requests, LIMIT).await.unwrap_err();
    assert_eq!(Chain(&error).to_string(), "the lease is not held any more");
    assert_eq!(fake.requests_by(&Method::PATCH).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_bound_volume_is_not_written() {
    let fixture = VolumeFixture::new(|world| {
        world.volume["spec"]["claimRef"] =
            json!({"name": "pvc", "namespace": "ns", "uid": "uid-c"});
        world.bind();
    });
    fixture.prepare(static_bind()).await.unwrap();
    assert_eq!(fixture.patches().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_another_claim_is_not_written() {
    for other in [
        json!({"name": "pvc", "namespace": "ns", "uid": "uid-old"}),
        json!({"name": "other", "namespace": "ns"}),
        json!({"name": "pvc", "namespace": "elsewhere"}),
    ] {
        let fixture = VolumeFixture::new(|world| world.volume["spec"]["claimRef"] = other);
        assert_eq!(error_of(&fixture, static_bind()).await, "volume pv is bound to another claim");
        assert_eq!(fixture.patches().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_reserved_volume_gets_no_annotation() {
    let fixture = VolumeFixture::new(|world| {
        world.volume["spec"]["claimRef"] = json!({"name": "pvc", "namespace": "ns"});
        world.then = Some((2, VolumeWorld::bind));
    });
    fixture.prepare(static_bind()).await.unwrap();
    assert!(fixture.patches()[0].body["metadata"].get("annotations").is_none());
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_the_claim_cannot_be_bound_any_more() {
    let rows: [(Effect, VolumeRequest, &str); 6] = [
        (
            |world| {
                world.bind();
                world.claim["spec"]["volumeName"] = json!("pv-2");
            },
            static_bind(),
            "claim ns/pvc was bound to pv-2, not to pv",
        ),
        (
            |world| world.volume["spec"]["claimRef"] = Value::Null,
            static_bind(),
            "ClaimRef got reset for PV \"pv\"",
        ),
        (|world| world.volume = Value::Null, static_bind(), "404 Not Found: not found"),
        (|world| world.claim = Value::Null, static_bind(), "404 Not Found: not found"),
        (
            |world| world.claim["metadata"]["annotations"] = Value::Null,
            provision(),
            "selectedNode annotation reset for PVC \"pvc\"",
        ),
        (|world| world.claim = Value::Null, provision(), "404 Not Found: not found"),
    ];
    for (act, request, expected) in rows {
        let fixture = VolumeFixture::new(|world| world.then = Some((4, act)));
        let begun = Instant::now();
        assert_eq!(error_of(&fixture, request).await, expected);
        assert!(seconds_since(begun) < 10.0);
    }
}

#[tokio::test(start_paused = true)]
async fn provisioning_annotates_the_claim_with_the_node() {
    let fixture = VolumeFixture::new(|world| world.then = Some((5, VolumeWorld::bind)));
    fixture.prepare(provision()).await.unwrap();
    let patch = fixture.patches().remove(0);
    assert_eq!(patch.body["metadata"]["annotations"][SELECTED_NODE], "n1");
    assert_eq!(patch.body["metadata"]["resourceVersion"], "6");

    let again = VolumeFixture::new(|world| {
        world.claim["metadata"]["annotations"] = json!({SELECTED_NODE: "n1"});
        world.then = Some((5, VolumeWorld::bind));
    });
    again.prepare(provision()).await.unwrap();
    assert_eq!(again.patches().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn temporary_read_failures_do_not_end_waiting() {
    let fixture = VolumeFixture::new(|world| {
        world.read_failures = 5;
        world.then = Some((5, VolumeWorld::bind));
    });
    fixture.prepare(provision()).await.unwrap();
    assert_eq!(lock(&fixture.world).read_failures, 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_at_the_limit() {
    let fixture = VolumeFixture::new(|_| {});
    let begun = Instant::now();
    assert_eq!(error_of(&fixture, provision()).await, "context deadline exceeded");
    assert_eq!(begun.elapsed(), LIMIT);
    let silent = FakeApiServer::new(|_| Reply::never());
    let error = prepare(&silent.client(), &Fence::always().into(), &[provision()], LIMIT).await;
    assert_eq!(error.unwrap_err().to_string(), "the API server did not answer");
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_written() {
    let fixture = VolumeFixture::new(|_| {});
    for request in [provision(), static_bind()] {
        let error =
            prepare(&fixture.fake.client(), &Fence::never().into(), &[request], LIMIT).await;
        assert_eq!(error.unwrap_err().to_string(), "the lease is not held any more");
    }
    assert_eq!(fixture.patches().len(), 0);
}
