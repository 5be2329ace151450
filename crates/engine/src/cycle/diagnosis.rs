//! Why a pod fits nowhere, in upstream's words.

use std::collections::BTreeMap;

use crate::framework::profile::PluginPosition;
use crate::framework::{Code, NodeVerdict, Profile, Reason, Rejection};
use crate::index::NodeIdx;
use crate::map::Map;
use crate::state::State;

use super::decide::Rejected;
use super::evaluation::Evaluation;

/// What every node that comes into question was turned down for.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// Rejected nodes in visiting order, each with the position of its refusal.
    nodes: Vec<(NodeIdx, u32)>,
    /// What nodes were turned down for, with the number of these nodes.
    refusals: Vec<Refusal>,
    /// Refusals by position of the filter and its answer, where that tells all.
    by_answer: Map<(usize, NodeVerdict), u32>,
    /// The other refusals.
    by_text: Map<(Option<PluginPosition>, Rejection), u32>,
    /// Plugins that turned something down before any node was looked at.
    early_rejectors: Vec<PluginPosition>,
    /// Text of a rejection by PreFilter; then there are no nodes.
    pub pre_filter: Option<String>,
    /// Reason that stands for nodes without an entry.
    pub absent: Option<Rejection>,
    /// How many nodes there are in all.
    pub node_count: usize,
}

/// What one or more nodes were turned down for.
#[derive(Clone, Debug)]
struct Refusal {
    /// The plugin; none: an extender.
    plugin: Option<PluginPosition>,
    rejection: Rejection,
    /// How many nodes.
    nodes: usize,
}

impl Diagnosis {
    /// What is known before the nodes are looked at, except the one that the pod is nominated for.
    ///
    /// As upstream, a plugin that turned that one down is named among those that narrowed the rest.
    pub(crate) fn empty(
        profile: &Profile,
        evaluation: &Evaluation,
        state: &State,
        nominated: Option<&Rejected>,
    ) -> Self {
        let mut diagnosis = Self { node_count: state.nodes.count(), ..Self::default() };
        if let Some(rejected) = &evaluation.rejected {
            diagnosis.pre_filter = Some(rejected.rejection.message());
            diagnosis.absent = Some(rejected.rejection.clone());
            if let Some((plugins, _)) = &evaluation.narrowed {
                diagnosis.early_rejectors.extend(plugins);
            }
            diagnosis.early_rejectors.extend(rejected.plugin);
            return diagnosis;
        }
        if let Some((plugins, narrowed)) = &evaluation.narrowed {
            diagnosis.early_rejectors.extend(plugins);
            let all = plugins.iter().chain(nominated.map(|(_, plugin, _)| plugin));
            let mut names: Vec<_> = all.map(|p| profile.plugin_name(*p)).collect();
            names.sort_unstable();
            names.dedup();
            let text = format!("node(s) didn't satisfy plugin(s) [{}]", names.join(" "));
            diagnosis.absent = Some(Rejection::unresolvable(text));
            if let Some((node, plugin, rejection)) = nominated
                && !narrowed.contains(*node)
            {
                diagnosis.add(*node, Some(*plugin), rejection.clone());
            }
        }
        diagnosis
    }

    /// Collects the verdicts of an evaluation, feasible nodes left out.
    pub fn new(profile: &Profile, evaluation: &mut Evaluation, state: &State) -> Self {
        let mut diagnosis = Self::empty(profile, evaluation, state, None);
        if evaluation.rejected.is_some() {
            return diagnosis;
        }
        for node in state.nodes.order() {
            if evaluation.narrowed.as_ref().is_some_and(|(_, nodes)| !nodes.contains(*node)) {
                continue;
            }
            if let Some(verdict) = evaluation.verdict(state, *node) {
                diagnosis.add_verdict(evaluation, state, *node, verdict);
            }
        }
        diagnosis
    }

    /// Adds a rejected node.
    pub fn add(&mut self, node: NodeIdx, plugin: Option<PluginPosition>, rejection: Rejection) {
        let refusal = self.refusal_by_text(plugin, rejection);
        self.push(node, refusal);
    }

    /// Adds a node that a filter of an evaluation turned down.
    pub(crate) fn add_verdict(
        &mut self,
        evaluation: &Evaluation,
        state: &State,
        node: NodeIdx,
        verdict: (usize, NodeVerdict),
    ) {
        let refusal = self.refusal_by_verdict(evaluation, state, node, verdict);
        self.push(node, refusal);
    }

    fn push(&mut self, node: NodeIdx, refusal: u32) {
        self.refusals[refusal as usize].nodes += 1;
        self.nodes.push((node, refusal));
    }

    /// Replaces what a node was turned down for that is among the rejected ones.
    pub(super) fn replace(&mut self, place: usize, refusal: u32) {
        let (_, old) = &mut self.nodes[place];
        let old = std::mem::replace(old, refusal);
        self.refusals[old as usize].nodes -= 1;
        self.refusals[refusal as usize].nodes += 1;
    }

