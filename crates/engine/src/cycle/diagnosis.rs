//! Why a pod fits nowhere, in upstream's words.

use std::collections::BTreeMap;

use crate::framework::profile::PluginPosition;
use crate::framework::{Code, Profile, Reason, Rejection};
use crate::index::NodeIdx;
use crate::state::State;

use super::decide::Rejected;
use super::evaluation::Evaluation;

/// What every node that comes into question was turned down for.
#[derive(Clone, Debug, Default)]
pub struct Diagnosis {
    /// Rejected nodes in visiting order, each with the plugin (none: an extender) and its rejection.
    pub nodes: Vec<(NodeIdx, Option<PluginPosition>, Rejection)>,
    /// Text of a rejection by PreFilter; then there are no nodes.
    pub pre_filter: Option<String>,
    /// Reason that stands for nodes without an entry.
    pub absent: Option<Rejection>,
    /// Plugins that turned something down.
    pub rejectors: Vec<PluginPosition>,
    /// How many nodes there are in all.
    pub node_count: usize,
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
                diagnosis.rejectors.extend(plugins);
            }
            diagnosis.rejectors.extend(rejected.plugin);
            return diagnosis;
        }
        if let Some((plugins, narrowed)) = &evaluation.narrowed {
            diagnosis.rejectors.extend(plugins);
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
                let (plugin, rejection) = evaluation.rejection(state, *node, verdict);
                diagnosis.add(*node, Some(plugin), rejection);
            }
        }
        diagnosis
    }

    /// Adds a rejected node.
    pub fn add(&mut self, node: NodeIdx, plugin: Option<PluginPosition>, rejection: Rejection) {
        if let Some(plugin) = plugin
            && !self.rejectors.contains(&plugin)
        {
            self.rejectors.push(plugin);
        }
        self.nodes.push((node, plugin, rejection));
    }

    /// Code of a node, as preemption asks for it.
    pub fn code(&self, node: NodeIdx) -> Code {
        let own = self.nodes.iter().find(|(other, _, _)| *other == node).map(|(_, _, r)| r.code);
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
            self.nodes.iter().map(|(_, _, rejection)| rejection),
            self.absent.as_ref(),
        );
        if !post_filter.is_empty() {
            text.push(' ');
            text.push_str(post_filter);
        }
        text
    }
}

/// Upstream's text for "no node fits": reasons with counts, sorted as strings.
pub fn fit_error<'a>(
    node_count: usize,
    pre_filter: Option<&str>,
    rejections: impl Iterator<Item = &'a Rejection>,
    absent: Option<&Rejection>,
) -> String {
    let head = format!("0/{node_count} nodes are available:");
    if let Some(message) = pre_filter {
        return if message.is_empty() { head } else { format!("{head} {message}.") };
    }
    let mut histogram: BTreeMap<&Reason, usize> = BTreeMap::new();
    let mut explicit = 0;
    for rejection in rejections {
        explicit += 1;
        for reason in &rejection.reasons {
            *histogram.entry(reason).or_default() += 1;
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
