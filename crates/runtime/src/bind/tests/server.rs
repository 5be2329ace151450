//! An API server with one pod, which can fail in every way that concerns a bind.

use std::collections::VecDeque;
use std::sync::Mutex;

use http::Method;
use serde_json::json;

use super::*;

pub(super) const OURS: &str = "node-1";
pub(super) const OTHER: &str = "node-2";

/// Response of the server to a bind.
#[derive(Clone, Debug)]
pub(super) enum RequestFault {
    Healthy,
    /// The request never arrives.
    DropRequest,
    /// The pod is bound and the connection breaks.
    DropResponse,
    /// The pod is bound; the response comes after this time.
    Slow(Duration),
    /// The pod is bound after this time, without a response.
    Late(Duration),
    /// An error status, with or without having bound the pod, and `Retry-After`.
    Status(u16, bool, Option<u64>),
    /// The status arrives, but the body never does.
    Headless(u16),
}

/// A change of the pod by others, right after a bind was handled.
#[derive(Clone, Debug)]
pub(super) enum Interference {
    Touch,
    Delete,
    Terminate,
    Gate,
    Replace,
    Steal,
}

#[derive(Default)]
pub(super) struct PodWorld {
    pod: Option<Value>,
    version: u64,
    /// Nodes to which the pod was bound by the binder's requests.
    pub(super) bound: Vec<String>,
    binds: VecDeque<(RequestFault, Option<Interference>)>,
    pub(super) reads: VecDeque<Reply>,
}

impl PodWorld {
    pub(super) fn touch(&mut self, change: impl FnOnce(&mut Value)) {
        self.version += 1;
        if let Some(pod) = &mut self.pod {
            change(pod);
            pod["metadata"]["resourceVersion"] = json!(self.version.to_string());
        }
    }

    /// Handles a Binding as the API server does.
    fn bind(&mut self, binding: &Value) -> Reply {
        let Some(pod) = self.pod.clone() else { return Reply::failure(404, "not found") };
        let meta = |object: &Value, field: &str| object["metadata"][field].clone();
        if meta(&pod, "uid") != meta(binding, "uid") {
            return conflict("Precondition failed: UID in precondition: 1, UID in object meta: 2");
        }
        if meta(&pod, "resourceVersion") != meta(binding, "resourceVersion") {
            return conflict("Precondition failed: ResourceVersion in precondition: 1");
        }
        if !pod["spec"]["nodeName"].is_null() {
            return conflict("pod pod is already assigned to node \"a\"");
        }
        if !meta(&pod, "deletionTimestamp").is_null() {
            return conflict("pod pod is being deleted, cannot be assigned to a host");
        }
        if !pod["spec"]["schedulingGates"].is_null() {
            return conflict("pod pod has non-empty .spec.schedulingGates");
        }
        let node = binding["target"]["name"].as_str().unwrap().to_owned();
        self.touch(|pod| pod["spec"]["nodeName"] = json!(node));
        self.bound.push(node);
        Reply::json(201, &json!({"kind": "Status", "status": "Success"}))
    }

    pub(super) fn interfere(&mut self, interference: &Interference) {
        match interference {
            Interference::Touch => self.touch(|_| {}),
            Interference::Delete => self.pod = None,
            Interference::Terminate => {
                self.touch(|pod| pod["metadata"]["deletionTimestamp"] = json!("2024-01-01"));
            }
            Interference::Gate => self.touch(|pod| pod["spec"]["schedulingGates"] = json!([{}])),
            Interference::Replace => {
                self.version += 1;
                self.pod = Some(pod("uid-2", self.version));
            }
            Interference::Steal => self.touch(|pod| {
                if pod["spec"]["nodeName"].is_null() {
                    pod["spec"]["nodeName"] = json!(OTHER);
                }
            }),
        }
    }

    pub(super) fn is_on(&self, node: &str) -> bool {
        self.pod
            .as_ref()
            .is_some_and(|pod| pod["metadata"]["uid"] == "uid-1" && pod["spec"]["nodeName"] == node)
    }
}

/// A conflict with the reason that the API server gives.
fn conflict(reason: &str) -> Reply {
    let message = format!("Operation cannot be fulfilled on pods/binding \"pod\": {reason}");
    Reply::failure(409, &message)
}

