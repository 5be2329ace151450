//! Calls of HTTP extenders on behalf of the engine.
//!
//! ```text
//! AskExtenders ──► filter, one extender after the other, each with the nodes that the last one passed
//!         ──► prioritize, all at once, when more than one node is left ──► ExtendersAnswered
//! AskExtendersAboutVictims ──► preempt, one after the other ──► ExtendersAnsweredAboutVictims
//! Bind ──► bind, by one extender
//! ```
//!
//! The calls for each pod are a task of their own, so a slow extender delays its own pods only.

mod client;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use api::config::Configuration;
use engine::change::{ExtenderVerdict, FailedNode, NodeVictims};
use engine::command::PodRef;
use engine::object::{Text, Uid};
use http::Request;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::api_error::{BoxError, Chain};
use crate::lease::REQUEST_TIMEOUT;
use client::ExtenderClient;
pub use client::{ExtenderCallError, ExtenderConfigError};

/// Scores of extenders go to 10, those of plugins to 100.
const SCORE_FACTOR: i64 = 10;

/// Why extenders have no verdict. The texts about nodes and calls are upstream's.
#[derive(Debug, thiserror::Error)]
pub enum ExtenderError {
    /// An extender cannot be used as it is configured.
    #[error("the extender at {url} cannot be used")]
    Config {
        /// `urlPrefix` of the extender.
        url: String,
        /// Why not.
        #[source]
        error: ExtenderConfigError,
    },
    /// A call failed.
    #[error("failed {verb} with extender at URL {url}")]
    Call {
        /// The verb that was called.
        verb: String,
        /// `urlPrefix` of the extender.
        url: String,
        /// Why it failed.
        #[source]
        error: ExtenderCallError,
    },
    /// A response does not have the form of the protocol.
    #[error("the extender at URL {url} answers wrongly: {problem}")]
    InvalidResponse {
        /// `urlPrefix` of the extender.
        url: String,
        /// What is wrong with the response.
        problem: String,
    },
    /// The extender reported an error.
    #[error("{0}")]
    Reported(String),
    /// The extender passed a node that it was not given.
    #[error(
        "extender {url:?} claims a filtered node {node:?} which is not found in the input node list"
    )]
    UnknownNode {
        /// `urlPrefix` of the extender.
        url: String,
        /// Name of the node.
        node: String,
    },
    /// The engine named an extender that is not configured.
    #[error("there is no such extender")]
    NotConfigured,
    /// The API server did not return the pod in time.
    #[error("the API server did not answer")]
    PodTimeout,
    /// The pod cannot be read.
    #[error("the pod cannot be read for extenders")]
    ReadPod(#[source] BoxError),
    /// The pod was replaced by another one of its name.
    #[error("another pod has the name {namespace}/{name} now")]
    PodReplaced {
        /// Namespace of the pod.
        namespace: Text,
        /// Name of the pod.
        name: Text,
    },
}

type Result<T> = std::result::Result<T, ExtenderError>;

/// Nodes as JSON, for extenders without a node cache (`nodeCacheCapable: false`).
#[derive(Clone, Debug, Default)]
pub struct NodeStore(Arc<Mutex<BTreeMap<Text, Arc<Value>>>>);

impl NodeStore {
    /// Inserts or replaces a node.
    pub fn insert(&self, name: Text, node: &Value) {
        self.lock().insert(name, Arc::new(node.clone()));
    }

    /// Removes a node.
    pub fn remove(&self, name: &Text) {
        self.lock().remove(name);
    }

