//! Volumes against a server whose controllers act when the test says so, in virtual time.

use std::sync::{Arc, Mutex};

use http::Method;
use tokio::time::Instant;

use super::*;
use crate::lease::Fence;
use crate::testing::{FakeApiServer, ReceivedRequest, Reply, lock, seconds_since};

const LIMIT: Duration = Duration::from_mins(10);

/// What happens to the world.
type Effect = fn(&mut VolumeWorld);

/// One volume and one claim.
struct VolumeWorld {
    volume: Value,
    claim: Value,
    /// Reads so far, and after how many of the claim what happens.
    looks: u32,
    then: Option<(u32, Effect)>,
    trouble: u32,
    /// What comes of the next write, and whether it is done all the same.
    fault: Option<(Reply, bool)>,
}

impl VolumeWorld {
    fn new() -> Self {
        let volume = json!({"metadata": {"name": "pv", "resourceVersion": "5"}, "spec": {}});
        let meta =
            json!({"name": "pvc", "namespace": "ns", "uid": "uid-c", "resourceVersion": "6"});
        let claim = json!({"metadata": meta, "spec": {}});
        Self { volume, claim, looks: 0, then: None, trouble: 0, fault: None }
    }

    fn bind(&mut self) {
        self.claim["spec"]["volumeName"] = json!("pv");
        self.claim["metadata"]["annotations"][BIND_COMPLETED] = json!("yes");
    }

