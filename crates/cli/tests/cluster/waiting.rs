//! The scheduler waits for an API server that is not up yet, and reports it in its health checks.

use std::net::TcpListener;
use std::time::Duration;

use http::{Method, Request, StatusCode};
use kube::client::Body;
use kube::config::{KubeConfigOptions, Kubeconfig};
use sandbox::faults::{Fault, FaultRule};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::test_cluster::{PODS, TIMEOUT, TestCluster, node, pod};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler";

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Forwards connections at an address to the API server.
async fn forward(cluster: &TestCluster, address: &str) {
    let listener = tokio::net::TcpListener::bind(address).await.expect("the port is still free");
    let server = cluster.sandbox.address();
    tokio::spawn(async move {
        while let Ok((mut from, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut to = TcpStream::connect(server).await?;
                tokio::io::copy_bidirectional(&mut from, &mut to).await
            });
        }
    });
}

/// The health pages of a scheduler.
struct Pages(kube::Client);

impl Pages {
    async fn at(cluster: &TestCluster, port: u16) -> Self {
        let file = Kubeconfig::from_yaml(&cluster.sandbox.kubeconfig()).expect("a kubeconfig");
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(file, &options);
        let mut config = config.await.expect("a config");
        config.cluster_url = format!("https://127.0.0.1:{port}").parse().expect("an address");
        config.accept_invalid_certs = true;
        Self(kube::Client::try_from(config).expect("a client"))
    }

    /// Waits until a page has this status and contains this text.
    async fn becomes(&self, path: &str, wanted: StatusCode, text: &str) {
        let deadline = Instant::now() + TIMEOUT;
        loop {
            let request = Request::get(path).body(Body::empty()).expect("a request");
            if let Ok(response) = self.0.send(request).await
                && response.status() == wanted
            {
                let body = response.into_body().collect_bytes().await.unwrap_or_default();
                if String::from_utf8_lossy(&body).contains(text) {
                    return;
                }
            }
            assert!(Instant::now() < deadline, "{path} is not {wanted} with {text:?}");
            sleep(Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn the_scheduler_waits_for_an_api_server() {
    let cluster = TestCluster::new(vec![node("n", 1)]).await;
    cluster.make(PODS, &pod("a")).await;
    let (api, health) = (free_port(), free_port());
    let (master, port) =
        (format!("--master=https://127.0.0.1:{api}"), format!("--secure-port={health}"));
    let mut scheduler =
        cluster.start(&["scheduler", "--bind-address=127.0.0.1", &master, &port], "waiting.log");
    let pages = Pages::at(&cluster, health).await;
    scheduler.does(pages.becomes("/livez", StatusCode::OK, "ok")).await;
    let not_ready = StatusCode::INTERNAL_SERVER_ERROR;
    scheduler.does(pages.becomes("/readyz", not_ready, "sched-handler-sync")).await;
    forward(&cluster, &format!("127.0.0.1:{api}")).await;
    scheduler.does(cluster.node_of("a")).await;
    scheduler.does(pages.becomes("/readyz", StatusCode::OK, "ok")).await;
    scheduler.stop().await;
    cluster.end().await;
}

#[tokio::test]
async fn a_signal_ends_the_wait_at_once() {
    let cluster = TestCluster::new(vec![node("n", 1)]).await;
    let address = format!("https://127.0.0.1:{}", free_port());
    let master = format!("--master={address}");
    let mut scheduler = cluster.start(&["scheduler", &master, "--secure-port=0"], "waiting.log");
    let said = format!("cannot talk to the API server at {address}");
    scheduler.says(&said).await;
    scheduler.stop().await;
    cluster.end().await;
}

#[tokio::test]
async fn a_certificate_for_another_name_ends_the_wait() {
    let cluster = TestCluster::new(vec![node("n", 1)]).await;
    let address = format!("127.0.0.2:{}", free_port());
    forward(&cluster, &address).await;
    let master = format!("--master=https://{address}");
    let scheduler = cluster.start(&["scheduler", &master, "--secure-port=0"], "waiting.log");
    let (ended, said) = scheduler.ended().await;
    assert_eq!(ended.code(), Some(1), "{said}");
    assert!(
        said.contains("error: cannot talk to the API server") && said.contains("name"),
        "{said}"
    );
    cluster.end().await;
}

#[tokio::test]
async fn port_0_opens_no_port() {
    let cluster = TestCluster::new(vec![node("n", 1)]).await;
    cluster.make(PODS, &pod("a")).await;
    let scheduler = cluster.scheduler(&[]);
    cluster.node_of("a").await;
    assert_eq!(scheduler.listening_sockets(), 0);
    scheduler.stop().await;
    let port = format!("--secure-port={}", free_port());
    let scheduler = cluster.scheduler(&["--bind-address=127.0.0.1", &port]);
    cluster.make(PODS, &pod("b")).await;
    cluster.refusal_of("b").await;
    assert_eq!(scheduler.listening_sockets(), 1, "the count works");
    scheduler.stop().await;
    cluster.end().await;
}

#[tokio::test]
async fn a_replica_that_lacks_a_kind_does_not_take_the_lease() {
    let cluster = TestCluster::new(vec![node("n", 1)]).await;
    let fails = FaultRule {
        method: Some(Method::GET),
        path: "/replicasets?".to_owned(),
        every: 1,
        times: u64::MAX,
        fault: Fault::Fail(500),
    };
    cluster.sandbox.faults.add(fails);
    let health = free_port();
    let port = format!("--secure-port={health}");
    let paths = "--authorization-always-allow-paths=/readyz/*";
    let arguments = ["scheduler", "--bind-address=127.0.0.1", &port, paths];
    let mut scheduler = cluster.start(&arguments, "unsynced.log");
    let pages = Pages::at(&cluster, health).await;
    let only = "not synced yet: ReplicaSet\n";
    let sync = "/readyz/sched-handler-sync";
    scheduler.does(pages.becomes(sync, StatusCode::INTERNAL_SERVER_ERROR, only)).await;
    let lease = cluster.get(LEASE).await;
    assert_eq!(lease["reason"], "NotFound", "{lease}");
    cluster.sandbox.faults.clear();
    let led = |lease: &serde_json::Value| lease["spec"]["holderIdentity"].is_string();
    scheduler.does(cluster.until(LEASE, led)).await;
    scheduler.stop().await;
    cluster.end().await;
}
