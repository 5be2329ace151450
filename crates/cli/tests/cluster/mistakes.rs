//! Permanent errors at the start end the scheduler with one error line.

use std::net::TcpListener;

use crate::test_cluster::{TestCluster, node};

/// Starts a scheduler that fails, and returns its error line.
async fn error_line(cluster: &TestCluster, arguments: &[&str]) -> String {
    let scheduler = cluster.start(&[&["scheduler"], arguments].concat(), "mistake.log");
    let (ended, text) = scheduler.ended().await;
    assert_eq!(ended.code(), Some(1), "{text}");
    let errors: Vec<_> = text.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(errors.len(), 1, "{text}");
    errors[0].to_owned()
}

#[tokio::test]
async fn a_port_in_use_is_an_error() {
    let cluster = TestCluster::new(vec![node("n", 1)]).await;
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let flag = format!("--secure-port={port}");
    let text = error_line(&cluster, &["--bind-address=127.0.0.1", &flag]).await;
    assert!(text.contains(&port.to_string()), "{text}");
    cluster.end().await;
}

#[tokio::test]
async fn a_missing_or_invalid_configuration_is_an_error() {
    let cluster = TestCluster::new(vec![node("n", 1)]).await;
    let text = error_line(&cluster, &["--config", "absent.yaml", "--secure-port=0"]).await;
    assert!(text.contains("absent.yaml"), "{text}");
    let unknown = cluster.write(
        "unknown.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: {multiPoint: {enabled: [{name: Nonsense}]}}\n",
    );
    let path = unknown.to_str().expect("a path");
    let text = error_line(&cluster, &["--config", path, "--secure-port=0"]).await;
    assert!(text.contains("unknown.yaml"), "{text}");
    cluster.end().await;
}

#[tokio::test]
async fn a_wrong_token_is_an_error() {
    let cluster = TestCluster::new(vec![node("n", 1)]).await;
    let kubeconfig = cluster.sandbox.kubeconfig();
    let at = kubeconfig.find("token: ").expect("a token") + "token: ".len();
    let end = at + kubeconfig[at..].find('\n').expect("a line");
    cluster.write("kubeconfig", &format!("{}wrong{}", &kubeconfig[..at], &kubeconfig[end..]));
    let text = error_line(&cluster, &["--secure-port=0"]).await;
    assert!(
        text.contains("cannot talk to the API server") && text.contains("Unauthorized"),
        "{text}"
    );
    cluster.end().await;
}
