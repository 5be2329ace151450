//! Objects in protobuf and in JSON from an API server are lowered to equal engine objects.

use anyhow::{Context as _, Result, anyhow, ensure};
use api::kinds::{KINDS, Kind};
use api::lower::{LoweringCache, Source};
use api::protobuf::wire;
use http::Request;
use http_body_util::BodyExt as _;
use kube::client::Body;
use runtime::connect;
use serde_json::Value;
use tokio::time::timeout;

use crate::test_env::{TIMEOUT, TestEnv};

const OBJECTS: &str = "conformance/e2e/forms.yaml";

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    env.apply(OBJECTS, None)?;
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio.block_on(async {
        let target = connect::ConfigSource {
            kubeconfig: Some(env.plane.kubeconfig.clone()),
            master: String::new(),
        };
        let client = connect::client(&connect::load_config(&target).await?)?;
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

    // Controllers may change an object between the two requests.
    let same = format!("?resourceVersion={version}&resourceVersionMatch=Exact");
    let bytes = list(client, kind, "application/vnd.kubernetes.protobuf", &same).await?;
    let mut rest = wire::strip_envelope(&bytes)?;
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

/// Returns the engine's form of an object.
fn shown(kind: &Kind, object: Source<'_>) -> String {
    let (change, problems) = (kind.lower)(object, &mut LoweringCache::default());
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
    timeout(TIMEOUT, answer).await.context("the list does not come")?
}
