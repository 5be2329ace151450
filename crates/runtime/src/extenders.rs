//! Asking HTTP extenders on behalf of the engine.
//!
//! ```text
//! AskExtenders ──► filter, one extender after the other, each asked about what the last one left
//!         ──► prioritize, all at once, when more than one node is left ──► ExtendersAnswered
//! AskExtendersAboutVictims ──► preempt, one after the other ──► ExtendersAnsweredAboutVictims
//! Bind ──► bind, by the one that does
//! ```
//!
//! Each question is a task of its own, so that a slow extender holds up its own pods only.

mod client;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, anyhow};
use api::config::Configuration;
use engine::change::{ExtenderVerdict, FailedNode, NodeVictims};
use engine::command::PodName;
use engine::object::{Text, Uid};
use http::Request;
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use crate::lease::REQUEST_TIMEOUT;
use client::ExtenderClient;

/// An extender's scores go to ten, those of plugins to a hundred.
const SCORE_FACTOR: i64 = 10;

/// Nodes as the API server shows them, for extenders that do not know them themselves.
#[derive(Clone, Debug, Default)]
pub struct NodeStore(Arc<Mutex<BTreeMap<Text, Arc<Value>>>>);

impl NodeStore {
    /// A node came or changed.
    pub fn insert(&self, name: Text, node: &Value) {
        self.lock().insert(name, Arc::new(node.clone()));
    }

    /// A node went.
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
    /// For pods, which extenders are shown whole.
    client: kube::Client,
    nodes: NodeStore,
}

impl Extenders {
    /// Extenders in the order in which they are asked. Their certificates are read now.
    pub fn new(configuration: &Configuration, client: kube::Client) -> Result<Self> {
        let clients = configuration.extenders_in_order().into_iter().map(|extender| {
            ExtenderClient::new(extender)
                .with_context(|| format!("the extender at {} cannot be used", extender.url_prefix))
        });
        let clients = clients.collect::<Result<Vec<_>>>()?.into();
        Ok(Self { clients, client, nodes: NodeStore::default() })
    }

    /// Nodes that must be kept for them; `None` when names suffice.
    pub fn node_store(&self) -> Option<NodeStore> {
        let wants =
            self.clients.iter().any(|extender_client| !extender_client.extender.node_cache_capable);
        wants.then(|| self.nodes.clone())
    }

    /// What extenders say about nodes for a pod.
    pub async fn filter_and_prioritize(
        &self,
        pod: &PodName,
        extenders: &[usize],
        nodes: Vec<Text>,
    ) -> Result<ExtenderVerdict, String> {
        let object = self.pod(pod).await.map_err(|error| format!("{error:#}"))?;
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
                    tracing::warn!(pod = %pod.name, "an extender is left out: {error:#}");
                }
                Err(error) => return Err(format!("{error:#}")),
            }
        }
        let mut scores: BTreeMap<Text, i64> = BTreeMap::new();
        if left.len() > 1 {
            let scoring = self.selected(extenders);
            let scoring = scoring
                .filter(|extender_client| !extender_client.extender.prioritize_verb.is_empty());
            let asked =
                scoring.map(|extender_client| self.prioritize(extender_client, &object, &left));
            for answer in futures::future::join_all(asked).await {
                match answer {
                    Ok(given) => {
                        for (node, score) in given {
                            let sum = scores.entry(node).or_default();
                            *sum = sum.saturating_add(score);
                        }
                    }
                    // Without its scores the pod can be placed as well.
                    Err(error) => tracing::warn!(pod = %pod.name, "scores are missing: {error:#}"),
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

    /// Which of the candidates for preemption extenders leave.
    pub async fn process_preemption(
        &self,
        pod: &PodName,
        extenders: &[usize],
        candidates: Vec<NodeVictims>,
    ) -> Result<Vec<NodeVictims>, String> {
        let object = self.pod(pod).await.map_err(|error| format!("{error:#}"))?;
        let mut left = candidates;
        for extender_client in self.selected(extenders) {
            if left.is_empty() {
                break;
            }
            match self.preempt(extender_client, &object, &left).await {
                Ok(candidates) => left = candidates,
                Err(error) if extender_client.extender.ignorable => {
                    tracing::warn!(pod = %pod.name, "an extender is left out: {error:#}");
                }
                Err(error) => return Err(format!("{error:#}")),
            }
        }
        Ok(left)
    }

    /// Has an extender bind a pod.
    pub async fn bind(&self, extender: usize, pod: &PodName, node: &Text) -> Result<(), String> {
        let extender_client = self.clients.get(extender).ok_or("there is no such extender")?;
        let request = json!({
            "PodName": *pod.name,
            "PodNamespace": *pod.namespace,
            "PodUID": pod.uid.to_string(),
            "Node": **node,
        });
        let answer = extender_client.post(&extender_client.extender.bind_verb, &request).await;
        let result = answer.and_then(|answer| error_in(&answer));
        let Err(error) = result else { return Ok(()) };
        // It may have been done all the same.
        match self.pod(pod).await {
            Ok(object) if object.pointer("/spec/nodeName") == Some(&json!(**node)) => Ok(()),
            _ => Err(format!("{error:#}")),
        }
    }

    fn selected(&self, positions: &[usize]) -> impl Iterator<Item = &ExtenderClient> {
        positions.iter().filter_map(|position| self.clients.get(*position))
    }

    /// A pod as the API server shows it.
    async fn pod(&self, pod: &PodName) -> Result<Value> {
        let path = format!("/api/v1/namespaces/{}/pods/{}", pod.namespace, pod.name);
        let request = Request::get(path).body(Vec::new())?;
        let read = timeout(REQUEST_TIMEOUT, self.client.request::<Value>(request));
        let read = read.await.context("the API server did not answer")?;
        let object = read.context("the pod cannot be read for extenders")?;
        let uid = object.pointer("/metadata/uid").and_then(Value::as_str);
        if uid.map(Uid::from).as_ref() != Some(&pod.uid) {
            return Err(anyhow!("another pod has the name {}/{} now", pod.namespace, pod.name));
        }
        Ok(object)
    }

    /// What filtering and scoring are asked with.
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
            let name = |uid: Uid| known(&uid).unwrap_or(PodName { uid, ..PodName::default() });
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

/// What one extender made of some nodes.
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
                let url = &extender_client.extender.url_prefix;
                return Err(anyhow!(
                    "extender {url:?} claims a filtered node {name:?} which is not found in the input node list"
                ));
            }
            // Named twice, it is one node all the same.
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
            let hopeless = reason(node, "FailedAndUnresolvableNodes");
            let hopeful = reason(node, "FailedNodes").filter(|_| hopeless.is_none());
            FailedNode {
                node: node.clone(),
                // Without a word about a node, preemption does not try it.
                unresolvable: hopeful.is_none(),
                reason: hopeless.or(hopeful).unwrap_or_default(),
            }
        });
        let failed = failed.collect();
        Ok(Self { passed, failed })
    }
}

/// The field of an object; like Go, extenders do not care about upper and lower case.
fn field<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    let object = object.as_object()?;
    let same = |key: &&String| key.eq_ignore_ascii_case(name);
    let found = object.get(name).or_else(|| object.get(object.keys().find(same)?))?;
    (!found.is_null()).then_some(found)
}

/// The error that an answer tells, if it does.
fn error_in(answer: &Value) -> Result<()> {
    match field(answer, "Error").and_then(Value::as_str) {
        Some(text) if !text.is_empty() => Err(anyhow!("{text}")),
        _ => Ok(()),
    }
}
