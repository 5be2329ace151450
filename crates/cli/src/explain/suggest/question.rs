//! Evaluates variants of one pod on the engine.

use std::sync::Arc;

use engine::bitset::NodeSet;
use engine::cycle::evaluation::Evaluation;
use engine::engine::Engine;
use engine::framework::{Class, Point, PreFilterResult, Preparation};
use engine::index::{NodeIdx, PodIdx};
use engine::object::{Pod, PodSpec};
use engine::state::State;

/// Maximum number of names in a list.
const NAMES_LISTED_MAX: usize = 3;

/// A pod without feasible nodes, on the engine with its cluster.
pub(super) struct Question<'a> {
    pub(super) class: Class,
    pub(super) state: State,
    /// Nominated pods of equal or higher priority.
    pub(super) rivals: Vec<PodIdx>,
    engine: &'a mut Engine,
    pod: Pod,
    /// Index of the profile in the engine.
    profile: usize,
    /// Nodes for which rivals are nominated.
    nominated: NodeSet,
    /// Nodes that each filter rejects, by plugin.
    blocked: Vec<(String, NodeSet)>,
}

impl<'a> Question<'a> {
    /// Returns `None` if no profile has the pod's scheduler name.
    pub(super) fn new(engine: &'a mut Engine, pod: &Pod) -> Option<Self> {
        let wanted = &*pod.spec.scheduler_name;
        let profile = engine.profiles().iter().position(|profile| *profile.name == *wanted)?;
        let state = engine.state().clone();
        let class = Class {
            namespace: pod.namespace.clone(),
            labels: pod.labels.clone(),
            node_name: pod.node.clone(),
            uid: pod.uid.clone(),
            spec: Arc::clone(&pod.spec),
        };
        let rivals: Vec<PodIdx> = (state.pods.iter())
            .filter(|(_, other)| {
                other.nominated.is_some()
                    && !other.node.is_some()
                    && other.priority >= pod.priority
                    && other.uid != pod.uid
            })
            .map(|(rival, _)| rival)
            .collect();
        let mut nominated = NodeSet::new(state.nodes.slots());
        for rival in &rivals {
            let node = state.pods.get(*rival).nominated;
            if state.nodes.present().contains(node) {
                nominated.insert(node);
            }
        }
        let (pod, blocked) = (pod.clone(), Vec::new());
        let mut question = Self { class, state, rivals, engine, pod, profile, nominated, blocked };
        question.blocked = question.run_each_filter();
        Some(question)
    }

    /// Returns the feasible nodes of the pod after a change.
    pub(super) fn opened_by(&mut self, change: impl FnOnce(&mut PodSpec)) -> NodeSet {
        let mut class = self.class.clone();
        change(Arc::make_mut(&mut class.spec));
        self.feasible(&class)
    }

    /// Returns the feasible nodes of the pod without `nodeName`.
    pub(super) fn opened_by_any_node_name(&mut self) -> NodeSet {
        self.feasible(&Class { node_name: "".into(), ..self.class.clone() })
    }

    /// Returns the nodes that would be feasible without the pods nominated for them.
    pub(super) fn kept_by_rivals(&mut self) -> NodeSet {
        self.feasible_without_rivals(self.class.clone())
    }

    fn feasible(&mut self, class: &Class) -> NodeSet {
        let mut nodes = self.feasible_without_rivals(class.clone());
        let mut disputed = self.nominated.clone();
        disputed.intersect(&nodes);
        if !disputed.is_empty() {
            nodes.subtract(&disputed);
            for node in self.feasible_beside_rivals(class) {
                nodes.insert(node);
            }
        }
        nodes
    }

    fn feasible_without_rivals(&mut self, class: Class) -> NodeSet {
        let profile = &self.engine.profiles()[self.profile];
        Evaluation::new(profile, class, &mut self.state).feasible().clone()
    }

    /// Runs a whole decision, which takes the rivals on their nodes into account.
    fn feasible_beside_rivals(&mut self, class: &Class) -> Vec<NodeIdx> {
        let mut pod = Pod { node: class.node_name.clone(), ..self.pod.clone() };
        pod.spec = Arc::clone(&class.spec);
        // Skips the search for victims, which is slow and not needed.
        pod.spec_mut().never_preempts = true;
        self.engine.explain(pod, 0, |_, _, explanation| explanation.feasible).unwrap_or_default()
    }

    /// Returns `true` if one of these plugins rejects a node.
    pub(super) fn is_blocked_by(&self, plugins: &[&str]) -> bool {
        self.blocked.iter().any(|(name, nodes)| plugins.contains(&&**name) && !nodes.is_empty())
    }

    /// Returns the nodes that only this plugin rejects, and for which no rival is nominated.
    pub(super) fn blocked_only_by(&self, plugin: &str) -> NodeSet {
        let mut nodes = self.state.nodes.present().clone();
        for (name, blocked) in &self.blocked {
            if name == plugin {
                nodes.intersect(blocked);
            } else {
                nodes.subtract(blocked);
            }
        }
        if self.blocked.iter().all(|(name, _)| name != plugin) {
            nodes.clear();
        }
        nodes.subtract(&self.nominated);
        nodes
    }

    /// Returns the plugins that reject a node, and "nominated pods" if there are rivals.
    pub(super) fn blockers(&self, node: NodeIdx) -> Vec<&str> {
        let plugins = self.blocked.iter().filter(|(_, nodes)| nodes.contains(node));
        let nominated = self.nominated.contains(node).then_some("nominated pods");
        plugins.map(|(name, _)| &**name).chain(nominated).collect()
    }

    /// Returns text such as `3 nodes (a, b, c)`.
    pub(super) fn count(&self, nodes: &NodeSet) -> String {
        let count = nodes.count();
        let mut names: Vec<&str> = nodes.iter().map(|node| self.state.nodes.name(node)).collect();
        names.sort_unstable();
        format!("{} ({})", counted(count, "node"), listed(&names))
    }

    fn run_each_filter(&mut self) -> Vec<(String, NodeSet)> {
        let profile = &self.engine.profiles()[self.profile];
        let mut blocked = Vec::new();
        for plugin in profile.at(Point::Filter) {
            let mut passing = self.state.nodes.present().clone();
            let mut preparation = Preparation::new(&mut self.state);
            match profile.plugins[*plugin].prepare_filter(&self.class, &mut preparation) {
                PreFilterResult::Skip => continue,
                PreFilterResult::Reject(_) => passing.clear(),
                PreFilterResult::Filter(mut filter) => filter.filter(&self.state, &mut passing),
                PreFilterResult::Narrow(nodes, filter) => {
                    passing.intersect(&nodes);
                    if let Some(mut filter) = filter {
                        filter.filter(&self.state, &mut passing);
                    }
                }
            }
            let mut rejected = self.state.nodes.present().clone();
            rejected.subtract(&passing);
            blocked.push((profile.plugin_name(*plugin).to_owned(), rejected));
        }
        blocked
    }
}

/// Joins the first names of a list.
pub(super) fn listed<T: AsRef<str>>(names: &[T]) -> String {
    let shown: Vec<_> =
        names.iter().take(NAMES_LISTED_MAX).map(|name| clipped(name.as_ref())).collect();
    let rest = if names.len() > NAMES_LISTED_MAX { ", …" } else { "" };
    shown.join(", ") + rest
}

/// Returns text such as `1 node` or `2 nodes`.
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Shortens a text to 80 characters; real names and label values are shorter.
pub(super) fn clipped(text: &str) -> String {
    const SHOWN_MAX: usize = 80;
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
