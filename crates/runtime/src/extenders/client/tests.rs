//! Tests over a TCP connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::Response;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpListener;

use super::*;
use crate::api_error::Chain;

#[tokio::test]
async fn a_busy_extender_is_called_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let counted = Arc::clone(&counted);
            tokio::spawn(async move {
                let busy = service_fn(|_: hyper::Request<hyper::body::Incoming>| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    async { Response::builder().status(503).body(String::new()) }
                });
                let server = hyper::server::conn::http1::Builder::new();
                let _ = server.serve_connection(TokioIo::new(tcp), busy).await;
            });
        }
    });
    let extender = Extender {
        url_prefix: format!("http://127.0.0.1:{port}"),
        http_timeout: api::config::Duration::from_secs(60),
        ..Extender::default()
    };
    let extender_client = ExtenderClient::new(&extender).unwrap();
    let error = extender_client.post("bind", &json!({})).await.unwrap_err();
    let error = Chain(&error).to_string();
    assert!(error.ends_with("code 503"), "{error}");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}
