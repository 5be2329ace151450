//! Tests with scripted extenders, in virtual time, and with one over real TLS.

use std::time::Duration;

use api::config::{Extender, ManagedResource};
use serde_json::Value;
use tokio::time::Instant;

use super::*;
use crate::testing::{FakeApiServer, ReceivedRequest, Reply, seconds_since};

/// Scripted extenders, with the requests that they received.
struct ExtenderFixture {
    extenders: Extenders,
    fakes: Vec<FakeApiServer>,
}

type Handler = fn(&ReceivedRequest) -> Reply;

fn fixture(parts: Vec<(Extender, Handler)>) -> ExtenderFixture {
    let api = FakeApiServer::new(|request| {
        let name = request.path.rsplit('/').next().unwrap_or("");
        let metadata = json!({"name": name, "namespace": "ns", "uid": format!("uid-{name}")});
        Reply::json(200, &json!({"metadata": metadata, "spec": {"nodeName": "n9"}}))
    });
    let mut fakes = Vec::new();
    let clients = parts.into_iter().map(|(extender, answer)| {
        let fake = FakeApiServer::new(answer);
        let extender_client = ExtenderClient::over(extender, fake.client());
        fakes.push(fake);
        extender_client
    });
    let clients = clients.collect();
    let nodes = NodeStore::default();
    for name in ["n1", "n2", "n3"] {
        nodes.insert(name.into(), &json!({"metadata": {"name": name}}));
    }
    ExtenderFixture { extenders: Extenders { clients, client: api.client(), nodes }, fakes }
}

fn extender() -> Extender {
    Extender {
        url_prefix: "http://127.0.0.1:8888/gpu".into(),
        filter_verb: "filter".into(),
        prioritize_verb: "prioritize".into(),
        preempt_verb: "preempt".into(),
        bind_verb: "bind".into(),
        weight: 2,
        node_cache_capable: true,
        http_timeout: api::config::Duration::from_secs(5),
        managed_resources: vec![ManagedResource::default()],
        ..Extender::default()
    }
}

fn pod(name: &str) -> PodRef {
    PodRef {
        namespace: "ns".into(),
        name: name.into(),
        uid: format!("uid-{name}").into(),
        ..PodRef::default()
    }
}

fn names(names: &[&str]) -> Vec<Text> {
    names.iter().map(|name| Text::from(*name)).collect()
}

impl ExtenderFixture {
    async fn filter_and_prioritize(&self) -> std::result::Result<ExtenderVerdict, String> {
        let all: Vec<usize> = (0..self.fakes.len()).collect();
        let nodes = names(&["n1", "n2", "n3"]);
        let verdict = self.extenders.filter_and_prioritize(&pod("p"), &all, nodes).await;
        verdict.map_err(|error| Chain(&error).to_string())
    }

    async fn process_preemption(&self) -> std::result::Result<Vec<NodeVictims>, String> {
        let all: Vec<usize> = (0..self.fakes.len()).collect();
        let on = |node: &str, victim: &str| NodeVictims {
            node: node.into(),
            victims: vec![pod(victim)],
            violations: 1,
        };
        let candidates = vec![on("n1", "a"), on("n2", "b")];
        let left = self.extenders.process_preemption(&pod("p"), &all, candidates).await;
        left.map_err(|error| Chain(&error).to_string())
    }

    async fn bind(&self, node: &str) -> std::result::Result<(), String> {
        let bound = self.extenders.bind(0, &pod("p"), &node.into()).await;
        bound.map_err(|error| Chain(&error).to_string())
    }

    fn calls(&self, extender: usize, verb: &str) -> Vec<Value> {
        let requests = self.fakes[extender].requests().into_iter();
        requests
            .filter(|request| request.path.ends_with(verb))
            .map(|request| request.body)
            .collect()
    }
}

fn two_pass(request: &ReceivedRequest) -> Reply {
    match &*request.path {
        "/filter" => Reply::json(
            200,
            &json!({"NodeNames": ["n1", "n3"], "FailedNodes": {"n2": "gpu is hot"}, "Error": ""}),
        ),
        _ => Reply::json(200, &json!([{"Host": "n1", "Score": 3}, {"Host": "n3", "Score": 10}])),
    }
}