    fn get(&self, name: &Text) -> Option<Arc<Value>> {
        self.lock().get(name).cloned()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Text, Arc<Value>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The extenders of a configuration.
#[derive(Clone)]
pub struct Extenders {
    clients: Arc<[ExtenderClient]>,
    /// Reads pods, which extenders receive whole.
    client: kube::Client,
    nodes: NodeStore,
}

impl Extenders {
    /// Creates the clients in the order in which they are called, and reads their certificates.
    pub fn new(configuration: &Configuration, client: kube::Client) -> Result<Self> {
        let clients = configuration.extenders_in_order().into_iter().map(|extender| {
            let url = || extender.url_prefix.clone();
            ExtenderClient::new(extender)
                .map_err(|error| ExtenderError::Config { url: url(), error })
        });
        let clients = clients.collect::<Result<Vec<_>>>()?.into();
        Ok(Self { clients, client, nodes: NodeStore::default() })
    }

    /// Returns the store of nodes, or `None` if all extenders know the nodes by name.
    pub fn node_store(&self) -> Option<NodeStore> {
        let needed =
            self.clients.iter().any(|extender_client| !extender_client.extender.node_cache_capable);
        needed.then(|| self.nodes.clone())
    }

    /// Calls `filter` and `prioritize`. Returns the nodes that pass, with their scores, and those that fail.
    pub async fn filter_and_prioritize(
        &self,
        pod: &PodRef,
        extenders: &[usize],
        nodes: Vec<Text>,
    ) -> Result<ExtenderVerdict> {
        let object = self.pod(pod).await?;
        let mut verdict = ExtenderVerdict::default();
        let mut left = nodes;
        for extender_client in self.selected(extenders) {
            if left.is_empty() {
                break;
            }
            if extender_client.extender.filter_verb.is_empty() {
                continue;
            }
            match self.filter(extender_client, &object, &left).await {
                Ok(filtered) => {
                    left = filtered.passed;
                    verdict.failed.extend(filtered.failed);
                }
                Err(error) if extender_client.extender.ignorable => {
                    tracing::warn!(pod = %pod.name, "an extender is left out: {}", Chain(&error));
                }
                Err(error) => return Err(error),
            }
        }
        let mut scores: BTreeMap<Text, i64> = BTreeMap::new();
        if left.len() > 1 {
            let scoring = self.selected(extenders);
            let scoring = scoring
                .filter(|extender_client| !extender_client.extender.prioritize_verb.is_empty());
            let calls =
                scoring.map(|extender_client| self.prioritize(extender_client, &object, &left));
            for answer in futures::future::join_all(calls).await {
                match answer {
                    Ok(given) => {
                        for (node, score) in given {
                            let sum = scores.entry(node).or_default();
                            *sum = sum.saturating_add(score);
                        }
                    }
                    // The pod can be placed without these scores.
                    Err(error) => {
                        tracing::warn!(pod = %pod.name, "scores are missing: {}", Chain(&error));
                    }
                }
            }
        }
        let with_score = |node: Text| {
            let score = scores.get(&node).copied().unwrap_or(0);
            (node, score)
        };
        verdict.passed = left.into_iter().map(with_score).collect();
        Ok(verdict)
    }

    /// Calls `preempt`. Returns the candidates that the extenders accept.
    pub async fn process_preemption(
        &self,
        pod: &PodRef,
        extenders: &[usize],
        candidates: Vec<NodeVictims>,
    ) -> Result<Vec<NodeVictims>> {
        let object = self.pod(pod).await?;
        let mut left = candidates;
        for extender_client in self.selected(extenders) {
            if left.is_empty() {
                break;
            }
            match self.preempt(extender_client, &object, &left).await {
                Ok(candidates) => left = candidates,
                Err(error) if extender_client.extender.ignorable => {
                    tracing::warn!(pod = %pod.name, "an extender is left out: {}", Chain(&error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(left)
    }

    /// Calls `bind`.
    pub async fn bind(&self, extender: usize, pod: &PodRef, node: &Text) -> Result<()> {
        let extender_client = self.clients.get(extender).ok_or(ExtenderError::NotConfigured)?;
        let request = json!({
            "PodName": *pod.name,
            "PodNamespace": *pod.namespace,
            "PodUID": pod.uid.to_string(),
            "Node": **node,
        });
        let answer = extender_client.post(&extender_client.extender.bind_verb, &request).await;
        let result = answer.and_then(|answer| error_in(&answer));
        let Err(error) = result else { return Ok(()) };
        // The extender may have bound the pod although it reports an error.
        match self.pod(pod).await {
            Ok(object) if object.pointer("/spec/nodeName") == Some(&json!(**node)) => Ok(()),
            _ => Err(error),
        }
    }

    fn selected(&self, positions: &[usize]) -> impl Iterator<Item = &ExtenderClient> {
        positions.iter().filter_map(|position| self.clients.get(*position))
    }

    /// Reads a pod as JSON.
    async fn pod(&self, pod: &PodRef) -> Result<Value> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let request = Request::get(path).body(Vec::new());
        let request = request.map_err(|error| ExtenderError::ReadPod(error.into()))?;
        let read = timeout(REQUEST_TIMEOUT, self.client.request::<Value>(request));
        let read = read.await.map_err(|_| ExtenderError::PodTimeout)?;
        let object = read.map_err(|error| ExtenderError::ReadPod(error.into()))?;
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        if uid.map(Uid::from).as_ref() != Some(&pod.uid) {
            let (namespace, name) = (pod.namespace.clone(), pod.name.clone());
            return Err(ExtenderError::PodReplaced { namespace, name });
        }
        Ok(object)
    }

    /// Returns the arguments of `filter` and `prioritize`.
    fn arguments(&self, extender_client: &ExtenderClient, pod: &Value, nodes: &[Text]) -> Value {
        if extender_client.extender.node_cache_capable {
            let names: Vec<&str> = nodes.iter().map(|name| &**name).collect();
            return json!({"Pod": pod, "Nodes": null, "NodeNames": names});
        }
        let items = nodes.iter().filter_map(|name| self.nodes.get(name));
        let items: Vec<Value> = items.map(|node| (*node).clone()).collect();
        json!({"Pod": pod, "Nodes": {"metadata": {}, "items": items}, "NodeNames": null})
    }

    async fn filter(
        &self,
        extender_client: &ExtenderClient,
        pod: &Value,
        nodes: &[Text],
    ) -> Result<FilterResult> {
        let arguments = self.arguments(extender_client, pod, nodes);
        let answer =
            extender_client.post(&extender_client.extender.filter_verb, &arguments).await?;
        error_in(&answer)?;
        FilterResult::read(extender_client, &answer, nodes)
    }

    async fn prioritize(
        &self,
        extender_client: &ExtenderClient,
        pod: &Value,
        nodes: &[Text],
    ) -> Result<Vec<(Text, i64)>> {
        let arguments = self.arguments(extender_client, pod, nodes);
        let answer =
            extender_client.post(&extender_client.extender.prioritize_verb, &arguments).await?;
        let entries = match &answer {
            Value::Array(entries) => &**entries,
            Value::Null => &[],
            _ => return Err(extender_client.invalid_response("an array of scores was expected")),
        };
        let factor = extender_client.extender.weight.saturating_mul(SCORE_FACTOR);
        let scores = entries.iter().map(|entry| {
            let host = field(entry, "Host").and_then(Value::as_str);
            let score = field(entry, "Score").map_or(Some(0), Value::as_i64);
            match (host, score) {
                (Some(host), Some(score)) => Ok((Text::from(host), score.saturating_mul(factor))),
                _ => {
                    Err(extender_client
                        .invalid_response(&format!("not a score of a host: {entry}")))
                }
            }
        });
        scores.collect()
    }

    async fn preempt(
        &self,
        extender_client: &ExtenderClient,
        pod: &Value,
        candidates: &[NodeVictims],
    ) -> Result<Vec<NodeVictims>> {
        let by_names = extender_client.extender.node_cache_capable;
        let mut of_nodes = Map::new();
        for candidate in candidates {
            let mut pods = Vec::new();
            for victim in &candidate.victims {
                pods.push(if by_names {
                    json!({"UID": victim.uid.to_string()})
                } else {
                    self.pod(victim).await?
                });
            }
            let victims = json!({"Pods": pods, "NumPDBViolations": candidate.violations});
            of_nodes.insert(candidate.node.to_string(), victims);
        }
        let of_nodes = Value::Object(of_nodes);
        let (whole, names) =
            if by_names { (Value::Null, of_nodes) } else { (of_nodes, Value::Null) };
        let arguments =
            json!({"Pod": pod, "NodeNameToVictims": whole, "NodeNameToMetaVictims": names});
        let answer =
            extender_client.post(&extender_client.extender.preempt_verb, &arguments).await?;
        let of_nodes = field(&answer, "NodeNameToMetaVictims").and_then(Value::as_object);
        let mut left = Vec::new();
        for (node, victims) in of_nodes.into_iter().flatten() {
            let pods = field(victims, "Pods").and_then(Value::as_array);
            let uids = pods.into_iter().flatten();
            let uids = uids.filter_map(|pod| field(pod, "UID").and_then(Value::as_str));
            let known = |uid: &Uid| {
                let offered = candidates.iter().flat_map(|candidate| &candidate.victims);
                offered.into_iter().find(|victim| victim.uid == *uid).cloned()
            };
            let name = |uid: Uid| known(&uid).unwrap_or(PodRef { uid, ..PodRef::default() });
            let pods: Vec<_> = uids.map(|uid| name(uid.into())).collect();
            if pods.is_empty() {
                if extender_client.extender.ignorable {
                    continue;
                }
                return Err(extender_client
                    .invalid_response(&format!("no victim is named on node {node:?}")));
            }
            let violations = field(victims, "NumPDBViolations").and_then(Value::as_u64);
            left.push(NodeVictims {
                node: Text::from(&**node),
                victims: pods,
                violations: violations.unwrap_or(0) as usize,
            });
        }
        Ok(left)
    }
}

/// Result of one extender's `filter`.
struct FilterResult {
    passed: Vec<Text>,
    failed: Vec<FailedNode>,
}

impl FilterResult {
    fn read(extender_client: &ExtenderClient, answer: &Value, nodes: &[Text]) -> Result<Self> {
        let names = field(answer, "NodeNames").and_then(Value::as_array);
        let names = names.filter(|_| extender_client.extender.node_cache_capable);
        let named: Vec<&str> = if let Some(names) = names {
            names.iter().filter_map(Value::as_str).collect()
        } else {
            let items = field(answer, "Nodes").and_then(|nodes| field(nodes, "items"));
            let items = items.and_then(Value::as_array).into_iter().flatten();
            let names = items.filter_map(|node| node.pointer("/metadata/name"));
            names.filter_map(Value::as_str).collect()
        };
        let known: BTreeSet<&str> = nodes.iter().map(|node| &**node).collect();
        let mut left = BTreeSet::new();
        let mut passed = Vec::new();
        for name in named {
            if !known.contains(name) {
                let url = extender_client.extender.url_prefix.clone();
                return Err(ExtenderError::UnknownNode { url, node: name.to_owned() });
            }
            // A node may be named twice.
            if left.insert(name) {
                passed.push(Text::from(name));
            }
        }
        let reason = |node: &Text, list: &str| {
            let reasons = field(answer, list).and_then(Value::as_object)?;
            reasons.get(&**node).and_then(Value::as_str).map(Text::from)
        };
        let left_out = nodes.iter().filter(|node| !left.contains(&***node));
        let failed = left_out.map(|node| {
            let unresolvable = reason(node, "FailedAndUnresolvableNodes");
            let resolvable = reason(node, "FailedNodes").filter(|_| unresolvable.is_none());
            FailedNode {
                node: node.clone(),
                // A node without a reason is no candidate for preemption.
                unresolvable: resolvable.is_none(),
                reason: unresolvable.or(resolvable).unwrap_or_default(),
            }
        });
        let failed = failed.collect();
        Ok(Self { passed, failed })
    }
}

/// Returns a field of an object, ignoring case as Go's decoder does.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let object = object.as_object()?;
    let same = |key: &&String| key.eq_ignore_ascii_case(name);
    let found = object.get(name).or_else(|| object.get(object.keys().find(same)?))?;
    (!found.is_null()).then_some(found)
}

/// Fails if a response reports an error.
fn error_in(answer: &Value) -> Result<()> {
    match field(answer, "Error").and_then(Value::as_str) {
        Some(text) if !text.is_empty() => Err(ExtenderError::Reported(text.to_owned())),
        _ => Ok(()),
    }
}