    fn answer(&mut self, asked: &ReceivedRequest) -> Reply {
        if asked.method == Method::GET && self.trouble > 0 && self.looks > 0 {
            self.trouble -= 1;
            return Reply::failure(500, "etcd is busy");
        }
        let is_claim = asked.path == "/api/v1/namespaces/ns/persistentvolumeclaims/pvc";
        if asked.method == Method::GET && is_claim {
            self.looks += 1;
            if let Some((_, act)) = self.then.take_if(|(after, _)| *after < self.looks) {
                act(self);
            }
        }
        let object = match &*asked.path {
            _ if is_claim => &mut self.claim,
            "/api/v1/persistentvolumes/pv" => &mut self.volume,
            _ => return Reply::failure(404, "not found"),
        };
        if object.is_null() {
            return Reply::failure(404, "not found");
        }
        let fault = self.fault.take_if(|_| asked.method == Method::PATCH);
        if asked.method == Method::PATCH && fault.as_ref().is_none_or(|(_, done)| *done) {
            if asked.body["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
                return Reply::failure(409, "the object has been modified");
            }
            for (field, value) in asked.body["spec"].as_object().into_iter().flatten() {
                object["spec"][field] = value.clone();
            }
            let annotations = asked.body["metadata"]["annotations"].as_object();
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
        Self { world, fake: FakeApiServer::new(move |asked| lock(&server).answer(asked)) }
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

async fn refused(stage: &VolumeFixture, request: VolumeRequest) -> String {
    format!("{:#}", stage.prepare(request).await.unwrap_err())
}

#[tokio::test(start_paused = true)]
async fn a_volume_is_bound_to_its_claim() {
    let stage = VolumeFixture::new(|world| world.then = Some((3, VolumeWorld::bind)));
    stage.prepare(static_bind()).await.unwrap();
    let patch = stage.patches().remove(0);
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
async fn a_fault_of_a_write_ends_this_attempt_and_not_the_next() {
    for (fault, told) in [
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
            let stage = VolumeFixture::new(|world| world.fault = Some((fault.clone(), done)));
            let begun = Instant::now();
            let error = refused(&stage, request.clone()).await;
            assert!(error.contains(told), "{told}, {request:?}: {error}");
            assert_eq!(stage.patches().len(), 1, "{told}: it is not written again at once");
            assert!(begun.elapsed() <= REQUEST_TIMEOUT, "{told}");
            let looks = lock(&stage.world).looks;
            lock(&stage.world).then = Some((looks + 2, VolumeWorld::bind));
            stage.prepare(request.clone()).await.unwrap();
            let writes = if done { 1 } else { 2 };
            assert_eq!(stage.patches().len(), writes, "{told}, {request:?}: what is done stays");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_between_two_writes_stops_the_second() {
    let stage = VolumeFixture::new(|_| {});
    let fence = Fence::always();
    let (world, closing) = (Arc::clone(&stage.world), fence.clone());
    let fake = FakeApiServer::new(move |asked| {
        let reply = lock(&world).answer(asked);
        if asked.method == Method::PATCH {
            closing.close();
        }
        reply
    });
    let requests = [static_bind(), provision()];
    let error = prepare(&fake.client(), &fence.into(), &requests, LIMIT).await.unwrap_err();
    assert_eq!(format!("{error:#}"), "the lease is not held any more");
    assert_eq!(fake.requests_by(&Method::PATCH).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn what_is_bound_already_is_not_written() {
    let stage = VolumeFixture::new(|world| {
        world.volume["spec"]["claimRef"] =
            json!({"name": "pvc", "namespace": "ns", "uid": "uid-c"});
        world.bind();
    });
    stage.prepare(static_bind()).await.unwrap();
    assert_eq!(stage.patches().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_another_claim_is_left_alone() {
    for other in [
        json!({"name": "pvc", "namespace": "ns", "uid": "uid-old"}),
        json!({"name": "other", "namespace": "ns"}),
        json!({"name": "pvc", "namespace": "elsewhere"}),
    ] {
        let stage = VolumeFixture::new(|world| world.volume["spec"]["claimRef"] = other);
        assert_eq!(refused(&stage, static_bind()).await, "volume pv is bound to another claim");
        assert_eq!(stage.patches().len(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_was_reserved_for_the_claim_stays_so() {
    let stage = VolumeFixture::new(|world| {
        world.volume["spec"]["claimRef"] = json!({"name": "pvc", "namespace": "ns"});
        world.then = Some((2, VolumeWorld::bind));
    });
    stage.prepare(static_bind()).await.unwrap();
    assert!(stage.patches()[0].body["metadata"].get("annotations").is_none());
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_when_it_is_in_vain() {
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
        let stage = VolumeFixture::new(|world| world.then = Some((4, act)));
        let begun = Instant::now();
        assert_eq!(refused(&stage, request).await, expected);
        assert!(seconds_since(begun) < 10.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_is_chosen_for_a_claim_that_is_provisioned() {
    let stage = VolumeFixture::new(|world| world.then = Some((5, VolumeWorld::bind)));
    stage.prepare(provision()).await.unwrap();
    let patch = stage.patches().remove(0);
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
async fn passing_trouble_does_not_end_waiting() {
    let stage = VolumeFixture::new(|world| {
        world.trouble = 5;
        world.then = Some((5, VolumeWorld::bind));
    });
    stage.prepare(provision()).await.unwrap();
    assert_eq!(lock(&stage.world).trouble, 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_at_the_limit() {
    let stage = VolumeFixture::new(|_| {});
    let begun = Instant::now();
    assert_eq!(refused(&stage, provision()).await, "context deadline exceeded");
    assert_eq!(begun.elapsed(), LIMIT);
    let silent = FakeApiServer::new(|_| Reply::never());
    let error = prepare(&silent.client(), &Fence::always().into(), &[provision()], LIMIT).await;
    assert_eq!(error.unwrap_err().to_string(), "the API server did not answer");
}

#[tokio::test(start_paused = true)]
async fn without_the_lease_nothing_is_written() {
    let stage = VolumeFixture::new(|_| {});
    for request in [provision(), static_bind()] {
        let error = prepare(&stage.fake.client(), &Fence::never().into(), &[request], LIMIT).await;
        assert_eq!(error.unwrap_err().to_string(), "the lease is not held any more");
    }
    assert_eq!(stage.patches().len(), 0);
}
