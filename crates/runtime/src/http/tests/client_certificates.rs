//! Tests of client certificates and front proxies.

use rcgen::{CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, KeyPair};

use super::*;

/// A certificate authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "authority");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    fn client(
        &self,
        change: impl FnOnce(&mut CertificateParams),
    ) -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "prometheus");
        params.distinguished_name.push(DnType::OrganizationName, "monitoring");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        (vec![certificate.der().clone()], PrivateKeyDer::Pkcs8(key.serialize_der().into()))
    }
}

#[tokio::test]
async fn client_certificates_identify_users() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let (ours, other) = (Authority::new(), Authority::new());
    std::fs::write(&file, ours.0.pem()).unwrap();
    let running = RunningServer::start(|serving| serving.client_ca = Some(file)).await;
    let nameless = |params: &mut CertificateParams| {
        params.distinguished_name = rcgen::DistinguishedName::new();
    };
    let expired =
        |params: &mut CertificateParams| params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    let server = |params: &mut CertificateParams| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    };
    let table = [
        ("good", ours.client(|_| {}), None, 200),
        ("good, with a bad token", ours.client(|_| {}), Some("Bearer bad"), 200),
        ("of another authority", other.client(|_| {}), None, 401),
        ("of another authority, with a good token", other.client(|_| {}), Some("Bearer may"), 200),
        ("of another authority, with a bad token", other.client(|_| {}), Some("Bearer bad"), 401),
        ("without a name", ours.client(nameless), None, 401),
        ("expired", ours.client(expired), None, 401),
        ("not for clients", ours.client(server), None, 401),
    ];
    for (name, client, authorization, want) in table {
        let config = running.config(Some(client));
        let stream = running.connect(&config).await.unwrap();
        let got = send(stream, Method::GET, "/metrics", authorization).await;
        assert_eq!(got.status, want, "{name}");
        let stream = running.connect(&config).await.unwrap();
        assert_eq!(send(stream, Method::GET, "/healthz", None).await.status, 200, "{name}");
    }
    assert_eq!(running.get("/metrics", None).await.status, 403, "none at all");
    let spec = running.reviewer.reviews("SubjectAccessReview")[0]["spec"].clone();
    assert_eq!(spec["user"], "prometheus");
    assert_eq!(spec["groups"], json!(["monitoring", "system:authenticated"]));
}

/// Returns the ConfigMap of the cluster.
fn configuration(clients: &Authority, proxies: &Authority, names: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "kube-system", "name": "extension-apiserver-authentication", "resourceVersion": "5"},
        "data": {
            "client-ca-file": clients.0.pem(),
            "requestheader-client-ca-file": proxies.0.pem(),
            "requestheader-allowed-names": names,
            "requestheader-username-headers": r#"["X-Remote-User", "X-User"]"#,
            "requestheader-group-headers": r#"["X-Remote-Group"]"#,
            "requestheader-uid-headers": r#"["X-Remote-Uid"]"#,
            "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
        },
    })
}

async fn cluster_with(map: Value) -> ClusterAuthentication {
    let fake = FakeApiServer::new(move |request| match request.parameter("watch") {
        None => Reply::json(200, &map),
        Some(_) => Reply::never(),
    });
    let mut cluster = ClusterAuthentication::new(fake.client());
    cluster.look_up().await.unwrap();
    cluster
}