#[tokio::test(start_paused = true)]
async fn an_extender_filters_and_scores() {
    let fixture = fixture(vec![(extender(), two_pass)]);
    let verdict = fixture.filter_and_prioritize().await.unwrap();
    // Multiplied by the weight (2) and by `SCORE_FACTOR`.
    assert_eq!(verdict.passed, [("n1".into(), 60), ("n3".into(), 200)]);
    let hot = FailedNode { node: "n2".into(), reason: "gpu is hot".into(), unresolvable: false };
    assert_eq!(verdict.failed, [hot]);
    let filter = &fixture.calls(0, "filter")[0];
    assert_eq!(filter["NodeNames"], json!(["n1", "n2", "n3"]));
    assert_eq!(filter["Nodes"], Value::Null);
    assert_eq!(filter["Pod"]["metadata"]["uid"], "uid-p");
    assert_eq!(fixture.calls(0, "prioritize")[0]["NodeNames"], json!(["n1", "n3"]));
}

#[tokio::test(start_paused = true)]
async fn responses_in_lower_case_and_whole_nodes_are_accepted() {
    let whole = Extender { node_cache_capable: false, ..extender() };
    let fixture = fixture(vec![(whole, |request| match &*request.path {
        "/filter" => Reply::json(
            200,
            &json!({
                "nodes": {"items": [{"metadata": {"name": "n2"}}]},
                "failedNodes": {"n1": "hot", "n3": "hot"},
                "failedAndUnresolvableNodes": {"n3": "gone"},
            }),
        ),
        other => panic!("one node needs no scores: {other}"),
    })]);
    let verdict = fixture.filter_and_prioritize().await.unwrap();
    assert_eq!(verdict.passed, [("n2".into(), 0)]);
    let failed: Vec<_> =
        verdict.failed.iter().map(|f| (&*f.node, &*f.reason, f.unresolvable)).collect();
    assert_eq!(failed, [("n1", "hot", false), ("n3", "gone", true)]);
    let filter = &fixture.calls(0, "filter")[0];
    assert_eq!(filter["Nodes"]["items"][2]["metadata"]["name"], "n3");
    assert_eq!(filter["NodeNames"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn each_extender_receives_the_nodes_that_the_last_one_passed() {
    let only_n3: Handler = |request| match &*request.path {
        "/filter" => Reply::json(200, &json!({"NodeNames": ["n3"]})),
        _ => Reply::json(200, &json!([])),
    };
    let fixture = fixture(vec![(extender(), two_pass), (extender(), only_n3)]);
    let verdict = fixture.filter_and_prioritize().await.unwrap();
    assert_eq!(verdict.passed, [("n3".into(), 0)]);
    assert_eq!(fixture.calls(1, "filter")[0]["NodeNames"], json!(["n1", "n3"]));
    // No reason was given for it, so preemption does not consider it.
    let silent = FailedNode { node: "n1".into(), reason: "".into(), unresolvable: true };
    assert_eq!(verdict.failed[1], silent);
}

#[tokio::test(start_paused = true)]
async fn a_failure_of_an_ignorable_extender_is_ignored() {
    let optional = Extender { ignorable: true, ..extender() };
    let fixture =
        fixture(vec![(extender(), two_pass), (optional, |_| Reply::failure(500, "out of order"))]);
    assert_eq!(fixture.filter_and_prioritize().await.unwrap().passed.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn failures_are_described() {
    let answers: [(Handler, &str); 6] = [
        (
            |_| Reply::failure(500, "out of order"),
            "failed filter with extender at URL http://127.0.0.1:8888/gpu: code 500",
        ),
        (
            |_| Reply::never(),
            "failed filter with extender at URL http://127.0.0.1:8888/gpu: no answer within 5s",
        ),
        (|_| Reply::broken(), "failed filter with extender at URL http://127.0.0.1:8888/gpu: "),
        (
            |_| Reply::stream(200, vec![crate::testing::BodyPart::Data(b"<html>".to_vec())]),
            "failed filter with extender at URL http://127.0.0.1:8888/gpu: the answer is not JSON",
        ),
        (|_| Reply::json(200, &json!({"Error": "no GPU driver"})), "no GPU driver"),
        (
            |_| Reply::json(200, &json!({"NodeNames": ["n7"]})),
            "extender \"http://127.0.0.1:8888/gpu\" claims a filtered node \"n7\" which is not found in the input node list",
        ),
    ];
    for (answer, expected) in answers {
        let error = fixture(vec![(extender(), answer)]).filter_and_prioritize().await.unwrap_err();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn missing_or_invalid_scores_count_as_zero() {
    for answer in [
        (|request| match &*request.path {
            "/filter" => two_pass(request),
            _ => Reply::failure(500, "out of order"),
        }) as Handler,
        |request| match &*request.path {
            "/filter" => two_pass(request),
            _ => Reply::json(200, &json!({"Host": "n1"})),
        },
        |request| match &*request.path {
            "/filter" => two_pass(request),
            _ => Reply::json(200, &json!([{"Host": 7}])),
        },
    ] {
        let verdict = fixture(vec![(extender(), answer)]).filter_and_prioritize().await.unwrap();
        assert_eq!(verdict.passed, [("n1".into(), 0), ("n3".into(), 0)]);
    }
}

#[tokio::test(start_paused = true)]
async fn extenders_score_concurrently() {
    let slow: Handler = |request| match &*request.path {
        "/filter" => two_pass(request),
        _ => two_pass(request).after(Duration::from_secs(4)),
    };
    let fixture = fixture(vec![(extender(), slow), (extender(), slow), (extender(), slow)]);
    let begun = Instant::now();
    let verdict = fixture.filter_and_prioritize().await.unwrap();
    assert_eq!(verdict.passed[1], ("n3".into(), 600));
    assert!(seconds_since(begun) < 5.0);
}

#[tokio::test(start_paused = true)]
async fn an_extender_chooses_among_the_victims() {
    let fixture = fixture(vec![(extender(), |_| {
        let victims = json!({"Pods": [{"UID": "uid-b"}, {"UID": "uid-c"}], "NumPDBViolations": 0});
        Reply::json(200, &json!({"nodeNameToMetaVictims": {"n2": victims}}))
    })]);
    let left = fixture.process_preemption().await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!((&*left[0].node, left[0].violations), ("n2", 0));
    let uids: Vec<_> = left[0].victims.iter().map(|victim| victim.uid.to_string()).collect();
    assert_eq!(uids, ["uid-b", "uid-c"]);
    let request = &fixture.calls(0, "preempt")[0];
    assert_eq!(request["NodeNameToMetaVictims"]["n1"]["Pods"], json!([{"UID": "uid-a"}]));
    assert_eq!(request["NodeNameToVictims"], Value::Null);
}

#[tokio::test(start_paused = true)]
async fn extenders_without_a_cache_receive_whole_pods() {
    let whole = Extender { node_cache_capable: false, ..extender() };
    let fixture = fixture(vec![(whole, |_| Reply::json(200, &json!({})))]);
    assert_eq!(fixture.process_preemption().await.unwrap(), []);
    let request = &fixture.calls(0, "preempt")[0];
    let shown = &request["NodeNameToVictims"]["n1"]["Pods"][0]["metadata"]["name"];
    assert_eq!(shown, "a");
}

#[tokio::test(start_paused = true)]
async fn a_node_without_victims_is_an_error_unless_the_extender_can_be_ignored() {
    let answer: Handler =
        |_| Reply::json(200, &json!({"NodeNameToMetaVictims": {"n1": {"Pods": []}}}));
    let error = fixture(vec![(extender(), answer)]).process_preemption().await.unwrap_err();
    assert!(error.contains("no victim is named on node \"n1\""), "{error}");
    let optional = Extender { ignorable: true, ..extender() };
    assert_eq!(fixture(vec![(optional, answer)]).process_preemption().await.unwrap(), []);
}

#[tokio::test(start_paused = true)]
async fn an_extender_binds() {
    let ready = fixture(vec![(extender(), |_| Reply::json(200, &json!({"Error": ""})))]);
    assert_eq!(ready.bind("n1").await, Ok(()));
    let expected = json!({"PodName": "p", "PodNamespace": "ns", "PodUID": "uid-p", "Node": "n1"});
    assert_eq!(ready.calls(0, "bind"), [expected]);
    let refusing =
        fixture(vec![(extender(), |_| Reply::json(200, &json!({"error": "no device"})))]);
    let refused = refusing.bind("n1").await;
    assert_eq!(refused, Err("no device".to_owned()));
    // The API server of these tests shows every pod on n9.
    assert_eq!(refusing.bind("n9").await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn another_pod_of_the_same_name_is_not_sent() {
    let fixture = fixture(vec![(extender(), two_pass)]);
    let other = PodRef { uid: "uid-older".into(), ..pod("p") };
    let error =
        fixture.extenders.filter_and_prioritize(&other, &[0], names(&["n1"])).await.unwrap_err();
    assert_eq!(error.to_string(), "another pod has the name ns/p now");
    assert!(fixture.fakes[0].requests().is_empty());
}

/// Starts a TLS server on loopback that requires a client certificate and answers every request alike.
/// Returns its URL and its certificate.
async fn over_tls(client: &rcgen::Certificate) -> (String, Vec<u8>) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let own = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let mut clients = rustls::RootCertStore::empty();
    clients.add(client.der().clone()).unwrap();
    let verifier = rustls::server::WebPkiClientVerifier::builder_with_provider(
        Arc::new(clients),
        Arc::clone(&provider),
    );
    let key = rustls::pki_types::PrivateKeyDer::try_from(own.signing_key.serialize_der()).unwrap();
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier.build().unwrap())
        .with_single_cert(vec![own.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/gpu", listener.local_addr().unwrap());
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            let Ok(mut stream) = acceptor.accept(connection).await else { continue };
            let mut request = [0; 4096];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let request = String::from_utf8_lossy(&request[..read]);
            let body = if request.starts_with("POST /gpu/bind ") { "{}" } else { "[]" };
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
            );
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    (url, own.cert.pem().into_bytes())
}

#[tokio::test]
async fn client_certificates_are_sent_and_server_certificates_verified() {
    let own = rcgen::generate_simple_self_signed(["jindou".to_owned()]).unwrap();
    let (url, authority) = over_tls(&own.cert).await;
    let data = |bytes: &[u8]| api::config::Base64 { bytes: bytes.to_vec() };
    let tls = api::config::ExtenderTls {
        ca_data: data(&authority),
        cert_data: data(own.cert.pem().as_bytes()),
        key_data: data(own.signing_key.serialize_pem().as_bytes()),
        ..Default::default()
    };
    let call = |tls: api::config::ExtenderTls| {
        let extender =
            Extender { url_prefix: url.clone(), enable_https: true, tls: Some(tls), ..extender() };
        async move {
            let client =
                ExtenderClient::new(&extender).map_err(|error| Chain(&error).to_string())?;
            let response = client.post("bind", &json!({})).await;
            response.map_err(|error| Chain(&error).to_string())
        }
    };
    assert_eq!(call(tls.clone()).await.unwrap(), json!({}));
    // Without a CA any server is accepted, as upstream.
    let trusting = api::config::ExtenderTls { ca_data: data(b""), ..tls.clone() };
    assert_eq!(call(trusting).await.unwrap(), json!({}));

    let stranger = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    let pem = stranger.cert.pem();
    let wrong = [
        api::config::ExtenderTls { ca_data: data(pem.as_bytes()), ..tls.clone() },
        api::config::ExtenderTls { cert_data: data(b""), key_data: data(b""), ..tls.clone() },
    ];
    for tls in wrong {
        let error = call(tls).await.unwrap_err();
        assert!(error.starts_with("failed bind with extender at URL https://"), "{error}");
    }
    let unreadable = api::config::ExtenderTls { ca_data: data(b"no certificate"), ..tls.clone() };
    let error = call(unreadable).await.unwrap_err();
    assert!(error.contains("tlsConfig: no certificate is in the CA"), "{error}");
    let absent =
        api::config::ExtenderTls { ca_data: data(b""), ca_file: "no/such/ca.crt".into(), ..tls };
    let error = call(absent).await.unwrap_err();
    assert!(error.contains("tlsConfig.caFile no/such/ca.crt"), "{error}");
}
