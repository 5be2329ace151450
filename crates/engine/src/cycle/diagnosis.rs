//! The reasons why a pod fits on no node, in upstream's words.

use std::collections::BTreeMap;

use crate::framework::profile::PluginPosition;
use crate::framework::{Code, NodeVerdict, Profile, Reason, Rejection};
use crate::index::NodeIdx;
use crate::map::Map;
use crate::state::State;

use super::decide::Rejected;
use super::evaluation::Evaluation;

/// Rejections of all nodes for one pod.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// Rejected nodes in visiting order, each with its position in `refusals`.
    nodes: Vec<(NodeIdx, u32)>,
    /// Distinct rejections with their number of nodes.
    refusals: Vec<Refusal>,
    /// Refusals by filter position and verdict, where these determine the rejection.
    by_answer: Map<(usize, NodeVerdict), u32>,
    /// Other refusals.
    by_text: Map<(Option<PluginPosition>, Rejection), u32>,
    /// Plugins that rejected nodes in PreFilter.
    early_rejectors: Vec<PluginPosition>,
    /// Message of a PreFilter rejection; there are no nodes then.
    pub pre_filter: Option<String>,
    /// Rejection of the nodes without an entry.
    pub absent: Option<Rejection>,
    /// Number of nodes in the cluster.
    pub node_count: usize,
}

/// A rejection and the number of nodes that have it.
#[derive(Clone, Debug)]
struct Refusal {
    /// The plugin; `None` for an extender.
    plugin: Option<PluginPosition>,
    rejection: Rejection,
    /// Number of nodes.
    nodes: usize,
}

impl Diagnosis {
    /// Creates the diagnosis before nodes are visited; `nominated` is the rejected nominated node.
    ///
    /// As upstream, the plugin that rejected the nominated node is listed among those that narrowed
    /// the nodes.
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

    /// Returns the diagnosis of a pod whose feasible nodes are all excluded.
    pub(super) fn all_excluded(state: &State) -> Self {
        let rejection = Rejection::unresolvable("feasible nodes were excluded");
        let pre_filter = Some(rejection.message());
        let node_count = state.nodes.count();
        Self { pre_filter, absent: Some(rejection), node_count, ..Self::default() }
    }

    /// Collects the verdicts of an evaluation on all nodes that are not feasible.
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

    /// Adds a node that a filter of the evaluation rejected.
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

    /// Replaces the refusal of a node.
    pub(super) fn replace(&mut self, place: usize, refusal: u32) {
        let (_, old) = &mut self.nodes[place];
        let old = std::mem::replace(old, refusal);
        self.refusals[old as usize].nodes -= 1;
        self.refusals[refusal as usize].nodes += 1;
    }

    /// Returns the position of the refusal that a verdict means, adding it if necessary.
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

    /// Iterates over the rejected nodes in visiting order, with the plugin (`None` for an extender)
    /// and the rejection.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeIdx, Option<PluginPosition>, &Rejection)> {
        self.nodes.iter().map(|(node, refusal)| {
            let refusal = &self.refusals[*refusal as usize];
            (*node, refusal.plugin, &refusal.rejection)
        })
    }

    /// Returns the number of rejected nodes.
    pub fn rejected_count(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the number of nodes rejected with a code.
    pub fn count_of(&self, code: Code) -> usize {
        let refusals = self.refusals.iter().filter(|refusal| refusal.rejection.code == code);
        refusals.map(|refusal| refusal.nodes).sum()
    }

    /// Returns the position of a node in `nodes`, which must be in visiting order from its start.
    pub(super) fn position_of(&self, state: &State, node: NodeIdx) -> Option<usize> {
        let places = &state.nodes.visit_order().position_of;
        let place = places.get(node.at())?;
        self.nodes.binary_search_by_key(place, |(other, _)| places[other.at()]).ok()
    }

    /// Returns the number of refusals, those without nodes included.
    pub(super) fn refusal_count(&self) -> usize {
        self.refusals.len()
    }

    /// Returns the plugins that rejected something, each once.
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

    /// Returns the code of a node, which preemption reads.
    pub fn code(&self, node: NodeIdx) -> Code {
        let own = self.nodes().find(|(other, _, _)| *other == node).map(|(_, _, r)| r.code);
        own.unwrap_or_else(|| self.absent_code())
    }

    /// Returns the code of nodes without an entry.
    pub fn absent_code(&self) -> Code {
        self.absent.as_ref().map_or(Code::UnschedulableAndUnresolvable, |r| r.code)
    }

    /// Returns upstream's message `0/N nodes are available: …`, followed by that of PostFilter.
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

/// Returns upstream's message for unschedulable pods: reasons with node counts, sorted as strings.
/// Each rejection comes with its number of nodes.
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
