//! Invalid requests.

use http::Method;
use serde_json::json;

use crate::server::{TestServer, pod};

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn invalid_requests_get_upstreams_errors() {
    let server = TestServer::new(0).await;
    server.create(PODS, &pod("taken")).await;
    let large = format!(
        "{{\"metadata\":{{\"name\":\"x\",\"annotations\":{{\"a\":\"{}\"}}}}}}",
        "x".repeat(4 << 20)
    );
    let deep = "[".repeat(500);
    let nowhere = "/api/v1/namespaces/nowhere/pods";
    let typo = json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "a", "image": "i", "imagee": 1}]}});
    for (method, path, kind, body, code, reason) in [
        (Method::GET, "/api/v1/nonsense", "", String::new(), 404, "NotFound"),
        (Method::GET, "/apis/none/v1/pods", "", String::new(), 404, "NotFound"),
        (Method::GET, "/api/v1/namespaces/default/pods/none", "", String::new(), 404, "NotFound"),
        (Method::GET, "/api/v1/pods/none", "", String::new(), 404, "NotFound"),
        (Method::GET, "/api/v1/pods?labelSelector=a%20b", "", String::new(), 400, "BadRequest"),
        (
            Method::GET,
            "/api/v1/pods?fieldSelector=spec.nonsense%3Da",
            "",
            String::new(),
            400,
            "BadRequest",
        ),
        (Method::GET, "/api/v1/pods?limit=x", "", String::new(), 400, "BadRequest"),
        (Method::GET, "/api/v1/pods?resourceVersion=x", "", String::new(), 422, "Invalid"),
        (Method::GET, "/api/v1/pods?resourceVersion=99999999", "", String::new(), 504, "Timeout"),
        (Method::POST, PODS, "application/json", "{".to_owned(), 400, "BadRequest"),
        (Method::POST, PODS, "application/json", deep, 400, "BadRequest"),
        (Method::POST, PODS, "application/json", "[]".to_owned(), 400, "BadRequest"),
        (Method::POST, PODS, "text/html", "x".to_owned(), 415, "UnsupportedMediaType"),
        (Method::POST, PODS, "application/json", large, 413, "RequestEntityTooLarge"),
        (Method::POST, PODS, "application/json", pod("taken").to_string(), 409, "AlreadyExists"),
        (Method::POST, PODS, "application/json", pod("UPPER").to_string(), 422, "Invalid"),
        (Method::POST, nowhere, "application/json", pod("x").to_string(), 404, "NotFound"),
        (
            Method::POST,
            "/api/v1/pods",
            "application/json",
            pod("x").to_string(),
            405,
            "MethodNotAllowed",
        ),
        (
            Method::POST,
            "/api/v1/namespaces/default/services",
            "application/json",
            pod("x").to_string(),
            400,
            "BadRequest",
        ),
        (
            Method::POST,
            "/api/v1/namespaces/default/pods?fieldValidation=Strict",
            "application/json",
            typo.to_string(),
            400,
            "BadRequest",
        ),
        (
            Method::POST,
            PODS,
            "application/vnd.kubernetes.protobuf",
            "garbage".to_owned(),
            400,
            "BadRequest",
        ),
        (
            Method::PATCH,
            "/api/v1/namespaces/default/pods/taken",
            "application/json",
            "{}".to_owned(),
            415,
            "UnsupportedMediaType",
        ),
        (
            Method::PATCH,
            "/api/v1/namespaces/default/pods/taken",
            "application/json-patch+json",
            "{}".to_owned(),
            422,
            "Invalid",
        ),
        (
            Method::PUT,
            "/api/v1/namespaces/default/pods/other",
            "application/json",
            pod("taken").to_string(),
            400,
            "BadRequest",
        ),
        (
            Method::DELETE,
            "/api/v1/namespaces/default/pods/none",
            "",
            String::new(),
            404,
            "NotFound",
        ),
        (
            Method::GET,
            "/api/v1/pods?watch=true&sendInitialEvents=true",
            "",
            String::new(),
            422,
            "Invalid",
        ),
    ] {
        let (status, answer) = server.send(method.clone(), path, kind, body).await;
        assert_eq!(
            (status.as_u16(), answer["reason"].as_str()),
            (code, Some(reason)),
            "{method} {path}: {answer}"
        );
        assert_eq!(answer["kind"], "Status");
    }
    // Valid requests still succeed.
    assert_eq!(server.get(&format!("{PODS}/taken")).await.0, 200);
    server.stop().await;
}

#[tokio::test]
async fn requests_without_the_token_are_rejected() {
    let server = TestServer::new(0).await;
    // A client of kube's that sends no credentials of its own, so that the header below is the only one.
    let mut kubeconfig = kube::config::Kubeconfig::from_yaml(&server.sandbox.kubeconfig()).unwrap();
    kubeconfig.auth_infos.clear();
    kubeconfig.contexts[0].context.as_mut().unwrap().user = None;
    let options = kube::config::KubeConfigOptions::default();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let pods = "/api/v1/pods";
    for (authorization, path, code) in [
        (None, pods, 401),
        (None, "/readyz", 200),
        (None, "/version", 200),
        (Some("Bearer wrong"), pods, 401),
        (Some("Bearer wrong"), "/readyz", 401),
        (Some("Bearer "), pods, 401),
        (Some("Basic x"), pods, 401),
    ] {
        let mut request = http::Request::get(path);
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        let response =
            client.send(request.body(kube::client::Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.status(), code, "{authorization:?} {path}");
    }
    assert_eq!(server.get(pods).await.0, 200, "the kubeconfig has the token");
    server.stop().await;
}

#[tokio::test]
async fn system_namespaces_cannot_be_deleted() {
    let server = TestServer::new(0).await;
    for name in ["default", "kube-public", "kube-system"] {
        let (status, answer) = server.delete(&format!("/api/v1/namespaces/{name}")).await;
        assert_eq!(status, 403, "{answer}");
        let error =
            format!("namespaces \"{name}\" is forbidden: this namespace may not be deleted");
        assert_eq!(answer["message"], error);
    }
    server.stop().await;
}

#[tokio::test]
async fn objects_created_by_apply_have_one_manager() {
    let server = TestServer::new(0).await;
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}});
    let path = "/api/v1/namespaces/default/configmaps/c?fieldManager=one";
    let (status, made) = server.patch(path, "apply-patch+yaml", &map).await;
    assert_eq!(status, 201, "{made}");
    let managers = made["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(managers.len(), 1, "{made}");
    assert_eq!(managers[0]["manager"], "one");
    assert_eq!(managers[0]["operation"], "Apply");
    server.stop().await;
}