    /// Position of the refusal that an answer of a filter stands for; made if it is the first of its kind.
    pub(super) fn refusal_by_verdict(
        &mut self,
        evaluation: &Evaluation,
        state: &State,
        node: NodeIdx,
        verdict: (usize, NodeVerdict),
    ) -> u32 {
        if evaluation.rejection_varies(verdict) {
            let (plugin, rejection) = evaluation.rejection(state, node, verdict);
            return self.refusal_by_text(Some(plugin), rejection);
        }
        let refusals = &mut self.refusals;
        *self.by_answer.get_or_insert_with(verdict, || {
            let (plugin, rejection) = evaluation.rejection(state, node, verdict);
            refusals.push(Refusal { plugin: Some(plugin), rejection, nodes: 0 });
            refusals.len() as u32 - 1
        })
    }

    fn refusal_by_text(&mut self, plugin: Option<PluginPosition>, rejection: Rejection) -> u32 {
        let refusals = &mut self.refusals;
        *self.by_text.get_or_insert_with((plugin, rejection.clone()), || {
            refusals.push(Refusal { plugin, rejection, nodes: 0 });
            refusals.len() as u32 - 1
        })
    }

    /// Rejected nodes in visiting order, each with the plugin (none: an extender) and its rejection.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIdx, Option<PluginPosition>, &Rejection)> {
        self.nodes.iter().map(|(node, refusal)| {
            let refusal = &self.refusals[*refusal as usize];
            (*node, refusal.plugin, &refusal.rejection)
        })
    }

    /// How many nodes were rejected.
    pub fn rejected_count(&self) -> usize {
        self.nodes.len()
    }

    /// How many nodes were rejected with a code.
    pub fn count_of(&self, code: Code) -> usize {
        let refusals = self.refusals.iter().filter(|refusal| refusal.rejection.code == code);
        refusals.map(|refusal| refusal.nodes).sum()
    }

    /// Place of a node among the rejected ones, which are in visiting order and begin with the first.
    pub(super) fn position_of(&self, state: &State, node: NodeIdx) -> Option<usize> {
        let places = &state.nodes.visit_order().position_of;
        let place = places.get(node.at())?;
        self.nodes.binary_search_by_key(place, |(other, _)| places[other.at()]).ok()
    }

    /// How many refusals are known, those of no node included.
    pub(super) fn refusal_count(&self) -> usize {
        self.refusals.len()
    }

    /// Plugins that turned something down, each once.
    pub fn rejectors(&self) -> Vec<PluginPosition> {
        let mut rejectors = self.early_rejectors.clone();
        let of_nodes = self.refusals.iter().filter(|refusal| refusal.nodes > 0);
        for plugin in of_nodes.filter_map(|refusal| refusal.plugin) {
            if !rejectors.contains(&plugin) {
                rejectors.push(plugin);
            }
        }
        rejectors
    }

    /// Code of a node, as preemption asks for it.
    pub fn code(&self, node: NodeIdx) -> Code {
        let own = self.nodes().find(|(other, _, _)| *other == node).map(|(_, _, r)| r.code);
        own.unwrap_or_else(|| self.absent_code())
    }

    /// Code of nodes without an entry.
    pub fn absent_code(&self) -> Code {
        self.absent.as_ref().map_or(Code::UnschedulableAndUnresolvable, |r| r.code)
    }

    /// `0/N nodes are available: …`, with what PostFilter had to say.
    pub fn text(&self, post_filter: &str) -> String {
        let mut text = fit_error(
            self.node_count,
            self.pre_filter.as_deref(),
            self.refusals.iter().map(|refusal| (&refusal.rejection, refusal.nodes)),
            self.absent.as_ref(),
        );
        if !post_filter.is_empty() {
            text.push(' ');
            text.push_str(post_filter);
        }
        text
    }
}

/// Upstream's text for "no node fits": reasons with counts, sorted as strings. Each rejection comes with
/// the number of its nodes.
pub fn fit_error<'a>(
    node_count: usize,
    pre_filter: Option<&str>,
    rejections: impl Iterator<Item = (&'a Rejection, usize)>,
    absent: Option<&Rejection>,
) -> String {
    let head = format!("0/{node_count} nodes are available:");
    if let Some(message) = pre_filter {
        return if message.is_empty() { head } else { format!("{head} {message}.") };
    }
    let mut histogram: BTreeMap<&Reason, usize> = BTreeMap::new();
    let mut explicit = 0;
    for (rejection, nodes) in rejections.filter(|(_, nodes)| *nodes > 0) {
        explicit += nodes;
        for reason in &rejection.reasons {
            *histogram.entry(reason).or_default() += nodes;
        }
    }
    if let Some(absent) = absent
        && explicit < node_count
    {
        for reason in &absent.reasons {
            *histogram.entry(reason).or_default() += node_count - explicit;
        }
    }
    let mut entries: Vec<_> =
        histogram.iter().map(|(reason, count)| format!("{count} {reason}")).collect();
    entries.sort_unstable();
    if entries.is_empty() { head } else { format!("{head} {}.", entries.join(", ")) }
}

#[cfg(test)]
mod tests;