async fn get_metrics(
    running: &RunningServer,
    client: (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>),
    headers: &[(&str, &str)],
) -> u16 {
    let stream = running.connect(&running.config(Some(client))).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    let task = tokio::spawn(connection);
    let mut request = Request::get("/metrics").header(HOST, "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Empty::<Bytes>::new()).unwrap();
    let status = sender.send_request(request).await.unwrap().status().as_u16();
    task.abort();
    status
}

#[tokio::test]
async fn authorities_of_clients_and_front_proxies_come_from_the_cluster() {
    let (clients, proxies, other) = (Authority::new(), Authority::new(), Authority::new());
    let named = |name: &'static str| {
        move |params: &mut CertificateParams| {
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, name);
        }
    };
    let cluster = cluster_with(configuration(&clients, &proxies, r#"["front"]"#)).await;
    let running = RunningServer::start(|serving| serving.cluster = Some(cluster)).await;
    let (may, may_not) = (("x-remote-user", "may"), ("x-remote-user", "may-not"));
    let front = || proxies.client(named("front"));
    let table = [
        ("a client", clients.client(|_| {}), vec![], 200),
        ("of another authority", other.client(|_| {}), vec![], 401),
        ("a client that names another user", clients.client(named("may-not")), vec![may], 403),
        ("a proxy without a user", front(), vec![], 401),
        ("a proxy on behalf of one who may", front(), vec![may], 200),
        ("a proxy on behalf of one who may not", front(), vec![may_not], 403),
        ("by the second header", front(), vec![("x-remote-user", ""), ("x-user", "may")], 200),
        ("a proxy of another name", proxies.client(named("back")), vec![may], 401),
        ("a proxy of another authority", other.client(named("front")), vec![may], 401),
    ];
    for (name, client, headers, want) in table {
        assert_eq!(get_metrics(&running, client, &headers).await, want, "{name}");
    }
    assert_eq!(running.get("/metrics", None).await.status, 403, "without any certificate");
    let got = running.send(Method::GET, "/metrics", Some("Bearer may")).await;
    assert_eq!(got.status, 200, "tokens are still good");

    let headers = [
        ("x-remote-user", "reason"),
        ("x-remote-uid", "7"),
        ("x-remote-group", "a"),
        ("x-remote-group", "b"),
        ("x-remote-extra-Acme%2eCom%2fproject", "p"),
    ];
    assert_eq!(get_metrics(&running, front(), &headers).await, 403);
    let reviews = running.reviewer.reviews("SubjectAccessReview");
    let spec = &reviews.last().unwrap()["spec"];
    assert_eq!((&spec["user"], &spec["uid"]), (&json!("reason"), &json!("7")));
    assert_eq!(spec["groups"], json!(["a", "b", "system:authenticated"]));
    assert_eq!(spec["extra"], json!({"acme.com/project": ["p"]}));
}

#[tokio::test]
async fn an_empty_list_allows_proxies_of_any_name_and_a_file_overrides_the_cluster() {
    let (clients, proxies, own) = (Authority::new(), Authority::new(), Authority::new());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    std::fs::write(&file, own.0.pem()).unwrap();
    let cluster = cluster_with(configuration(&clients, &proxies, "[]")).await;
    let running = RunningServer::start(|serving| {
        serving.client_ca = Some(file);
        serving.cluster = Some(cluster);
    })
    .await;
    assert_eq!(get_metrics(&running, own.client(|_| {}), &[]).await, 200);
    assert_eq!(get_metrics(&running, clients.client(|_| {}), &[]).await, 401);
    assert_eq!(
        get_metrics(&running, proxies.client(|_| {}), &[("x-remote-user", "may")]).await,
        200
    );
}

#[tokio::test]
async fn without_the_cluster_authorities_certificates_are_ignored() {
    let fake = FakeApiServer::new(|_| Reply::failure(403, "no"));
    let mut cluster = ClusterAuthentication::new(fake.client());
    let error = Chain(&cluster.look_up().await.unwrap_err()).to_string();
    assert!(error.contains("ConfigMap kube-system/extension-apiserver-authentication"), "{error}");
    let running = RunningServer::start(|serving| serving.cluster = Some(cluster)).await;
    assert_eq!(get_metrics(&running, Authority::new().client(|_| {}), &[]).await, 403, "anonymous");
}

#[tokio::test(start_paused = true)]
async fn changes_of_the_cluster_authorities_are_applied() {
    let (old, new, newest) = (Authority::new(), Authority::new(), Authority::new());
    let map = |of: &Authority| configuration(of, of, "[]");
    let (first, second, third) = (map(&old), map(&new), map(&newest));
    let mut broken = map(&newest);
    broken["data"]["requestheader-allowed-names"] = json!("front");
    let replies = Mutex::new(vec![third, broken, first]);
    let fake = FakeApiServer::new(move |request| {
        if request.parameter("watch").is_none() {
            let mut replies = replies.lock().unwrap();
            return match replies.len() {
                1 => Reply::json(200, &replies[0]),
                _ => Reply::json(200, &replies.pop().unwrap()),
            };
        }
        assert_eq!(
            request.parameter("fieldSelector").unwrap(),
            "metadata.name=extension-apiserver-authentication"
        );
        assert_eq!(request.parameter("resourceVersion").unwrap(), "5");
        let event = json!({"type": "MODIFIED", "object": second});
        let gone = json!({"type": "DELETED", "object": second});
        let line = |event: &Value| BodyPart::Data(format!("{event}\n").into_bytes());
        let minute = BodyPart::Wait(std::time::Duration::from_mins(1));
        Reply::stream(200, vec![minute.clone(), line(&event), minute, line(&gone), BodyPart::Hang])
    });
    let cluster = ClusterAuthentication::new(fake.client());
    let client_ca = Arc::new(ClientAuthorities::new(None).unwrap());
    let task = tokio::spawn(cluster.follow(Arc::clone(&client_ca)));
    let certificate = |of: &Authority| of.client(|_| {}).0.remove(0);
    let certificates = [certificate(&old), certificate(&new), certificate(&newest)];
    let accepted =
        || certificates.each_ref().map(|certificate| client_ca.accepts_client(certificate, &[]));
    assert_eq!(accepted(), [false, false, false]);
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    assert_eq!(accepted(), [true, false, false]);
    tokio::time::sleep(std::time::Duration::from_mins(2)).await;
    assert_eq!(
        accepted(),
        [false, true, false],
        "changed, then deleted: the last authorities stay"
    );
    tokio::time::sleep(std::time::Duration::from_secs(181)).await;
    assert_eq!(accepted(), [false, true, false], "a map that cannot be read changes nothing");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(accepted(), [false, false, true], "read again after a silent watch");
    task.abort();
}

#[tokio::test]
async fn without_an_authority_client_certificates_are_not_requested() {
    let running = RunningServer::start(|_| {}).await;
    let config = running.config(Some(Authority::new().client(|_| {})));
    let stream = running.connect(&config).await.unwrap();
    assert_eq!(send(stream, Method::GET, "/metrics", None).await.status, 403);
}

#[test]
fn authorities_are_read_again_when_their_file_changes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let (old, new) = (Authority::new(), Authority::new());
    std::fs::write(&file, old.0.pem()).unwrap();
    let client_ca = ClientAuthorities::new(Some(file.clone())).unwrap();
    let (of_old, of_new) = (old.client(|_| {}).0, new.client(|_| {}).0);
    assert!(!client_ca.refresh().unwrap());
    assert!(
        client_ca.accepts_client(&of_old[0], &[]) && !client_ca.accepts_client(&of_new[0], &[])
    );
    std::fs::write(&file, "").unwrap();
    assert!(Chain(&client_ca.refresh().unwrap_err()).to_string().contains("no certificate found"));
    assert!(client_ca.accepts_client(&of_old[0], &[]));
    std::fs::write(&file, new.0.pem()).unwrap();
    assert!(client_ca.refresh().unwrap());
    assert!(
        !client_ca.accepts_client(&of_old[0], &[]) && client_ca.accepts_client(&of_new[0], &[])
    );
}
