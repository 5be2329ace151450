//! An HTTP extender filters and scores nodes for pods that request a resource it manages.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::profiles::equal_nodes;
use crate::checkout::root;
use crate::test_env::{TestEnv, text};
use crate::{placements, schedulers};

const GPU: &str = "example.com/gpu";
const NODES: usize = 3;

/// Maximum size of a request, in bytes: the pod and names of nodes.
const REQUEST_BYTES_MAX: usize = 1 << 20;

pub(crate) fn run(env: &TestEnv) -> Result<()> {
    let mut nodes = equal_nodes("extenders", NODES);
    for node in &mut nodes {
        node["status"]["capacity"][GPU] = json!("2");
    }
    env.create("nodes", &nodes)?;
    env.wait_for_nodes(NODES)?;
    let extender = Extender::start()?;
    let config = std::fs::read_to_string(root().join(schedulers::DEFAULT_CONFIG))?;
    let url = format!("http://127.0.0.1:{}/gpu/", extender.port);
    let extenders = json!([{
        "urlPrefix": url,
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "weight": 5,
        "nodeCacheCapable": true,
        "managedResources": [{"name": GPU}],
    }]);
    let config = env.write("scheduler.yaml", &format!("{config}\nextenders: {extenders}\n"))?;
    let scheduler = schedulers::jindou_as(env, "jindou", &config, &[])?;

    env.create("plain", &[pod("plain", false)])?;
    env.wait_for_pods(&["plain"])?;
    ensure!(extender.asked() == 0, "the extender was asked about a pod that does not concern it");

    env.create("pods", &[pod("picked", true), pod("nowhere", true)])?;
    let on = env.wait_for_pods(&["picked"])?;
    ensure!(on == ["extenders-2"], "the extender prefers extenders-2, but the pod is on {on:?}");
    let said = env.wait_for_refusal("nowhere")?;
    let reason = "0/3 nodes are available: 3 gpu is gone.";
    ensure!(said.starts_with(reason), "the pod was refused with: {said}");
    placements::check(env)?;
    scheduler.stop()
}

fn pod(name: &str, on_gpu: bool) -> Value {
    let gpus = if on_gpu { json!({GPU: "1"}) } else { json!({}) };
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{
            "name": "app",
            "image": "app",
            "resources": {"requests": gpus, "limits": gpus},
        }]},
    })
}

/// Rejects the first node, prefers the last one, and rejects all nodes for a pod called `nowhere`.
fn answer(verb: &str, question: &Value) -> Value {
    let names = question["NodeNames"].as_array().map_or(&[][..], Vec::as_slice);
    if verb == "prioritize" {
        let score = |name: &Value| if *name == json!("extenders-2") { 10 } else { 0 };
        return names.iter().map(|name| json!({"host": name, "score": score(name)})).collect();
    }
    let nowhere = text(question, "/Pod/metadata/name") == "nowhere";
    let fails = |name: &&Value| nowhere || **name == json!("extenders-0");
    let (failed, passed): (Vec<_>, Vec<_>) = names.iter().partition(fails);
    let failed = failed.iter().filter_map(|name| Some((name.as_str()?.to_owned(), "gpu is gone")));
    let failed: std::collections::BTreeMap<_, _> = failed.collect();
    json!({"nodeNames": passed, "failedAndUnresolvableNodes": failed, "error": ""})
}

/// An HTTP server on a separate thread, which ends with the process.
struct Extender {
    port: u16,
    questions: Arc<AtomicUsize>,
}

impl Extender {
    fn start() -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).context("no port for an extender")?;
        let port = listener.local_addr()?.port();
        let questions = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&questions);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let count = Arc::clone(&count);
                std::thread::spawn(move || serve(connection, &count));
            }
        });
        Ok(Self { port, questions })
    }

    fn asked(&self) -> usize {
        self.questions.load(Ordering::Relaxed)
    }
}

/// Answers requests until the client closes the connection.
fn serve(connection: TcpStream, questions: &AtomicUsize) -> Option<()> {
    let mut writer = connection.try_clone().ok()?;
    let mut reader = BufReader::new(connection);
    loop {
        let mut first = String::new();
        reader.read_line(&mut first).ok().filter(|read| *read > 0)?;
        let mut length = 0;
        loop {
            let mut header = String::new();
            reader.read_line(&mut header).ok()?;
            let header = header.trim().to_ascii_lowercase();
            if header.is_empty() {
                break;
            }
            if let Some(value) = header.strip_prefix("content-length:") {
                length = value.trim().parse().ok().filter(|length| *length <= REQUEST_BYTES_MAX)?;
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        questions.fetch_add(1, Ordering::Relaxed);
        let path = first.split(' ').nth(1)?;
        let verb = path.strip_prefix("/gpu/")?;
        let answer = answer(verb, &serde_json::from_slice(&body).ok()?).to_string();
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length:";
        write!(writer, "{head} {}\r\n\r\n{answer}", answer.len()).ok()?;
    }
}
