//! The two forms of objects, as the API server itself writes them.

use anyhow::{Context as _, Result, anyhow, ensure};
use api::lower::{Siblings, Source};
use api::protobuf::wire;
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use runtime::connect;
use runtime::kinds::{KINDS, Kind};
use serde_json::Value;
use tokio::time::timeout;

use super::scene::{PATIENCE, Scene};

const OBJECTS: &str = "conformance/e2e/forms.yaml";

pub(crate) fn run(scene: &Scene) -> Result<()> {
    scene.apply(OBJECTS, None)?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio.block_on(async {
        let target = connect::Target {
            kubeconfig: Some(scene.plane.kubeconfig.clone()),
            master: String::new(),
        };
        let client = connect::client(&connect::config(&target).await?)?;
        for kind in KINDS {
            check(&client, kind).await.with_context(|| kind.name)?;
        }
        Ok(())
    })
}

async fn check(client: &kube::Client, kind: &Kind) -> Result<()> {
    let json = list(client, kind, "application/json", "").await?;
    let json: Value = serde_json::from_slice(&json)?;
    let version = json["metadata"]["resourceVersion"].as_str().context("a list of no version")?;
    let from_json = json["items"].as_array().context("a list without items")?;
    let from_json = from_json.iter().map(|object| shown(kind, Source::Json(object)));
    let from_json: Vec<String> = from_json.collect();
    ensure!(!from_json.is_empty(), "there is none to compare");

    // Controllers change objects meanwhile.
    let same = format!("?resourceVersion={version}&resourceVersionMatch=Exact");
    let bytes = list(client, kind, "application/vnd.kubernetes.protobuf", &same).await?;
    let mut rest = wire::unwrap(&bytes)?;
    let mut from_protobuf = Vec::new();
    while let Some((number, payload)) = wire::next_field(&mut rest)? {
        if number == 2 {
            from_protobuf.push(shown(kind, Source::Protobuf(kind.message, payload.bytes()?)));
        }
    }
    ensure!(
        from_protobuf.len() == from_json.len(),
        "{} objects in one form and {} in the other, both of version {version}",
        from_protobuf.len(),
        from_json.len()
    );
    let differing = from_json.iter().zip(&from_protobuf).find(|(json, protobuf)| json != protobuf);
    match differing {
        None => Ok(()),
        Some((json, protobuf)) => Err(anyhow!("from JSON {json}\nfrom protobuf {protobuf}")),
    }
}

/// What the engine is told of an object.
fn shown(kind: &Kind, object: Source<'_>) -> String {
    let (change, problems) = (kind.lower)(object, &mut Siblings::default());
    format!("{change:?} {problems:?}")
}

async fn list(client: &kube::Client, kind: &Kind, form: &str, query: &str) -> Result<Vec<u8>> {
    let path = format!("{}{query}", kind.path);
    let request = Request::get(path).header("accept", form).body(Body::empty())?;
    let answer = async {
        let response = client.send(request).await?;
        ensure!(response.status().is_success(), "the API server says {}", response.status());
        let given = response.headers().get("content-type").cloned();
        let given = given.context("the answer has no content type")?;
        ensure!(given.to_str()?.starts_with(form), "asked for {form}, got {given:?}");
        Ok(response.into_body().collect().await?.to_bytes().to_vec())
    };
    timeout(PATIENCE, answer).await.context("the list does not come")?
}
