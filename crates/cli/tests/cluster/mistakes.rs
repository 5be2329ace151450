//! Whatever is wrong when the scheduler starts and cannot pass, it ends soon, with one sentence that
//! says what.

use std::net::TcpListener;

use crate::stage::{Stage, node};

/// Starts it wrongly; the sentence.
async fn sentence(stage: &Stage, arguments: &[&str]) -> String {
    let scheduler = stage.start(&[&["scheduler"], arguments].concat(), "mistake.log");
    let (ended, said) = scheduler.ended().await;
    assert_eq!(ended.code(), Some(1), "{said}");
    let sentences: Vec<_> = said.lines().filter(|line| line.starts_with("error: ")).collect();
    assert_eq!(sentences.len(), 1, "{said}");
    sentences[0].to_owned()
}

#[tokio::test]
async fn a_port_that_is_in_use() {
    let stage = Stage::new(vec![node("n", 1)]).await;
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let flag = format!("--secure-port={port}");
    let said = sentence(&stage, &["--bind-address=127.0.0.1", &flag]).await;
    assert!(said.contains(&port.to_string()), "{said}");
    stage.end().await;
}

#[tokio::test]
async fn a_configuration_that_is_not_there_or_not_right() {
    let stage = Stage::new(vec![node("n", 1)]).await;
    let said = sentence(&stage, &["--config", "absent.yaml", "--secure-port=0"]).await;
    assert!(said.contains("absent.yaml"), "{said}");
    let unknown = stage.write(
        "unknown.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- plugins: {multiPoint: {enabled: [{name: Nonsense}]}}\n",
    );
    let path = unknown.to_str().expect("a path");
    let said = sentence(&stage, &["--config", path, "--secure-port=0"]).await;
    assert!(said.contains("unknown.yaml"), "{said}");
    stage.end().await;
}

#[tokio::test]
async fn a_token_that_is_wrong() {
    let stage = Stage::new(vec![node("n", 1)]).await;
    let kubeconfig = stage.sandbox.kubeconfig();
    let at = kubeconfig.find("token: ").expect("a token") + "token: ".len();
    let end = at + kubeconfig[at..].find('\n').expect("a line");
    stage.write("kubeconfig", &format!("{}wrong{}", &kubeconfig[..at], &kubeconfig[end..]));
    let said = sentence(&stage, &["--secure-port=0"]).await;
    assert!(
        said.contains("cannot talk to the API server") && said.contains("Unauthorized"),
        "{said}"
    );
    stage.end().await;
}