pub(super) fn pod(uid: &str, version: u64) -> Value {
    let meta = json!({"namespace": "ns", "name": "pod", "uid": uid, "resourceVersion": version.to_string()});
    json!({"kind": "Pod", "metadata": meta, "spec": {}})
}

pub(super) struct BinderFixture {
    pub(super) world: Arc<Mutex<PodWorld>>,
    pub(super) fake: FakeApiServer,
    pub(super) fence: Fence,
    pub(super) window: Arc<BindWindow>,
    pub(super) metrics: Metrics,
}

impl BinderFixture {
    pub(super) fn new(binds: &[(RequestFault, Option<Interference>)]) -> Self {
        let world = PodWorld {
            pod: Some(pod("uid-1", 7)),
            version: 7,
            binds: binds.iter().cloned().collect(),
            ..PodWorld::default()
        };
        let world = Arc::new(Mutex::new(world));
        let server = Arc::clone(&world);
        let fake = FakeApiServer::new(move |request| reply(&server, request));
        let (fence, window) = (Fence::always(), Arc::default());
        Self { world, fake, fence, window, metrics: Metrics::new("lease") }
    }

    pub(super) fn of(steps: &[RequestFault]) -> Self {
        Self::new(&steps.iter().map(|step| (step.clone(), None)).collect::<Vec<_>>())
    }

    pub(super) async fn bind(&self) -> Result<(), String> {
        self.bind_since(None).await
    }

    pub(super) async fn bind_since(&self, since: Option<Instant>) -> Result<(), String> {
        self.bind_named("pod", since).await
    }

    pub(super) async fn bind_named(
        &self,
        name: &str,
        since: Option<Instant>,
    ) -> Result<(), String> {
        let window = Arc::clone(&self.window);
        let binder =
            Binder::new(self.fake.client(), self.fence.clone(), window, self.metrics.clone());
        let pod = PodRef {
            namespace: "ns".into(),
            name: name.into(),
            uid: "uid-1".into(),
            resource_version: 7,
            ..PodRef::default()
        };
        let bound = binder.bind(&pod, &OURS.into(), since).await;
        bound.map_err(|error| Chain(&error).to_string())
    }

    pub(super) fn sends(&self) -> Vec<ReceivedRequest> {
        self.fake.requests_by(&Method::POST)
    }

    pub(super) fn reads(&self) -> Vec<ReceivedRequest> {
        self.fake.requests_by(&Method::GET)
    }

    pub(super) fn counted(&self, result: &str) -> bool {
        self.metrics.text().lines().any(|line| line.contains(result) && line.ends_with(" 1"))
    }
}

fn reply(world: &Arc<Mutex<PodWorld>>, request: &ReceivedRequest) -> Reply {
    let mut server = lock(world);
    if request.method == Method::GET {
        assert_eq!(request.path, "/api/v1/namespaces/ns/pods/pod");
        assert_eq!(request.query, "", "the read must be consistent");
        let scripted = server.reads.pop_front();
        return scripted.unwrap_or_else(|| match &server.pod {
            Some(pod) => Reply::json(200, pod),
            None => Reply::failure(404, "pods \"pod\" not found"),
        });
    }
    assert_eq!(request.path, "/api/v1/namespaces/ns/pods/pod/binding");
    assert_eq!(request.parameter("timeout").as_deref(), Some("2500ms"));
    assert_eq!(request.body["metadata"]["uid"], "uid-1");
    let (step, interference) = server.binds.pop_front().unwrap_or((RequestFault::Healthy, None));
    let reply = match step {
        RequestFault::Healthy => server.bind(&request.body),
        RequestFault::DropRequest => Reply::broken(),
        RequestFault::DropResponse => {
            server.bind(&request.body);
            Reply::broken()
        }
        RequestFault::Slow(delay) => server.bind(&request.body).after(delay),
        RequestFault::Late(delay) => {
            let (world, body) = (Arc::clone(world), request.body.clone());
            tokio::spawn(async move {
                sleep(delay).await;
                lock(&world).bind(&body);
            });
            Reply::never()
        }
        RequestFault::Status(status, done, wait) => {
            if done {
                server.bind(&request.body);
            }
            let reply = Reply::failure(status, "as the test wants");
            match wait {
                Some(wait) => reply.header("retry-after", wait),
                None => reply,
            }
        }
        RequestFault::Headless(status) => Reply::stream(status, vec![BodyPart::Hang]),
    };
    if let Some(interference) = interference {
        server.interfere(&interference);
    }
    reply
}
